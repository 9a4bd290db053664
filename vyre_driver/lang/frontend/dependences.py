"""What the variables and stores of a program depend on: axes of the grid, memory, conditions, and elements that were loaded.

Variables of a program have names of their own, so one answer is kept for all that a variable ever holds.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.arithmetic import LITERALS, Binary, Expr, LitBool, LitI32, LitU32, OpaqueExpr, Unary, Var
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import BufLen, Cast, Fma, InvocationId, Load, LocalId, Select, WorkgroupId
from vyre_driver.ir.extensions import application
from vyre_driver.ir.literal_types import WIDE_LITERALS
from vyre_driver.ir.nodes import Assign, Barrier, Let, Store
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.ir.walks import expressions_within
from vyre_driver.lang.frontend.draft import Branch, Plain, Repeat, has_return

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from vyre_driver.ir.nodes import Node
    from vyre_driver.lang.frontend.draft import Body, Place
    from vyre_driver.lang.frontend.translation import Translation

Axis = tuple[str, int]
"""``"index"`` of a kernel that goes over indices, ``"local"`` or ``"group"`` of one with a workgroup; 0 is x."""

MEMORY: Axis = ("memory", 0)
"""What is loaded at an index that is not the same for all, or of an array that the kernel writes."""
UNKNOWN: Axis = ("unknown", 0)
"""What may be another one for each invocation: lanes of subgroups, results of atomics."""

COMPARED: dict[object, Callable[[int, int], int]] = {
    BinOp.LT: operator.lt,
    BinOp.LE: operator.le,
    BinOp.GT: operator.gt,
    BinOp.GE: operator.ge,
    BinOp.EQ: operator.eq,
    BinOp.NE: operator.ne,
}
_COMPUTED: dict[object, Callable[[int, int], int]] = {
    **COMPARED,
    BinOp.ADD: operator.add,
    BinOp.SUB: operator.sub,
    BinOp.MUL: operator.mul,
    BinOp.DIV: operator.floordiv,
    BinOp.MOD: operator.mod,
    BinOp.MIN: min,
    BinOp.MAX: max,
    **dict.fromkeys((BinOp.AND, BinOp.BIT_AND), operator.and_),
    **dict.fromkeys((BinOp.OR, BinOp.BIT_OR), operator.or_),
    BinOp.BIT_XOR: operator.xor,
    BinOp.SHL: lambda a, b: a << (b & 31),
    BinOp.SHR: lambda a, b: a >> (b & 31),
}
_OF_64_BITS = {
    name: _COMPUTED[getattr(BinOp, name.upper())]
    for name in ("add", "sub", "mul", "div", "mod", "min", "max", "bit_and", "bit_or", "bit_xor")
}
_OF_ONE: dict[object, Callable[[int], int]] = {
    UnOp.LOGICAL_NOT: operator.not_,
    UnOp.BIT_NOT: operator.invert,
    UnOp.NEGATE: operator.neg,
    UnOp.POPCOUNT: lambda a: (a & _WORD).bit_count(),
    UnOp.CLZ: lambda a: 32 - (a & _WORD).bit_length(),
    UnOp.CTZ: lambda a: ((a & -a) - 1 & _WORD).bit_count(),
}
_BITS: dict[DataType | None, int] = {DataType.U32: 32, DataType.I32: 32, DataType.U64: 64, DataType.I64: 64}
_WORD = 0xFFFF_FFFF
_IDS: dict[type[Expr], tuple[str, ...]] = {InvocationId: ("local", "group"), LocalId: ("local",), WorkgroupId: ("group",)}
_PURE = (*LITERALS, Var, BufLen, Unary, Cast, Select, Fma, Load, Binary)
_MOST_STORES = 50  # that are looked at: the first call of a program with more would be slower by what that takes
_MOST_VARIABLES = 200  # that one of them is made of
_LARGE, _APART = 1025, 1056  # what is supposed of numbers: more than the indices that are tried, and a shift by one bit
_ACROSS_LANES = frozenset({BinOp.SHUFFLE, BinOp.BALLOT, BinOp.WAVE_REDUCE, BinOp.WAVE_BROADCAST})


class Loaded(NamedTuple):
    """An element that a value is made of: ``place`` is the key of its index, ``phase`` counts the barriers before the load."""

    buffer: str
    place: int
    phase: int


class Condition(NamedTuple):
    """An expression that holds, or does not, where a statement is reached."""

    expr: Expr
    holds: bool


class Stored(NamedTuple):
    """A store, and the conditions under which it is reached."""

    node: Store
    place: Place
    phase: int
    conditions: tuple[Condition, ...]


class Dependences:
    """Those of one program; of what is loaded only the elements of ``buffers`` are kept."""

    def __init__(self, t: Translation, body: Body, buffers: Iterable[str], sizes: tuple[int, int, int]) -> None:
        """Look at a program, whose workgroups have these sizes along x, y and z."""
        self.stores: list[Stored] = []
        self._buffers, self._sizes = frozenset(buffers), sizes
        self._is_over_indices = bool(t.extents)
        self._written = {one.term.buffer for one in t.uses if not isinstance(one.term, Load)}  # type: ignore[attr-defined] # accesses have one
        self._given: dict[str, list[tuple[Expr, tuple[Condition, ...], int]]] = defaultdict(list)
        self._phase = 0
        self._loops = 0  # around the statement at hand
        self._in_loops: set[str] = set()  # variables that are assigned there, with a value for each turn
        self._sources: dict[str, frozenset[Axis]] = defaultdict(frozenset)
        self._made_of: dict[str, frozenset[Loaded]] = defaultdict(frozenset)
        self._keys: dict[object, int] = {}
        self._known: dict[int, int] = {}  # the keys of expressions, which the program keeps alive
        for axis, index in enumerate(reversed(t.indexes.values())):
            if isinstance(index, Var):
                self._sources[index.name] = frozenset({("index", axis)})
        self._asked: dict[int, frozenset[Axis]] = {}  # what is known for good once all variables are
        self._is_settled = False
        self._supposed: dict[int, int] | None = None  # by key, while numbers are supposed
        self._smallest = -1
        self._length: int | None = None
        self.computed = 0  # values so far
        self.numbers: dict[int, None] = {}
        """The keys of what a value was supposed for, but of lengths."""
        self._walk(body, ())
        self._settle(self._keep_updates())
        self._asked.clear()
        self._is_settled = True

    def _walk(self, body: Body, conditions: tuple[Condition, ...]) -> None:
        for statement in body:
            match statement:
                case Plain(node, place) if node is not None:
                    self._plain(node, place, conditions)
                case Branch(condition, then, otherwise):
                    self._walk(then, (*conditions, Condition(condition, holds=True)))
                    self._walk(otherwise, (*conditions, Condition(condition, holds=False)))
                    if has_return(then):
                        conditions = (*conditions, Condition(condition, holds=False))
                    if has_return(otherwise):
                        conditions = (*conditions, Condition(condition, holds=True))
                case Repeat(variable, start, stop, inner):
                    self._given[variable] += [(start, (), self._phase), (stop, (), self._phase)]
                    self._in_loops.add(variable)
                    self._loops += 1
                    self._walk(inner, (*conditions, Condition(Binary(BinOp.LT, start, stop), holds=True)))
                    self._loops -= 1

    def _plain(self, node: Node, place: Place | None, conditions: tuple[Condition, ...]) -> None:
        match node:
            case Let(name, value):
                self._given[name].append((value, (), self._phase))
            case Assign(name, value):
                self._given[name].append((value, conditions, self._phase))
                if self._loops:
                    self._in_loops.add(name)
            case Store() if place is not None:
                self.stores.append(Stored(node, place, self._phase, conditions))
            case Barrier():
                self._phase += 1

    def _keep_updates(self) -> set[str]:
        """Forget the stores that are made of no element of their buffer; return the variables that the others are made of."""
        stores = [one for one in self.stores if one.node.buffer in self._buffers][:_MOST_STORES]
        found = [(one, *self._reached(one)) for one in stores]
        kept = [(one, names) for one, buffers, names in found if one.node.buffer in buffers and len(names) <= _MOST_VARIABLES]
        self.stores = [one for one, _ in kept]
        return {name for _, names in kept for name in names}

    def _reached(self, store: Stored) -> tuple[set[str], set[str]]:
        """Return the buffers that a store depends on elements of, and the variables, as far as they are looked at."""
        buffers: set[str] = set()
        names: set[str] = set()
        waiting = [store.node.index, store.node.value, *(one.expr for one in store.conditions)]
        while waiting and len(names) <= _MOST_VARIABLES:
            found: set[str] = set()
            for term in expressions_within(*waiting):
                if isinstance(term, Load):
                    buffers.add(term.buffer)
                elif isinstance(term, Var):
                    found.add(term.name)
            given = [one for name in found - names for one in self._given.get(name, ())]
            waiting = [one for value, conditions, _ in given for one in (value, *(each.expr for each in conditions))]
            names |= found
        return buffers, names

    def _settle(self, names: set[str]) -> None:
        """Find what variables depend on: their values, and the conditions under which they are assigned."""
        is_changed = True
        while is_changed:
            is_changed = False
            for name, given in self._given.items():
                if name not in names:
                    continue
                parts = [one for value, conditions, _ in given for one in (value, *(each.expr for each in conditions))]
                sources = self._sources[name].union(*map(self.sources_of, parts))
                made_of = self._made_of[name].union(*(self.made_of(value, phase) for value, _, phase in given))
                is_changed = is_changed or (sources, made_of) != (self._sources[name], self._made_of[name])
                self._sources[name], self._made_of[name] = sources, made_of

    def sources_of(self, expr: Expr) -> frozenset[Axis]:
        """Return what an expression depends on."""
        known = self._asked.get(id(expr)) if self._is_settled else None
        if known is not None:
            return known
        found: set[Axis] = set()
        for term in expressions_within(self.resolved(expr)):
            found |= self._sources[term.name] if isinstance(term, Var) else self._own_sources(term)
        self._asked[id(expr)] = frozenset(found)
        return frozenset(found)

    def _own_sources(self, term: Expr) -> set[Axis]:
        """Return what a term depends on beside its parts."""
        if isinstance(term, (InvocationId, LocalId, WorkgroupId)):
            return {(kind, term.axis) for kind in (("index",) if self._is_over_indices else _IDS[type(term)])}
        if isinstance(term, Load):
            return {MEMORY} if term.buffer in self._written or self.sources_of(term.index) else set()
        if isinstance(term, OpaqueExpr):
            return set() if term.kind in WIDE_LITERALS else {UNKNOWN}
        return set() if isinstance(term, _PURE) and getattr(term, "op", None) not in _ACROSS_LANES else {UNKNOWN}

    def sources_beside(self, expr: Expr, element: Loaded, seen: set[str]) -> set[Axis]:
        """Return what a value depends on beside what an element held; ``seen`` are variables that were looked at."""
        found: set[Axis] = set()
        for term in expressions_within(expr):
            if isinstance(term, Load) and (term.buffer, self.key(term.index)) == element[:2]:
                continue
            if not isinstance(term, Var):
                found |= self._own_sources(term)
            elif not self._given[term.name]:
                found |= self._sources[term.name]
            elif term.name not in seen:
                seen.add(term.name)
                for value, conditions, _ in self._given[term.name]:
                    for one in (value, *(each.expr for each in conditions)):
                        found |= self.sources_beside(one, element, seen)
        return found

    def made_of(self, expr: Expr, phase: int) -> frozenset[Loaded]:
        """Return the elements that a value is made of, through variables too."""
        found: set[Loaded] = set()
        for term in expressions_within(expr):
            if isinstance(term, Load) and term.buffer in self._buffers:
                found.add(Loaded(term.buffer, self.key(term.index), phase))
            elif isinstance(term, Var):
                found |= self._made_of[term.name]
        return frozenset(found)

    def resolved(self, expr: Expr) -> Expr:
        """Return what a variable stands for that has one value."""
        while isinstance(expr, Var) and len(self._given[expr.name]) == 1:
            expr = self._given[expr.name][0][0]
        return expr

    def key(self, expr: Expr) -> int:
        """Return a number that expressions share which compute the same of the same variables."""
        expr = self.resolved(expr)
        known = self._known.get(id(expr))
        if known is None:
            fields = [getattr(expr, name) for name in type(expr).__match_args__]
            parts = tuple(self.key(one) if isinstance(one, Expr) else repr(one) for one in fields)
            known = self._known[id(expr)] = self._keys.setdefault((type(expr), parts), len(self._keys))
        return known

    def value(self, expr: Expr, at: Mapping[Axis, int], known: dict[int, int | None]) -> int | None:
        """Return the value of whole numbers for indices along axes, 0 along others; None if they depend on more.

        ``known`` keeps what was found for this index.
        """
        expr = self.resolved(expr)
        if id(expr) not in known:
            self.computed += 1
            found = self._value(expr, at, known)
            known[id(expr)] = self._supposition(expr, at) if found is None else found
        return known[id(expr)]

    def suppose(self, smallest: int | None) -> None:
        """Have ``value`` take numbers for large ones, but 2 for that with the key ``smallest``; None ends that."""
        self._supposed, self._smallest = None if smallest is None else {}, -1 if smallest is None else smallest

    def suppose_lengths(self, length: int | None) -> None:
        """Have ``value`` take this for the length of each array; None ends that."""
        self._length = length

    def _supposition(self, expr: Expr, at: Mapping[Axis, int]) -> int | None:
        """Return what is supposed of a value that is the same for all along the axes; None if it is not, or nothing is."""
        is_nothing_supposed = self._supposed is None and self._length is None
        if is_nothing_supposed or {*at, MEMORY, UNKNOWN} & self.sources_of(expr):
            return None
        is_length = isinstance(expr, BufLen) or (isinstance(expr, Load) and "." in expr.buffer)
        if self._supposed is None:
            return self._length if is_length else None
        key = self.key(expr)
        if not is_length:
            self.numbers[key] = None
        return self._supposed.setdefault(key, 2 if key == self._smallest else _LARGE + _APART * len(self._supposed))

    def _value(self, expr: Expr, at: Mapping[Axis, int], known: dict[int, int | None]) -> int | None:
        match expr:
            case LitU32(value) | LitI32(value) | LitBool(value):
                return int(value)
            case Var(name):
                if self._given[name]:
                    assigned = self._given_last(name, at, known)
                    return None if assigned is None else self.value(assigned, at, known)
                return next((at.get(source, 0) for source in self._sources[name]), None)
            case OpaqueExpr(kind, payload) if WIDE_LITERALS.get(kind) in _BITS:
                return _wrapped(int.from_bytes(payload, "little"), WIDE_LITERALS[kind])
            case Cast(target, operand):
                made = application(expr) or (None, (operand,))
                compute = operator.pos if made[0] is None else _OF_64_BITS.get(made[0].name.partition("<")[0])
                return self._computed(compute, made[1], target, at, known) if target in _BITS else None
            case Unary(op, operand):
                return self._computed(_OF_ONE.get(op), (operand,), expr.dtype, at, known)
            case Select(condition, yes, no):
                found = self.value(condition, at, known)
                return None if found is None else self.value(yes if found else no, at, known)
            case Binary(op, left, right):
                return self._computed(_COMPUTED.get(op), (left, right), expr.dtype, at, known)
            case InvocationId(along) | LocalId(along) | WorkgroupId(along):
                kinds = ("index",) if self._is_over_indices else _IDS[type(expr)]
                size = self._sizes[along] if len(kinds) > 1 else 1
                return sum(at.get((kind, along), 0) * (size if kind == "group" else 1) for kind in kinds)
        return None

    def _given_last(self, name: str, at: Mapping[Axis, int], known: dict[int, int | None]) -> Expr | None:
        """Return what a variable is assigned in the branches that are taken, None if that is not known, or it is in a loop."""
        last = None
        for value, conditions, _ in self._given[name] if name not in self._in_loops else ():
            tests = [self.value(condition.expr, at, known) for condition in conditions]
            if None in tests:
                return None
            if all(bool(test) is condition.holds for test, condition in zip(tests, conditions, strict=True)):
                last = value
        return last

    def _computed(
        self,
        compute: Callable[..., int] | None,
        operands: tuple[Expr, ...],
        dtype: DataType | None,
        at: Mapping[Axis, int],
        known: dict[int, int | None],
    ) -> int | None:
        """Return what an operator gives for the values of its operands, None if one of them or the operator is not known."""
        values = [] if compute is None else [self.value(operand, at, known) for operand in operands]
        if compute is None or None in values:
            return None
        if compute in {operator.floordiv, operator.mod} and (values[0] < 0 or values[1] <= 0):  # type: ignore[operator] # none is None
            return None
        return _wrapped(int(compute(*values)), dtype)


def _wrapped(value: int, dtype: DataType | None) -> int:
    """Return a whole number as the one of a type that has its lowest bits; a bool is what it is."""
    bits = _BITS.get(dtype)
    if bits is None:
        return value
    word = value & (1 << bits) - 1
    return word - (1 << bits) if dtype in {DataType.I32, DataType.I64} and word >> bits - 1 else word
