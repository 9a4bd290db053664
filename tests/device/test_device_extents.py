"""What says how far a kernel goes and how large its outputs are, and what is said where nothing does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver.errors import InvalidInput
from vyre_driver.lang import Const, Group, In, Index, Out, f32, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.device

POINTS = np.arange(12, dtype=np.float32).reshape(4, 3)


@kernel(over="pos")
def of_rows(i: Index, pos: In[f32], out: Out[f32]) -> None:
    out[i] = pos[i, 0]


@kernel(over="pos")
def of_groups(g: Group[64], pos: In[f32], out: Out[f32]) -> None:
    out[g.index] = pos[g.index, 0]


@kernel(over="x")
def outer(i: Index, j: Index, x: In[f32], out: Out[f32]) -> None:
    out[i, j] = x[i]


@kernel(over="x")
def copied(i: Index, x: In[f32], out: Out[f32]) -> None:
    out[i] = x[i]


def refused(call: Callable[..., object], *arrays: np.ndarray) -> str:
    with pytest.raises(InvalidInput) as raised:
        call(*arrays)
    return str(raised.value)


@pytest.mark.parametrize("how", ["__call__", "interpret", "python"])
def test_an_array_that_a_kernel_goes_over_has_an_axis_for_each_index(how: str) -> None:
    out, line = np.empty(4, np.float32), POINTS[:, 0].copy()
    fix = "Fix: name an axis of the signature for each index, or leave over={!r} out and say the extent: .over(...)."
    assert refused(getattr(of_rows, how), POINTS) == (
        "'of_rows' goes over 'pos', which has 2 axes, and along 1 of its own. " + fix.format("pos")
    )
    assert refused(getattr(of_groups, how), POINTS, out) == (
        "'of_groups' goes over 'pos', which has 2 axes, and along 1 of its own. " + fix.format("pos")
    )
    assert refused(getattr(outer, how), line) == (
        "'outer' goes over 'x', which has 1 axis, and along 2 of its own. " + fix.format("x")
    )
    assert refused(getattr(copied, how), POINTS) == (
        "x of copied has 2 axes and is used with 1. Fix: pass an array with 1 axis, for example x.reshape(-1)."
    )


def test_the_extent_of_a_call_goes_before_the_array() -> None:
    assert of_rows.over(4)(POINTS).tolist() == [0.0, 3.0, 6.0, 9.0]


@kernel
def by_constants(i: Index, p: In[f32], acc: Out[f32]) -> None:
    acc[i, 0] = p[i, 2]
    acc[i, 1] = p[i, 0]


@kernel(signature="(n,3)->(n,2)")
def by_constants_signed(i: Index, p: In[f32], acc: Out[f32]) -> None:
    acc[i, 0] = p[i, 2]
    acc[i, 1] = p[i, 0]


@kernel
def by_a_loop(i: Index, j: Index, p: In[f32], acc: Out[f32]) -> None:
    for k in range(2):
        acc[k, i, j] = p[i, j]


@kernel(signature="(n,m)->(2,n,m)")
def by_a_loop_signed(i: Index, j: Index, p: In[f32], acc: Out[f32]) -> None:
    for k in range(2):
        acc[k, i, j] = p[i, j]


@kernel
def by_what_is_read(i: Index, p: In[f32], acc: Out[f32]) -> None:
    acc[i, int(p[i, 0])] = 1.0


def test_the_fix_of_an_output_with_constant_indices_is_the_signature() -> None:
    assert refused(by_constants, POINTS) == (
        "nothing says what shape acc of by_constants has, which was left out. Fix: pass an array for acc, or say its axes: "
        '@kernel(signature="(n,3)->(n,2)").'
    )
    assert refused(by_a_loop, POINTS) == (
        "nothing says what shape acc of by_a_loop has, which was left out. Fix: pass an array for acc, or say its axes: "
        '@kernel(signature="(n,m)->(2,n,m)").'
    )
    assert refused(by_what_is_read, POINTS) == (
        "nothing says what shape acc of by_what_is_read has, which was left out. Fix: pass an array for acc."
    )
    assert by_constants_signed(POINTS).tolist() == [[2.0, 0.0], [5.0, 3.0], [8.0, 6.0], [11.0, 9.0]]
    assert by_a_loop_signed(POINTS).tolist() == [POINTS.tolist()] * 2


@kernel
def switched(i: Index, x: In[f32], out: Out[f32], *, on: Const[bool] = False) -> None:
    out[0] = x[i] if on else -1.0


@kernel(over="x")
def switched_over_x(i: Index, x: In[f32], out: Out[f32], *, on: Const[bool] = False) -> None:
    out[0] = x[i] if on else -1.0


def test_the_fix_of_an_index_on_no_array_names_one() -> None:
    x, out = np.ones(4, np.float32), np.zeros(1, np.float32)
    assert refused(switched, x, out) == (
        "nothing says how far 'i' of switched goes: no array that is given has it as an index alone. Fix: say it: "
        'switched.over(n)(...), or name an array that it goes over: @kernel(over="x").'
    )
    assert (switched_over_x(x, out)[0], switched.over(4)(x, out)[0]) == (-1.0, -1.0)
