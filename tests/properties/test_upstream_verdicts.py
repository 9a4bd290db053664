"""Upstream 0.7's rules asked of any program: they answer, and what both take is taken without a word."""

from __future__ import annotations

from hypothesis import given
from program_strategies import programs
from strategies import words  # its import sets hypothesis up
from valid_program_strategies import Made, valid_programs

from vyre_driver.ir import Program, examine
from vyre_driver.ir.validation.rules import MAX_PROBLEMS, Rule
from vyre_driver.ir.validation.upstream import UPSTREAM_RULES

assert words is not None

OURS = {rule.code for rule in Rule}
TAKEN, LEFT = "; this driver takes it", "; upstream takes it"


@given(programs)
def test_any_program_is_answered_and_every_difference_is_named(program: Program) -> None:
    ours, theirs = examine(program), examine(program, upstream="0.7")
    assert {problem.rule for problem in theirs.problems} <= set(UPSTREAM_RULES)
    assert len(theirs.problems) == min(theirs.total, MAX_PROBLEMS)
    refused = {problem.rule for problem in ours.problems}
    for problem in theirs.problems:
        shared = refused.intersection(UPSTREAM_RULES[problem.rule].ours)
        assert problem.message.endswith(TAKEN) == (not shared)
    stricter = {warning.rule for warning in theirs.warnings if warning.message.endswith(LEFT)}
    answered = {code for problem in theirs.problems for code in UPSTREAM_RULES[problem.rule].ours}
    assert stricter == refused - answered <= OURS


@given(valid_programs())
def test_what_is_refused_of_a_valid_program_this_driver_takes(made: Made) -> None:
    report = examine(made.program, upstream="0.7")
    assert all(problem.message.endswith(TAKEN) for problem in report.problems)
    assert not any(warning.message.endswith(LEFT) for warning in report.warnings)
