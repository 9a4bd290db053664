"""Programs with floats and bounds of the device's own, as their configuration asks for."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_driver import Driver, ProgramConfig, SpirvModule, acquire
from vyre_driver.autotune.search.outcomes import Budget
from vyre_driver.autotune.store.store import AutotuneStore
from vyre_driver.cache.entry import Verdict
from vyre_driver.errors import CacheNotWarm, UnsupportedFeature
from vyre_driver.ir import BufferDecl, DataType, Program, buf_len, gid_x, if_, load, store

pytestmark = pytest.mark.device

F32 = DataType.F32
X, Y = BufferDecl.read("x", 0, F32), BufferDecl.read_write("y", 1, F32)
I = gid_x()  # noqa: E741 -- as kernels have it
SUMS = Program.wrapped([X, Y], (64, 1, 1), [if_(buf_len(Y) > I, [store(Y, I, 2.0 * load(X, I) + load(Y, I))])])
x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
MODES = [None, "exact", "device", "fast"]


def test_each_way_has_an_entry_of_its_own_and_the_default_is_exact(driver: Driver) -> None:
    kernels = [driver.compile(SUMS, config=ProgramConfig(floats=mode)) for mode in MODES]
    assert [one(x, y).tolist() for one in kernels] == [(2 * x + y).tolist()] * 4
    keys = [driver.compile(SUMS).trace.key, *(one.trace.key for one in kernels)]
    assert (len(set(keys)), len(set(keys[:3]))) == (3, 1)
    again = driver.compile(SUMS, config=ProgramConfig(floats="fast")).trace
    assert (again.key, again.verdict) == (keys[-1], Verdict.HIT)


def test_a_miss_says_which_way_of_lowering_the_nearest_entry_has(driver: Driver) -> None:
    driver.compile(SUMS, config=ProgramConfig(floats="device"))
    driver.assert_warm()
    with pytest.raises(CacheNotWarm, match="emitter option contracts"):
        driver.compile(SUMS, config=ProgramConfig(floats="fast"))


def test_subnormals_are_the_devices_in_device_floats(driver: Driver) -> None:
    """Devices flush or keep them: llvmpipe kept them up to Mesa 22.3 at least, and 26.1's does not."""
    tiny = np.full(4, 1e-40, np.float32)
    exact, own = (driver.compile(SUMS, config=ProgramConfig(floats=mode))(tiny, tiny).tolist() for mode in ("exact", "device"))
    assert exact == [0.0] * 4
    assert own in ([0.0] * 4, (2 * tiny + tiny).tolist())


STRAY = Program.wrapped([X, Y], (64, 1, 1), [store(Y, I + 1000, load(X, I + 1000))])


def test_without_robust_access_nobody_leaves_bounds_to_the_device(driver: Driver) -> None:
    with pytest.raises(UnsupportedFeature, match="asks for bounds = 'robust', and robustBufferAccess is not on"):
        driver.compile(SUMS, config=ProgramConfig(bounds="robust"))


@pytest.mark.parametrize("is_strict", [False, True])
def test_with_it_a_program_without_checks_harms_no_other_buffer(monkeypatch: pytest.MonkeyPatch, *, is_strict: bool) -> None:
    if not is_strict:
        monkeypatch.setenv("VYRE_ROBUST_ACCESS", "1")
    with Driver(strict=is_strict) as driver:
        config = ProgramConfig(floats="fast", bounds="robust")
        assert driver.compile(SUMS, config=config)(x, y).tolist() == (2 * x + y).tolist()
        others = [driver.buffer(np.full(4096, 3, np.float32)) for _ in range(8)]
        a, b = driver.buffer(x), driver.buffer(y)
        others += [driver.buffer(np.full(4096, 3, np.float32)) for _ in range(8)]
        driver.compile(STRAY, config=config).bind(a, b).run()
        assert [np.unique(one.read()).tolist() for one in others] == [[3]] * 16


def test_a_program_is_tuned_as_it_will_be_lowered() -> None:
    config = ProgramConfig(floats="fast")
    with Driver(autotune=AutotuneStore()) as tuning:
        tuning.tune(SUMS, x, y, config=config, budget=Budget(seconds=1.0))
        assert tuning.compile(SUMS, config=config)(x, y).tolist() == (2 * x + y).tolist()
        assert len(tuning.tuning.store) == 1


def test_backends_take_it_for_programs_alone() -> None:
    with acquire("kompute") as device, acquire("cpu-ref") as reference:
        config = ProgramConfig(floats="fast", label="sums")
        found = [one.dispatch(SUMS, [x, y], config)[0].tolist() for one in (device, reference)]
        keys = {device.load(SUMS, config=one).id for one in (None, config, ProgramConfig(floats="device"))}
        module = SpirvModule.from_glsl("#version 450\nlayout(binding = 0) buffer Y { float y[]; }; void main() { y[0] = 1.0; }")
        with pytest.raises(UnsupportedFeature, match="a module, whose code is finished"):
            device.load(module, config=config)
    assert (found, len(keys)) == ([(2 * x + y).tolist()] * 2, 3)
