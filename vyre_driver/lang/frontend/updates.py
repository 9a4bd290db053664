"""Updates of one element by many invocations: each loads it, and stores what it makes of it, so that most updates are lost.

An update is found where the index is the same for invocations that differ along an axis of the grid or of the workgroup, or
along two. It is certain where some of these get to the statement whatever is given; whether there are several, the call
decides. What is not understood counts as right.

So it is asked what variables and stores depend on: axes of the grid, memory, conditions, and elements that were loaded.
Variables of a program have names of their own, so one answer is kept for all that a variable ever holds.
"""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.arithmetic import LITERALS, Binary, Expr, LitBool, LitI32, LitU32, OpaqueExpr, Unary, Var
from vyre_driver.ir.dtypes import WIDE_LITERALS, DataType
from vyre_driver.ir.expressions import BufLen, Cast, Fma, InvocationId, Load, LocalId, Select, WorkgroupId
from vyre_driver.ir.extensions import application
from vyre_driver.ir.nodes import Assign, Barrier, Let, Store
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.ir.walks import expressions_within
from vyre_driver.lang.frontend.arithmetic import COMPARED
from vyre_driver.lang.frontend.draft import Branch, Plain, Repeat, has_return
from vyre_driver.lang.frontend.translation import MAX_EXTENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vyre_driver.ir.nodes import Node
    from vyre_driver.lang.frontend.draft import Body, Place
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Array

Axis = tuple[str, int]
"""``"index"`` of a kernel that goes over indices, ``"local"`` or ``"group"`` of one with a workgroup; 0 is x."""

MEMORY: Axis = ("memory", 0)
"""What is loaded at an index that is not the same for all, or of an array that the kernel writes."""
UNKNOWN: Axis = ("unknown", 0)
"""What may be another one for each invocation: lanes of subgroups, results of atomics."""

_COMPARED: dict[object, Callable[[int, int], int]] = {op: compare for _, op, compare in COMPARED.values()}
_COMPUTED: dict[object, Callable[[int, int], int]] = {
    **_COMPARED,
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


_REPEATABLE = frozenset({BinOp.BIT_OR, BinOp.BIT_AND, BinOp.OR, BinOp.AND, BinOp.MIN, BinOp.MAX, *_COMPARED})
_REPEATABLE_NAMES = frozenset({"", "abs", "bit_and", "bit_or", "bitcast", "max", "min"})
_DEEPEST = 8
_TRIED = 70  # indices for which conditions, and places, are computed
_LENGTHS = 70, 53  # that are supposed of arrays which an index goes along
_MOST_COMPUTED = 10_000  # values for one program, which take some 15 ms
_MOST_NUMBERS = 4  # of those that an index depends on, each of which may be small
_SMALL_FACTOR = 1 << 16
_SQUARE = 4
_IN_TWO_AXES = [  # pairs of indices that are tried: those of a square, and then more along each axis, as y[i * 8 + j] needs
    *sorted(((first, last) for first in range(_SQUARE) for last in range(_SQUARE)), key=max),
    *((first, last) for at in range(_SQUARE, _TRIED) for first, last in ((at, 0), (0, at))),
]
_OF_LARGE = 4  # of these, where numbers are supposed to be large
_ONE = LitU32(1)


class Update(NamedTuple):
    """A statement by which invocations that differ along an axis, or along two, load, change and store one element.

    ``least`` are the numbers of invocations along these axes from which two of them meet; ``is_certain`` says that nothing
    else decides whether they do.
    """

    place: Place
    array: Array
    axes: tuple[Axis, ...]
    least: tuple[int, ...]
    is_certain: bool


def updates_of(t: Translation, body: Body, sizes: tuple[int, int, int]) -> tuple[Update, ...]:
    """Return the updates in the body of a kernel, which stands inside of the extents of its indices.

    ``sizes`` are those of its workgroups along x, y and z.
    """
    arrays = {one.array.buffer: one.array for one in t.uses if not one.array.is_local}
    loaded = {one.term.buffer for one in t.uses if isinstance(one.term, Load)}
    axes = _axes(t)
    stores = [one.term for one in t.uses if isinstance(one.term, Store) and one.term.buffer in arrays]
    candidates = {one.buffer for one in stores if one.buffer in loaded and not _is_own(t, one.index, len(axes))}
    if not candidates:
        return ()  # most often: each invocation stores at its own index alone
    try:
        found = _Updates(Dependences(t, [*t.prologue, *body], candidates, sizes), frozenset(t.shared))
        return tuple(
            Update(one.place, arrays[one.node.buffer], along, least, is_certain)
            for one in found.dependences.stores
            for along, least, is_certain in found.of(one, axes)
        )
    except RecursionError:  # what is made of so much is not looked at
        return ()


def _is_own(t: Translation, index: Expr, axes: int) -> bool:
    """Whether an index of an array is made of all that the kernel has, each once, as that of ``y[i, j]`` is."""
    parts: list[Expr] = []
    while isinstance(index, Binary) and isinstance(index.left, Binary) and isinstance(index.left.right, Var):
        if (index.op, index.left.op) != (BinOp.ADD, BinOp.MUL):
            return False
        parts.append(index.right)
        index = index.left.left
    own = {*parts, index}
    is_whole = len(own) == axes == len(parts) + 1
    return is_whole and all(isinstance(one, InvocationId) or one in t.indexes.values() for one in own)


def _axes(t: Translation) -> list[Axis]:
    if t.extents:
        return [("index", axis) for axis in sorted(t.extents)]
    return [(kind, axis) for kind in ("local", "group") for axis in sorted(t.covered)]


class _Updates(NamedTuple):
    """Finds the updates of a program; ``shared`` are the buffers of which each workgroup has its own."""

    dependences: Dependences
    shared: frozenset[str]

    def of(self, store: Stored, axes: list[Axis]) -> Iterator[tuple[tuple[Axis, ...], tuple[int, ...], bool]]:
        """Give the axes along which a store updates one element, with the counts that it takes, and whether that is all."""
        on = self.dependences
        sources = on.sources_of(store.node.index)
        element = Loaded(store.node.buffer, on.key(store.node.index), store.phase)
        is_made_of_it = element in on.made_of(store.node.value, store.phase)
        under = (on.made_of(each.expr, store.phase) for each in store.conditions)
        if UNKNOWN in sources or not (is_made_of_it or any(element in each for each in under)):
            return
        value = on.sources_beside(store.node.value, element, set())
        is_same_again = self._is_repeatable(store.node.value, element, _DEEPEST)
        is_shared = store.node.buffer in self.shared
        alone = [one for one in axes if not (is_shared and one[0] == "group")]
        has_met = False
        for along in (*((one,) for one in alone), *itertools.combinations((one for one in alone if one in sources), 2)):
            is_one_value = not {*along, MEMORY, UNKNOWN} & value
            if (is_one_value and is_same_again) or (len(along) > 1 and has_met):
                continue
            least: tuple[int, ...] | None
            if len(along) == 1:
                met = self._meeting(store, along[0], sources)
                least, is_certain = (None, False) if met is None else ((met[0],), met[1])
            else:
                least, is_certain = self._meeting_of_two(store, along)
            if least is not None:
                has_met = True
                is_decided = is_made_of_it and MEMORY not in sources and not (is_one_value and is_same_again is None)
                yield along, least, is_certain and is_decided

    def _tells_apart(self, expr: Expr, axis: Axis) -> bool:
        """Whether an expression is the index along an axis, plus and times what is the same for all: another one for each."""
        on = self.dependences
        expr = on.resolved(expr)
        match expr:
            case InvocationId() | LocalId() | WorkgroupId():
                return axis in on.sources_of(expr)
            case Cast(DataType.U32 | DataType.I32, operand):
                return self._tells_apart(operand, axis)
            case Binary(BinOp.ADD | BinOp.SUB | BinOp.MUL as op, left, right):
                one, other = (left, right) if axis in on.sources_of(left) else (right, left)
                factor = on.resolved(other)
                is_factor = not isinstance(factor, (LitU32, LitI32)) or 0 < factor.value < _SMALL_FACTOR
                is_same_for_all = not {axis, MEMORY, UNKNOWN} & on.sources_of(other)
                return is_same_for_all and (is_factor or op is not BinOp.MUL) and self._tells_apart(one, axis)
        return False

    def _meeting(self, store: Stored, axis: Axis, sources: frozenset[Axis]) -> tuple[int, bool] | None:
        """Return the number of invocations along an axis from which two store at one place, and whether that is certain.

        None if they never do, or nothing says so.
        """
        if axis in sources and self._tells_apart(store.node.index, axis):
            return None
        on, is_certain, is_open, tests = self.dependences, True, False, []
        for condition in _parts(store.conditions):
            needs = on.sources_of(condition.expr)
            value = on.value(condition.expr, {axis: 0}, {})
            is_known = value is not None
            if UNKNOWN in needs or (not needs and is_known and bool(value) is not condition.holds):
                return None
            if axis in needs and is_known:
                tests.append(condition)
            elif axis in needs and MEMORY not in needs and self._picks_one(condition, axis):
                return None
            elif axis in needs and MEMORY not in needs and axis in sources:
                is_open = True
            else:
                is_certain = is_certain and self._holds(condition, value)
        found = None if is_open else self._first_pair(store, axis, sources, tests)
        if found is not None or MEMORY in sources:
            return None if found == 0 or is_open else (found or 2, is_certain and found is not None)
        return self._meeting_for_some_numbers(store, axis, sources)

    def _first_pair(self, store: Stored, axis: Axis, sources: frozenset[Axis], tests: list[Condition]) -> int | None:
        """Return the number of indices along an axis of which two store at one place; 0 if none do, None if nothing says it."""
        on, places = self.dependences, set[int]()
        for at in range(_TRIED):
            if on.computed > _MOST_COMPUTED:
                return 0
            known: dict[int, int | None] = {}
            if all(bool(on.value(one.expr, {axis: at}, known)) is one.holds for one in tests):
                place = on.value(store.node.index, {axis: at}, known) if axis in sources else 0
                if place is None:
                    return None
                if place in places:
                    return at + 1
                if 0 <= place <= MAX_EXTENT:  # what is out of range is no element
                    places.add(place)
        return 0

    def _meeting_for_some_numbers(self, store: Stored, axis: Axis, sources: frozenset[Axis]) -> tuple[int, bool] | None:
        """Return as :meth:`_meeting` does what holds where all numbers of a call are large, or one of them is small."""
        on, counts, small = self.dependences, list[int](), [-1]
        for at in range(1 + _MOST_NUMBERS):
            on.suppose(small[at])
            parts = [one for one in _parts(store.conditions) if axis in on.sources_of(one.expr)]
            tests = [one for one in parts if on.value(one.expr, {axis: 0}, {}) is not None]
            if all(one in tests or MEMORY in on.sources_of(one.expr) for one in parts):
                counts.append(self._first_pair(store, axis, sources, tests) or 0)
            small = [-1, *on.numbers]
            if at + 1 == len(small):
                break
        on.suppose(None)
        least = min(filter(None, counts), default=None)
        return None if least is None else (least, False)

    def _meeting_of_two(self, store: Stored, axes: tuple[Axis, ...]) -> tuple[tuple[int, int] | None, bool]:
        """Return as :meth:`_meeting` does from how many invocations along each of two axes on two meet, as in ``y[i + j]``."""
        on, is_certain, tests = self.dependences, True, []
        for condition in _parts(store.conditions):
            needs = on.sources_of(condition.expr)
            value = on.value(condition.expr, dict.fromkeys(axes, 0), {})
            is_known, is_apart = value is not None, not needs.isdisjoint(axes)
            is_open = is_apart and not is_known and MEMORY not in needs
            if UNKNOWN in needs or is_open or (not needs and is_known and bool(value) is not condition.holds):
                return None, False
            if is_apart and is_known:
                tests.append(condition)
            else:
                is_certain = is_certain and self._holds(condition, value)
        found = self._first_places(store, axes, tests, _IN_TWO_AXES)
        if found is None:  # an index of lengths or numbers, which are large most often
            on.suppose(-1)
            found, is_certain = self._first_places(store, axes, tests, _IN_TWO_AXES[:_OF_LARGE]), False
            on.suppose(None)
        return found or None, is_certain

    def _first_places(
        self, store: Stored, axes: tuple[Axis, ...], tests: list[Condition], tried: Sequence[tuple[int, int]]
    ) -> tuple[int, int] | tuple[()] | None:
        """Return how many indices along two axes it takes for two to store at one place; () and None as :meth:`_first_pair`."""
        on, places = self.dependences, dict[int, tuple[int, int]]()
        for pair in tried:
            at, known = dict(zip(axes, pair, strict=True)), dict[int, int | None]()
            if on.computed > _MOST_COMPUTED:
                return ()
            if all(bool(on.value(test.expr, at, known)) is test.holds for test in tests):
                place = on.value(store.node.index, at, known)
                if place is None:
                    return None
                if place in places:
                    return 1 + max(pair[0], places[place][0]), 1 + max(pair[1], places[place][1])
                if 0 <= place <= MAX_EXTENT:
                    places[place] = pair
        return ()

    def _is_repeatable(self, value: Expr, element: Loaded, depth: int) -> bool | None:
        """Whether a value that is made of an element is the same when it is made of it again; None if nothing says so."""
        value = self.dependences.resolved(value)
        if isinstance(value, Load) or element not in self.dependences.made_of(value, element.phase):
            return True
        if isinstance(value, Var) or not depth:
            return None
        parts: tuple[Expr, ...] | None = None
        match value:
            case Binary(op, left, right) if op in _REPEATABLE:
                parts = left, right
            case Select(condition, yes, no):
                parts = condition, yes, no
            case Unary(op, operand) if op in {UnOp.ABS, UnOp.IS_NAN}:
                parts = (operand,)
            case Cast(_, operand):
                made = application(value)
                name = "" if made is None else made.operator.name.partition("<")[0]
                if name in _REPEATABLE_NAMES or "_to_" in name:
                    parts = (operand,) if made is None else made.operands
        found = [False] if parts is None else [self._is_repeatable(one, element, depth - 1) for one in parts]
        return False if False in found else None if None in found else True

    def _holds(self, condition: Condition, value: int | None) -> bool:
        """Whether a condition holds whatever is given; ``value`` is its value, where that is known."""
        expr = self.dependences.resolved(condition.expr)
        if value is not None:
            return bool(value) is condition.holds
        if not condition.holds or not isinstance(expr, Binary) or expr.op is not BinOp.LT:
            return False
        first = self.dependences.resolved(expr.left)
        length = self.dependences.resolved(expr.right)  # of an array, none of which is empty in a program
        is_length = isinstance(length, BufLen) or (
            isinstance(length, Binary) and (length.op, length.right) == (BinOp.MAX, _ONE)
        )
        return isinstance(first, LitU32) and first.value == 0 and is_length

    def _picks_one(self, condition: Condition, axis: Axis) -> bool:
        """Whether a condition holds for one index along an axis alone: it is equal to what is the same for all.

        Or it is compared with lengths of arrays, and holds for one index where it goes as far as these, as in
        ``i >= len(x) - 1``.
        """
        expr = self.dependences.resolved(condition.expr)
        if isinstance(expr, Binary) and expr.op is (BinOp.EQ if condition.holds else BinOp.NE):
            for one, other in ((expr.left, expr.right), (expr.right, expr.left)):
                if self._is_index(one, axis) and axis not in self.dependences.sources_of(other):
                    return True
        return all(self._is_met_once(condition, axis, length) for length in _LENGTHS)

    def _is_met_once(self, condition: Condition, axis: Axis, length: int) -> bool:
        """Whether a condition holds for one of the indices of arrays of a length alone."""
        on, met = self.dependences, 0
        on.suppose_lengths(length)
        for at in range(length):
            value = on.value(condition.expr, {axis: at}, {})
            if value is None or on.computed > _MOST_COMPUTED:
                met = 0
                break
            met += bool(value) is condition.holds
        on.suppose_lengths(None)
        return met == 1

    def _is_index(self, expr: Expr, axis: Axis) -> bool:
        """Whether an expression is the index along an axis itself, or that and a number."""
        expr = self.dependences.resolved(expr)
        while isinstance(expr, (Cast, Binary)):
            is_moved = isinstance(expr, Cast) or (
                expr.op in {BinOp.ADD, BinOp.SUB} and isinstance(expr.right, (LitU32, LitI32))
            )
            if not is_moved:
                return False
            expr = self.dependences.resolved(expr.value if isinstance(expr, Cast) else expr.left)
        return not isinstance(expr, LITERALS) and axis in self.dependences.sources_of(expr) and not isinstance(expr, Load)


def _parts(conditions: tuple[Condition, ...]) -> Iterator[Condition]:
    """Give conditions one by one, those that are joined apart."""
    waiting = list(conditions)
    while waiting:
        expr, holds = waiting.pop()
        if isinstance(expr, Unary) and expr.op is UnOp.LOGICAL_NOT:
            waiting.append(Condition(expr.operand, not holds))
        elif isinstance(expr, Binary) and expr.op is (BinOp.AND if holds else BinOp.OR):
            waiting += [Condition(expr.left, holds), Condition(expr.right, holds)]
        else:
            yield Condition(expr, holds)
