"""Kernels whose arrays have shapes as numpy's generalized functions: ranks, equal axes, outputs that are made, grids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from refusals import refusal

from vyre_driver.errors import InvalidInput, KernelTypeError
from vyre_driver.lang import Group, In, Index, InOut, Out, atomic_add, f32, fma, i32, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from vyre_driver import Driver

pytestmark = pytest.mark.device

SHAPES = "pass arrays of the shapes (m,k),(k,n)->(m,n)."


@kernel(signature="(m,k),(k,n)->(m,n)", over="m, n")
def matmul(g: Group[16, 16], a: In[f32], b: In[f32], c: Out[f32]) -> None:
    ta, tb = g.shared(f32, 16, 16), g.shared(f32, 16, 16)
    row, col = g.index
    y, x = g.local
    acc = 0.0
    for t in range((a.shape[1] + 15) // 16):
        ta[y, x] = a[row, t * 16 + x]
        tb[y, x] = b[t * 16 + y, col]
        g.barrier()
        for k in range(16):
            acc = fma(ta[y, k], tb[k, x], acc)
        g.barrier()
    c[row, col] = acc


@kernel(signature="(n),()->(n)")
def shifted(i: Index, x: In[f32], by: In[f32], y: Out[f32]) -> None:
    y[i] = x[i] + by[0]


@kernel(signature="(n)->()")
def total(i: Index, x: In[i32], y: InOut[i32]) -> None:
    atomic_add(y, 0, x[i])


@kernel(signature="(n)->()", over="n")
def last(i: Index, x: In[i32], y: Out[i32]) -> None:
    if i == len(x) - 1:
        y[0] = x[i]


@kernel(signature="(n,3),(n,3)->(n,3)", over="n")
def cross(i: Index, a: In[f32], b: In[f32], c: Out[f32]) -> None:
    for k in range(3):
        p, q = (k + 1) % 3, (k + 2) % 3
        c[i, k] = a[i, p] * b[i, q] - a[i, q] * b[i, p]


@kernel(signature="(n,n)->(n)")
def diagonal(i: Index, x: In[f32], y: Out[f32]) -> None:
    y[i] = x[i, i]


@kernel(signature="(n,m)->(m,n),()")
def turned(i: Index, j: Index, x: In[f32], y: Out[f32], z: Out[f32]) -> None:
    y[i, j] = x[j, i]
    z[0] = 2.0


@kernel(over="x")
def copied(i: Index, x: In[i32], y: Out[i32]) -> None:
    y[i] = x[i]


@kernel(signature="(n)->(m)", over="n")
def stretched(i: Index, x: In[i32], y: Out[i32]) -> None:
    y[i] = x[i]


def some(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("sizes", [(16, 16, 16), (5, 7, 9), (33, 1, 40), (0, 4, 5), (4, 0, 5), (4, 5, 0)])
def test_a_product_of_any_size_is_made_or_written_in_place(opened: Driver, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b, c = some(m, k), some(k, n), np.full((m, n), 9, np.float32)
    on = matmul.on(opened)
    np.testing.assert_array_equal(on(a, b), a @ b)
    assert on(a, b, c) is c
    np.testing.assert_array_equal(c, a @ b)


def test_buffers_give_a_buffer_of_the_shape_that_the_signature_says(opened: Driver) -> None:
    a, b = some(20, 30), some(30, 10)
    found = matmul(opened.buffer(a), opened.buffer(b))
    assert found.shape == (20, 10)
    np.testing.assert_array_equal(found.read(), a @ b)
    out = opened.empty((20, 10), np.float32)
    matmul.bind(opened.buffer(a), opened.buffer(b), out).run()
    np.testing.assert_array_equal(out.read(), a @ b)


def test_an_array_of_no_axes_is_one_element(opened: Driver) -> None:
    x = np.arange(3, dtype=np.float32)
    for by in (np.float32(2), np.array(2, np.float32), np.array([2], np.float32)):
        assert shifted.on(opened)(x, by).tolist() == [2, 3, 4]
    for y in (np.array(5, np.int32), np.array([5], np.int32)):
        assert total.on(opened)(np.arange(4, dtype=np.int32), y) is y
        assert y.reshape(-1).tolist() == [11]
    for _ in range(2):
        found = last.on(opened)(np.arange(4, dtype=np.int32))
        assert (found.shape, int(found)) == ((), 3)


def test_an_axis_that_is_a_number_and_one_that_stands_twice(opened: Driver) -> None:
    a, b = some(7, 3), some(7, 3) + 1
    np.testing.assert_array_equal(cross.on(opened)(a, b), np.cross(a, b))
    assert diagonal.on(opened)(some(4, 4)).tolist() == np.diag(some(4, 4)).tolist()


def test_an_index_of_outputs_that_are_left_out_goes_as_far_as_the_signature_says(opened: Driver) -> None:
    for rows, columns in ((3, 5), (0, 4)):
        x = some(rows, columns)
        y, z = turned.on(opened)(x)
        assert (y.shape, y.tolist(), int(z)) == (x.T.shape, x.T.tolist(), 2 if x.size else 0)


def test_what_a_kernel_goes_over_may_be_an_array(opened: Driver) -> None:
    assert copied.on(opened)(np.arange(3, dtype=np.int32)).tolist() == [0, 1, 2]
    assert stretched.on(opened)(np.arange(3, dtype=np.int32), np.zeros(5, np.int32)).tolist() == [0, 1, 2, 0, 0]


CALLS: dict[str, tuple[Callable[[Driver], Any], str]] = {
    "two lengths of one name": (
        lambda driver: matmul.on(driver)(some(3, 4), some(3, 4)),
        f"axis 'k' of matmul has 4 elements in 'a' and 3 in 'b'. Fix: {SHAPES}",
    ),
    "an output of another shape": (
        lambda driver: matmul.on(driver)(some(3, 4), some(4, 3), some(3, 4)),
        f"axis 'n' of matmul has 3 elements in 'b' and 4 in 'c'. Fix: {SHAPES}",
    ),
    "fewer axes": (
        lambda driver: matmul.on(driver)(some(3, 4), some(4)),
        f"b of matmul has the shape (4,), and the signature gives it (k,n). Fix: {SHAPES}",
    ),
    "two elements for none": (
        lambda driver: shifted.on(driver)(some(3), some(2)),
        "by of shifted has the shape (2,), and the signature gives it (). Fix: pass arrays of the shapes (n),()->(n).",
    ),
    "another length than the number": (
        lambda driver: cross.on(driver)(some(3, 4), some(3, 4)),
        "axis '3' of cross has 3 elements in the signature and 4 in 'a'. Fix: pass arrays of the shapes (n,3),(n,3)->(n,3).",
    ),
    "no square": (
        lambda driver: diagonal.on(driver)(some(3, 4)),
        "axis 'n' of diagonal has 3 elements in 'x' and 4 in 'x'. Fix: pass arrays of the shapes (n,n)->(n).",
    ),
    "an axis of an output alone": (
        lambda driver: stretched.on(driver)(np.arange(3, dtype=np.int32)),
        "nothing says what shape y of stretched has, which was left out. Fix: pass an array for y.",
    ),
    "an output that is too short": (
        lambda driver: stretched.on(driver)(np.arange(3, dtype=np.int32), np.zeros(2, np.int32)),
        "index 'i' of stretched is to go over 3, and 'y' has 2. Fix: go over 2 at most, or pass a longer array.",
    ),
}


@pytest.mark.parametrize("which", CALLS)
def test_arrays_that_do_not_fit_are_refused(opened: Driver, which: str) -> None:
    call, message = CALLS[which]
    assert str(refusal(lambda: call(opened), InvalidInput)) == message


NONE = 'which is none. Fix: write it as numpy does: "(m,k),(k,n)->(m,n)".'
DECORATED: dict[str, tuple[dict[str, Any], str]] = {
    "no arrow": ({"signature": "(n)"}, f"the signature of 'k' is '(n)', {NONE}"),
    "no bracket": ({"signature": "(n)->(n"}, f"the signature of 'k' is '(n)->(n', {NONE}"),
    "no text": ({"signature": 3}, f"the signature of 'k' is 3, {NONE}"),
    "an empty name": ({"signature": "(n,)->(n)"}, f"the signature of 'k' is '(n,)->(n)', {NONE}"),
    "more inputs": (
        {"signature": "(n),(n)->(n)"},
        (
            "the signature of 'k' has 2 array(s) before the arrow, and the kernel 1: x. "
            "Fix: write In arrays before the arrow, Out and InOut behind it."
        ),
    ),
    "more outputs": (
        {"signature": "(n)->(n),(n)"},
        (
            "the signature of 'k' has 2 array(s) behind the arrow, and the kernel 1: y. "
            "Fix: write In arrays before the arrow, Out and InOut behind it."
        ),
    ),
    "too many axes": (
        {"signature": "(a,b,c,d,e)->(a)"},
        "the signature of 'k' gives 'x' 5 axes, and an array has 4 at most. Fix: join some of them.",
    ),
    "another rank than the annotation's": (
        {"signature": "(n)->(n,m)"},
        (
            "the signature of 'k' gives 'y' (n,m), and it is annotated Out[i32, 1]. "
            "Fix: leave the number of axes out of the annotation."
        ),
    ),
    "over what is nothing": (
        {"over": "z", "signature": "(n)->(n)"},
        "'k' is to go over 'z', which is no array and no axis of its signature. Fix: name one of x, y, n.",
    ),
    "over no text": (
        {"over": 4},
        "over of 'k' is 4. Fix: give names as a text: 'x', or 'm, n'.",
    ),
    "over an array of more axes": (
        {"over": "x", "signature": "(n,m)->(n)"},
        "'k' goes over 'x', which has 2 axes, and along 1 of its own. Fix: name an axis of the signature for each index.",
    ),
    "over more axes": (
        {"over": "n, m", "signature": "(n,m)->(n)"},
        (
            "'k' is to go over 'n, m', which names 2 axes, and has 1 of its own. "
            "Fix: name an axis of the signature for each index, slowest first."
        ),
    ),
}


@pytest.mark.parametrize("which", DECORATED)
def test_what_the_decorator_is_given_is_held_against_the_parameters(which: str) -> None:
    options, message = DECORATED[which]

    def k(i: Index, x: In[i32], y: Out[i32, 1]) -> None:
        y[i] = x[i]

    assert str(refusal(lambda: kernel(**options)(k), KernelTypeError)) == message
