"""The whole way of a module's bytes up to the device, for modules made to hurt: read, shown, rewritten, typed, proven."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from literals import DEVICE, LIMITS

from vyre_driver.binding import BindingPlan
from vyre_driver.binding.grid import local_size
from vyre_driver.binding.requirements import check_requirements
from vyre_driver.errors import InvalidModule, UnsupportedFeature, VyreError
from vyre_driver.identity import layout_digest
from vyre_driver.specialization import specialize
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.stub import stub_of

if TYPE_CHECKING:
    from vyre_driver.spirv.reflection import Reflection


def use(reflection: Reflection) -> None:
    """Walk on as Driver.compile and a call do, up to the device."""
    plan = BindingPlan.from_reflection(reflection)
    layout_digest(plan)
    for binding in plan.bindings:
        binding.from_bytes(bytes(min(binding.static_byte_len or binding.header_bytes + binding.element_size, 4096)))
    check_requirements(reflection, DEVICE, frozenset(), 1 << 22 | 1 << 12)
    local_size(reflection, specialize(reflection.spec_constants, {}), LIMITS)


def _unnamed(reflection: Reflection) -> Reflection:
    return replace(reflection, buffers=tuple(replace(one, name="", aliases=()) for one in reflection.buffers))


def outcome(code: bytes) -> str:
    """Say how far a module gets: ``unread`` (no module), ``refused`` (not to be run), ``refused later``, or ``usable``.

    Only InvalidModule comes of reading, and of asking what is run only that and UnsupportedFeature; any other error passes
    through. What is shown of it keeps to printable lines, its stub is Python, and what was rewritten reads as the same contract
    but for the names of buffers that have none, which are made of their numbers.
    """
    try:
        module = SpirvModule.from_bytes(code)
    except InvalidModule:
        return "unread"
    for line in (*str(module).split("\n"), *module.signature.split("\n")):
        assert line.isprintable(), line
    try:
        runnable = module.runnable
    except (InvalidModule, UnsupportedFeature):
        return "refused"
    again = SpirvModule.from_bytes(runnable.code).runnable
    assert (_unnamed(again.reflection), again.is_rewritten) == (_unnamed(runnable.reflection), False)
    compile(stub_of(module), "stub", "exec")
    try:
        use(runnable.reflection)
    except VyreError:
        return "refused later"
    return "usable"
