"""Long chains of ``elif``: the number of the side that is taken first, then the sides, which halve until one is left.

As they stand each ``elif`` is one level more, and a program has 64 at most.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST = 48  # ifs within each other, which leaves room for others


def links_of(node: ast.If) -> list[ast.If]:
    """Return an ``if`` and each ``elif`` of it."""
    links = [node]
    while len(links[-1].orelse) == 1 and isinstance(links[-1].orelse[0], ast.If):
        links.append(links[-1].orelse[0])
    return links


def shortened(node: ast.If) -> list[ast.stmt] | None:
    """Return the statements that do what a long chain does, None for one that may stay as it is."""
    links = links_of(node)
    if len(links) <= _LONGEST:
        return None
    name = f"the side of the if in line {node.lineno}"  # which no name of Python is
    found = _assigned(name, 0, node)
    parts = [links[first : first + _LONGEST] for first in range(0, len(links), _LONGEST)]
    statements: list[ast.stmt] = [found]
    for number, part in enumerate(parts):
        tests = _tests(name, part, number * _LONGEST + 1)
        statements.append(_if(_compared(name, ast.Eq(), 0, part[0]), [tests], [], part[0]) if number else tests)
    sides = [(links[-1].orelse, links[-1]), *((one.body, one) for one in links)]
    return [*statements, *_halved(name, sides, 0, node)]


def _tests(name: str, links: Sequence[ast.If], first: int) -> ast.stmt:
    """Return an ``if`` that gives the name the number of the first test that holds."""
    rest: list[ast.stmt] = []
    for number, link in reversed(list(enumerate(links, first))):
        rest = [_if(link.test, [_assigned(name, number, link)], rest, link)]
    return rest[0]


def _halved(name: str, sides: Sequence[tuple[list[ast.stmt], ast.If]], first: int, node: ast.If) -> list[ast.stmt]:
    """Return what runs the side of the number that the name has; the sides are numbered from ``first`` on."""
    if len(sides) == 1:
        return sides[0][0]
    half = len(sides) // 2
    test = _compared(name, ast.Lt(), first + half, node)
    lower, upper = _halved(name, sides[:half], first, node), _halved(name, sides[half:], first + half, node)
    return [_if(test, lower or [ast.copy_location(ast.Pass(), node)], upper, node)]


def _if(test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt], at: ast.If) -> ast.stmt:
    return ast.copy_location(ast.If(test, body, orelse), at)


def _assigned(name: str, number: int, at: ast.If) -> ast.stmt:
    made = ast.Assign([ast.Name(name, ast.Store())], ast.Constant(number))
    return ast.fix_missing_locations(ast.copy_location(made, at.test))


def _compared(name: str, op: ast.cmpop, number: int, at: ast.If) -> ast.expr:
    made = ast.Compare(ast.Name(name, ast.Load()), [op], [ast.Constant(number)])
    return ast.fix_missing_locations(ast.copy_location(made, at.test))
