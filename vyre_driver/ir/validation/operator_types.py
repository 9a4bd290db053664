"""The operand and result types of operators, and the table of valid casts.

An unknown type (None: of a call, or of an extension's operation) is assumed to fit.

Source: spec items 1.8 (operator typing) and 1.9 (casts); where upstream checks nothing, 1.7
(docs/decisions/0006-holes-of-the-validator.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.arithmetic import Expr, LitBool, LitF32, LitI32, LitU32, OpaqueExpr
from vyre_driver.ir.dtypes import WIDE_LITERALS, DataType
from vyre_driver.ir.expressions import Cast
from vyre_driver.ir.operators import PREDICATES, UNPACKING, BinOp, OpaqueOp, UnOp
from vyre_driver.ir.validation.rules import spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.ir.extensions import ExtensionOperator

_BOOL, _U32, _I32, _U64, _F32 = (
    one.wire_tag for one in (DataType.Bool, DataType.U32, DataType.I32, DataType.U64, DataType.F32)
)
_CAST = "cast the operands to a type that it takes"


class Mismatch(NamedTuple):
    """Why an operator cannot take what it is given, and what to do."""

    message: str
    fix: str


class _Takes(NamedTuple):
    """What a binary operator takes: one of ``types`` (wire tags; None: any but ``never``), both the same or not."""

    types: frozenset[int] | None
    text: str
    same: bool = True
    never: frozenset[int] = frozenset()
    gives: DataType | None = None


_ARITHMETIC = _Takes(frozenset({_U32, _I32, _F32}), "two operands of one type out of u32, i32 and f32")
_INTEGER = _Takes(frozenset({_U32, _I32}), "two operands of one type out of u32 and i32")
_WRAPPING = _Takes(frozenset({_U32, _I32, _U64}), "two operands of one type out of u32, i32 and u64")
_UNSIGNED = _Takes(frozenset({_U32}), "two operands of type u32")
_WIDE_UNSIGNED = _Takes(frozenset({_U32, _U64}), "two operands of one type out of u32 and u64")
_DISTANCE = _Takes(frozenset({_U32, _F32}), "two operands of one type out of u32 and f32")
_EQUALITY = _Takes(None, "two operands of one type", gives=DataType.Bool)
_ORDER = _Takes(None, "two operands of one type other than bool", never=frozenset({_BOOL}), gives=DataType.Bool)
_LOGIC = _Takes(frozenset({_U32, _BOOL}), "operands of type u32 or bool", same=False, gives=DataType.Bool)

# By wire tag, which hashes faster than a member; the tag of opaque operators is in none of these.
_BINARY: dict[int, _Takes] = {
    op.wire_tag: takes
    for ops, takes in [
        ((BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.DIV, BinOp.MIN, BinOp.MAX), _ARITHMETIC),
        ((BinOp.ABS_DIFF,), _DISTANCE),
        ((BinOp.SATURATING_ADD, BinOp.SATURATING_SUB, BinOp.SATURATING_MUL), _UNSIGNED),
        ((BinOp.MOD, BinOp.BIT_AND, BinOp.BIT_OR, BinOp.BIT_XOR), _INTEGER),
        ((BinOp.SHL, BinOp.SHR, BinOp.ROTATE_LEFT, BinOp.ROTATE_RIGHT), _UNSIGNED),
        ((BinOp.WRAPPING_ADD, BinOp.WRAPPING_SUB), _WRAPPING),
        ((BinOp.MUL_HIGH,), _WIDE_UNSIGNED),
        ((BinOp.AND, BinOp.OR), _LOGIC),
        ((BinOp.EQ, BinOp.NE), _EQUALITY),
        ((BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE), _ORDER),
    ]
    for op in ops
}
_BITWISE = (UnOp.BIT_NOT, UnOp.POPCOUNT, UnOp.CLZ, UnOp.CTZ, UnOp.REVERSE_BITS)
_UNARY: dict[int, tuple[frozenset[int], str]] = {
    **{op.wire_tag: (frozenset({_F32}), "f32") for op in UnOp if op not in UNPACKING},
    **{op.wire_tag: (frozenset({_U32, _I32, _U64}), "u32, i32 or u64") for op in _BITWISE},
    UnOp.NEGATE.wire_tag: (frozenset({_U32, _F32}), "u32 or f32"),
    UnOp.LOGICAL_NOT.wire_tag: (frozenset({_U32, _BOOL}), "u32 or bool"),
    **{op.wire_tag: (frozenset({_U32, _I32}), "u32 or i32") for op in UNPACKING},
}
# The operators whose result has a type of its own.
_RESULTS: dict[int, DataType] = {
    **{op.wire_tag: DataType.Bool for op in PREDICATES},
    **{op.wire_tag: DataType.U32 for op in UNPACKING},
}


def binary_type(op: BinOp | OpaqueOp, left: DataType | None, right: DataType | None) -> DataType | Mismatch | None:
    """Return the type of ``left op right``, None when that is not known, or why there is none."""
    takes = _BINARY.get(op.wire_tag)
    if takes is None:
        if isinstance(op, OpaqueOp):
            return None
        return Mismatch(f"{op.name} is not an operator of two operands", "use the subgroup expressions")
    types = takes.types
    known = left if left is not None else right
    fits = (
        (types is None or ((left is None or left.wire_tag in types) and (right is None or right.wire_tag in types)))
        and (not takes.never or known is None or known.wire_tag not in takes.never)
        and (not takes.same or left is right or left is None or right is None or left == right)
    )
    if not fits:
        return Mismatch(f"{_name(op)} takes {takes.text}, and got {spelled(left)} and {spelled(right)}", _CAST)
    return known if takes.gives is None else takes.gives


def unary_type(op: UnOp | OpaqueOp, operand: DataType | None) -> DataType | Mismatch | None:
    """Return the type of ``op operand``, None when that is not known, or why there is none."""
    tag = op.wire_tag
    if operand is None:
        return _RESULTS.get(tag)
    takes = _UNARY.get(tag)
    if takes is None:
        return Mismatch(f"{_name(op)} is not known for {spelled(operand)}", "give it what an extension computes")
    if operand.wire_tag not in takes[0]:
        return Mismatch(f"{_name(op)} takes {takes[1]}, and got {spelled(operand)}", _fix(op, operand))
    return _RESULTS.get(tag, operand)


def extension_type(operator: ExtensionOperator, types: Sequence[DataType | None] | None) -> DataType | Mismatch:
    """Return the type of an operator of ours on operands of these types (None: they are misplaced), or why there is none."""
    if types is None:
        return Mismatch(*_MISPLACED[len(operator.operands)](operator.name))
    pairs = zip(operator.operands, types, strict=True)
    if all(got is None or got in takes for takes, got in pairs):
        return operator.result
    takes = " and ".join(_either(one) for one in operator.operands)
    return Mismatch(f"{operator.name} takes {takes}, and got {' and '.join(map(spelled, types))}", _CAST)


_MISPLACED: dict[int, Callable[[str], tuple[str, str]]] = {
    1: lambda name: (f"{name} takes one operand, and got a second one that is not the literal 0", "give u32(0) in its place"),
    3: lambda name: (f"{name} takes three operands, and got two", f"make it with extension({name!r}, a, b, c)"),
}


def _either(types: tuple[DataType, ...]) -> str:
    names = [str(one) for one in types]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _name(op: BinOp | UnOp | OpaqueOp) -> str:
    return f"opaque operator {op.extension_id:#010x}" if isinstance(op, OpaqueOp) else op.name


def _fix(op: UnOp | OpaqueOp, operand: DataType) -> str:
    signed = op is UnOp.NEGATE and operand == DataType.I32
    return "write i32(0) - value, which wraps at the least i32" if signed else _CAST


_INTEGERS = (
    DataType.U8,
    DataType.U16,
    DataType.U32,
    DataType.U64,
    DataType.I8,
    DataType.I16,
    DataType.I32,
    DataType.I64,
)
_WHOLE = (*_INTEGERS, DataType.Bool)
_SHORT = (DataType.U32, DataType.I32, DataType.Bool)

# Targets by source, both by wire tag: none of these types has parameters. Every type also goes to itself.
_TARGETS: dict[int, frozenset[int]] = {
    source.wire_tag: frozenset(target.wire_tag for target in targets)
    for source, targets in [
        *((one, _WHOLE) for one in _INTEGERS if one not in {DataType.U32, DataType.I32, DataType.U64}),
        *((one, (*_WHOLE, DataType.Vec2U32, DataType.Vec4U32, DataType.F32)) for one in _SHORT),
        (DataType.U64, (*_WHOLE, DataType.Vec2U32)),
        (DataType.Vec2U32, (DataType.U32, DataType.I32, DataType.U64, DataType.Bool)),
        (DataType.Vec4U32, (DataType.U32, DataType.I32, DataType.U64, DataType.Bool, DataType.Vec2U32)),
        (DataType.F32, (*_SHORT, DataType.F16, DataType.BF16)),
        *((half, (DataType.F32,)) for half in (DataType.F16, DataType.BF16)),
    ]
}
_BITS = {one.wire_tag: one.bit_width or 0 for one in _INTEGERS}
_STORED_ALIKE = (
    {DataType.U32, DataType.I32},
    {DataType.U64, DataType.I64},
    {DataType.U32, DataType.Bool},
    {DataType.U32, DataType.Bytes},
)


def is_castable(source: DataType, target: DataType) -> bool:
    """Return whether the table has the pair."""
    return target.wire_tag in _TARGETS.get(source.wire_tag, ()) or source == target


def is_storable(dtype: DataType, element: DataType) -> bool:
    """Return whether a value may be stored as an element: of its type, or of one that keeps its bits or its truth."""
    return dtype is element or dtype == element or {dtype, element} in _STORED_ALIKE


def narrows(source: DataType, target: DataType) -> bool:
    """Return whether a cast between integers drops bits."""
    return _BITS.get(source.wire_tag, 0) > _BITS.get(target.wire_tag, 64)


def is_zero(expr: Expr) -> bool:
    """Return whether an expression is a literal 0, or casts of one."""
    while isinstance(expr, Cast):
        expr = expr.value
    if isinstance(expr, LitU32 | LitI32 | LitBool):
        return not expr.value
    if isinstance(expr, LitF32):
        return expr.bits & 0x7FFF_FFFF == 0
    return isinstance(expr, OpaqueExpr) and expr.kind in WIDE_LITERALS and not any(expr.payload)
