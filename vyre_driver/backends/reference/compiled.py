"""A program compiled for the interpreter, once for any number of runs.

Source: spec items 1.5 to 1.7; docs/lowering.md, ``constants``: a ``let`` of a literal is the declaration of a specialization
constant with that default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.backends.reference.order import AccessLog
from vyre_driver.backends.reference.statements import StatementCompiler
from vyre_driver.backends.reference.values import layout_of
from vyre_driver.errors import LimitExceeded
from vyre_driver.ir.arithmetic import LitBool, LitF32, LitI32, LitU32
from vyre_driver.ir.buffers import MemoryKind
from vyre_driver.ir.expressions import Atomic, Load
from vyre_driver.ir.nodes import AsyncLoad, AsyncStore, Barrier, Store
from vyre_driver.ir.operators import MemoryOrdering
from vyre_driver.ir.terms import terms_within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vyre_driver.backends.reference.invocations import InvocationBatch
    from vyre_driver.backends.reference.statements import Steps
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.program import Program
    from vyre_driver.specialization.values import SpecMap

MAX_SHARED_BYTES = 64 << 20
_U32 = 1 << 32


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A program as one generator.

    ``logged`` names the buffers whose accesses may depend on the order: those that are written. ``needs_whole_groups``: there
    is a barrier or workgroup memory. ``is_sequential``: invocations run one after the other, never in lockstep. ``paths`` names
    the statements. ``log`` is what makes their logs. ``local_bytes`` are those that each invocation has of its own.
    """

    program: Program
    buffers: tuple[BufferDecl, ...]
    run: Callable[[InvocationBatch], Steps]
    variable_count: int
    paths: tuple[str, ...]
    logged: frozenset[str]
    needs_whole_groups: bool
    has_grid_barriers: bool
    has_subgroups: bool
    is_sequential: bool
    local_bytes: int
    log: type[AccessLog]


def compile_program(
    program: Program,
    constants: Mapping[str, object] | SpecMap | None = None,
    log: type[AccessLog] = AccessLog,
    *,
    canonical_literals: bool = False,
) -> CompiledProgram:
    """Return a validated program compiled for the interpreter, with these values for the literals of the lets they name.

    ``log`` is what its accesses are held against. ``canonical_literals``: there is one NaN among them, and no subnormal.

    Raises
    ------
    UnsupportedFeature
        If it holds what the interpreter does not run, by name.
    LimitExceeded
        If its workgroup memory takes more than 64 MiB.
    InvalidSpecialization
        If a name is that of no let of a literal, or a value does not fit its type.
    """
    literals = {} if constants is None else _literals(program, constants)
    buffers = program.buffers
    shared_bytes = _shared_bytes(buffers)
    places = {one.name: (place, one) for place, one in enumerate(buffers)}
    compiler = StatementCompiler(program, places, literals, canonical_literals=canonical_literals)
    run = compiler.body(program.entry, "entry")
    terms = list(terms_within(*program.entry))
    barriers = [term for term in terms if isinstance(term, Barrier)]
    copies = [term for term in terms if isinstance(term, AsyncLoad | AsyncStore)]
    written = {term.buffer for term in terms if isinstance(term, Store | Atomic)} | {term.destination for term in copies}
    local = {one.name for one in buffers if one.is_local}
    touched = {term.buffer for term in terms if isinstance(term, Load | Store | Atomic)}
    return CompiledProgram(
        program=program,
        buffers=buffers,
        run=run,
        variable_count=compiler.variable_count,
        paths=tuple(compiler.paths),
        logged=frozenset((written & touched) - local),
        local_bytes=sum(_byte_len(one) for one in buffers if one.is_local),
        needs_whole_groups=bool(barriers or shared_bytes),
        has_grid_barriers=any(one.ordering is MemoryOrdering.GRID_SYNC for one in barriers),
        has_subgroups=compiler.has_subgroups,
        is_sequential=compiler.is_sequential,
        log=log,
    )


def _shared_bytes(buffers: tuple[BufferDecl, ...]) -> int:
    """Return the bytes of workgroup memory; refuses too many, and elements without a layout wherever they are."""
    total = 0
    for one in buffers:
        layout_of(one.element)
        if one.is_shared or one.kind is MemoryKind.SHARED:
            total += _byte_len(one)
    if total > MAX_SHARED_BYTES:
        raise LimitExceeded(
            f"the workgroup buffers have {total} bytes together, and the reference interpreter allows {MAX_SHARED_BYTES}",
            fix="use smaller workgroup buffers",
            value=total,
            limit=MAX_SHARED_BYTES,
        )
    return total


def _byte_len(buffer: BufferDecl) -> int:
    layout = layout_of(buffer.element)
    return buffer.count * layout.dtype.itemsize * math.prod(layout.shape)


def _literals(program: Program, constants: Mapping[str, object] | SpecMap) -> dict[str, Expr]:
    """Return the literals of the lets that are named."""
    from vyre_driver.lowering.emit.specialized import spec_constants  # late: few runs have constants
    from vyre_driver.specialization.resolve import named_values, specialize

    names = tuple(named_values(constants))
    if not names:
        return {}
    found = specialize(spec_constants(program, names), constants)
    return {one.name: _literal(one.type_name, one.bits) for one in found.constants if one.name in names}


def _literal(type_name: str, bits: int) -> Expr:
    if type_name == "i32":
        return LitI32(bits - _U32 if bits >= _U32 // 2 else bits)
    if type_name == "f32":
        return LitF32(bits)
    return LitU32(bits) if type_name == "u32" else LitBool(bool(bits))
