"""Check that a program is valid, and that it fits a device.

docs/validation-rules.md lists every rule. Source: spec items 1.8 and 1.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.fields import instance
from vyre_driver.ir.program import Program
from vyre_driver.ir.validation.buffer_uses import check_hazards, check_linear_types
from vyre_driver.ir.validation.declaration_rules import check_buffers, check_shape
from vyre_driver.ir.validation.profile_rules import DeviceCapabilities, check_profile
from vyre_driver.ir.validation.rules import Findings, Problem, refuse
from vyre_driver.ir.validation.statement_rules import StatementChecker
from vyre_driver.ir.validation.uniformity import check_barriers
from vyre_driver.ir.validation.upstream import examine_as_upstream
from vyre_driver.ir.validation.upstream_rules import compared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre_driver.ir.validation.call_rules import OperationSignature
    from vyre_driver.target.profile import DeviceProfile
_PASSED = "capabilities it was validated for"
_MEANS_SOMETHING = "it has no problem or warning on any device; whether its nodes may need one"


class ValidationReport(NamedTuple):
    """The findings: problems refuse the program, warnings do not; at most 1000 each, ``total`` counts all problems."""

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    total: int


def validate(
    program: Program,
    profile: DeviceProfile | None = None,
    *,
    operations: Mapping[str, OperationSignature] | None = None,
    upstream: str | None = None,
) -> Program:
    """Return the program itself when it breaks no rule.

    Without a profile the question is whether the program means something; with one, whether that device can run it too. Calls
    are checked against ``operations`` when these are given. A program remembers what it was validated for, unless operations
    were given: asking again costs nothing.

    With ``upstream="0.7"`` the rules and codes are those of upstream's validator of that version (:func:`examine`).

    Raises
    ------
    InvalidProgram
        If the program has problems: up to 20 of them in the message, up to 1000 in its ``problems``.
    InvalidInput
        If ``upstream`` is no version whose rules are known.
    """
    if upstream is not None:
        report = examine(program, profile, operations=operations, upstream=upstream)
        if report.problems:
            refuse(report.problems, report.total)
        return program
    return validate_for(program, None if profile is None else DeviceCapabilities.of(profile), operations=operations)


def validate_for(
    program: Program,
    capabilities: DeviceCapabilities | None,
    *,
    operations: Mapping[str, OperationSignature] | None = None,
) -> Program:
    """As ``validate``, for a device by its capabilities, which need no profile."""
    if operations is None and isinstance(program, Program) and capabilities in _passed(program):
        return program
    findings = _examine(program, capabilities, operations)
    if findings.problems:
        refuse(findings.problems, findings.total)
    if operations is None:
        _passed(program).update((None, capabilities))
    return program


def _passed(program: Program) -> set[DeviceCapabilities | None]:
    found: set[DeviceCapabilities | None] = program._memo.setdefault(_PASSED, set())  # noqa: SLF001 -- it is the program that remembers
    return found


def examine(
    program: Program,
    profile: DeviceProfile | None = None,
    *,
    operations: Mapping[str, OperationSignature] | None = None,
    upstream: str | None = None,
) -> ValidationReport:
    """Return all that :func:`validate` would find, and the warnings, without raising.

    With ``upstream="0.7"`` these are the findings of upstream's validator of that version, by its codes. One that this driver
    decides otherwise says so; what only this driver refuses is among the warnings, by its code here.
    """
    capabilities = None if profile is None else DeviceCapabilities.of(profile)
    findings = _examine(program, capabilities, operations)
    if upstream is not None:
        theirs = examine_as_upstream(program, upstream, capabilities, operations)
        return ValidationReport(*compared(theirs, findings), theirs.total)
    return ValidationReport(tuple(findings.problems), tuple(findings.warnings), findings.total)


def _examine(
    program: Program, capabilities: DeviceCapabilities | None, operations: Mapping[str, OperationSignature] | None
) -> Findings:
    instance(program, Program, "what is validated")
    findings = Findings()
    memo = program._memo  # noqa: SLF001 -- it is the program that remembers
    nodes_too = memo.get(_MEANS_SOMETHING) if operations is None else None
    if nodes_too is None:
        nodes_too = _examine_alone(program, findings, operations)
        if nodes_too is None:
            return findings
        if operations is None and not findings.problems and not findings.warnings:
            memo[_MEANS_SOMETHING] = nodes_too
    if capabilities is not None:
        check_profile(program, capabilities, findings, nodes_too=nodes_too)
    return findings


def _examine_alone(program: Program, findings: Findings, operations: Mapping[str, OperationSignature] | None) -> bool | None:
    """Examine a program without a device; returns whether its nodes may need one, None where nothing more can be told."""
    if not check_shape(program, findings):
        check_buffers(program, findings)
        return None
    buffers = check_buffers(program, findings)
    checker = StatementChecker(program, buffers, findings, operations)
    checker.check()
    if checker.barrier_in_doubt:
        check_barriers(program, checker.assigned_in, findings)
    if checker.saw_atomic:
        check_hazards(program, findings)
    check_linear_types(program, findings)
    return checker.needs_a_device
