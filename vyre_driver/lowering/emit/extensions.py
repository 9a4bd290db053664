"""Lower the operators that this package adds to the IR.

Source: docs/ir.md, "Operators of this package"; SPIR-V 1.6, OpBitcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.dtypes import DataType
from vyre_driver.lowering.emit import doubles, float_remainder, floats, halves, integers, wide, wide_division, wide_floats
from vyre_driver.lowering.emit.code import Value, cannot
from vyre_driver.lowering.emit.kinds import BF16, F16, F32, F64, I32, I64, U32, U64, Form, Kind
from vyre_driver.spirv.instructions import Glsl, Ins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.ir.extensions import ExtensionOperator
    from vyre_driver.ir.terms import Term
    from vyre_driver.lowering.emit.code import Code

    Lowering = Callable[..., int]


def apply(code: Code, term: Term, operator: ExtensionOperator, operands: Sequence[Value]) -> Value:
    """Return an operator on its operands, whose types the validator has checked."""
    if operator.needs_f64:
        doubles.require(code, term, operator.name)
    name = operator.name
    kind = _KINDS[operator.result]
    if name in _BITCASTS:
        return _bitcast(code, operands[0], kind)
    if name == "fma<f64>" and code.target.strict and not code.target.fuses:
        cannot(term, "an fma of f64 that rounds once", "NVIDIA's driver, or a configuration with a ulp budget")
    return Value(LOWERED[name](code, *(one.id for one in operands)), kind)


def _bitcast(code: Code, value: Value, target: Kind) -> Value:
    if value.kind is target:
        return value
    bits = _known_bits(code, value)
    if bits is not None:
        return Value(_constant(code, target, bits), target)
    return Value(code.op(Ins.Bitcast, code.type_of(target.form), value.id), target)


def _known_bits(code: Code, value: Value) -> int | None:
    """Return the bits of a constant that no specialization changes, None of anything else.

    A constant stays one, or compilers would fold f32 of its bits, which they do not do as the IR does (folding.py).
    """
    if value.kind.form is Form.F32:
        known = code.floats.get(value.id)
        return known if isinstance(known, int) else None
    if value.kind.form is Form.I32:
        number = code.signed_value(value.id)
        return None if number is None else number & 0xFFFF_FFFF
    low, high = code.range_of(value.id)
    return low if low == high else None


def _constant(code: Code, target: Kind, bits: int) -> int:
    if target is F32:
        return code.const_f32(bits)
    return code.const_i32(bits) if target is I32 else code.const(bits)


def _of_low_half(function: Lowering) -> Lowering:
    """Return what makes an f32 of the lower half of a word."""
    return lambda code, word: function(code, integers.bit_and(code, word, code.const(0xFFFF)))


def _bitwise(opcode: int) -> Lowering:
    return lambda code, left, right: wide.bitwise(code, opcode, left, right)


def _chosen(*, signed: bool, lesser: bool) -> Lowering:
    return lambda code, left, right: wide.choose(code, left, right, signed=signed, lesser=lesser)


def _shifted(*, signed: bool) -> Lowering:
    return lambda code, left, right: wide.shift_right(code, left, right, signed=signed)


def _double(opcode: int) -> Lowering:
    return lambda code, left, right: doubles.arithmetic(code, opcode, left, right)


def _function(number: int) -> Lowering:
    return lambda code, *operands: doubles.function(code, number, *operands)


def _signed(function: Callable[..., int], *, signed: bool) -> Lowering:
    return lambda code, operand: function(code, operand, signed=signed)


_KINDS = {
    DataType.U32: U32,
    DataType.I32: I32,
    DataType.F32: F32,
    DataType.U64: U64,
    DataType.I64: I64,
    DataType.F64: F64,
    DataType.F16: F16,
    DataType.BF16: BF16,
}
_BITCASTS = frozenset({"bitcast<u32>", "bitcast<i32>", "bitcast<f32>"})
_HALVES: dict[str, Lowering] = {
    "f16_to_f32": halves.from_f16,
    "bf16_to_f32": halves.from_bf16,
    "f32_to_f16": halves.to_f16,
    "f32_to_bf16": halves.to_bf16,
    "unpack_f16": _of_low_half(halves.from_f16),
    "unpack_bf16": _of_low_half(halves.from_bf16),
    "pack_f16": halves.to_f16,
    "pack_bf16": halves.to_bf16,
}
_WIDE: dict[str, Lowering] = {
    **{f"bitcast<{one}>": lambda _code, operand: operand for one in ("u64", "i64", "f64")},  # all held as 64 bits
    "add<i64>": wide.add,
    "sub<i64>": wide.sub,
    **{f"mul<{one}>": wide.mul for one in ("u64", "i64")},
    "div<u64>": wide_division.divide,
    "div<i64>": wide_division.divide_signed,
    "mod<u64>": wide_division.modulo,
    "mod<i64>": wide_division.modulo_signed,
    **{f"bit_and<{one}>": _bitwise(Ins.BitwiseAnd) for one in ("u64", "i64")},
    **{f"bit_or<{one}>": _bitwise(Ins.BitwiseOr) for one in ("u64", "i64")},
    **{f"bit_xor<{one}>": _bitwise(Ins.BitwiseXor) for one in ("u64", "i64")},
    **{f"shl<{one}>": wide.shift_left for one in ("u64", "i64")},
    "shr<u64>": _shifted(signed=False),
    "shr<i64>": _shifted(signed=True),
    "min<u64>": _chosen(signed=False, lesser=True),
    "max<u64>": _chosen(signed=False, lesser=False),
    "min<i64>": _chosen(signed=True, lesser=True),
    "max<i64>": _chosen(signed=True, lesser=False),
    "u64_to_f32": wide_floats.from_unsigned,
    "i64_to_f32": wide_floats.from_signed,
    "f32_to_u64": wide_floats.to_unsigned,
    "f32_to_i64": wide_floats.to_signed,
}
_DOUBLES: dict[str, Lowering] = {
    "add<f64>": _double(Ins.FAdd),
    "sub<f64>": _double(Ins.FSub),
    "mul<f64>": _double(Ins.FMul),
    "div<f64>": _double(Ins.FDiv),
    "min<f64>": _function(Glsl.NMin),
    "max<f64>": _function(Glsl.NMax),
    "sqrt<f64>": _function(Glsl.Sqrt),
    "floor<f64>": _function(Glsl.Floor),
    "ceil<f64>": _function(Glsl.Ceil),
    "trunc<f64>": _function(Glsl.Trunc),
    "negate<f64>": doubles.negate,
    "abs<f64>": doubles.absolute,
    "fma<f64>": _function(Glsl.Fma),
    "f32_to_f64": doubles.from_f32,
    "f64_to_f32": doubles.to_f32,
    "u32_to_f64": _signed(doubles.from_word, signed=False),
    "i32_to_f64": _signed(doubles.from_word, signed=True),
    "u64_to_f64": _signed(doubles.from_wide, signed=False),
    "i64_to_f64": _signed(doubles.from_wide, signed=True),
    "f64_to_u32": _signed(doubles.to_word, signed=False),
    "f64_to_i32": _signed(doubles.to_word, signed=True),
    "f64_to_u64": doubles.to_unsigned,
    "f64_to_i64": doubles.to_signed,
}
_FLOATS: dict[str, Lowering] = {
    "round_half_even": lambda code, operand: floats.extended(code, Glsl.RoundEven, operand),
    "fmod": float_remainder.fmod,
}
LOWERED = {**_FLOATS, **_HALVES, **_WIDE, **_DOUBLES}
"""What lowers each, but for bit casts and what has a body, by its name."""
