"""Python kernels that check themselves on the device: what is out of range, and what is asserted, by line."""

# ruff: noqa: ANN001, ANN201 -- kernels return nothing
# mypy: ignore-errors

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from refusals import refusal

from vyre_driver.errors import InvalidInput, KernelAssertionError, KernelFault, LimitExceeded
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang import Group, In, Index, InOut, Out, bool_, f32, i32, kernel

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device


@kernel(checks=True)
def gathers(i: Index, at: In[i32], x: In[f32], y: InOut[f32]):
    y[i] = x[at[i]] + y[i]


@kernel(checks=True)
def asserts(g: Group[64], x: In[f32], y: Out[f32]):
    part = g.shared(f32, 64)
    part[g.local] = x[g.index] if g.index < len(x) else 0.0
    g.barrier()
    assert part[0] < 1.0, "too large"
    if g.index < len(y):
        y[g.index] = part[63 - g.local]


@kernel(checks=True)
def marks(i: Index, x: In[f32], y: Out[bool_], z: Out[bool_]):
    y[i] = x[i] > 0
    if x[i] > 1:
        z[i + 1] = True


@kernel(checks=True)
def proven(i: Index, x: In[f32], y: InOut[f32]):
    if i + 1 < len(x):
        y[i] = x[i + 1] + (x[i - 1] if i > 0 else 0.0)


AT = np.array([0, 1, -1, 3, 900, -7], np.int32)
FLOATS = np.arange(6, dtype=np.float32)


def test_an_access_out_of_range_is_told_at_its_line(driver) -> None:
    first = gathers.function.__code__.co_firstlineno + 1
    for on_device in (False, True):
        arrays = [AT, FLOATS, np.zeros(6, np.float32)]
        if on_device:
            arrays = [driver.buffer(one) for one in arrays]
        with pytest.raises(KernelFault) as found:
            gathers.on(driver)(*arrays)
        error = found.value
        which = int(error.context["invocation"][0])
        assert which in {2, 4, 5}  # any of them may be the first
        assert str(error).splitlines() == [
            f"invocation ({which},): x[{AT[which]}] is out of range: x has 6 elements; 3 checks fail in all",
            f'  File "{__file__}", line {first + 1}, in gathers',
            "    y[i] = x[at[i]] + y[i]",
            "             ^^^^^",
            f"Fix: guard it: at[i] {'< len(x)' if which == 4 else '>= 0'}",
        ]
        assert (error.context["index"], error.context["count"]) == (AT[which], 3)
        left = arrays[2].read() if on_device else arrays[2]
        assert left.tolist() == [0, 1, 0, 3, 0, 0]  # the others have run


def test_a_call_without_faults_returns_as_one_without_checks(driver) -> None:
    y = np.ones(6, np.float32)
    at = np.array([5, 4, 3, 2, 1, 0], np.int32)
    assert gathers.on(driver)(at, FLOATS, y) is y
    assert y.tolist() == [6, 5, 4, 3, 2, 1]
    mixed = gathers.on(driver)(driver.buffer(at), FLOATS, y)
    assert mixed is y
    assert y.tolist() == [11, 9, 7, 5, 3, 1]
    resident = [driver.buffer(one) for one in (at, FLOATS, y)]
    assert gathers.on(driver)(*resident) is resident[2]
    y, z = marks.on(driver)(np.array([1, -1, 1], np.float32), z=np.zeros(3, np.bool_))
    assert (y.tolist(), z.tolist()) == ([True, False, True], [False, False, False])
    with pytest.raises(KernelFault, match=r"invocation \(2,\): z\[3\] is out of range: z has 3 elements"):
        marks.on(driver)(np.array([2, -1, 2], np.float32), z=np.zeros(3, np.bool_))


def test_a_failed_assert_is_told_with_its_message(driver) -> None:
    x = np.zeros(128, np.float32)
    x[64] = 2
    with pytest.raises(KernelAssertionError, match=r"part\[0\] < 1.0 does not hold: too large; 64 checks fail in all"):
        asserts.groups(2).on(driver)(x, np.zeros(100, np.float32))
    assert asserts.groups(2).on(driver)(x * 0, np.ones(100, np.float32)).tolist() == [0] * 100


def test_what_is_proven_is_not_checked(driver) -> None:
    assert [one.name for one in proven.program().buffers] == ["x", "y"]
    y = np.zeros(6, np.float32)
    assert proven.on(driver)(FLOATS, y)[:5].tolist() == [1, 2, 4, 6, 8]


def test_a_kernel_that_checks_itself_is_not_bound(driver) -> None:
    assert str(refusal(lambda: gathers.bind(*[driver.buffer(one) for one in (AT, FLOATS, FLOATS)]), InvalidInput)) == (
        "gathers checks itself, and only a call tells what it found. Fix: call it, or make it without checks=True to bind it."
    )


@kernel
def too_large(g: Group[64], y: Out[f32]):
    ta, tb = g.shared(f32, 1 << 10, 1 << 12), g.shared(f32, 64, 65)
    acc = g.shared(f32, 64)
    ta[g.local, 0] = tb[0, g.local] = acc[g.local] = 1.0
    g.barrier()
    y[g.index] = ta[0, 0] + tb[1, g.local] + acc[0]


def test_shared_memory_beyond_the_device_is_told_by_the_names_in_the_kernel(driver) -> None:
    limit = driver.device.limits.max_compute_shared_memory_size
    with pytest.raises(LimitExceeded) as found:
        too_large.on(driver)(y=np.zeros(64, np.float32))
    assert str(found.value) == (
        f"'ta', 'tb' and 'acc' share 16,794,112 bytes, and the device allows {limit:,}. Fix: use smaller tiles."
    )
    assert found.value.context == {"value": 16_794_112, "limit": limit}


@pytest.mark.parametrize("how", ["interpret", "python"])
def test_a_call_without_a_device_takes_buffers_by_copying(driver, how: str) -> None:
    x, y = driver.buffer(np.arange(6, dtype=np.float32)), driver.buffer(np.zeros(6, np.float32))
    assert getattr(proven, how)(x, y) is y
    assert y.read()[:5].tolist() == [1, 2, 4, 6, 8]
    made, marked = getattr(marks, how)(driver.buffer(np.array([1, -1, 1], np.float32)), z=driver.buffer(np.zeros(3, np.uint32)))
    assert (made.read().tolist(), marked.read().tolist()) == ([1, 0, 1], [0, 0, 0])


def test_what_comes_back_of_buffers_is_one_where_a_kernel_checks_itself(driver: Driver) -> None:
    @kernel(checks=True)
    def doubled(i: Index, x: In[f32], y: Out[f32]) -> None:
        y[i] = 2 * x[i]

    found = doubled(driver.buffer(np.ones(4, np.float32)))
    assert isinstance(found, Buffer)
    assert found.read().tolist() == [2.0] * 4
