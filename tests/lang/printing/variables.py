"""Which variables of a program are one variable in Python.

A program has a variable more for each that a loop hands to its next turn, and for each that an ``if`` gives one value or
another, and copies between them; the language has one name for all of these. So variables of which one is copied to the other
get one name, unless both are needed at some place.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import LITERALS, OpaqueExpr, Var
from vyre_driver.ir.dtypes import WIDE_LITERALS
from vyre_driver.ir.nodes import Assign, If, Let, Loop, Return
from vyre_driver.ir.walks import OPERANDS, expressions_within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.ir.nodes import Node


class Variables:
    """What is known of a program's variables: ``left_out`` are declarations whose values nothing reads."""

    def __init__(self, body: Sequence[Node], types: Mapping[str, DataType]) -> None:
        """Look at statements in which each variable is declared once; ``types`` has all but those that hold pushed numbers."""
        self.types = types
        self.assigned = _assigned(body)
        self.readers: Counter[str] = Counter()  # how many statements read each
        self.left_out: set[str] = set()
        self._copies: list[tuple[str, str]] = []
        self._apart: dict[str, set[str]] = {name: set() for name in types}
        self._counters: set[str] = set()
        self._uses: dict[int, frozenset[str]] = {}
        self._kept: list[Expr] = []
        self._before(body, frozenset())
        self._count(body)
        self._joined = {name: name for name in types}
        self._join()

    def group(self, name: str) -> str:
        """Return what stands for all the variables that have one name."""
        while self._joined[name] != name:
            name = self._joined[name]
        return name

    def groups(self) -> dict[str, list[str]]:
        """Return the variables that have one name, each group in the order in which they are declared."""
        found: dict[str, list[str]] = {}
        for name in self.types:
            found.setdefault(self.group(name), []).append(name)
        return found

    def _join(self) -> None:
        for name, source in self._copies:
            one, other = self.group(name), self.group(source)
            if one == other or self.types[one] != self.types[other] or {name, source} & self._counters:
                continue
            if other in self._apart[one]:
                continue
            self._joined[other] = one
            self._apart[one] |= self._apart[other]
            for far in self._apart[other]:
                self._apart[far].add(one)

    def _before(self, body: Sequence[Node], after: frozenset[str]) -> frozenset[str]:
        """Return the variables that are needed before statements; ``after``: those that are needed behind them."""
        live = after
        for place in range(len(body) - 1, -1, -1):
            live = self._before_one(body, place, live)
        return live

    def _before_one(self, body: Sequence[Node], place: int, after: frozenset[str]) -> frozenset[str]:
        node = body[place]
        match node:
            case Let(name, value) | Assign(name, value):
                return self._given(body, place, name, value, after)
            case If(cond, then, otherwise):
                return self._before(then, after) | self._before(otherwise, after) | self._names(cond)
            case Loop(name, start, stop, inner):
                self._counters.add(name)
                top = after
                while (again := top | (self._before(inner, top) - {name})) != top:
                    top = again
                self._keep_apart(name, top)
                return top | self._names(start) | self._names(stop)
            case Return():
                return frozenset()
        operands = OPERANDS.get(type(node))
        return after.union(*map(self._names, operands(node))) if operands is not None else after

    def _given(self, body: Sequence[Node], place: int, name: str, value: Expr, after: frozenset[str]) -> frozenset[str]:
        """Return what is needed before a variable gets a value."""
        self.left_out.discard(name)
        is_let = isinstance(body[place], Let)
        if (
            is_let
            and name not in after
            and _is_literal(value)
            and name in self.assigned
            and isinstance(_following(body, place), If)
        ):
            self.left_out.add(name)
            return after - {name}
        source = value.name if isinstance(value, Var) and value.name in self.types else name
        is_handed = not is_let or name in self.assigned or isinstance(_following(body, place), Loop)
        if source != name and is_handed and (name, source) not in self._copies:
            self._copies.append((name, source))
        self._keep_apart(name, after - {source})
        return (after - {name}) | self._names(value)

    def _keep_apart(self, name: str, others: frozenset[str]) -> None:
        for other in others - {name}:
            self._apart[name].add(other)
            self._apart[other].add(name)

    def _count(self, body: Sequence[Node]) -> None:
        for node in body:
            operands = OPERANDS.get(type(node))
            for one in () if operands is None else operands(node):
                self.readers.update(self._names(one))
            match node:
                case If(_, then, otherwise):
                    self._count(then)
                    self._count(otherwise)
                case Loop(body=inner):
                    self._count(inner)

    def _names(self, expr: Expr) -> frozenset[str]:
        found = self._uses.get(id(expr))
        if found is None:
            found = self._uses[id(expr)] = frozenset(
                one.name for one in expressions_within(expr) if isinstance(one, Var) and one.name in self.types
            )
            self._kept.append(expr)  # so that its id stays its own
        return found


def _is_literal(value: Expr) -> bool:
    return isinstance(value, LITERALS) or (isinstance(value, OpaqueExpr) and value.kind in WIDE_LITERALS)


def _assigned(body: Sequence[Node]) -> set[str]:
    found: set[str] = set()
    for node in body:
        match node:
            case Assign(name):
                found.add(name)
            case If(_, then, otherwise):
                found |= _assigned(then) | _assigned(otherwise)
            case Loop(body=inner):
                found |= _assigned(inner)
    return found


def _following(body: Sequence[Node], place: int) -> Node | None:
    """Return the next statement that is no declaration: loops and ``if`` declare before them what they give other values."""
    return next((node for node in body[place + 1 :] if not isinstance(node, Let)), None)
