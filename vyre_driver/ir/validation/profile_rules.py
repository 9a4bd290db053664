"""Check a program against the capabilities of one device.

A limit of 0 in a profile is unknown, and refuses nothing.

Source: spec items 1.8 (V034, V041, V046) and 4.6 (capabilities, workgroup limits).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.arithmetic import OpaqueExpr
from vyre_driver.ir.dtypes import WIDE_LITERALS, DataType
from vyre_driver.ir.expressions import SUBGROUP_EXPRESSIONS, Cast
from vyre_driver.ir.extensions import application
from vyre_driver.ir.nodes import COLLECTIVES, IndirectDispatch, Node, Resume, Trap
from vyre_driver.ir.validation.rules import Findings, Rule, quoted
from vyre_driver.ir.walks import OPERANDS, NodeWalk, expressions_within, operand_paths

if TYPE_CHECKING:
    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.program import Program
    from vyre_driver.ir.terms import Term
    from vyre_driver.target.profile import DeviceProfile

_ANOTHER = "choose a device that has them"


class DeviceCapabilities(NamedTuple):
    """The fields of a profile that decide whether a program fits; devices with equal ones take the same programs."""

    max_workgroup_size: tuple[int, int, int]
    max_invocations_per_workgroup: int
    has_shared_memory: bool
    max_shared_memory_bytes: int
    max_storage_buffer_binding_size: int
    max_native_int_width: int
    supports_f16: bool
    supports_bf16: bool
    supports_f64: bool
    supports_subgroup_ops: bool
    supports_indirect_dispatch: bool
    supports_trap_propagation: bool
    supports_distributed_collectives: bool

    @classmethod
    def of(cls, profile: DeviceProfile) -> DeviceCapabilities:
        """Return those of a profile."""
        return cls(*(getattr(profile, field) for field in cls._fields))

    def lacks(self, dtype: DataType) -> str | None:
        """Return what the device would need to have values of a type, or None when it has it."""
        if dtype == DataType.F16 and not self.supports_f16:
            return "f16"
        if dtype == DataType.BF16 and not self.supports_bf16:
            return "bf16"
        return "64-bit integers" if dtype in {DataType.U64, DataType.I64} and self.max_native_int_width < 64 else None


def check_profile(program: Program, capabilities: DeviceCapabilities, findings: Findings, *, nodes_too: bool) -> None:
    """Refuse what the device cannot run; ``nodes_too``: nodes hold something that not every device has."""
    _check_workgroup(program, capabilities, findings)
    _check_buffers(program, capabilities, findings)
    if not nodes_too:
        return
    walk = NodeWalk(program)
    seen: set[int] = set()
    for step, node in walk.steps():
        if step != "node" or node is None:
            continue
        _check_node(node, capabilities, walk, findings)
        operands = OPERANDS.get(type(node))
        if operands is not None:
            _check_expressions(node, operands(node), capabilities, walk, findings, seen)


def _check_workgroup(program: Program, capabilities: DeviceCapabilities, findings: Findings) -> None:
    total = 1
    for place, (size, limit) in enumerate(zip(program.workgroup_size, capabilities.max_workgroup_size, strict=True)):
        total *= size
        if size > limit:
            text = f"the workgroup has {size} invocations along {'xyz'[place]}, and the device allows {limit}"
            findings.add(Rule.DEVICE_WORKGROUP, f"workgroup_size[{place}]", text, "use a smaller workgroup")
    if total > capabilities.max_invocations_per_workgroup:
        text = f"the workgroup has {total} invocations, and the device allows {capabilities.max_invocations_per_workgroup}"
        findings.add(Rule.DEVICE_WORKGROUP, "workgroup_size", text, "use a smaller workgroup")


def _check_buffers(program: Program, capabilities: DeviceCapabilities, findings: Findings) -> None:
    shared = 0
    limit = capabilities.max_storage_buffer_binding_size
    for place, buffer in enumerate(program.buffers):
        path = f"buffers[{place}]"
        size = _static_bytes(buffer)
        lacking = capabilities.lacks(buffer.element)
        if lacking is not None:
            text = f"buffer {quoted(buffer.name)} holds {buffer.element}, and the device has no {lacking}"
            findings.add(Rule.DEVICE_TYPE, path, text, _ANOTHER)
        if buffer.is_local:
            continue
        if buffer.is_shared:
            shared += size
            if not capabilities.has_shared_memory:
                text = f"{quoted(buffer.name)} is workgroup memory, and the device has none"
                findings.add(Rule.DEVICE_SHARED, path, text, _ANOTHER)
        elif limit and size > limit:
            text = f"buffer {quoted(buffer.name)} has {size} bytes, and the device binds {limit}"
            findings.add(Rule.DEVICE_BUFFER, path, text, "split the buffer")
    if capabilities.has_shared_memory and 0 < capabilities.max_shared_memory_bytes < shared:
        text = f"the workgroup buffers have {shared} bytes together, and the device has {capabilities.max_shared_memory_bytes}"
        findings.add(Rule.DEVICE_SHARED, "buffers", text, "use smaller workgroup buffers")


def _static_bytes(buffer: BufferDecl) -> int:
    try:
        return buffer.static_byte_len() or 0
    except InvalidProgram:  # too large to be said, which another rule refuses
        return 0


def _check_node(node: Node, capabilities: DeviceCapabilities, walk: NodeWalk, findings: Findings) -> None:
    if isinstance(node, COLLECTIVES) and not capabilities.supports_distributed_collectives:
        findings.add(Rule.COLLECTIVE, walk.path, "the device has no collectives", _ANOTHER)
    elif isinstance(node, IndirectDispatch) and not capabilities.supports_indirect_dispatch:
        findings.add(Rule.DEVICE_OPERATION, walk.path, "the device has no indirect dispatch", "give the grid at the dispatch")
    elif isinstance(node, Trap | Resume) and not capabilities.supports_trap_propagation:
        findings.add(Rule.DEVICE_OPERATION, walk.path, "the device has no traps", "store an error code in a buffer instead")


def _check_expressions(  # noqa: PLR0913 -- the state of the walk
    node: Node, roots: tuple[Any, ...], capabilities: DeviceCapabilities, walk: NodeWalk, findings: Findings, seen: set[int]
) -> None:
    """Check the expressions of a node that no earlier node has."""
    fresh = [root for root in roots if id(root) not in seen]
    found: list[tuple[Term, Rule, str]] = []
    for term in expressions_within(*fresh):
        if id(term) in seen:
            continue
        seen.add(id(term))
        problem = _problem(term, capabilities)
        if problem is not None:
            found.append((term, *problem))
    if found:
        places = operand_paths(node, {id(term) for term, _, _ in found})
        here = walk.path()
        for path, rule, text in sorted((f"{here}.{places[id(term)]}", rule.name, text) for term, rule, text in found):
            findings.add(Rule[rule], path, text, _ANOTHER)


def _problem(term: Term, capabilities: DeviceCapabilities) -> tuple[Rule, str] | None:
    if isinstance(term, SUBGROUP_EXPRESSIONS):
        return None if capabilities.supports_subgroup_ops else (Rule.SUBGROUP, "the device has no subgroup operations")
    if isinstance(term, Cast):
        found = application(term)
        if found is not None and found.operator.needs_f64 and not capabilities.supports_f64:
            return Rule.DEVICE_TYPE, f"the device has no 64-bit floats, and so no {found.operator.name}"
        lacking = capabilities.lacks(term.target)
        return None if lacking is None else (Rule.CAST_TARGET, f"the device has no {lacking}, and so no {term.target}")
    if isinstance(term, OpaqueExpr) and term.kind in WIDE_LITERALS:
        lacking = capabilities.lacks(WIDE_LITERALS[term.kind])
        return None if lacking is None else (Rule.DEVICE_TYPE, f"the device has no {lacking}")
    return None
