"""A program's statements with a name of its own for each variable, and without scopes that hold nothing together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import Var
from vyre_driver.ir.canonical import rewrite
from vyre_driver.ir.nodes import Assign, Block, If, Let, Loop, Region, Return, Store
from vyre_driver.ir.terms import Traits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.terms import Term

_NONE = Traits.SWAPPED << 1  # a trait that no term has: every part is looked at


def distinct(body: Sequence[Node]) -> tuple[Node, ...]:
    """Return statements in which blocks and regions are dissolved, and each variable is declared once."""
    return tuple(_Renaming().body(body, {}))


class _Renaming:
    def __init__(self) -> None:
        self._taken: set[str] = set()

    def body(self, nodes: Sequence[Node], names: Mapping[str, str]) -> list[Node]:
        """Return statements of a scope; ``names`` are the new names of the variables around it."""
        scope = dict(names)
        found: list[Node] = []
        for node in nodes:
            found += self._node(node, scope)
            if isinstance(node, Return):
                break
        return found

    def _node(self, node: Node, scope: dict[str, str]) -> list[Node]:
        match node:
            case Block(body) | Region(body=body):
                return self.body(body, scope)
            case Let(name, value):
                inside = _renamed(value, scope)
                return [Let(self._declared(name, scope), inside)]
            case Assign(name, value):
                return [Assign(scope.get(name, name), _renamed(value, scope))]
            case Store(buffer, index, value):
                return [Store(buffer, _renamed(index, scope), _renamed(value, scope))]
            case If(cond, then, otherwise):
                return [If(_renamed(cond, scope), tuple(self.body(then, scope)), tuple(self.body(otherwise, scope)))]
            case Loop(name, start, stop, body):
                bounds = _renamed(start, scope), _renamed(stop, scope)
                inner = dict(scope)
                return [Loop(self._declared(name, inner), *bounds, tuple(self.body(body, inner)))]
        return [node]

    def _declared(self, name: str, scope: dict[str, str]) -> str:
        found, count = name, 0
        while found in self._taken:
            count += 1
            found = f"{name}_{count}"
        self._taken.add(found)
        scope[name] = found
        return found


def _renamed(expr: Expr, names: Mapping[str, str]) -> Expr:
    if all(old == new for old, new in names.items()):
        return expr

    def rule(term: Term) -> Term:
        return Var(names[term.name], term.dtype) if isinstance(term, Var) and term.name in names else term

    return rewrite(expr, rule, _NONE)  # type: ignore[return-value] # of an expression
