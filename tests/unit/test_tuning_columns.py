"""Constants of any names, and the numbers that a record has for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from literals import device

from vyre_driver.autotune import AutotuneRecord, Axis, Candidate, TuningSpace
from vyre_driver.autotune.target import Columns, candidate_of, columns_of
from vyre_driver.errors import InvalidTuningSpace

if TYPE_CHECKING:
    from vyre_driver.autotune.search.space import Limits

LIMITS = device().limits
SPACE = TuningSpace(
    (
        Axis("SPLITS", (1, 2, 0), "parts of a row"),
        Axis("ROWS", (8, 4), workgroup="y"),
        Axis("UNROLL", (4, 1)),
        Axis("GROUP", (32, 16), workgroup="x"),
        Axis("HALVES", (0, 1)),
    )
)


def test_a_candidate_has_its_constants_by_name_and_the_workgroup_they_make() -> None:
    found = SPACE.candidate(GROUP=16, ROWS=4, SPLITS=2, UNROLL=1, HALVES=1)
    assert (found["SPLITS"], found.workgroup_size, str(found)) == (
        2,
        (16, 4, 1),
        "SPLITS=2, ROWS=4, UNROLL=1, GROUP=16, HALVES=1",
    )
    first = SPACE.candidate(GROUP=32, ROWS=8, SPLITS=1, UNROLL=4, HALVES=0)
    assert [SPACE.preferred, SPACE.first(LIMITS), SPACE.candidates(LIMITS)[0]] == [first] * 3
    with pytest.raises(KeyError):
        found["TILE_X"]


@pytest.mark.parametrize("values", [{}, {"GROUP": 16}, {"GROUP": 16, "ROWS": 4, "SPLITS": 2, "UNROLL": 1, "HALVES": 1, "X": 1}])
def test_a_candidate_is_made_of_one_value_for_each_constant(values: dict[str, int]) -> None:
    with pytest.raises(InvalidTuningSpace, match="and the space has SPLITS, ROWS, UNROLL, GROUP, HALVES"):
        SPACE.candidate(**values)


def test_every_candidate_comes_back_from_the_numbers_that_a_record_has_for_it() -> None:
    candidates = SPACE.candidates(LIMITS)
    records = [AutotuneRecord(*columns_of(SPACE, one)) for one in candidates]
    assert [candidate_of(SPACE, one, LIMITS) for one in records] == list(candidates)
    assert len(set(records)) == len(candidates) == 48
    assert columns_of(SPACE, candidates[-1]) == Columns((16, 4, 1), 1, (0, 1, 0))


@pytest.mark.parametrize(
    "wrong",
    [{"tile": (3, 0, 0)}, {"tile": (1, 0, 5)}, {"unroll": 2}, {"workgroup_size": (16, 4, 2)}, {"workgroup_size": (64, 4, 1)}],
)
def test_numbers_that_no_candidate_has_are_none(wrong: dict[str, object]) -> None:
    good = AutotuneRecord((16, 4, 1), 1, (1, 0, 0))
    assert (candidate_of(SPACE, good, LIMITS) is not None, candidate_of(SPACE, replace(good, **wrong), LIMITS)) == (True, None)  # type: ignore[arg-type]


def test_a_space_that_a_record_has_no_room_for_is_refused_where_the_record_is_written() -> None:
    space = TuningSpace(tuple(Axis(name, (1, 2)) for name in "ABCD"))
    with pytest.raises(
        InvalidTuningSpace, match="room for 3 constants besides the workgroup's size and UNROLL, and the space has 4: A, B"
    ):
        columns_of(space, space.preferred)
    assert candidate_of(space, AutotuneRecord((1, 1, 1), 1, (1, 1, 1)), LIMITS) is None


@pytest.mark.parametrize(
    ("axis", "least"), [(Axis("GROUP", (0,), workgroup="x"), 1), (Axis("UNROLL", (4, 0)), 1), (Axis("ANY", (-1,)), 0)]
)
def test_values_below_what_a_constant_may_have_are_refused(axis: Axis, least: int) -> None:
    with pytest.raises(InvalidTuningSpace, match=f"each must be an integer from {least} to 4294967295"):
        TuningSpace((axis,))


def test_an_axis_of_the_workgroup_comes_once() -> None:
    with pytest.raises(InvalidTuningSpace, match="the axis of the workgroup x has 2 axes"):
        TuningSpace((Axis("A", (1,), workgroup="x"), Axis("B", (1,), workgroup="x")))


def test_the_rule_sees_what_somebody_has_chosen_as_the_only_value() -> None:
    seen: list[int] = []

    def rule(one: Candidate, _: Limits) -> None:
        seen.append(one["SPLITS"])

    given = replace(SPACE, rule=rule).given({"SPLITS": 7, "GROUP": 0, "NOT_TUNED": 3})
    found = given.candidates(LIMITS)
    assert (set(seen), {one.workgroup_size[0] for one in found}, len(found)) == ({7}, {1}, 8)


def test_a_constant_may_have_any_name_that_a_shader_can_give_it() -> None:
    names = ("self", "values", "", "a b", "class", "constant\n0")
    space = TuningSpace(tuple(Axis(name, (1, 2)) for name in names[:3]))
    assert [candidate_of(space, AutotuneRecord(*columns_of(space, one)), LIMITS) for one in space.candidates(LIMITS)] == list(
        space.candidates(LIMITS)
    )
    others = TuningSpace(tuple(Axis(name, (1, 2)) for name in names[3:]))
    assert others.candidate(**dict.fromkeys(names[3:], 2)) == others.candidates(LIMITS)[-1]
