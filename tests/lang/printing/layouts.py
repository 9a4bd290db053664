"""The tests that matrices fit their buffers, which each call proves: the front end makes them itself, so no text has them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from printing.grids import parts
from vyre_driver.ir.arithmetic import Binary, LitU32, Var
from vyre_driver.ir.expressions import BufLen
from vyre_driver.ir.nodes import If, Let
from vyre_driver.ir.operators import BinOp

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node


def without_layout_tests(body: Sequence[Node], lengths: Container[str]) -> tuple[Node, ...]:
    """Return the statements of a program without such tests around all that follows its numbers.

    ``lengths`` are the variables that hold how far the axes of arrays go.
    """
    front, last = body[:-1], body[-1] if body else None
    if not isinstance(last, If) or last.otherwise or not all(isinstance(one, Let) for one in front):
        return tuple(body)
    tests = [one for one in parts(last.cond) if not _is_of_layout(one, lengths)]
    if not tests:
        return (*front, *last.then)
    return (*front, If(functools.reduce(functools.partial(Binary, BinOp.AND), tests), last.then, ()))


def _is_of_layout(test: Expr, lengths: Container[str]) -> bool:
    match test:
        case Binary(BinOp.EQ, Binary(BinOp.MUL_HIGH, one, other), LitU32(0)):
            return _is_product(one, lengths) and _is_product(other, lengths)
        case Binary(BinOp.LE, total, BufLen()):
            return _is_product(total, lengths)
    return False


def _is_product(expr: Expr, lengths: Container[str]) -> bool:
    match expr:
        case Binary(BinOp.MUL, one, other):
            return _is_product(one, lengths) and _is_product(other, lengths)
        case Var(name):
            return name in lengths
    return False
