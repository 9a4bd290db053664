"""Validate a program for a backend before any of it runs, and remember the result.

The result for a program is kept with the program, under the backend *and* its limits and operations: a
program that one adapter takes is validated again for a weaker one with the same id, which upstream's memo forgets to do.

Source: spec item 4.6. Step 1 there, the lowering of collectives of a single rank, is not done: they are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir.nodes import op_id
from vyre_driver.ir.validation.profile_rules import DeviceCapabilities
from vyre_driver.ir.validation.validate import validate
from vyre_driver.ir.walks import NodeWalk
from vyre_driver.target.config import DispatchConfig, check_config

if TYPE_CHECKING:
    from vyre_driver.backends.base import Backend
    from vyre_driver.ir.program import Program
    from vyre_driver.target.profile import DeviceProfile

_PASSED = "backends it was validated for"
_MAX_REMEMBERED = 64
_MAX_LISTED = 5


def validate_program(
    backend: Backend, program: Program, config: DispatchConfig, profile: DeviceProfile | None = None
) -> Program:
    """Return the program as it is to run, with its overridden workgroup, if the backend may be given it.

    In this order: the fields of ``config``; whether the program is valid; whether the backend runs its operations (nodes
    at every depth, by upstream's names; expressions are not checked, as in upstream); whether its device has the
    types, sizes and capabilities. ``profile`` is what it has for programs, where that is more than the backend's profile tells.

    Raises
    ------
    UnsupportedFeature
        If the backend lacks a field of ``config`` or an operation; names it.
    LimitExceeded
        If an override is over a limit.
    InvalidProgram
        If the program is not valid; lists every problem by path.
    """
    check_config(backend, config)
    chosen = program
    if config.workgroup_override is not None and config.workgroup_override != program.workgroup_size:
        chosen = program.with_workgroup_size(config.workgroup_override)
    held_against = backend.profile if profile is None else profile
    capabilities = (backend.id, backend.version, backend.supported_ops, DeviceCapabilities.of(held_against))
    passed = program_memo(program)
    asked = (*capabilities, chosen.workgroup_size)
    if asked in passed:
        return chosen
    validate(chosen)
    _check_operations(backend, chosen)
    validate(chosen, held_against)
    if len(passed) >= _MAX_REMEMBERED:
        passed.clear()
    passed.add(asked)
    return chosen


def program_memo(program: Program) -> set[object]:
    """Return what a program was validated for; kept with the program."""
    found: set[object] = program._memo.setdefault(_PASSED, set())  # noqa: SLF001 -- it is the program that remembers
    return found


def _check_operations(backend: Backend, program: Program) -> None:
    supported = backend.supported_ops
    missing: dict[str, str] = {}
    walk = NodeWalk(program)
    for step, node in walk.steps():
        if step == "node" and node is not None and op_id(node) not in supported:
            missing.setdefault(op_id(node), walk.path())
    if missing:
        listed = ", ".join(f"{name} (at {path})" for name, path in list(missing.items())[:_MAX_LISTED])
        more = f" and {len(missing) - _MAX_LISTED} more" if len(missing) > _MAX_LISTED else ""
        raise UnsupportedFeature(
            f"backend {backend.id!r} does not run {listed}{more}",
            fix="choose a backend whose supported_ops has them",
            backend=backend.id,
            operations=sorted(missing),
        )
