"""Updates of one element by many invocations: each loads it, and stores what it makes of it, so that most updates are lost.

An update is found where the index is the same for invocations that differ along an axis of the grid or of the workgroup, or
along two. It is certain where some of these get to the statement whatever is given; whether there are several, the call
decides. What is not understood counts as right.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.arithmetic import LITERALS, Binary, LitI32, LitU32, Unary, Var
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import BufLen, Cast, InvocationId, Load, LocalId, Select, WorkgroupId
from vyre_driver.ir.extensions import application
from vyre_driver.ir.nodes import Store
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.lang.frontend.dependences import COMPARED, MEMORY, UNKNOWN, Condition, Dependences, Loaded
from vyre_driver.lang.frontend.translation import MAX_EXTENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.lang.frontend.dependences import Axis, Stored
    from vyre_driver.lang.frontend.draft import Body, Place
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Array

_REPEATABLE = frozenset({BinOp.BIT_OR, BinOp.BIT_AND, BinOp.OR, BinOp.AND, BinOp.MIN, BinOp.MAX, *COMPARED})
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
