"""Each hook of the layer switched off: results stay right, and the report tells what is on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import Driver, SpirvModule
from vyre_driver.errors import DeviceLost, DispatchFailed, KernelCompileFailed, UnsupportedFeature
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan import enumerate_devices, select_device
from vyre_driver.vulkan.layer import _layer
from vyre_driver.vulkan.layer.enable import layer_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver import Kernel

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("_nothing_fails_any_more")]

X = np.arange(100, dtype=np.float32)
PUSH = {"alpha": 2, "count": 100}
HEAD = "#version 450\nlayout(local_size_x = 64) in;\n"
STEP = """
layout(binding = 0) buffer A { uint a[]; };
void main() { uint i = gl_GlobalInvocationID.x; a[i] = a[i] %s; }
"""
DOUBLES = """
layout(binding = 0) buffer A { double a[]; };
void main() { a[gl_GlobalInvocationID.x] *= 0.5; }
"""
EVERY_SET = [*((hook,) for hook in _layer.HOOKS), _layer.HOOKS]
FIX_MODULE = "Fix: run spirv-val on the module, and report it with the driver's version if it passes."


@pytest.fixture(params=EVERY_SET, ids=",".join)
def off(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Hooks that are off for this test."""
    hooks: tuple[str, ...] = request.param
    monkeypatch.setenv("VYRE_LAYER_HOOKS_OFF", ",".join(hooks))
    return hooks


@pytest.fixture
def results_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A driver under the layer, which remembers no failure."""
    monkeypatch.setenv("VYRE_LAYER_HOOKS_OFF", "results")
    with Driver() as driver:
        yield driver


def saxpy_is_right(kernel: Kernel) -> bool:
    return bool(np.array_equal(kernel(X, X, push_constants=PUSH), 3 * X))


def test_results_are_right_without_hooks(off: tuple[str, ...]) -> None:
    """Calls, replays, new sizes, and a chain of dispatches of which each reads what the last wrote."""
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        right = [saxpy_is_right(kernel) for _ in range(3)]
        right += [np.array_equal(kernel(X[:n], X[:n], push_constants={"alpha": 2, "count": n}), 3 * X[:n]) for n in (1, 7, 64)]
        resident = driver.buffer(np.zeros(64 * 64, np.uint32))
        add, triple = (
            driver.compile(SpirvModule.from_glsl(HEAD + STEP % step)).bind(resident, workgroups=(64,))
            for step in ("+ 1u", "* 3u")
        )
        with driver.batch() as batch:
            for bound in (add, triple, add, triple, add):
                batch.add(bound)
        add.submit().result()
        chained = resident.read()
        report = driver.report()["layer"]
    assert isinstance(report, dict)
    assert (right, chained.tolist()) == ([True] * 6, [14] * (64 * 64)), off
    assert report["hooks"] == [hook for hook in _layer.HOOKS if hook not in off]


def test_the_counters_show_that_a_hook_is_off(off: tuple[str, ...]) -> None:
    """What only that hook does is never counted; what it does otherwise is."""
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        for alpha, count in ((2, 100), (2, 50), (2, 100), (3, 100)):
            kernel(X[:count], X[:count], push_constants={"alpha": alpha, "count": count})
        driver.compile(shipped_module("saxpy"))(X, X, push_constants=PUSH)
        driver.buffer(X).close()
        driver.buffer(X).close()
        counters = driver.context.device.report()["counters"]
    assert isinstance(counters, dict)
    counted = {
        "fences": "fences_reused",
        "memory": "memory_reused",
        "features": "features_enabled",
        "barriers": "barriers_added",
        "shared_pipelines": "pipelines_shared",
        "command_pools": "command_pools_reused",
    }
    seen = {hook: counters.get(counter, 0) > 0 for hook, counter in counted.items()}
    assert seen == {hook: hook not in off for hook in counted}


def test_without_the_features_hook_a_shader_that_needs_a_feature_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_LAYER_HOOKS_OFF", "features")
    with Driver() as driver, pytest.raises(UnsupportedFeature):
        driver.compile(SpirvModule.from_glsl(HEAD + DOUBLES))


def test_a_hook_that_there_is_not_is_refused_with_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_LAYER_HOOKS_OFF", "results,speed")
    with pytest.raises(ValueError, match="VYRE_LAYER_HOOKS_OFF") as refused:
        Driver()
    assert str(refused.value) == (
        f"VYRE_LAYER_HOOKS_OFF names 'speed', which is none of {', '.join(_layer.HOOKS)}. "
        "Fix: set VYRE_LAYER_HOOKS_OFF to names from that list, separated by commas."
    )


@pytest.mark.parametrize("call", ["allocate", "map", "bind", "create_buffer"])
def test_without_the_results_hook_what_kompute_throws_at_is_a_failed_dispatch(results_off: Driver, call: str) -> None:
    """The null handle of a failed call does not reach the driver, which would crash."""
    _layer.inject(call, 1, -2)
    with pytest.raises(DispatchFailed, match=r"^kompute could not allocate a buffer on '.*' \(.*\)\. Fix: ") as refused:
        results_off.empty(8, np.float32)
    assert (refused.type, results_off.context.device.layer.counters()["failures_recorded"]) == (DispatchFailed, 0)  # type: ignore[union-attr]
    assert saxpy_is_right(results_off.compile(shipped_module("saxpy")))


def test_without_the_results_hook_a_failed_submission_looks_as_if_it_had_run(results_off: Driver) -> None:
    kernel = results_off.compile(shipped_module("saxpy"))
    _layer.inject("submit", 1, -2)
    assert (np.array_equal(kernel(X, X, push_constants=PUSH), 3 * X), saxpy_is_right(kernel)) == (False, True)


def test_without_the_results_hook_a_lost_device_is_not_remembered(results_off: Driver) -> None:
    kernel = results_off.compile(shipped_module("saxpy"))
    _layer.inject("wait", 1, -4)
    with pytest.raises(DeviceLost):
        kernel(X, X, push_constants=PUSH)
    assert saxpy_is_right(kernel)


def refused_pipeline(driver: Driver) -> str:
    kernel = driver.compile(shipped_module("saxpy"))
    _layer.inject("create_pipeline", 1, -13)
    with pytest.raises(KernelCompileFailed) as refused:
        kernel(X, X, push_constants=PUSH)
    assert (refused.value.code, saxpy_is_right(kernel)) == (1004, True)
    return str(refused.value)


def test_a_refused_pipeline_is_a_failed_compilation_with_the_results_hook() -> None:
    with Driver() as driver:
        name = driver.device.name
        assert refused_pipeline(driver) == f"create_pipeline failed on {name!r} with VkResult -13. {FIX_MODULE}"


def test_a_refused_pipeline_is_a_failed_compilation_without_the_results_hook(results_off: Driver) -> None:
    name = results_off.device.name
    assert refused_pipeline(results_off) == (
        f"kompute could not make a pipeline on {name!r} (vk::Device::createComputePipeline: ErrorUnknown). {FIX_MODULE}"
    )


def test_a_refused_pipeline_is_a_failed_compilation_without_the_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver does without the layer; the test loads it, without hooks, to have a pipeline refused below kompute."""
    monkeypatch.setenv("VYRE_LAYER", "0")
    monkeypatch.setenv("VK_ADD_LAYER_PATH", str(Path(_layer.__file__).parent))
    monkeypatch.setenv("VK_INSTANCE_LAYERS", _layer.LAYER_NAME)
    device = select_device(enumerate_devices(), allow_software=True)
    config = layer_config(device, (), ())
    driver, below = _layer.open_under_layer(config, None, None, Driver, (f"uuid:{device.device_uuid.hex()}",))
    with driver:
        assert (driver.context.device.layer, below is None) == (None, False)
        assert refused_pipeline(driver) == (
            f"kompute could not make a pipeline on {device.name!r} (vk::Device::createComputePipeline: ErrorUnknown). "
            f"{FIX_MODULE}"
        )
