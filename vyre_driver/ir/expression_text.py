"""Expressions as pseudo-code."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, cast

import numpy as np

from vyre_driver.ir import expressions as ex
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.extensions import application
from vyre_driver.ir.literal_types import canonical_f32_bits
from vyre_driver.ir.operators import BinOp, MemoryOrdering, OpaqueOp, UnOp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.operators import Operator
    from vyre_driver.ir.terms import Term

_NAME = re.compile(r"[^\W\d][\w.:/-]*")
_SHOWN_BYTES = 16

# Operator to symbol and how tightly it binds; the right operand must bind tighter.
_INFIX = {
    BinOp.OR: ("or", 1),
    BinOp.AND: ("and", 2),
    BinOp.EQ: ("==", 3),
    BinOp.NE: ("!=", 3),
    BinOp.LT: ("<", 3),
    BinOp.GT: (">", 3),
    BinOp.LE: ("<=", 3),
    BinOp.GE: (">=", 3),
    BinOp.BIT_OR: ("|", 4),
    BinOp.BIT_XOR: ("^", 5),
    BinOp.BIT_AND: ("&", 6),
    BinOp.SHL: ("<<", 7),
    BinOp.SHR: (">>", 7),
    BinOp.ADD: ("+", 8),
    BinOp.SUB: ("-", 8),
    BinOp.MUL: ("*", 9),
    BinOp.DIV: ("/", 9),
    BinOp.MOD: ("%", 9),
}
_COMPARISON = 3
_PREFIX = {UnOp.NEGATE: "-", UnOp.BIT_NOT: "~", UnOp.LOGICAL_NOT: "not "}
_PREFIX_BINDING = 10
_IDS: dict[type[Expr], str] = {ex.InvocationId: "gid", ex.WorkgroupId: "wid", ex.LocalId: "lid"}
_WIDE = {DataType.U64: "<Q", DataType.I64: "<q", DataType.F64: "<d"}

_CALLS: dict[type[Expr], str] = {
    ex.Select: "select",
    ex.Fma: "fma",
    ex.SubgroupShuffle: "subgroup_shuffle",
    ex.SubgroupBallot: "subgroup_ballot",
    ex.SubgroupLocalId: "subgroup_local_id",
    ex.SubgroupSize: "subgroup_size",
}

Pieces = list["str | tuple[Expr, int]"]


def expression_pieces(root: Expr) -> Iterator[str]:
    """Yield an expression as pseudo-code, piece by piece."""
    waiting: Pieces = [(root, 0)]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        else:
            waiting.extend(reversed(_pieces(*one)))


def spelled(name: str) -> str:
    """Return a name for the text: unchanged if it is an identifier, else quoted and escaped."""
    return name if _NAME.fullmatch(name) and name.isprintable() else ascii(name)


def bytes_text(payload: bytes) -> str:
    """Return the number of bytes and the first of them."""
    shown = payload[:_SHOWN_BYTES].hex() + ("..." if len(payload) > _SHOWN_BYTES else "")
    return f"{len(payload)} bytes {shown}" if payload else "0 bytes"


def operator_text(op: Operator | OpaqueOp) -> str:
    """Return the lower-case name of an operator."""
    return f"extension_{op.extension_id:08x}" if isinstance(op, OpaqueOp) else op.name.lower()


def _pieces(term: Expr, binding: int) -> Pieces:
    """Return what an expression is made of, in an operand place that wants at least ``binding``."""
    if isinstance(term, ex.Binary) and isinstance(term.op, BinOp) and term.op in _INFIX:
        symbol, own = _INFIX[term.op]
        # Comparisons do not chain here as they would in Python.
        pieces: Pieces = [(term.left, own + (own == _COMPARISON)), f" {symbol} ", (term.right, own + 1)]
        return ["(", *pieces, ")"] if own < binding else pieces
    if isinstance(term, ex.Unary) and isinstance(term.op, UnOp) and term.op in _PREFIX:
        pieces = [_PREFIX[term.op], (term.operand, _PREFIX_BINDING + 1)]
        return ["(", *pieces, ")"] if binding > _PREFIX_BINDING else pieces
    leaf = _leaf(term)
    return [leaf] if leaf is not None else _call_pieces(term)


def _leaf(term: Expr) -> str | None:
    match term:
        case ex.LitU32():
            return str(term.value)
        case ex.LitI32():
            return f"{term.value}i32"
        case ex.LitBool():
            return str(term.value).lower()
        case ex.LitF32():
            return _float_text(term)
        case ex.Var():
            return spelled(term.name)
        case ex.BufLen():
            return f"len({spelled(term.buffer)})"
        case ex.BufferRef():
            return f"buffer {spelled(term.buffer)}"
        case ex.InvocationId() | ex.WorkgroupId() | ex.LocalId():
            return f"{_IDS[type(term)]}.{'xyz'[term.axis] if term.axis < 3 else term.axis}"
        case ex.OpaqueExpr():
            return _opaque_text(term)
    return None


def _call_pieces(term: Expr) -> Pieces:
    match term:
        case ex.Load():
            return [spelled(term.buffer), "[", (term.index, 0), "]"]
        case ex.Atomic():
            return _atomic(term)
        case ex.Binary() | ex.Unary():
            return _call(operator_text(term.op), *term.children)
        case ex.SubgroupReduce():
            return _call(f"subgroup_{operator_text(term.op)}", term.value)
        case ex.Call():
            return _call(f"call {spelled(term.op_id)}", *term.args)
        case ex.Cast():
            found = application(term)
            return _call(f"cast<{term.target}>", term.value) if found is None else _call(found.operator.name, *found.operands)
    return _call(_CALLS[type(term)], *term.children)


def _call(name: str, *arguments: Term) -> Pieces:
    pieces: Pieces = [name, "("]
    for place, argument in enumerate(arguments):
        if place:
            pieces.append(", ")
        pieces.append((cast("Expr", argument), 0))
    return [*pieces, ")"]


def _atomic(term: ex.Atomic) -> Pieces:
    ordering = "" if term.ordering is MemoryOrdering.SEQ_CST else f"<{term.ordering.name.lower()}>"
    pieces: Pieces = [f"atomic_{operator_text(term.op)}{ordering}({spelled(term.buffer)}[", (term.index, 0), "], "]
    if term.expected is not None:
        pieces += ["expected ", (term.expected, 0), ", "]
    return [*pieces, (term.value, 0), ")"]


def _float_text(term: ex.LitF32) -> str:
    if term.bits & 0x7FFF_FFFF > 0x7F80_0000 and canonical_f32_bits(term.bits) != term.bits:
        return f"f32_bits({term.bits:#010x})"
    return str(np.float32(term.value))


def _opaque_text(term: ex.OpaqueExpr) -> str:
    if term.dtype is not None and len(term.payload) == 8:
        return f"{struct.unpack(_WIDE[term.dtype], term.payload)[0]}{term.dtype}"
    return f"opaque {spelled(term.kind)}({bytes_text(term.payload)})"
