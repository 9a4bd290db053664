"""Functions that build the operators which this package adds to the IR (:mod:`vyre_driver.ir.extensions`).

Every function raises InvalidProgram (1006) for what is not valid.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import Binary, Unary, literal
from vyre_driver.ir.builders import fma, select
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Cast
from vyre_driver.ir.extensions import EXTENSIONS, extension
from vyre_driver.ir.fields import refuse
from vyre_driver.ir.operators import BinOp, TernaryOp, UnOp
from vyre_driver.ir.validation.operator_types import is_castable

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.literal_types import Number


def bitcast(dtype: DataType, value: Expr | Number) -> Expr:
    """Return the bits of a u32, i32 or f32, or of a u64, i64 or f64, as another type of as many; a number needs a type."""
    name = f"bitcast<{dtype}>"
    if name not in EXTENSIONS:
        refuse(f"there is no bitcast to {dtype}", "give DataType.U32, I32, F32, U64, I64 or F64")
    return extension(name, literal(value, None))


def convert(dtype: DataType, value: Expr | Number) -> Expr:
    """Return a value as the number of another type that is nearest to it.

    That is a cast where the IR has one, and an operator of ours where it has none. The type of the value has to be known
    (``load(declaration, i)``, ``var("x", dtype)``).
    """
    given = literal(value, None)
    source = given.dtype
    if source is None:
        refuse("the type of what is converted is not known here", "say it: var(name, dtype), load(declaration, index)")
    name = f"{source}_to_{dtype}"
    if name in EXTENSIONS:
        return extension(name, given)
    if not is_castable(source, dtype):
        refuse(f"there is no conversion from {source} to {dtype}", "convert it by way of another type, such as f32")
    return given if source == dtype else Cast(dtype, given)


def unpack_f16(word: Expr | Number) -> Expr:
    """Return the lower 16 bits of a u32, an f16, as f32."""
    return extension("unpack_f16", literal(word, DataType.U32))


def pack_f16(value: Expr | Number) -> Expr:
    """Return the bits of the f16 nearest to an f32 as a u32: ties to even, subnormals kept, NaN as 7E00 hex."""
    return extension("pack_f16", literal(value, DataType.F32))


def unpack_bf16(word: Expr | Number) -> Expr:
    """Return the lower 16 bits of a u32, a bf16, as f32."""
    return extension("unpack_bf16", literal(word, DataType.U32))


def pack_bf16(value: Expr | Number) -> Expr:
    """Return the bits of the bf16 nearest to an f32 as a u32: ties to even, subnormals kept, NaN as 7FC0 hex."""
    return extension("pack_bf16", literal(value, DataType.F32))


def operation(op: BinOp | UnOp | TernaryOp, dtype: DataType, *operands: Expr | Number) -> Expr:
    """Return an operator on operands of a type: the IR's, or ours where the IR has none for u64, i64 and f64.

    Counts of shifts are u32. Of 64-bit integers a quotient or remainder by 0 is 0; quotients are rounded to zero, and a
    remainder has the sign of the dividend.
    """
    count = _OPERAND_COUNTS.get(type(op))
    if count is None:
        refuse(f"{op!r} is no operator on values", "give a member of BinOp, UnOp or TernaryOp")
    if len(operands) != count:
        refuse(f"{op.name} takes {count} operand(s), and got {len(operands)}", f"give {count}")
    types = [DataType.U32 if place and op in _SHIFTS else dtype for place in range(len(operands))]
    if op is TernaryOp.SELECT:
        types[0] = DataType.Bool
    given = [literal(one, wanted) for one, wanted in zip(operands, types, strict=True)]
    name = f"{op.name.lower()}<{dtype}>"
    if name in EXTENSIONS:
        return extension(name, *given)
    if isinstance(op, TernaryOp):
        return fma(*given) if op is TernaryOp.FMA else select(*given)
    made = _MADE.get((op, dtype))
    if made is not None:
        return made(*given)
    return Unary(op, *given) if isinstance(op, UnOp) else Binary(op, *given)


def floor_divide(dtype: DataType, left: Expr | Number, right: Expr | Number) -> Expr:
    """Return the quotient of two u64 or i64, rounded down as numpy does; 0 by 0."""
    _check_wide("floor_divide", dtype)
    quotient = operation(BinOp.DIV, dtype, left, right)
    if dtype != DataType.I64:
        return quotient
    return select(_is_off(left, right), operation(BinOp.SUB, dtype, quotient, literal(1, dtype)), quotient)


def floor_modulo(dtype: DataType, left: Expr | Number, right: Expr | Number) -> Expr:
    """Return the remainder of two u64 or i64 with the sign of the divisor, as numpy does; 0 by 0."""
    _check_wide("floor_modulo", dtype)
    rest = operation(BinOp.MOD, dtype, left, right)
    return rest if dtype != DataType.I64 else select(_is_off(left, right), operation(BinOp.ADD, dtype, rest, right), rest)


def _check_wide(name: str, dtype: DataType) -> None:
    """Check that a type is u64 or i64: the quotient of another one would not be rounded down."""
    if dtype not in {DataType.U64, DataType.I64}:
        refuse(f"{name} takes u64 and i64, and got {dtype}", "convert the operands, or for f32 use vyre_driver.ir.functions")


def _is_off(left: Expr | Number, right: Expr | Number) -> Expr:
    """Return whether a quotient of i64 was rounded up: there is a rest, of another sign than the divisor."""
    rest, zero = operation(BinOp.MOD, DataType.I64, left, right), literal(0, DataType.I64)
    return rest.ne(zero).and_(operation(BinOp.BIT_XOR, DataType.I64, rest, right) < zero)


def _negated(dtype: DataType) -> Callable[[Expr], Expr]:
    return lambda operand: operation(BinOp.SUB, dtype, literal(0, dtype), operand)


_OPERAND_COUNTS: dict[type, int] = {UnOp: 1, BinOp: 2, TernaryOp: 3}
_SHIFTS = frozenset({BinOp.SHL, BinOp.SHR})
_MADE: dict[tuple[BinOp | UnOp, DataType], Callable[..., Expr]] = {
    (BinOp.ADD, DataType.U64): partial(Binary, BinOp.WRAPPING_ADD),
    (BinOp.SUB, DataType.U64): partial(Binary, BinOp.WRAPPING_SUB),
    (UnOp.NEGATE, DataType.U64): _negated(DataType.U64),
    (UnOp.NEGATE, DataType.I64): _negated(DataType.I64),
    (UnOp.BIT_NOT, DataType.I64): lambda one: operation(BinOp.BIT_XOR, DataType.I64, one, literal(-1, DataType.I64)),
    (UnOp.ABS, DataType.I64): lambda one: operation(BinOp.MAX, DataType.I64, one, _negated(DataType.I64)(one)),
}
"""What is made of others, since neither the IR nor we have an operator for it."""
