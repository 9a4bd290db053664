"""Random programs that are right pass; one thing wrong is found, alone, where it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import strategies  # noqa: F401 -- sets hypothesis up
from hypothesis import given
from hypothesis import strategies as st
from valid_program_strategies import REFUSED, Made, body_count, in_root, inserted, valid_programs

from vyre_driver.ir import examine, validate
from vyre_driver.ir.program import Program
from vyre_driver.target.profile import DeviceProfile

ABLE = DeviceProfile(
    supports_subgroup_ops=True,
    has_shared_memory=True,
    max_native_int_width=64,
    max_workgroup_size=(64, 64, 64),
    max_invocations_per_workgroup=64**3,
)
# By their places: hypothesis prints what it draws.
wrong_statements = st.integers(0, len(REFUSED) - 1)


def root_of(program: Program) -> Any:  # noqa: ANN401 -- the root region
    (root,) = program.entry
    return root


@given(valid_programs())
def test_a_program_that_breaks_no_rule_passes_also_in_canonical_form_and_from_the_wire(made: Made) -> None:
    assert examine(made.program, ABLE).problems == ()
    assert validate(made.program, ABLE) is made.program
    assert examine(made.program.canonical(), ABLE).problems == ()
    assert examine(Program.from_wire(made.program.canonical_wire_bytes(6)), ABLE).problems == ()


@given(valid_programs(), wrong_statements, st.integers(0, 2**16), st.integers(0, 2**16))
def test_one_wrong_statement_is_the_one_problem_wherever_it_stands(made: Made, wrong: int, which: int, at: int) -> None:
    code, inside, node = REFUSED[wrong]
    body = root_of(made.program).body
    changed, path = inserted(body, which % body_count(body), at, node, "body")
    broken = in_root(made.program.workgroup_size, changed)
    assert [(one.rule, one.path) for one in examine(broken).problems] == [(code, f"{path}{inside}")]


@given(valid_programs(), st.lists(wrong_statements, min_size=2, max_size=5, unique=True))
def test_several_wrong_statements_are_all_found(made: Made, wrong: list[int]) -> None:
    root = root_of(made.program)
    # Each in a region of its own: they use the same names and buffers.
    added = [replace(root, body=(REFUSED[one][2],)) for one in wrong]
    broken = in_root(made.program.workgroup_size, [*root.body, *added])
    found = {(one.rule, one.path) for one in examine(broken).problems}
    expected = {
        (code, f"body[{len(root.body) + place}].body[0]{inside}")
        for place, (code, inside, _) in enumerate(REFUSED[one] for one in wrong)
        if code != "R020"
    }
    assert found >= expected
