"""The reference interpreter against its slow twin, and in lockstep against one invocation at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import program_twin as twin
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vyre_driver.backends.reference import interpret
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.generate import generate
from vyre_driver.conformance.options import Options

if TYPE_CHECKING:
    from vyre_driver.conformance.case import Case

UNORDERED = Options(unordered=True)
SEEDS = st.integers(0, 2**64 - 1)
BITS = st.one_of(
    st.integers(0, 2**32 - 1),
    st.sampled_from(
        [0, 1 << 31, 1, 0x007FFFFF, 0x00800000, 0x80800000, 0x7F800000, 0xFF800000, 0x7F800001, 0x3F800000, 0x7F7FFFFF]
    ),
)


def by_name(case: Case) -> dict[str, bytes]:
    outputs = interpret(case.program, case.inputs, grid=case.grid, element_counts=case.element_counts).outputs
    names = [one.name for one in case.program.buffers if one.access.name == "READ_WRITE"]
    return {name: array.tobytes() for name, array in zip(names, outputs, strict=True)}


# The twin knows neither copies nor bytes: tests/unit/test_reference.py has their answers.
BY_HAND = [case for case in hand_written(Options()) if case.name not in {"copies in and out", "bytes as a word"}]


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.thorough) for first in (1, 2, 3))])
def test_every_fourth_hand_written_case_has_the_slow_twins_answer(first: int) -> None:
    cases = BY_HAND[first::4]
    found = {case.name: by_name(case) for case in cases}
    assert found == {case.name: twin.run_slowly(case.program, case.inputs, case.grid) for case in cases}


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_a_random_program_has_the_slow_twins_answer(seed: int) -> None:
    case = generate(seed)
    assert by_name(case) == twin.run_slowly(case.program, case.inputs, case.grid)


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_a_program_whose_invocations_race_has_the_slow_twins_answer(seed: int) -> None:
    case = generate(seed, UNORDERED)
    assert by_name(case) == twin.run_slowly(case.program, case.inputs, case.grid)


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from([0, 1, 8, 100]), st.booleans())
def test_how_many_invocations_run_at_once_does_not_matter(
    seed: int,
    lockstep: int,
    subgroups: bool,  # noqa: FBT001 -- drawn
) -> None:
    case = generate(seed, Options(unordered=not subgroups, subgroups=subgroups))
    wide = interpret(case.program, case.inputs, grid=case.grid)
    narrow = interpret(case.program, case.inputs, grid=case.grid, lockstep=lockstep)
    assert [one.tobytes() for one in narrow.outputs] == [one.tobytes() for one in wide.outputs]


@settings(max_examples=300, deadline=None)
@given(BITS, BITS, BITS)
@example(0x3F801000, 0x3F801000, 0xBF802000)  # cancels to what a product rounded first would lose
@example(0x3F800001, 0x33800000, 0x3F800000)  # half a step and a little more
def test_fma_rounds_the_exact_value_once(a: int, b: int, c: int) -> None:
    from vyre_driver.backends.reference import arithmetic

    with np.errstate(all="ignore"):
        operands = [arithmetic.flushed(np.array([one], np.uint32).view(np.float32)) for one in (a, b, c)]
        found = arithmetic.fma(*operands)
    assert int(found.view(np.uint32)[0]) == twin.fused(*(twin.number(one) for one in (a, b, c)))
