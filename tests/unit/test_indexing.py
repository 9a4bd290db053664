"""Basic indexing of buffers: what numpy selects where that is one piece of memory, and refused where it is not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from literals import refusal

from vyre_driver.errors import IndexOutOfRange, InvalidInput
from vyre_driver.kompute.indexing import select

BASIC = "and takes integers, slices and one ellipsis. Fix: read() the buffer and index the array."


def places_of(shape: tuple[int, ...]) -> Any:  # noqa: ANN401 -- an array
    """An array that holds where each of its elements lies."""
    return np.arange(math.prod(shape)).reshape(shape)


@st.composite
def shapes_and_keys(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[object, ...]]:
    """A shape of up to four short axes, and an index of it with up to one item an axis or one too many."""
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    ends = st.none() | st.integers(-6, 6)
    part = st.builds(slice, ends, ends, st.sampled_from([None, None, 1, -1, 2]))
    item = st.integers(-5, 5) | st.builds(np.int16, st.integers(-5, 5)) | part
    keys = draw(st.lists(item, max_size=len(shape) + draw(st.integers(0, 1))))
    if draw(st.booleans()):
        keys.insert(draw(st.integers(0, len(keys))), ...)
    return shape, tuple(keys)


def has_steps(shape: tuple[int, ...], keys: tuple[object, ...]) -> bool:
    """Whether a slice takes more than one element, and not one after the other."""
    axes = [*keys]
    if ... in axes:
        at = axes.index(...)
        axes[at : at + 1] = [slice(None)] * (len(shape) - len(axes) + 1)
    both = zip(axes, shape, strict=False)
    return any(isinstance(one, slice) and one.step not in (None, 1) and len(range(length)[one]) > 1 for one, length in both)


@given(shapes_and_keys())
@settings(max_examples=200, deadline=None)
def test_an_index_selects_what_numpy_selects_if_that_is_one_piece(case: tuple[tuple[int, ...], tuple[Any, ...]]) -> None:
    shape, keys = case
    everything = places_of(shape)
    try:
        wanted = everything[keys]
    except IndexError:
        assert refusal(lambda: select(shape, keys))[0] in (IndexOutOfRange, InvalidInput)
        return
    flat = np.ravel(wanted)
    if has_steps(shape, keys) or not np.array_equal(flat, np.arange(flat.size) + (flat[0] if flat.size else 0)):
        assert refusal(lambda: select(shape, keys))[:2] == (InvalidInput, 2201)
        return
    assert select(shape, keys) == (int(flat[0]) if flat.size else 0, wanted.shape)
    if len(keys) == 1:
        assert select(shape, keys[0]) == select(shape, keys)


@given(shapes_and_keys(), shapes_and_keys())
@settings(max_examples=100, deadline=None)
def test_an_index_of_what_an_index_selected_counts_from_there(
    outer: tuple[tuple[int, ...], tuple[Any, ...]], inner: tuple[object, tuple[Any, ...]]
) -> None:
    shape, keys = outer
    try:
        first, found = select(shape, keys)
        second, again = select(found, inner[1])
    except (IndexOutOfRange, InvalidInput):
        return
    wanted = np.ravel(places_of(shape)[keys][inner[1]])
    assert (wanted.size, math.prod(again)) == (math.prod(again), wanted.size)
    assert wanted.tolist() == list(range(first + second, first + second + wanted.size))


class Index:
    """What Python takes as a number, and numpy too."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value


def test_what_python_takes_as_a_number_is_one() -> None:
    found = [select((5, 3), one) for one in (Index(2), np.uint8(2), np.array(2), slice(Index(2), np.int64(3)))]
    assert found == [(6, (3,)), (6, (3,)), (6, (3,)), (6, (1, 3))]


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (True, "True"),
        (np.True_, repr(np.True_)),
        (None, "None"),
        (1.0, "1.0"),
        ("x", "'x'"),
        (b"x", "b'x'"),
        ([0, 1], "[0, 1]"),
        (np.array([1]), "array([1])"),
        (np.zeros(100), "something of type ndarray"),
        ({}, "{}"),
        (object, "<class 'object'>"),
    ],
)
def test_what_is_no_basic_index_is_refused(key: object, shown: str) -> None:
    assert refusal(lambda: select((5, 3), key)) == (InvalidInput, 2201, f"the index of a buffer holds {shown}, {BASIC}")


@pytest.mark.parametrize(
    ("shape", "key", "said"),
    [
        ((5,), 5, "index 5 is out of range for axis 0, which has 5 elements. Fix: give -5 to 4."),
        ((5,), -6, "index -6 is out of range for axis 0, which has 5 elements. Fix: give -5 to 4."),
        ((5,), 10**30, f"index {10**30} is out of range for axis 0, which has 5 elements. Fix: give -5 to 4."),
        ((5, 0), (0, 0), "index 0 is out of range for axis 1, which has 0 elements. Fix: select nothing of it."),
        ((), 0, "the index has 1 items, and a buffer of shape () has 0 axes. Fix: give one an axis at most."),
        ((5,), (0, ..., 0), "the index has 2 items, and a buffer of shape (5,) has 1 axes. Fix: give one an axis at most."),
    ],
)
def test_an_index_out_of_range_is_refused(shape: tuple[int, ...], key: object, said: str) -> None:
    assert refusal(lambda: select(shape, key)) == (IndexOutOfRange, 2212, said)


FIRST_AXIS = "Fix: select along the first axis, or read() the buffer and index the array."
NO_INTEGERS = "slice indices must be integers or None or have an __index__ method"
READ_AND_SLICE = "Fix: leave the step out, or read() the buffer and slice the array."


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (
            (slice(None), 1),
            f"the index :, 1 selects elements of a buffer of shape (5, 3) that are not next to each other. {FIRST_AXIS}",
        ),
        (slice(None, None, 2), f"the slice ::2 has a step of 2, and a buffer's views are contiguous. {READ_AND_SLICE}"),
        (slice(4, 1, -1), f"the slice 4:1:-1 has a step of -1, and a buffer's views are contiguous. {READ_AND_SLICE}"),
        (
            slice(None, None, 0),
            "the slice ::0 cannot be used (slice step cannot be zero). Fix: give integers, and no step.",
        ),
        (
            slice("a", None),
            f"the slice 'a': cannot be used ({NO_INTEGERS}). Fix: give integers, and no step.",
        ),
        ((..., ...), "the index has more than one ellipsis. Fix: give one."),
    ],
)
def test_what_is_not_one_piece_is_refused(key: object, said: str) -> None:
    assert refusal(lambda: select((5, 3), key)) == (InvalidInput, 2201, said)


def test_numbers_of_any_length_do_as_the_end_of_a_slice() -> None:
    assert select((5, 3), slice(-(10**30), 10**30)) == (0, (5, 3))
