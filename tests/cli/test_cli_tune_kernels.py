"""What `tune run` does with each kernel: sizes of their own, and those that the device cannot run."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from lacking_devices import lack_features

from vyre_driver import Driver
from vyre_driver.autotune import AutotuneStore
from vyre_driver.autotune.store.records import size_text
from vyre_driver.kernels import KERNELS, TunedKernel

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Refused, RunChild


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the variable names, which is not there yet."""
    named = tmp_path / "autotune.toml"
    monkeypatch.setenv("VYRE_AUTOTUNE_FILE", str(named))
    return named


@pytest.mark.device
@pytest.mark.parametrize(
    ("name", "size", "kept"),
    [
        ("product_f16", "2x40x48x64", "2x32x64x64"),
        ("product_f32", "2x40x48x64", "2x32x64x64"),
        ("attention_f16", "1x2x9x33x20", "1x2x8x32x16"),
    ],
)
def test_products_and_attention_are_tuned_by_sizes_of_their_own(
    run_here: RunChild, path: Path, name: str, size: str, kept: str
) -> None:
    done = run_here("tune", "run", name, "--size", size, "--seconds", "4", "--json")
    (told,) = json.loads(done.stdout)["tuned"]
    (record,) = AutotuneStore.load(path).records().values()
    with Driver() as driver:
        kernel = TunedKernel(driver, KERNELS[name])
        numbers = tuple(map(int, size.split("x")))
        untuned = kernel.definition.untuned(kernel.candidates, numbers)
        assert (done.status, told["first"], str(kernel.candidate(numbers))) == (0, str(untuned), told["choice"])
    assert (record.kernel, record.size, record.median_ns) == (name, kept, told["median_ns"])


@pytest.mark.device
def test_of_all_kernels_those_that_the_device_cannot_run_are_left_out(
    run_here: RunChild, refused_here: Refused, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lack_features(monkeypatch)  # and so 16-bit numbers in buffers
    store, of_few_bits = AutotuneStore(), {"matmul_f16", "linear_int4", "linear_int8", "attention_f16", "attention_f16_causal"}
    of_few_bits |= {"product_f16", "product_bf16", "product_int8", "product_f16_nt_f16_bias", "conv2d_f16"}
    with Driver() as driver:
        for name in set(KERNELS) - of_few_bits:
            kernel = TunedKernel(driver, KERNELS[name])
            for size in kernel.definition.sizes:
                at = size_text(kernel.definition.size_class(size))
                store.put(kernel.target.key, kernel.target.record(kernel.candidates[0], 9, 100, at))
    store.save_if_dirty(path)
    done = run_here("tune", "run", "all", "--json")
    told: dict[str, Any] = {}
    for one in json.loads(done.stdout)["tuned"]:
        told.setdefault(one["kernel"], []).append(one["skipped"])
    assert (done.status, list(told)) == (0, list(KERNELS))
    assert {name: len(whys) for name, whys in told.items() if name not in of_few_bits} == {
        name: len(one.sizes) for name, one in KERNELS.items() if name not in of_few_bits
    }
    assert [name for name in sorted(of_few_bits) if re.search("storageBuffer(16|8)BitAccess", told[name][0])] == sorted(
        of_few_bits
    )
    assert refused_here("tune", "run", "matmul_f16").startswith("1002: ")
