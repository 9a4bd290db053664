"""20,000 random programs of wire format 6, each with mutants: they come back as they were, or are refused."""

from __future__ import annotations

import random

import pytest
from byte_mutations import mutated
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st
from made_containers import body_of, signed
from program_strategies import carried_programs, spelled_out
from strategies import words  # its import sets hypothesis up

from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.program import Program

assert words is not None

MUTANTS = 4


def check_mutant(data: bytes) -> None:
    """Read bytes that may be anything: what is a program is written and read again as the same."""
    try:
        program = Program.from_wire(data)
        wire = program.to_wire()
    except InvalidProgram:
        return
    read = Program.from_wire(wire)
    assert (read, read.to_wire(), read.fingerprint()) == (program, wire, program.fingerprint())


@pytest.mark.parametrize("part", range(20))
@given(program=carried_programs, seed=st.integers(0, 2**32))
@settings(max_examples=1000, phases=[Phase.generate], database=None)
def test_random_programs_come_back_and_their_mutants_do_no_harm(part: int, program: Program, seed: int) -> None:
    try:
        wire = program.to_wire()
    except InvalidProgram:
        reject()  # a sign or an order of operands would be lost: what is refused does not count
    read = Program.from_wire(wire)
    assert spelled_out(read) == spelled_out(program.canonical())
    assert (read, read.to_wire(), read.fingerprint()) == (program, wire, program.fingerprint())
    rng = random.Random(f"{part} {seed}")  # noqa: S311 -- no secret
    for _ in range(MUTANTS):
        check_mutant(signed(mutated(rng, [body_of(wire)]), rng.choice([4, 5, 6, 6, 6, 7])))
