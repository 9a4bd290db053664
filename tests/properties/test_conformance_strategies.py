"""The hypothesis strategy gives programs that are valid and run."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from vyre_driver.backends.reference import interpret
from vyre_driver.conformance.adapters import run_reference_sequentially
from vyre_driver.conformance.case import Case  # noqa: TC001 -- hypothesis looks at it
from vyre_driver.conformance.strategies import cases
from vyre_driver.conformance.suite import answer
from vyre_driver.ir.validation.validate import validate


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(cases())
def test_a_drawn_program_is_valid_and_has_one_result(case: Case) -> None:
    validate(case.program)
    found = interpret(case.program, case.inputs, grid=case.grid)
    assert (found.order_mattered, found.stores_met, answer(run_reference_sequentially, case).failure) == (False, False, None)
