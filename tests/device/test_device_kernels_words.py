"""What a device finds wrong with a call of a Python kernel, said in the words of the kernel."""

# mypy: ignore-errors

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import Driver
from vyre_driver.errors import InvalidInput, KernelFault, LimitExceeded, OutputNotWritten
from vyre_driver.lang import Group, In, Index, InOut, Out, elementwise, f32, i32, kernel, reduction
from vyre_driver.lang.frontend.translation import MAX_EXTENT
from vyre_driver.lang.launch.launcher import Launcher

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.device


@kernel
def upper(i: Index, j: Index, x: In[f32], out: Out[f32]) -> None:
    if i <= j:
        out[i, j] = x[i, j]


@kernel
def scaled(i: Index, x: InOut[f32], a: f32, n: i32) -> None:
    x[i] *= a + n


@kernel
def tiled(g: Group[64], x: In[f32], out: Out[f32]) -> None:
    out[g.index] = x[g.index]


@kernel
def tiled_in_two(g: Group[2, 4], out: Out[f32]) -> None:
    row, column = g.index
    out[row, column] = 1.0


@kernel
def wide(g: Group[64, 64], out: Out[f32]) -> None:
    out[g.index[0]] = 1.0


def message(error: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(error) as refused:
        call()
    return str(refused.value)


UNWRITTEN = (
    "upper did not write 3 of the 9 elements of out, the first at out[1, 0]. Fix: write each of them, say how far it goes with "
    ".over(...) or .groups(...), or annotate out as InOut, which keeps the others."
)


def test_a_strict_call_tells_the_first_element_that_is_not_written(driver: Driver) -> None:
    x = np.ones((3, 3), np.float32)
    there = driver.buffer(x)
    for given in ((x,), (x, np.zeros_like(x)), (there,), (there, driver.zeros((3, 3), np.float32)), (there, x.copy())):
        assert message(OutputNotWritten, lambda given=given: upper(*given, strict=True)) == UNWRITTEN


def test_a_strict_driver_tells_it_each_time() -> None:
    x = np.ones((3, 3), np.float32)
    with Driver(strict=True) as strict:
        there = strict.buffer(x)
        for given in ((x,), (x, np.zeros_like(x)), (there, strict.zeros((3, 3), np.float32))):
            for _ in range(2):  # the second call is known from the first
                assert message(OutputNotWritten, lambda given=given: upper.on(strict)(*given)) == UNWRITTEN


def test_numbers_of_a_bound_kernel_are_refused_by_name_and_type(driver: Driver) -> None:
    there = driver.buffer(np.ones(4, np.float32))
    for _ in range(2):  # the second is known from the first
        bound = scaled.bind(there, 2.0, 1)
        said = {
            "x": "scaled has no number 'x' to be set. Fix: set 'a', 'n'; for other arrays or constants bind it again.",
            "a": "a of scaled is of type str, and takes an f32. Fix: give a number.",
            "n": "n of scaled is of type str, and takes an i32. Fix: give a number.",
        }
        assert {name: message(InvalidInput, lambda name=name, bound=bound: bound.set(**{name: "2"})) for name in said} == said
        assert repr(bound) == "<vyre_driver.BoundKernel of scaled>"
        bound.set(a=3)
        bound.run()
    assert there.read().tolist() == [16.0] * 4


def test_a_grid_over_the_limits_is_one_of_the_kernel(driver: Driver) -> None:
    x, limit = np.ones(8, np.float32), driver.device.limits.max_compute_work_group_count
    if limit[0] < MAX_EXTENT:  # else no index goes so far, and that is refused first
        for call in (tiled.groups(limit[0] + 1), tiled.groups(limit[0] + 1).bind):
            assert message(LimitExceeded, lambda call=call: call(driver.buffer(x), driver.buffer(x))) == (
                f"tiled is to run {limit[0] + 1:,} workgroups, and the device allows {limit[0]:,}. Fix: say fewer with "
                ".groups(...), and let each do several parts."
            )
    assert message(LimitExceeded, lambda: tiled_in_two.groups(limit[1] + 1, 1)(np.ones((2, 2), np.float32))).startswith(
        f"tiled_in_two is to run {limit[1] + 1:,} workgroups along axis 0, and the device allows {limit[1]:,}."
    )  # x is the last axis, y the one before


def test_a_workgroup_over_the_limits_is_one_of_the_kernel(driver: Driver) -> None:
    limit = driver.device.limits.max_compute_work_group_invocations
    assert limit < 4096
    assert message(LimitExceeded, lambda: wide.on(driver).groups(1, 1)(np.ones(8, np.float32))) == (
        f"wide has workgroups of 64x64, which are 4,096 invocations, and the device allows {limit:,}. Fix: use a smaller Group."
    )


def test_a_call_is_interpreted_from_when_that_is_set_on(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def beyond(i: Index, x: In[f32], out: Out[f32]):\n    out[i] = x[i + 1]\n"
    beyond, add = kernel.from_source(text).on(driver).over(4), elementwise(lambda x: x + 1)
    total, x = reduction(lambda a, b: a + b, zero=0.0), np.ones(4, np.float32)
    there = driver.buffer(x)
    calls = [lambda: beyond(x), lambda: beyond(x, np.zeros_like(x)), lambda: beyond(there), lambda: beyond(there, out=there)]
    others = [lambda: add(x).tolist(), lambda: add(driver.buffer(x)).read().tolist(), lambda: float(total(x))]
    expected = [call() for call in others]
    for call in calls * 2:
        call()
    monkeypatch.setenv("VYRE_INTERPRET", "1")
    for call in calls:
        assert "x[4] is out of range" in message(KernelFault, call)
    monkeypatch.setattr(Launcher, "call", None)  # which runs on a device
    assert [call() for call in others] == expected
    monkeypatch.undo()
    for call in calls:
        call()
