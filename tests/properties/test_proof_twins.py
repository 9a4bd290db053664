"""The compiled proof of a warm call says what its plain twin says, of every call."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import proof_twin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre_driver.binding import _call_form
from vyre_driver.binding.push_constants import pack_push_constants, packer_of
from vyre_driver.errors import InvalidPushConstant
from vyre_driver.lang.launch._watch import Watch
from vyre_driver.spirv.layout import Member, MemoryType, Scalar, Vector

Call: TypeAlias = tuple[tuple[Any, ...], Any, Any, Any]


class Marked(np.ndarray):  # type: ignore[type-arg]
    """A subclass, which may mean anything by its shape."""


ARRAYS = st.sampled_from(
    [
        np.zeros(4, np.float32),
        np.ones(4, "<f4"),
        np.zeros(4, ">f4"),
        np.zeros((2, 2), np.float32),
        np.zeros((2, 4), np.float32)[:, ::2],
        np.zeros(4, np.uint32),
        np.zeros((), np.float32),
        np.zeros(0, np.float32),
        np.zeros(4, np.float32).view(Marked),
        np.zeros(2, "f4,f4"),
        b"1234",
        [1.0],
        None,
    ]
)
COUNTS = st.sampled_from([1, 2, 64, 2**70, True, 1.0, np.int64(1), "1", None, -1])
GROUPS = (
    st.none()
    | st.lists(COUNTS, max_size=4)
    | st.tuples(COUNTS)
    | st.tuples(COUNTS, COUNTS)
    | st.sampled_from([3, "11", {1: 1}])
)
OUT_COUNTS = (
    st.none() | st.dictionaries(st.sampled_from(["y", "z"]), COUNTS, max_size=2) | st.sampled_from([[], (), [("y", 1)], "y"])
)
TARGETS = st.none() | ARRAYS | st.lists(ARRAYS, max_size=3).map(tuple)
CALLS = st.tuples(st.lists(ARRAYS, max_size=4).map(tuple), GROUPS, OUT_COUNTS, TARGETS)


def form_of(call: Call) -> object:
    """Return the form that the compiled part gives."""
    arrays, groups, out_shapes, out = call
    return _call_form.call_form(arrays, groups, out_shapes, np.ndarray, out)


def has_form(form: Any, call: Call) -> bool:  # noqa: ANN401 -- what call_form gives
    """Return whether the compiled part says that a call has this form."""
    arrays, groups, out_shapes, out = call
    return _call_form.matches(form, arrays, groups, out_shapes, np.ndarray, out)


@given(CALLS)
def test_the_form_of_a_call_is_the_twins(call: Call) -> None:
    assert form_of(call) == proof_twin.call_form(*call)


@given(CALLS, CALLS)
def test_a_call_has_the_form_that_the_twin_says(first: Call, second: Call) -> None:
    form = proof_twin.call_form(*first)
    if form is not None:
        assert has_form(form, second) is proof_twin.matches(form, *second)
        assert has_form(form, first) is True


@given(CALLS, st.integers(0, 3), st.data())
def test_a_call_that_differs_in_one_thing_has_another_form_where_the_twin_says_so(
    call: Call, place: int, data: st.DataObject
) -> None:
    form = proof_twin.call_form(*call)
    if form is not None:
        changed: Any = list(call)
        changed[place] = data.draw(CALLS)[place]
        assert has_form(form, tuple(changed)) is proof_twin.matches(form, *changed)


MEMORY = np.zeros(12, np.float32)
READ_ONLY = np.frombuffer(bytes(16), np.float32)
ODD = [np.zeros((0, 2), np.uint32), np.zeros(3, "u1,u4"), np.zeros(2, "f2"), READ_ONLY, READ_ONLY[:0], None]
PARTS = [
    MEMORY,
    MEMORY[:4],
    MEMORY[3:6],
    MEMORY[6:],
    MEMORY[::2],
    MEMORY[:6].reshape(2, 3).T,
    MEMORY[:0],
    MEMORY[5:6].reshape(()),
]
PIECES = st.sampled_from([*PARTS, *ODD])


@given(PIECES | st.lists(PIECES, max_size=18).map(tuple))
def test_targets_that_can_be_written_to_as_they_are_are_the_twins(out: Any) -> None:  # noqa: ANN401 -- an array or a tuple
    found, expected = _call_form.as_targets(out), proof_twin.as_targets(out)
    assert (found is None) is (expected is None)
    if found is not None and expected is not None:
        assert [one is other for one, other in zip(found, expected, strict=True)] == [True] * len(found)


def test_what_cannot_be_written_to_leaves_no_error_behind() -> None:
    assert [_call_form.as_targets(one) for one in (READ_ONLY, MEMORY[::2], 5, "text", (MEMORY, MEMORY))] == [None] * 5


@given(st.lists(ARRAYS.filter(lambda one: isinstance(one, np.ndarray)), min_size=1, max_size=4), st.data())
def test_arrays_are_in_one_piece_as_the_twins_are(arrays: list[Any], data: st.DataObject) -> None:
    positions = tuple(data.draw(st.lists(st.none() | st.integers(0, len(arrays) - 1), max_size=4)))
    found = _call_form.as_contiguous(tuple(arrays), positions, np.ascontiguousarray)
    expected = proof_twin.as_contiguous(tuple(arrays), positions, np.ascontiguousarray)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if one is None or other is None:
            assert one is other
            continue
        assert (one.dtype, one.shape, one.flags.c_contiguous, one.tobytes()) == (
            other.dtype,
            other.shape,
            True,
            other.tobytes(),
        )


KINDS = [Scalar("u", 32), Scalar("i", 32), Scalar("f", 32), Scalar("b", 32)]
VALUES = (
    st.integers(-(2**33), 2**33)
    | st.floats(width=32)
    | st.floats()
    | st.sampled_from([True, None, "1", 10**400, 2**64, -0.0, math.nan, 1e39, np.float32(2), np.int64(3), [1], np.ones(1)])
)


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6), st.data())
def test_what_is_packed_is_what_the_plain_packing_gives(kinds: list[Scalar], data: st.DataObject) -> None:
    places = data.draw(st.permutations(range(8)))
    members = [Member(f"m{at}", 4 * places[at], kind) for at, kind in enumerate(kinds)]
    names = st.sampled_from([one.name for one in members] + ["other"])
    push = data.draw(st.fixed_dictionaries({one.name: VALUES for one in members}) | st.dictionaries(names, VALUES))
    packer = packer_of(members, 32)
    assert packer is not None
    found = packer.pack(push)
    try:
        assert found in {None, pack_push_constants(members, 32, push)}
    except InvalidPushConstant:
        assert found is None


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6), st.data())
def test_plain_numbers_that_fit_are_packed(kinds: list[Scalar], data: st.DataObject) -> None:
    fitting = {
        "u": st.integers(0, 2**32 - 1),
        "i": st.integers(-(2**31), 2**31 - 1),
        "f": st.floats(width=32, allow_nan=False),
        "b": st.booleans(),
    }
    members = [Member(f"m{at}", 4 * at, kind) for at, kind in enumerate(kinds)]
    push = {one.name: data.draw(fitting[kind.kind]) for one, kind in zip(members, kinds, strict=True)}
    packer = packer_of(members, 4 * len(members))
    assert packer is not None
    assert packer.pack(push) == pack_push_constants(members, 4 * len(members), push)


@pytest.mark.parametrize(
    ("types", "byte_len"),
    [
        ([Vector(Scalar("f", 32), 2)], 8),
        ([Scalar("f", 64)], 8),
        ([Scalar("u", 16)], 4),
        ([Scalar("u", 32)], 260),
    ],
)
def test_a_block_of_anything_else_is_left_to_the_plain_packing(types: list[MemoryType], byte_len: int) -> None:
    assert packer_of([Member("m", 0, one) for one in types], byte_len) is None


@pytest.mark.parametrize(
    ("named", "push_constants", "are_shared", "words"),
    [
        ({"n": 3}, None, False, (3,)),
        ({"n": 3}, None, True, None),
        ({}, {"n": 3}, False, (3,)),
        ({}, {"n": 3}, True, (3,)),
        ({"n": 3}, {"n": 3}, False, None),
        ({"x": 1}, {"n": 3}, False, None),
        ({}, MappingProxyType({"n": 3}), False, None),
        ({}, None, False, None),
        ({}, 5, False, None),
    ],
)
def test_a_calls_numbers_are_packed_where_nothing_else_is_named(
    named: dict[str, object], push_constants: object, *, are_shared: bool, words: tuple[int, ...] | None
) -> None:
    packer = packer_of([Member("n", 0, Scalar("u", 32))], 4, ["n"] if are_shared else ["x"])
    assert packer is not None
    assert packer.pack_call(named, push_constants) == words


@pytest.mark.parametrize(("push", "words"), [({}, ()), ({"n": 1}, None), (None, None)])
def test_a_call_without_push_constants_has_no_words(push: object, words: tuple[int, ...] | None) -> None:
    packer = packer_of([], 0)
    assert packer is not None
    assert (packer.pack(push), packer.pack_call({}, None)) == (words, ())


@pytest.mark.parametrize(
    ("members", "words", "problem"),
    [
        ((("m", 2, "u"),), 1, "'m' is at byte 2 of 4"),
        ((("m", 4, "u"),), 1, "'m' is at byte 4 of 4"),
        ((("m", -4, "u"),), 1, "'m' is at byte -4 of 4"),
        ((), 65, "0 push constants in 65 words, and there are 64 at most"),
        ((), -1, "0 push constants in -1 words, and there are 64 at most"),
    ],
)
def test_a_place_outside_the_block_is_refused(members: tuple[tuple[str, int, str], ...], words: int, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        _call_form.PushPacker(members, words)


@given(st.lists(ARRAYS, max_size=4).map(tuple), st.lists(ARRAYS | COUNTS, max_size=4).map(tuple), st.booleans())
def test_a_call_by_position_is_taken_apart_as_by_its_twin(
    known: tuple[Any, ...],
    call: tuple[Any, ...],
    is_same: bool,  # noqa: FBT001 -- drawn
) -> None:
    places = tuple(place for place, one in enumerate(known) if type(one) is np.ndarray)
    numbers = tuple((f"n{place}", place) for place in range(len(known)) if place not in places)
    forms = tuple((known[place].dtype, known[place].shape) for place in places)
    made = forms, np.ndarray, places, places[1:], places[:2][::-1], numbers, {"fixed": 3}, len(known)
    given_now = known if is_same else call
    found, twin = _call_form.PositionalForm(*made).taken(given_now), proof_twin.taken(made, given_now)
    assert (found is None) == (twin is None)
    assert not is_same or found is not None
    if found is not None and twin is not None:
        assert [[*map(id, arrays)] for arrays in found[:2]] == [[*map(id, arrays)] for arrays in twin[:2]]
        assert {name: id(one) for name, one in found[2].items()} == {name: id(one) for name, one in twin[2].items()}


def test_a_form_whose_places_are_not_those_of_its_arguments_is_refused() -> None:
    like = (np.dtype(np.float32), (4,))
    for places, numbers, count in (((2,), (("a", 0),), 2), ((-1,), (("a", 0),), 2), ((0,), (), 2), ((0, 1), (), 2)):
        with pytest.raises(ValueError, match="of"):
            _call_form.PositionalForm((like,), np.ndarray, places, (), (), numbers, {}, count)
    for handed, written in (((1,), ()), ((), (1,)), ((-1,), ())):
        with pytest.raises(ValueError, match=r"place -?1 of 1"):
            _call_form.PositionalForm((like,), np.ndarray, (0,), handed, written, (), {}, 1)


def test_what_is_watched_is_untouched_until_one_thing_is_another_object() -> None:
    value, names = object(), {"one": 1.0}
    outer = value

    def watched(a: int = 1, *, b: int = 2) -> Any:  # noqa: ANN401 -- the cell's
        return outer, a, b

    def other(c: int) -> int:
        return c

    (cell,) = watched.__closure__ or ()
    kept = watched, watched.__code__, watched.__defaults__, watched.__kwdefaults__
    other_kept = other, other.__code__, other.__defaults__, other.__kwdefaults__
    watch = Watch(((names, "one", names["one"]),), ((names, "two"),), ((cell, value),), (kept, other_kept))
    assert watch.is_untouched()
    names["two"] = 2.0
    assert not watch.is_untouched()
    del names["two"]
    cell.cell_contents = object()
    assert not watch.is_untouched()
    cell.cell_contents = value
    assert watch.is_untouched()
    watched.__defaults__ = (3,)
    assert not watch.is_untouched()
    watched.__defaults__ = kept[2]
    other.__kwdefaults__ = {}
    assert not watch.is_untouched()
    other.__kwdefaults__ = None
    assert watch.is_untouched()
    watched.__code__ = watched.__code__.replace()
    assert not watch.is_untouched()
    watched.__code__ = kept[1]
    del names["one"]
    assert not watch.is_untouched()
    del cell.cell_contents
    names["one"] = 1.0
    assert not watch.is_untouched()


def test_only_dictionaries_variables_and_functions_are_watched() -> None:
    wrong: list[Any] = [
        (((MappingProxyType({}), "a", 1),), (), (), ()),
        ((), ((None, "a"),), (), ()),
        ((), (), ((1, 1),), ()),
        ((), (), (), ((len, None, None, None),)),
    ]
    for made in wrong:
        with pytest.raises(TypeError, match="of type"):
            Watch(*made)
