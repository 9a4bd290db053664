"""What walks over a program tell before its first instruction is emitted: uses of names, memory to be zeroed, turns of loops.

All workgroup memory has to be zeroed but what the invocations write completely before any of them reads it. Turns are bounded
for drivers that end loops after so many of them: a loop is taken as the driver counts it, with the turn in which it is left,
and loops that lowering itself makes count as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vyre_driver.ir.arithmetic import Binary, LitBool, LitF32, LitI32, LitU32, Unary
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Atomic, BufLen, Cast, Expr, Fma, InvocationId, Load, LocalId, WorkgroupId
from vyre_driver.ir.extensions import application
from vyre_driver.ir.nodes import Assign, Barrier, Block, If, Let, Loop, Node, Region, Return, Store
from vyre_driver.ir.operators import AtomicOp, BinOp, OpaqueOp
from vyre_driver.ir.walks import BODY_FIELDS, OPERANDS, expressions_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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


_KNOWN = (Assign, Barrier, Block, If, Let, Loop, Region, Return, Store)


def read_before_written(program: Program, counts: dict[str, int]) -> set[str]:
    """Return which of these buffers, by name with their elements, may be read where not all of their elements were written.

    An element is written for certain where each invocation stores to the one of its own, at a place that it does not come to by
    a condition or a loop that the barrier behind it is not in too: a barrier that is reached is reached by all of them.
    """
    found = _Search(program.workgroup_size, counts)
    found.body(program.entry, set(), set())
    return found.early


class _Search:
    def __init__(self, size: tuple[int, int, int], counts: dict[str, int]) -> None:
        self._own = _own_places(size)
        self._counts = counts
        self.early: set[str] = set()

    def body(self, nodes: Iterable[Node], stored: set[str], written: set[str]) -> None:
        """Look at statements: what each invocation has ``stored``, and what is ``written`` by all of them."""
        for node in nodes:
            if not isinstance(node, _KNOWN):
                self.early.update(self._counts)
                return
            operands = OPERANDS.get(type(node))
            for one in expressions_within(*(operands(node) if operands is not None else ())):
                if isinstance(one, (Load, Atomic)) and one.buffer in self._counts and one.buffer not in written:
                    self.early.add(one.buffer)
            if isinstance(node, Store) and self._is_own(node.buffer, node.index):
                stored.add(node.buffer)
            elif isinstance(node, Barrier):
                written |= stored
            elif isinstance(node, (Block, Region)):
                self.body(node.body, stored, written)
            else:
                for field in BODY_FIELDS.get(type(node), ()):
                    self.body(getattr(node, field), set(), set(written))

    def _is_own(self, name: str, index: Expr) -> bool:
        return any(self._counts.get(name) == count and index == place for place, count in self._own)


def _own_places(size: tuple[int, int, int]) -> list[tuple[Expr, int]]:
    """Return the places that are each one invocation's alone, with how many there are."""
    x, y, z = size
    if z != 1:
        return []
    row = Binary(BinOp.MUL, LocalId(1), LitU32(x))
    found: list[tuple[Expr, int]] = [(Binary(BinOp.ADD, row, LocalId(0)), x * y)]
    return [*found, (LocalId(0), x)] if y == 1 else found


_DIVIDING = frozenset({BinOp.DIV, BinOp.MOD})
_OF_A_QUOTIENT = 72  # a remainder of f32 takes 37 at most, a quotient of 64 bits 65
_OF_A_FUNCTION = 8 * _OF_A_QUOTIENT


def most_turns(program: Program) -> float:
    """Return the most turns that all loops of one invocation of a program make together, infinite where nothing says so."""
    zeroing = sum(1 + one.count for one in program.buffers if one.is_shared or one.is_local)
    floats = frozenset(one.name for one in program.buffers if one.element == DataType.F32)
    return zeroing + _turns(program.entry, floats)


def _turns(nodes: Sequence[Node], floats: frozenset[str]) -> float:
    """Return the most turns that the loops of some statements make in one invocation, infinite where nothing says so.

    ``floats`` are the names of the buffers of f32.
    """
    return sum(_turns_of(node, floats) for node in nodes)


def _turns_of(node: Node, floats: frozenset[str]) -> float:
    operands = OPERANDS.get(type(node))
    terms = () if operands is None else expressions_within(*operands(node))
    own = sum(_hidden_turns(term, floats) for term in terms)
    inside = sum(_turns(getattr(node, field), floats) for field in BODY_FIELDS.get(type(node), ()))
    if not isinstance(node, Loop):
        return own + inside
    start, stop = node.start, node.stop
    turns = max(0, stop.value - start.value) if isinstance(start, LitU32) and isinstance(stop, LitU32) else math.inf
    return own + (turns + 1) * (1 + inside)


def _hidden_turns(term: Expr, floats: frozenset[str]) -> float:
    """Return the turns of the loops that one expression may become."""
    if isinstance(term, Atomic):
        tries_anew = term.op is AtomicOp.FETCH_NAND or term.buffer in floats
        return math.inf if tries_anew else 0  # as often as others come before it
    if not isinstance(term, Binary | Unary):
        return 0
    if isinstance(term.op, OpaqueOp):
        return _OF_A_FUNCTION
    return _OF_A_QUOTIENT if term.op in _DIVIDING else 0
