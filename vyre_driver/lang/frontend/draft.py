"""A program under construction: its statements, where each comes from, and the functions that are being translated.

Statements may still get others before them. The order of effects is Python's: what an operand loads is what is there before the
operands behind it store. A load is part of the expression that uses it, so it becomes a variable where an operand behind it has
effects of its own (an atomic, a function that stores).
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vyre_driver.ir.arithmetic import LITERALS, LitBool, Unary, Var
from vyre_driver.ir.expressions import BufLen, InvocationId, LocalId, WorkgroupId
from vyre_driver.ir.nodes import Assign, If, Let, Loop, Return
from vyre_driver.ir.operators import UnOp
from vyre_driver.ir.terms import Traits
from vyre_driver.lang.frontend.facts import Facts
from vyre_driver.lang.frontend.values import Number, Tuple, variable, zero
from vyre_driver.lang.types import bool_

if TYPE_CHECKING:
    import ast
    import types
    from collections.abc import Callable, Iterable, Iterator

    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.nodes import Node
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value
    from vyre_driver.lang.source.text import FunctionSource
    from vyre_driver.lang.types import ScalarType

_FIXED = (InvocationId, LocalId, WorkgroupId, BufLen)
_DEEPEST = 96  # an expression that is deeper becomes a variable: the validator takes 128


class Place(NamedTuple):
    """Where in the source something stands: the functions from the kernel down, and the node in the last of them."""

    frames: tuple[Frame, ...]
    node: ast.AST


@dataclass(slots=True, eq=False)
class Plain:
    """A statement that holds no others; ``node`` is None where there is only room for one."""

    node: Node | None
    place: Place | None


@dataclass(slots=True, eq=False)
class Branch:
    """An ``if`` whose sides are still written; ``exits`` says by which jumps some ways have left each before its end."""

    condition: Expr
    then: Body
    otherwise: Body
    place: Place | None
    exits: tuple[frozenset[Exit], frozenset[Exit]] = (frozenset(), frozenset())


@dataclass(slots=True, eq=False)
class Repeat:
    """A loop whose body is still written."""

    variable: str
    start: Expr
    stop: Expr
    body: Body
    place: Place | None


Statement: TypeAlias = "Plain | Branch | Repeat"
Body: TypeAlias = "list[Statement]"


@dataclass(slots=True)
class Draft:
    """The program so far. ``body`` is the list that statements go to, ``place`` where in the source they come from."""

    body: Body = field(default_factory=list)
    place: Place | None = None
    buffers: list[BufferDecl] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    size: int = 0  # statements
    _names: dict[str, int] = field(default_factory=dict)
    _changing: set[str] = field(default_factory=set)

    def fresh(self, name: str) -> str:
        """Return a name that nothing else in the program has, as like to ``name`` as can be."""
        while True:
            used = self._names.get(name, 0)
            self._names[name] = used + 1
            if not used:
                return name
            candidate = f"{name}_{used}"
            if candidate not in self._names:
                self._names[candidate] = 1
                return candidate

    def add(self, node: Node) -> None:
        """Add a statement."""
        self.body.append(Plain(node, self.place))
        self.size += 1

    def add_if(self, condition: Expr, then: Body, otherwise: Body) -> Branch:
        """Add an ``if`` with these sides; it is left out at the end where both are empty."""
        branch = Branch(condition, then, otherwise, self.place)
        self.body.append(branch)
        return branch

    def room(self) -> Callable[[Node], None]:
        """Keep a place here for one statement; returns what puts it there."""
        kept = Plain(None, self.place)
        self.body.append(kept)

        def put(node: Node) -> None:
            kept.node = node

        return put

    def add_loop(self, variable: str, start: Expr, stop: Expr, body: Body) -> None:
        """Add a loop."""
        self.body.append(Repeat(variable, start, stop, body, self.place))

    @contextmanager
    def side(self, body: Body | None = None) -> Iterator[Body]:
        """Give a list that statements go to inside, with facts of its own: a new one, or the end of ``body``."""
        outer, self.body, place = self.body, [] if body is None else body, self.place
        try:
            with self.facts.scope():
                yield self.body
        finally:
            self.body, self.place = outer, place

    def let(self, name: str, number: Number) -> Number:
        """Declare a variable of a value, which never gets another one; returns it."""
        held = variable(self.fresh(name), number.type, (number.low, number.high))
        self.add(Let(held.name, number.expr))
        self.facts.rename(number, held)
        return held

    def hold(self, number: Number, name: str) -> Number:
        """Return a value that costs nothing to use again: itself if it is a variable or a literal."""
        return number if isinstance(number.expr, (Var, *LITERALS, *_FIXED)) else self.let(name, number)

    def shallow(self, number: Number) -> Number:
        """Return a value whose expression is not too deep to be part of another."""
        return self.let("part", number) if number.expr.depth > _DEEPEST else number

    def declare(self, name: str, scalar: ScalarType, value: Expr | None = None) -> Number:
        """Declare a variable that may get other values; it has zero, or ``value``, before."""
        held = variable(self.fresh(name), scalar)
        self.add(Let(held.name, zero(scalar) if value is None else value))
        self._changing.add(held.name)
        return held

    def is_fixed(self, number: Number) -> bool:
        """Whether a number is a variable that keeps its value, an id or a length: another name for it needs no variable."""
        return isinstance(number.expr, (Var, *_FIXED)) and not self.is_changing(number)

    def is_changing(self, number: Number) -> bool:
        """Whether a number is a variable that may get other values."""
        return isinstance(number.expr, Var) and number.expr.name in self._changing


def has_return(body: Body) -> bool:
    """Whether the kernel ends anywhere in a body."""
    for statement in body:
        match statement:
            case Plain(node):
                found = isinstance(node, Return)
            case Repeat(body=inner):
                found = has_return(inner)
            case Branch(then=then, otherwise=otherwise):
                found = has_return(then) or has_return(otherwise)
        if found:
            return True
    return False


def finished(body: Body, path: str, places: dict[str, Place]) -> tuple[Node, ...]:
    """Return the statements of a body as nodes, and note where each of them comes from by its path."""
    nodes: list[Node] = []
    for statement in body:
        at = f"{path}[{len(nodes)}]"
        made = _finished(statement, at, places)
        if made is None:
            continue
        if statement.place is not None:
            places[at] = statement.place
        nodes.append(made)
        if isinstance(made, Return):
            break  # nothing behind it is reached, and the validator wants nothing there
    return tuple(nodes)


def _finished(statement: Statement, at: str, places: dict[str, Place]) -> Node | None:
    match statement:
        case Plain(node):
            return node
        case Repeat(name, start, stop, body):
            return Loop(name, start, stop, finished(body, f"{at}.body", places))
        case Branch(condition, then, otherwise):
            nodes = finished(then, f"{at}.then", places)
            if nodes:
                return If(condition, nodes, finished(otherwise, f"{at}.otherwise", places))
            nodes = finished(otherwise, f"{at}.then", places)
            return If(Unary(UnOp.LOGICAL_NOT, condition), nodes) if nodes else None


class Flow(NamedTuple):
    """How statements end: ``leaves`` says that nothing gets behind them, ``exits`` what some ways have left for already."""

    leaves: bool
    exits: frozenset[Exit]


FALLS = Flow(leaves=False, exits=frozenset())


class Exit:
    """A place that jumps leave for: the end of a loop, of a turn of it, or of a function.

    Most jumps need nothing: what follows them goes into the other side of their ``if``. Where that does not do, a variable says
    whether an invocation is still going.
    """

    _made = itertools.count()

    def __init__(self, name: str, put: Callable[[Node], None]) -> None:
        """Know no jump; ``put`` declares the variable, where one is needed."""
        self.number = next(Exit._made)  # their order, so that the same function always makes the same program
        self._name = name
        self._put = put
        self._jumps: list[Body] = []
        self._going: Number | None = None

    def jump(self, body: Body) -> None:
        """Note that a body ends with a jump to here."""
        self._jumps.append(body)
        if self._going is not None:
            body.append(self._stop())

    @property
    def is_taken(self) -> bool:
        """Whether anything jumps here."""
        return bool(self._jumps)

    def going(self, draft: Draft) -> Number:
        """Return the variable that says that an invocation has not jumped here."""
        if self._going is None:
            self._going = variable(draft.fresh(self._name), bool_)
            self._put(Let(self._going.name, LitBool(True)))
            for body in self._jumps:
                body.append(self._stop())
        return self._going

    def _stop(self) -> Plain:
        assert self._going is not None  # noqa: S101 -- there is one by now
        return Plain(Assign(self._going.name, LitBool(False)), None)


@dataclass(slots=True, eq=False)
class LoopFrame:
    """A loop around the place at hand; ``carried`` are the variables of the program that a turn hands to the next one.

    ``lost`` are those among them that a turn leaves without a value, and that no turn reads.
    """

    node: ast.For | ast.While
    broken: Exit
    continued: Exit
    carried: dict[str, Value]
    lost: set[str] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Frame:
    """A function that is being translated.

    ``call`` is where its caller calls it, ``names`` what its variables are now, ``assigned`` all that it assigns anywhere, and
    ``types`` the type of each with the line that gave it. ``results`` are the bodies that end with a return, and its values.
    ``hosts`` are the functions and types that the call gives it.
    """

    function: types.FunctionType
    source: FunctionSource
    call: ast.expr | None
    names: dict[str, Value]
    assigned: frozenset[str]
    returned: Exit
    is_kernel: bool = False
    types: dict[str, tuple[ScalarType, int]] = field(default_factory=dict)
    loops: list[LoopFrame] = field(default_factory=list)
    results: list[tuple[Body, Value, ast.AST]] = field(default_factory=list)
    hosts: tuple[object, ...] = ()


def evaluated(t: Translation, makers: Iterable[Callable[[], Value]]) -> list[Value]:
    """Return what expressions give that are evaluated one after the other."""
    values: list[Value] = []
    for make in makers:
        last = t.draft.body[-1] if t.draft.body else None
        value = make()
        at = _behind(t.draft.body, last)
        if any(map(_has_effects, t.draft.body[at:])):
            for place, one in enumerate(values):
                values[place], at = _kept(t, one, at)
        values.append(value)
    return values


def _behind(body: Body, last: Statement | None) -> int:
    """Return the place behind a statement, before which others may have been declared meanwhile."""
    return next((place + 1 for place in range(len(body) - 1, -1, -1) if body[place] is last), 0)


def _has_effects(statement: Statement) -> bool:
    if not isinstance(statement, Plain):
        return True
    if isinstance(statement.node, Let):
        return not statement.node.value.traits & Traits.NO_WRITES
    return statement.node is not None


def _kept(t: Translation, value: Value, at: int) -> tuple[Value, int]:
    """Return a value that reads memory as a variable that is declared at a place in the body, and the place behind that."""
    if isinstance(value, Tuple):
        items: list[Value] = []
        for item in value.items:
            kept, at = _kept(t, item, at)
            items.append(kept)
        return value.of(items), at
    if not isinstance(value, Number) or value.expr.traits & Traits.NO_READS:
        return value, at
    held = variable(t.draft.fresh("before"), value.type, (value.low, value.high))
    t.draft.body.insert(at, Plain(Let(held.name, value.expr), t.draft.place))
    return held, at + 1
