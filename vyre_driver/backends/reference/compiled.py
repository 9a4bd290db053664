"""A program compiled for the interpreter, once for any number of runs.

Source: spec items 1.5 to 1.7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.backends.reference.statements import StatementCompiler
from vyre_driver.backends.reference.values import layout_of
from vyre_driver.errors import LimitExceeded
from vyre_driver.ir.buffers import BufferAccess, MemoryKind
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

MAX_SHARED_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A program as one generator.

    ``logged`` names the buffers whose accesses may depend on the order: those that are written. ``needs_whole_groups``: there
    is a barrier or workgroup memory. ``is_sequential``: invocations run one after the other, never in lockstep. ``paths`` names
    the statements.
    """

    program: Program
    buffers: tuple[BufferDecl, ...]
    run: Callable[[InvocationBatch], Steps]
    variable_count: int
    paths: tuple[str, ...]
    logged: frozenset[str]
    has_barriers: bool
    has_grid_barriers: bool
    has_subgroups: bool
    is_sequential: bool

    @property
    def shared(self) -> tuple[BufferDecl, ...]:
        """The buffers in workgroup memory."""
        return tuple(one for one in self.buffers if is_shared(one))

    @property
    def needs_whole_groups(self) -> bool:
        """Whether the invocations of a workgroup have to do with each other."""
        return self.has_barriers or bool(self.shared)


def is_shared(buffer: BufferDecl) -> bool:
    """Return whether a buffer lies in workgroup memory."""
    return buffer.access is BufferAccess.WORKGROUP or buffer.kind is MemoryKind.SHARED


def compile_program(program: Program, specialized: Mapping[str, Expr] | None = None) -> CompiledProgram:
    """Return a validated program compiled for the interpreter, with other literals for the lets of these names.

    Raises
    ------
    UnsupportedFeature
        If it holds what the interpreter does not run, by name.
    LimitExceeded
        If its workgroup memory takes more than 64 MiB.
    """
    buffers = program.buffers
    _check_shared(buffers)
    compiler = StatementCompiler(program, {one.name: (place, one) for place, one in enumerate(buffers)}, specialized or {})
    run = compiler.body(program.entry, "entry")
    terms = list(terms_within(*program.entry))
    barriers = [term for term in terms if isinstance(term, Barrier)]
    copies = [term for term in terms if isinstance(term, AsyncLoad | AsyncStore)]
    written = {term.buffer for term in terms if isinstance(term, Store | Atomic)} | {term.destination for term in copies}
    touched = {term.buffer for term in terms if isinstance(term, Load | Store | Atomic)}
    return CompiledProgram(
        program=program,
        buffers=buffers,
        run=run,
        variable_count=compiler.variable_count,
        paths=tuple(compiler.paths),
        logged=frozenset(written & touched),
        has_barriers=bool(barriers),
        has_grid_barriers=any(one.ordering is MemoryOrdering.GRID_SYNC for one in barriers),
        has_subgroups=compiler.has_subgroups,
        is_sequential=compiler.is_sequential,
    )


def _check_shared(buffers: tuple[BufferDecl, ...]) -> None:
    total = 0
    for one in buffers:
        layout = layout_of(one.element)
        size = layout.dtype.itemsize
        for axis in layout.shape:
            size *= axis
        total += one.count * size if is_shared(one) else 0
    if total > MAX_SHARED_BYTES:
        raise LimitExceeded(
            f"the workgroup buffers have {total} bytes together, and the reference interpreter allows {MAX_SHARED_BYTES}",
            fix="use smaller workgroup buffers",
            value=total,
            limit=MAX_SHARED_BYTES,
        )
