"""Upstream's binding plans, fingerprints, verdicts on inputs and layouts, case by case."""

from __future__ import annotations

from typing import Any

import pytest
from vectors import buffer, fingerprinted, planned, snake, vectors

from vyre_driver.binding import (
    BackendLayoutClass,
    BackendLayoutFingerprint,
    BackendLayoutSlot,
    BindingPlan,
    binding_plans_share_layout,
)
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.program import Program

VECTORS = vectors("binding_plans.json")
CASES = {facts["name"]: facts for facts in VECTORS["cases"]}
BUILT = {name: facts for name, facts in CASES.items() if "plan" in facts["build"]}
each_case = pytest.mark.parametrize("name", CASES)
each_built = pytest.mark.parametrize("name", BUILT)


def program(facts: dict[str, Any]) -> Program:
    return Program.wrapped([buffer(one) for one in facts["buffers"]], (1, 1, 1), [])


def kind_of(error: InvalidProgram) -> str:
    """What upstream's harness calls such a failure, told by the facts that the error carries."""
    known = {
        "expected": "input_count_mismatch",
        "preferred_alignment": "alignment_not_power_of_two",
        "limit": "static_overflow",
        "count": "runtime_sized_element",
        "element_size": "input_misaligned",
        "expected_bytes": "input_length_mismatch",
    }
    return next(kind for fact, kind in known.items() if fact in error.context)


def outcome(action: Any) -> object:  # noqa: ANN401 -- any call
    """What a call gave, as the vectors describe it."""
    try:
        plan = action()
    except InvalidProgram as error:
        facts = {"buffer": error.context.get("binding"), "kind": kind_of(error), "stable_id": error.code}
        return {"error": {**facts, "variant": type(error).__name__}}
    if plan is None:
        return "ok"
    return {"plan": planned(plan)}


def test_the_vectors_are_whole() -> None:
    inputs = sum(len(facts.get("input_cases", ())) for facts in CASES.values())
    counts = (len(CASES), len(BUILT), inputs, len(VECTORS["share_layout"]), len(VECTORS["backend_layout"]))
    assert counts == (196, 177, 1410, 177, 21)


@each_case
def test_a_program_is_planned_or_refused_as_upstream_does(name: str) -> None:
    assert outcome(lambda: BindingPlan.build(program(CASES[name]))) == CASES[name]["build"]


@each_built
def test_a_plans_fingerprint_is_upstreams(name: str) -> None:
    assert fingerprinted(BindingPlan.build(program(BUILT[name]))) == BUILT[name]["fingerprint_slots"]


@each_built
def test_inputs_are_judged_and_counted_as_upstream_does_whether_given_or_measured(name: str) -> None:
    one = program(BUILT[name])
    plan = BindingPlan.build(one)
    for case in BUILT[name]["input_cases"]:
        inputs = [bytes(length) for length in case["lengths"]]
        assert outcome(lambda inputs=inputs: BindingPlan.from_program(one, inputs)) == case["from_program"], case["lengths"]
        assert outcome(lambda inputs=inputs: plan.validate_inputs(inputs)) == case["validate_inputs"], case["lengths"]
        assert outcome(lambda case=case: plan.validate_input_byte_lengths(case["lengths"])) == case["validate_inputs"]


def test_plans_share_a_layout_where_upstreams_do() -> None:
    pairs = VECTORS["share_layout"]
    plans = {name: BindingPlan.build(program(CASES[name])) for pair in pairs for name in pair[:2]}
    assert [[a, b, binding_plans_share_layout(plans[a], plans[b])] for a, b, _ in pairs] == pairs


@pytest.mark.parametrize("facts", VECTORS["backend_layout"])
def test_a_backends_layout_orders_its_slots_as_upstream_does(facts: dict[str, Any]) -> None:
    def slots(given: list[Any]) -> list[BackendLayoutSlot]:
        return [BackendLayoutSlot(group, at, BackendLayoutClass[snake(kind)], *rest) for group, at, kind, *rest in given]

    assert BackendLayoutFingerprint.new(slots(facts["slots"])).slots == tuple(slots(facts["sorted"]))
