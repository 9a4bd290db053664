"""Arrays of bools in calls of Python kernels, which are words on the device; and in reductions and scans."""

# ruff: noqa: ANN001, ANN201 -- kernels return nothing
# mypy: ignore-errors

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang import In, Index, InOut, Out, bool_, f32, kernel, reduction, scan

pytestmark = pytest.mark.device


@kernel
def swap(i: Index, y: In[f32], x: InOut[bool_], before: Out[bool_]):
    before[i] = x[i]
    x[i] = y[i] > 1


every = reduction(lambda a, b: a and b, zero=True)
odd = reduction(map=lambda x: x > 0, combine=lambda a, b: a != b, zero=False)
parity = scan(lambda a, b: a != b)

FLOATS = np.arange(3, dtype=np.float32)
BEFORE, AFTER = [True, True, False], [False, False, True]


def given(driver, where: str, values: list[bool]):
    """Return bools where a call has them: in an array, in a buffer, or nowhere."""
    if where == "none":
        return None
    return np.array(values) if where == "host" else driver.buffer(np.array(values, np.uint32))


@pytest.mark.parametrize(
    ("floats", "x", "before"), list(itertools.product(["host", "device"], ["host", "device"], ["none", "host", "device"]))
)
def test_bools_come_from_and_go_to_arrays_and_buffers(driver, floats: str, x: str, before: str) -> None:
    y = FLOATS if floats == "host" else driver.buffer(FLOATS)
    changed, target = given(driver, x, BEFORE), given(driver, before, AFTER)
    results = swap.on(driver)(y, changed, target)
    assert results[0] is changed
    assert target is None or results[1] is target
    stays = (floats, x) == ("device", "device") and before != "host"
    assert isinstance(results[1], Buffer) == (stays or before == "device")
    assert [[bool(one) for one in (each.read() if isinstance(each, Buffer) else each)] for each in results] == [AFTER, BEFORE]


def test_bools_that_a_call_does_not_reach_stay(driver) -> None:
    x, before = np.array(BEFORE), np.zeros(3, np.bool_)
    swap.on(driver).over(1)(FLOATS, x, before)
    assert x.tolist() == [False, True, False]


@pytest.mark.parametrize("shape", [(5,), (300,), (70_000,), (3, 700), (700, 3), (3, 5000, 2), (0,), (4, 0)])
def test_bools_are_combined(driver, shape: tuple[int, ...]) -> None:
    bools = np.random.default_rng(1).random(shape) < 0.9
    for axis in range(-len(shape), len(shape)):
        for found, wanted in (
            (every.on(driver)(bools, axis=axis), bools.all(axis=axis)),
            (odd.on(driver)(bools.astype(np.int32), axis=axis), np.logical_xor.reduce(bools, axis=axis)),
            (parity.on(driver)(bools, axis=axis), np.logical_xor.accumulate(bools, axis=axis)),
        ):
            assert found.dtype == np.bool_
            np.testing.assert_array_equal(found, wanted)
    assert every.on(driver)(bools) == bools.all()


def test_what_buffers_combine_to_bools_are_words(driver) -> None:
    found = odd.on(driver)(driver.buffer(np.array([1, 2, 3], np.int32)))
    assert found.dtype == np.uint32
    assert found.read() == 1
