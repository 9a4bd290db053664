"""Calls and bindings in which an array has no elements: nothing runs, and everything keeps its shape and contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP

from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from conftest import CompileText

    from vyre_driver import Driver, Kernel

pytestmark = pytest.mark.device

STEP_PUSH = {"factor": 2, "summand": 1}
SAXPY = {"alpha": 2, "count": 4}
ONES = np.ones(4, np.float32)
X = np.array([3, 5, 7], np.uint32)


def lists(*found: Any) -> list[object]:  # noqa: ANN401 -- arrays and buffers
    return [np.asarray(one).tolist() for one in found]


def test_empty_arrays_run_nothing_and_keep_their_shapes(driver: Driver, saxpy: Kernel, compiled: CompileText) -> None:
    none, flat = np.zeros((0, 3), np.float32), np.zeros(0, np.float32)
    push = {"alpha": 1, "count": 0}
    before = driver.events.counts()[EventKind.DISPATCH]
    for x in (flat, driver.buffer(flat)):
        for y in (none, driver.buffer(none)):
            for strict in (False, True):
                assert np.asarray(saxpy(x, y, **push, strict=strict)).shape == (0, 3)
                for target in (np.zeros((0, 3), np.float32), driver.zeros((0, 3), np.float32)):
                    assert saxpy(x, y, **push, strict=strict, out=target) is target
    kernel, empty, some = compiled(STEP), driver.zeros((2, 0), np.uint32), driver.buffer(X)
    bound = kernel.bind(empty, **STEP_PUSH)
    bound.run()
    bound.submit().result()
    with driver.batch() as batch:
        for one in (bound, kernel.bind(some, **STEP_PUSH), bound, kernel.bind(empty[:, :], **STEP_PUSH)):
            batch.add(one)
    batch.submit().result()
    assert lists(some, empty) == [[15, 23, 31], [[], []]]
    assert driver.events.counts()[EventKind.DISPATCH] == before + 24 + 2 + 2 * 4


def test_where_one_array_is_empty_nothing_runs_and_the_others_stay_as_they_are(driver: Driver, saxpy: Kernel) -> None:
    none, target = np.zeros(0, np.float32), np.zeros(4, np.float32)
    for x in (none, driver.buffer(none)):
        for strict in (False, True):
            here = driver.buffer(ONES)
            found = [saxpy(x, y, **SAXPY, strict=strict) for y in (ONES, here)]
            assert lists(*found, here) == [[1] * 4] * 3
            assert saxpy(x, ONES, **SAXPY, strict=strict, out=target) is target
            assert target.tolist() == [1] * 4
            target[:] = 0
        saxpy.bind(driver.buffer(none), here, **SAXPY).run()
        assert here.read().tolist() == [1] * 4
