"""A taste of ``make vendors``: what ships compiles for AMD's devices, and runs on a device as weak as Vulkan allows."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from layers import pipelines_environment, weak_environment
from radv import FAMILIES, REMOVED, compiled, manifest, of_family

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

# Kernels of every kind in a process that the layer has been put below of.
KERNELS_RUN = """
import numpy as np
from vyre_driver import Driver
from vyre_driver.kernels import KERNELS
from vyre_driver.kernels.attention import attention_of
from vyre_driver.kernels.products import product
from vyre_driver.autotune.measure.tuned import TunedKernel
with Driver() as driver:
    names = "saxpy", "reduce_sum", "inclusive_scan", "histogram", "transpose", "softmax", "layernorm", "rmsnorm", "matmul"
    cases = [(KERNELS[name], KERNELS[name].sizes[0]) for name in names]
    cases.append((product("float32", transpose_b=True, bias=True, activation="gelu"), (2, 40, 33, 70)))
    cases.append((attention_of("float32", is_causal=True), (1, 2, 20, 140, 64)))
    for definition, size in cases:
        arrays, parameters = definition.example(size, 0)
        expected = definition.expected(*arrays, **parameters)
        found = TunedKernel(driver, definition)(*arrays, **parameters)
        scale = max(1.0, float(np.abs(expected).max()))
        assert float(np.abs(found - expected).max()) <= scale * 1e-3, definition.name
        print(definition.name)
"""

# A device that has 4,096 allocations in all fails the next one.
MANY_BUFFERS = """
import numpy as np
from vyre_driver import Driver
with Driver() as driver:
    kept = [driver.empty(256, np.uint32) for _ in range(100_000)]
    kept[-1].fill(99_999)
    print(f"{len(kept)} buffers, the last has {kept[-1].read()[0]}")
"""


@pytest.mark.parametrize("family", [FAMILIES[0], *(pytest.param(one, marks=pytest.mark.thorough) for one in FAMILIES[1:])])
def test_every_shipped_shader_compiles_for_amds_devices(family: str, tmp_path: Path) -> None:
    path = manifest("radeon")
    if path is None or shutil.which("cc") is None:
        pytest.skip("not installed: RADV (Debian: mesa-vulkan-drivers), or cc")
    found = compiled(of_family(family, path) | pipelines_environment(tmp_path / "below"), "shaders")
    if any(REMOVED in text for text in found.failed):
        pytest.skip("this RADV compiles for a device that is not there with Mesa's drm-shim only")
    assert (family.upper() in found.device, found.done > 20, found.refused, found.failed) == (True, True, [], [])
    assert found.native > found.done * 500  # bytes of code, which RADV made


@pytest.fixture
def weak(tmp_path: Path) -> dict[str, str]:
    """The variables that put the weak layer below ours."""
    if shutil.which("cc") is None:
        pytest.skip("not installed: cc")
    return weak_environment(tmp_path / "weak")


@pytest.mark.device
def test_the_weak_layer_tells_of_a_device_that_has_little(weak: dict[str, str], run_cli: RunChild) -> None:
    told = json.loads(run_cli("devices", "--json", env=weak).stdout)["devices"][0]
    limits = told["limits"]
    sizes = [limits["max_compute_shared_memory_size"], limits["max_compute_work_group_invocations"]]
    ranges = [limits["max_storage_buffer_range"], limits["min_storage_buffer_offset_alignment"]]
    narrow = {
        one for one in told["features"] if one.endswith(("8BitAccess", "16BitAccess", "Int8", "Int16", "Int64", "Float16"))
    }
    assert (sizes, ranges, narrow) == ([16384, 128], [2**27, 256], set())


@pytest.mark.device
def test_doctor_finds_a_weak_device_well(weak: dict[str, str], run_cli: RunChild) -> None:
    done = run_cli("doctor", "--json", env=weak)
    (dispatch,) = [one for one in json.loads(done.stdout)["checks"] if one["name"].startswith("dispatch")]
    assert dispatch["state"] == "ok", dispatch


@pytest.mark.device
def test_kernels_give_right_results_on_a_weak_device(weak: dict[str, str], run_python: RunChild) -> None:
    done = run_python("-c", KERNELS_RUN, env=weak)
    assert (done.status, len(done.stdout.split()), done.complaint) == (0, 11, []), done.stderr


@pytest.mark.device
def test_100000_buffers_are_had_where_4096_allocations_are_all(weak: dict[str, str], run_python: RunChild) -> None:
    done = run_python("-c", MANY_BUFFERS, env=weak)
    assert (done.status, done.stdout, done.complaint) == (0, "100000 buffers, the last has 99999\n", []), done.stderr
