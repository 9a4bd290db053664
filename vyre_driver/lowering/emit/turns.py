"""Bound the turns of a program's loops, for drivers that end loops after so many of them.

A loop is taken as the driver counts it, with the turn in which it is left; loops that lowering itself makes count as well.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import Binary, LitU32, Unary
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Atomic
from vyre_driver.ir.nodes import Loop
from vyre_driver.ir.operators import AtomicOp, BinOp, OpaqueOp
from vyre_driver.ir.walks import BODY_FIELDS, OPERANDS, expressions_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.program import Program

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
