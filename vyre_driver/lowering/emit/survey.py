"""Survey a program in one walk before its first instruction is emitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vyre_driver.ir.arithmetic import Binary, LitBool, LitF32, LitI32, LitU32, Unary
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Atomic, BufLen, Cast, Fma, InvocationId, Load, LocalId, WorkgroupId
from vyre_driver.ir.extensions import application
from vyre_driver.ir.nodes import Assign, Barrier, Let, Store
from vyre_driver.ir.operators import AtomicOp, OpaqueOp
from vyre_driver.ir.walks import BODY_FIELDS, OPERANDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.ir.program import Program
    from vyre_driver.ir.terms import Term


@dataclass(slots=True)
class Survey:
    """Names: of variables that are assigned, of those that may get an f32 that nothing computed; of buffers by their uses.

    ``floats`` are the buffers of f32, ``pushed`` the push buffers, ``local`` those of an invocation's own, ``copied`` those of
    f32 of which something else than arithmetic takes what was loaded; ``atomic`` has the operators of those with atomics.
    """

    floats: frozenset[str] = frozenset()
    pushed: frozenset[str] = frozenset()
    local: frozenset[str] = frozenset()
    copied: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    uncomputed: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    atomic: dict[str, set[AtomicOp | OpaqueOp]] = field(default_factory=dict)
    measured: set[str] = field(default_factory=set)
    has_barrier: bool = False

    @property
    def orders(self) -> bool:
        """Whether anything makes one invocation's writes visible to others."""
        return self.has_barrier or bool(self.atomic)

    def is_shared_between_invocations(self, name: str) -> bool:
        """Return whether some invocations may read of a buffer what others wrote while the program runs."""
        reads = name in self.loaded or name in self.atomic
        return (
            name not in self.local
            and self.orders
            and reads
            and name in self.stored | self.atomic.keys()
            and name in self.loaded | self.stored
        )


_MAGNITUDE, _LEAST_NORMAL = 0x7FFF_FFFF, 0x0080_0000
_ARITHMETIC = (Binary, Unary, Fma)
_NO_F32 = (*_ARITHMETIC, LitU32, LitI32, LitBool, InvocationId, WorkgroupId, LocalId, BufLen, Atomic)


def survey(program: Program) -> Survey:
    """Walk every different term of a program once."""
    found = Survey(
        floats=frozenset(one.name for one in program.buffers if one.element == DataType.F32),
        pushed=frozenset(one.name for one in program.buffers if one.is_pushed),
        local=frozenset(one.name for one in program.buffers if one.is_local),
    )
    seen: set[int] = set()
    waiting: list[Term] = list(program.entry)
    while waiting:
        term = waiting.pop()
        known = _KINDS.get(type(term))
        if known is None or id(term) in seen:  # leaves are not even remembered
            continue
        seen.add(id(term))
        note, operands, bodies = known
        if note is not None:
            note(found, term)
        if operands is not None:
            parts = operands(term)
            waiting.extend(parts)
            if found.floats and not _is_arithmetic(term):
                found.copied.update(one.buffer for one in parts if isinstance(one, Load))
        for field_name in bodies:
            waiting.extend(getattr(term, field_name))
    return found


def _is_arithmetic(term: Term) -> bool:
    """Return whether a term takes subnormals for zeros, and gives none: not what takes or gives the bits of an f32."""
    return isinstance(term, _ARITHMETIC) and not (isinstance(term, Binary) and isinstance(term.op, OpaqueOp))


def _assigned(found: Survey, term: Assign) -> None:
    found.assigned.add(term.name)
    _given(found, term)


def _given(found: Survey, term: Assign | Let) -> None:
    value = term.value
    if isinstance(value, LitF32):
        is_computed = not 0 < value.bits & _MAGNITUDE < _LEAST_NORMAL
    elif isinstance(value, Cast):  # of an f32 it is what it was
        inner = value.value
        is_computed = application(value) is None and (
            isinstance(inner, _NO_F32) or (isinstance(inner, Load) and inner.buffer not in found.floats)
        )
    else:
        is_computed = _is_arithmetic(value)
    if not is_computed:
        found.uncomputed.add(term.name)


def _waits(found: Survey, _: Barrier) -> None:
    found.has_barrier = True


_NOTES: dict[type[Term], Callable[[Survey, Any], None]] = {
    Load: lambda found, term: found.loaded.add(term.buffer),
    Store: lambda found, term: found.stored.add(term.buffer),
    Atomic: lambda found, term: found.atomic.setdefault(term.buffer, set()).add(term.op),
    BufLen: lambda found, term: found.measured.add(term.buffer),
    Assign: _assigned,
    Let: _given,
    Barrier: _waits,
}
# What to do with a term that says or holds something; the others are not there.
_KINDS = {cls: (_NOTES.get(cls), OPERANDS.get(cls), BODY_FIELDS.get(cls, ())) for cls in {*_NOTES, *OPERANDS, *BODY_FIELDS}}
