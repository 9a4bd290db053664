"""Lower the operators that this package adds to the IR.

Source: docs/ir.md, "Operators of this package"; SPIR-V 1.6, OpBitcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.lowering.emit import halves, integers
from vyre_driver.lowering.emit.code import Value
from vyre_driver.lowering.emit.kinds import BF16, F16, F32, I32, U32, Form, Kind
from vyre_driver.spirv.instructions import Ins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.ir.extensions import ExtensionOperator
    from vyre_driver.lowering.emit.code import Code


def apply(code: Code, operator: ExtensionOperator, operands: Sequence[Value]) -> Value:
    """Return an operator on its operands, whose types the validator has checked."""
    return LOWERED[operator.name](code, *operands)


def _bitcast(target: Kind) -> Callable[[Code, Value], Value]:
    def lower(code: Code, value: Value) -> Value:
        if value.kind is target:
            return value
        bits = _known_bits(code, value)
        if bits is not None:
            return Value(_constant(code, target, bits), target)
        return Value(code.op(Ins.Bitcast, code.type_of(target.form), value.id), target)

    return lower


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


def _of_word(function: Callable[[Code, int], int], target: Kind) -> Callable[[Code, Value], Value]:
    """Return what makes a value of this kind of another."""
    return lambda code, value: Value(function(code, value.id), target)


def _of_low_half(function: Callable[[Code, int], int]) -> Callable[[Code, Value], Value]:
    """Return what makes an f32 of the lower half of a word."""
    return lambda code, value: Value(function(code, integers.bit_and(code, value.id, code.const(0xFFFF))), F32)


LOWERED: dict[str, Callable[..., Value]] = {
    "bitcast<u32>": _bitcast(U32),
    "bitcast<i32>": _bitcast(I32),
    "bitcast<f32>": _bitcast(F32),
    "f16_to_f32": _of_word(halves.from_f16, F32),
    "bf16_to_f32": _of_word(halves.from_bf16, F32),
    "f32_to_f16": _of_word(halves.to_f16, F16),
    "f32_to_bf16": _of_word(halves.to_bf16, BF16),
    "unpack_f16": _of_low_half(halves.from_f16),
    "unpack_bf16": _of_low_half(halves.from_bf16),
    "pack_f16": _of_word(halves.to_f16, U32),
    "pack_bf16": _of_word(halves.to_bf16, U32),
}
"""What lowers each, by its name."""
