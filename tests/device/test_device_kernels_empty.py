"""Kernels on arrays without elements give what numpy gives: nothing runs where nothing comes out, and zeros else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver import Driver
from vyre_driver.autotune.measure.tune import tune
from vyre_driver.errors import InvalidInput
from vyre_driver.kernels import KERNELS, TunedKernel

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.device

F32, U32, I32 = np.float32, np.uint32, np.int32
Form = tuple[tuple[int, ...], Any]

CASES: list[tuple[str, tuple[Form, ...], dict[str, Any], Form]] = [
    ("saxpy", (((0,), F32), ((0,), F32)), {"alpha": 2.0}, ((0,), F32)),
    *[("reduce_sum", (((0,), dtype),), {}, ((), dtype)) for dtype in (F32, U32, I32)],
    *[("inclusive_scan", (((0,), dtype),), {}, ((0,), dtype)) for dtype in (F32, U32, I32)],
    ("histogram", (((0,), U32),), {}, ((256,), U32)),
    ("histogram", (((0,), U32),), {"bins": 5001}, ((5001,), U32)),
    *[
        ("transpose", ((shape, dtype),), {}, (shape[::-1], dtype))
        for shape in ((0, 7), (7, 0), (0, 0))
        for dtype in (F32, U32, I32)
    ],
    ("transpose", (((0, 2**40), F32),), {}, ((2**40, 0), F32)),
    *[("softmax", ((shape, F32),), {}, (shape, F32)) for shape in ((0, 5), (5, 0), (0, 0))],
    *[
        (name, ((shape, dtype), *[((shape[1],), dtype)] * others), {"eps": 0.0}, (shape, dtype))
        for name, others in (("layernorm", 2), ("rmsnorm", 1))
        for shape in ((0, 5), (5, 0), (0, 0))
        for dtype in (F32, np.float16)
    ],
    *[
        ("matmul", (((m, k), F32), ((k, n), F32)), {}, ((m, n), F32))
        for m, n, k in ((0, 3, 4), (3, 0, 4), (3, 4, 0), (301, 203, 0), (0, 0, 4), (0, 3, 0), (3, 0, 0), (0, 0, 0))
    ],
]


@pytest.mark.parametrize(("name", "given", "parameters", "wanted"), CASES)
def test_a_call_gives_zeros_of_the_right_shape(
    layered: Driver, name: str, given: tuple[Form, ...], parameters: dict[str, Any], wanted: Form
) -> None:
    kernel = TunedKernel(layered, KERNELS[name])
    arrays = [np.zeros(shape, dtype) for shape, dtype in given]
    expected = kernel.definition.expected(*arrays, **parameters)
    of_arrays, of_buffers = kernel(*arrays, **parameters), kernel(*map(layered.buffer, arrays), **parameters)
    for found in (expected, of_arrays, of_buffers):
        assert (found.shape, found.dtype, np.count_nonzero(found)) == (*wanted, 0)


@pytest.mark.parametrize(("name", "given", "parameters", "wanted"), CASES)
def test_a_bound_kernel_writes_zeros_at_each_run(
    driver: Driver, name: str, given: tuple[Form, ...], parameters: dict[str, Any], wanted: Form
) -> None:
    kernel = TunedKernel(driver, KERNELS[name])
    out = driver.empty(*wanted)
    bound = kernel.bind(*(driver.empty(shape, dtype) for shape, dtype in given), out=out, **parameters)
    for run in (bound.run, lambda: bound.submit().result(10.0)):
        out.fill(7)
        run()
        assert np.count_nonzero(out.read()) == 0
    bound.close()


def test_half_matrices_without_a_sum_give_zeros(layered: Driver) -> None:
    if "storageBuffer16BitAccess" not in layered.context.device.features:
        pytest.skip("the device reads no float16")
    a, b = np.zeros((5, 0), np.float16), np.zeros((0, 6), np.float16)
    found = TunedKernel(layered, KERNELS["matmul_f16"])(a, b)
    assert (found.dtype, found.tolist()) == (F32, np.zeros((5, 6)).tolist())


@pytest.mark.parametrize("are_buffers", [False, True])
def test_the_largest_of_nothing_is_refused_as_numpy_refuses_it(driver: Driver, *, are_buffers: bool) -> None:
    nothing = np.zeros(0, F32)
    with pytest.raises(ValueError, match="no identity"):
        nothing.max()
    with pytest.raises(InvalidInput) as caught:
        TunedKernel(driver, KERNELS["reduce_max"])(driver.buffer(nothing) if are_buffers else nothing)
    assert str(caught.value) == (
        "reduce_max got x with 0 elements, and a maximum has no identity: none is the largest of nothing. "
        "Fix: pass one element or more."
    )


def test_what_has_no_elements_is_not_tuned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VYRE_AUTOTUNE", "tune")
    monkeypatch.setenv("VYRE_AUTOTUNE_FILE", str(tmp_path / "records.toml"))
    with Driver() as driver:
        kernel = TunedKernel(driver, KERNELS["reduce_sum"])
        found = kernel(np.zeros(0, F32)).tolist(), kernel.target.known(driver.tuning, (1,)), driver.tuning.tunes_on_first_use
    assert found == (0.0, None, True)


@pytest.mark.parametrize("how", [{"size": (0,)}, {"arrays": [np.zeros(0, F32)]}])
def test_a_tuning_of_nothing_is_refused(driver: Driver, how: dict[str, Any]) -> None:
    with pytest.raises(
        InvalidInput, match=r"^reduce_sum is to be tuned on arrays without elements, which take no time\. Fix: "
    ):
        tune(TunedKernel(driver, KERNELS["reduce_sum"]), **how)
