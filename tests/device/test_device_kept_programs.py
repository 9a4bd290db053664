"""How many programs a Python kernel keeps, with their pipelines and device memory."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver.cache import Verdict
from vyre_driver.lang import Const, In, Index, Out, elementwise, f32, kernel, reduction, scan
from vyre_driver.lang.launch import launcher, specializations
from vyre_driver.runtime.kernel import Kernel as CompiledKernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver import Driver

pytestmark = pytest.mark.device

RATE = 1.0
X = np.arange(100_000, dtype=np.float32)
MOST_BYTES_OF_AN_ARRAY = 1 << 20  # an H200 takes 800 KiB for one
MAX_PROGRAMS = 4


@pytest.fixture(autouse=True)
def _few_programs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limit, so that a few programs exceed it many times: each takes a compilation."""
    monkeypatch.setattr(specializations, "MAX_PROGRAMS", MAX_PROGRAMS)
    monkeypatch.setattr(launcher, "MAX_PROGRAMS", MAX_PROGRAMS)


@kernel
def scaled_by_global(i: Index, x: In[f32], y: Out[f32]) -> None:
    y[i] = x[i] * RATE


@kernel
def scaled_by_constant(i: Index, x: In[f32], y: Out[f32], *, C: Const[float] = 1.0) -> None:  # noqa: N803
    y[i] = x[i] * C


@elementwise
def scaled(x: f32) -> f32:
    return x * RATE


def live_kernels() -> int:
    return sum(type(found) is CompiledKernel for found in gc.get_objects())


def live_bytes(driver: Driver) -> int:
    return int(driver.report()["layer"]["counters"]["memory_live_bytes"])  # type: ignore[index]


@pytest.mark.parametrize("how", ["a global", "a constant of the call", "a constant of the kernel", "an elementwise function"])
def test_a_kernel_keeps_a_bounded_number_of_programs(layered: Driver, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    calls: dict[str, Callable[[float], np.ndarray]] = {
        "a global": lambda _: scaled_by_global.on(layered)(X),
        "a constant of the call": lambda value: scaled_by_constant.on(layered)(X, C=value),
        "a constant of the kernel": lambda value: scaled_by_constant.on(layered).with_(C=value)(X),
        "an elementwise function": lambda _: scaled.on(layered)(X),
    }
    gc.collect()
    kernels, memory = live_kernels(), live_bytes(layered)
    gc.disable()  # what is let go of goes at once, not with the next collection
    try:
        for number in range(10 * MAX_PROGRAMS):
            monkeypatch.setitem(globals(), "RATE", float(number))
            assert calls[how](float(number))[3] == 3.0 * number
    finally:
        gc.enable()
    assert live_kernels() - kernels <= MAX_PROGRAMS
    assert live_bytes(layered) - memory <= (MAX_PROGRAMS + 1) * 2 * MOST_BYTES_OF_AN_ARRAY


def test_reductions_and_scans_keep_a_bounded_number_of_programs(layered: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    total = reduction(lambda a, b: a + b * RATE, zero=0.0).on(layered)
    running = scan(lambda a, b: a + b * RATE).on(layered)
    x = np.ones(600, np.float32)
    kernels = live_kernels()
    for number in range(4 * MAX_PROGRAMS):
        monkeypatch.setitem(globals(), "RATE", float(number % 2 + 1) if number < MAX_PROGRAMS else 1.0 + number)
        total(x)
        running(x)
    assert live_kernels() - kernels <= 4 * MAX_PROGRAMS  # a reduction of 600 is one kernel, a scan two


def test_more_values_than_are_kept_come_from_the_cache_and_are_right(layered: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    call = scaled_by_global.on(layered)
    for turn in range(2):
        for number in range(MAX_PROGRAMS + 5):
            monkeypatch.setitem(globals(), "RATE", 0.5 + number)
            assert call(X)[2] == 2 * (0.5 + number)
            assert turn == 0 or call.compiled_for(layered).trace.verdict is Verdict.HIT


def test_a_bound_kernel_outlives_its_programs_place(layered: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = layered.buffer(X), layered.zeros(X.shape, np.float32)
    monkeypatch.setitem(globals(), "RATE", 7.0)
    bound = scaled_by_global.bind(x, y)
    for number in range(MAX_PROGRAMS + 1):
        monkeypatch.setitem(globals(), "RATE", 100.0 + number)
        scaled_by_global.on(layered)(X)
    bound.run()
    assert y.read()[3] == 21.0


def test_work_under_way_keeps_its_program(layered: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = layered.buffer(X), layered.zeros(X.shape, np.float32)
    monkeypatch.setitem(globals(), "RATE", 5.0)
    future = scaled_by_global.bind(x, y).submit()
    for number in range(MAX_PROGRAMS + 1):
        monkeypatch.setitem(globals(), "RATE", 200.0 + number)
        scaled_by_global.on(layered)(X)
    future.result()
    assert y.read()[3] == 15.0
