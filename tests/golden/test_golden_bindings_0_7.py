"""Binding plans by the rules of upstream's 0.7, case by case."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from vectors import buffer, fingerprinted, planned, vectors

from vyre_driver.binding import BindingPlan
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = {facts["name"]: facts for facts in vectors("../upstream-0.7/binding_plans.json")["cases"]}
BUILT = {name: facts for name, facts in CASES.items() if "plan" in facts["build"]}
REFUSED = {name: facts["build"]["error"] for name, facts in CASES.items() if "error" in facts["build"]}


def program(name: str) -> Program:
    return Program.wrapped([buffer(declared) for declared in CASES[name]["buffers"]], (1, 1, 1), [])


def verdict(check: Callable[[], object]) -> str:
    try:
        check()
    except InvalidProgram:
        return "error"
    return "ok"


def test_the_vectors_are_whole() -> None:
    assert (len(BUILT), len(REFUSED), sum(len(facts["input_cases"]) for facts in CASES.values())) == (33, 12, 249)


@pytest.mark.parametrize("name", BUILT)
def test_a_program_is_planned_and_fingerprinted_as_upstream_0_7_does(name: str) -> None:
    plan = BindingPlan.build(program(name), rules="0.7")
    assert (planned(plan), fingerprinted(plan)) == (BUILT[name]["build"]["plan"], BUILT[name]["fingerprint_slots"])


@pytest.mark.parametrize("name", REFUSED)
def test_a_program_that_upstream_0_7_cannot_plan_is_refused_for_the_same_buffer(name: str) -> None:
    with pytest.raises(InvalidProgram) as refusal:
        BindingPlan.build(program(name), rules="0.7")
    facts = REFUSED[name]
    assert (refusal.value.code, f"`{refusal.value.context['binding']}`" in facts["text"]) == (facts["stable_id"], True)


@pytest.mark.parametrize("name", BUILT)
def test_inputs_and_lengths_of_residents_are_judged_as_upstream_0_7_does(name: str) -> None:
    plan = BindingPlan.build(program(name), rules="0.7")
    for case in BUILT[name]["input_cases"]:
        lengths: list[int] = case["lengths"]
        inputs = [bytes(length) for length in lengths]
        judged = {
            "lengths": lengths,
            "validate_inputs": verdict(partial(plan.validate_inputs, inputs)),
            "resident": verdict(partial(plan.validate_input_byte_lengths, lengths)),
            "element_counts": element_counts(program(name), inputs),
        }
        assert judged == case


def element_counts(made: Program, inputs: list[bytes]) -> list[int] | None:
    try:
        plan = BindingPlan.from_program(made, inputs, rules="0.7")
    except InvalidProgram:
        return None
    return [binding.element_count for binding in plan.bindings]
