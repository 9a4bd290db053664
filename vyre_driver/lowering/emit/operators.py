"""The tables of functions that lower each operator on each kind of value: those of the IR, and those that this package adds.

Source: docs/ir.md, "Operators of this package"; SPIR-V 1.6, OpBitcast.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vyre_driver.ir.operators import UNPACKED_BITS, BinOp, OpaqueOp, UnOp
from vyre_driver.lowering.emit import casts, doubles, floats, integers, rounded_floats, wide
from vyre_driver.lowering.emit.code import Code, Value, cannot
from vyre_driver.lowering.emit.kinds import BOOL, F32, F64, I32, KINDS, U32, Form, Kind
from vyre_driver.spirv.opcodes import Glsl, Ins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.ir.extensions import ExtensionOperator
    from vyre_driver.ir.terms import Term

    Lowering = Callable[..., int]


def apply(code: Code, term: Term, operator: ExtensionOperator, operands: Sequence[Value]) -> Value:
    """Return an operator on its operands, whose types the validator has checked."""
    if operator.needs_f64:
        doubles.require(code, term, operator.name)
    name = operator.name
    kind = KINDS[operator.result]
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

    A constant stays one, or compilers would fold f32 of its bits, which they do not do as the IR does (floats.py).
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


def _by(function: Callable[..., int], number: int) -> Lowering:
    """Return the operator that a function makes by this instruction, which it is given before the operands."""
    return lambda code, *operands: function(code, number, *operands)


_BITCASTS = frozenset({"bitcast<u32>", "bitcast<i32>", "bitcast<f32>"})
_HALVES: dict[str, Lowering] = {
    "f16_to_f32": rounded_floats.from_f16,
    "bf16_to_f32": rounded_floats.from_bf16,
    "f32_to_f16": rounded_floats.to_f16,
    "f32_to_bf16": rounded_floats.to_bf16,
    "unpack_f16": _of_low_half(rounded_floats.from_f16),
    "unpack_bf16": _of_low_half(rounded_floats.from_bf16),
    "pack_f16": rounded_floats.to_f16,
    "pack_bf16": rounded_floats.to_bf16,
}
_WIDE: dict[str, Lowering] = {
    **{f"bitcast<{one}>": lambda _code, operand: operand for one in ("u64", "i64", "f64")},  # all held as 64 bits
    "add<i64>": wide.add,
    "sub<i64>": wide.sub,
    **{f"mul<{one}>": wide.mul for one in ("u64", "i64")},
    "div<u64>": wide.divide,
    "div<i64>": wide.divide_signed,
    "mod<u64>": wide.modulo,
    "mod<i64>": wide.modulo_signed,
    **{f"bit_and<{one}>": _by(wide.bitwise, Ins.BitwiseAnd) for one in ("u64", "i64")},
    **{f"bit_or<{one}>": _by(wide.bitwise, Ins.BitwiseOr) for one in ("u64", "i64")},
    **{f"bit_xor<{one}>": _by(wide.bitwise, Ins.BitwiseXor) for one in ("u64", "i64")},
    **{f"shl<{one}>": wide.shift_left for one in ("u64", "i64")},
    "shr<u64>": partial(wide.shift_right, signed=False),
    "shr<i64>": partial(wide.shift_right, signed=True),
    "min<u64>": partial(wide.choose, signed=False, lesser=True),
    "max<u64>": partial(wide.choose, signed=False, lesser=False),
    "min<i64>": partial(wide.choose, signed=True, lesser=True),
    "max<i64>": partial(wide.choose, signed=True, lesser=False),
    "u64_to_f32": wide.from_unsigned,
    "i64_to_f32": wide.from_signed,
    "f32_to_u64": wide.to_unsigned,
    "f32_to_i64": wide.to_signed,
}
_DOUBLES: dict[str, Lowering] = {
    "add<f64>": _by(doubles.arithmetic, Ins.FAdd),
    "sub<f64>": _by(doubles.arithmetic, Ins.FSub),
    "mul<f64>": _by(doubles.arithmetic, Ins.FMul),
    "div<f64>": _by(doubles.arithmetic, Ins.FDiv),
    "min<f64>": _by(doubles.function, Glsl.NMin),
    "max<f64>": _by(doubles.function, Glsl.NMax),
    "sqrt<f64>": _by(doubles.function, Glsl.Sqrt),
    "floor<f64>": _by(doubles.function, Glsl.Floor),
    "ceil<f64>": _by(doubles.function, Glsl.Ceil),
    "trunc<f64>": doubles.truncate,
    "negate<f64>": doubles.negate,
    "abs<f64>": doubles.absolute,
    "fma<f64>": _by(doubles.function, Glsl.Fma),
    "f32_to_f64": doubles.from_f32,
    "f64_to_f32": doubles.to_f32,
    "u32_to_f64": partial(doubles.from_word, signed=False),
    "i32_to_f64": partial(doubles.from_word, signed=True),
    "u64_to_f64": partial(doubles.from_wide, signed=False),
    "i64_to_f64": partial(doubles.from_wide, signed=True),
    "f64_to_u32": partial(doubles.to_word, signed=False),
    "f64_to_i32": partial(doubles.to_word, signed=True),
    "f64_to_u64": doubles.to_unsigned,
    "f64_to_i64": doubles.to_signed,
}
_FLOATS: dict[str, Lowering] = {
    "round_half_even": _by(floats.extended, Glsl.RoundEven),
    "fmod": rounded_floats.fmod,
}
LOWERED = {**_FLOATS, **_HALVES, **_WIDE, **_DOUBLES}
"""What lowers each, but for bit casts and what has a body, by its name."""


def _signed(opcode: int) -> Lowering:
    return lambda code, left, right: code.op(opcode, code.i32, left, right)


def _unsigned(opcode: int) -> Lowering:
    return lambda code, left, right: code.op(opcode, code.u32, left, right)


def _sum(code: Code, left: int, right: int) -> int:
    """Return the sum of u32. In a loop a number that is made of a bool is added as it is, to one that is not.

    Hidden, a loop that counts takes 30 % longer (NVIDIA's compiler, 580.159.04 on an H200).
    """
    if not code.loops:
        return integers.add(code, left, right)
    if _is_number(code, left):
        right = code.hidden.get(right) or right
    elif _is_number(code, right):
        left = code.hidden.get(left) or left
    return integers.add(code, left, right)


def _is_number(code: Code, operand: int) -> bool:
    """Return whether a u32 is neither a constant nor made of a bool."""
    low, high = code.range_of(operand)
    return low < high > 1


def _signed_sum(code: Code, left: int, right: int) -> int:
    """Return the sum of i32, as that of u32."""
    hidden = (code.hidden.get(left), code.hidden.get(right)) if code.loops else (None, None)
    if code.signed_value(left) is None and hidden[0] is None and hidden[1] is not None:
        right = code.op(Ins.Bitcast, code.i32, hidden[1])
    elif code.signed_value(right) is None and hidden[1] is None and hidden[0] is not None:
        left = code.op(Ins.Bitcast, code.i32, hidden[0])
    return code.op(Ins.IAdd, code.i32, left, right)


def _rounded(strictly: Lowering, otherwise: Lowering) -> Lowering:
    """Return an operator of f32 that is rounded once where the target is strict, and the device's own elsewhere."""
    return lambda code, *operands: (strictly if code.target.strict else otherwise)(code, *operands)


def _by_bits(function: Lowering) -> Lowering:
    """Return an operator of u32 for i32."""
    return lambda code, operand: code.op(Ins.Bitcast, code.i32, function(code, code.bits(operand)))


_BINARY_OPERATORS: dict[tuple[BinOp, Form], Lowering] = {
    (BinOp.ADD, Form.U32): _sum,
    (BinOp.SUB, Form.U32): integers.sub,
    (BinOp.MUL, Form.U32): integers.mul,
    (BinOp.DIV, Form.U32): integers.divide,
    (BinOp.MOD, Form.U32): integers.modulo,
    (BinOp.BIT_AND, Form.U32): integers.bit_and,
    (BinOp.BIT_OR, Form.U32): _unsigned(Ins.BitwiseOr),
    (BinOp.BIT_XOR, Form.U32): _unsigned(Ins.BitwiseXor),
    (BinOp.SHL, Form.U32): integers.shift_left,
    (BinOp.SHR, Form.U32): integers.shift_right,
    (BinOp.ABS_DIFF, Form.U32): integers.abs_diff,
    (BinOp.MIN, Form.U32): integers.minimum,
    (BinOp.MAX, Form.U32): integers.maximum,
    (BinOp.SATURATING_ADD, Form.U32): integers.saturating_add,
    (BinOp.SATURATING_SUB, Form.U32): integers.saturating_sub,
    (BinOp.SATURATING_MUL, Form.U32): integers.saturating_mul,
    (BinOp.ROTATE_LEFT, Form.U32): integers.rotate_left,
    (BinOp.ROTATE_RIGHT, Form.U32): integers.rotate_right,
    (BinOp.WRAPPING_ADD, Form.U32): _sum,
    (BinOp.WRAPPING_SUB, Form.U32): integers.sub,
    (BinOp.MUL_HIGH, Form.U32): integers.mul_high,
    (BinOp.ADD, Form.I32): _signed_sum,
    (BinOp.SUB, Form.I32): integers.sub_signed,
    (BinOp.MUL, Form.I32): _signed(Ins.IMul),
    (BinOp.DIV, Form.I32): integers.divide_signed,
    (BinOp.MOD, Form.I32): integers.modulo_signed,
    (BinOp.BIT_AND, Form.I32): _signed(Ins.BitwiseAnd),
    (BinOp.BIT_OR, Form.I32): _signed(Ins.BitwiseOr),
    (BinOp.BIT_XOR, Form.I32): _signed(Ins.BitwiseXor),
    (BinOp.MIN, Form.I32): _by(integers.in_order, Glsl.UMin),
    (BinOp.MAX, Form.I32): _by(integers.in_order, Glsl.UMax),
    (BinOp.WRAPPING_ADD, Form.I32): _signed_sum,
    (BinOp.WRAPPING_SUB, Form.I32): integers.sub_signed,
    (BinOp.ADD, Form.F32): _by(floats.arithmetic, Ins.FAdd),
    (BinOp.SUB, Form.F32): _by(floats.arithmetic, Ins.FSub),
    (BinOp.MUL, Form.F32): _by(floats.arithmetic, Ins.FMul),
    (BinOp.DIV, Form.F32): _rounded(rounded_floats.quotient, _by(floats.arithmetic, Ins.FDiv)),
    (BinOp.MIN, Form.F32): _by(floats.choose, Glsl.NMin),
    (BinOp.MAX, Form.F32): _by(floats.choose, Glsl.NMax),
    (BinOp.ABS_DIFF, Form.F32): floats.abs_diff,
    (BinOp.WRAPPING_ADD, Form.WIDE): wide.add,
    (BinOp.WRAPPING_SUB, Form.WIDE): wide.sub,
    (BinOp.MUL_HIGH, Form.WIDE): wide.mul_high,
}
_FUNCTIONS = {
    UnOp.COS: Glsl.Cos,
    UnOp.SIN: Glsl.Sin,
    UnOp.FLOOR: Glsl.Floor,
    UnOp.CEIL: Glsl.Ceil,
    UnOp.TRUNC: Glsl.Trunc,
    UnOp.EXP: Glsl.Exp,
    UnOp.LOG: Glsl.Log,
    UnOp.LOG2: Glsl.Log2,
    UnOp.EXP2: Glsl.Exp2,
    UnOp.TAN: Glsl.Tan,
    UnOp.ACOS: Glsl.Acos,
    UnOp.ASIN: Glsl.Asin,
    UnOp.ATAN: Glsl.Atan,
    UnOp.TANH: Glsl.Tanh,
    UnOp.SINH: Glsl.Sinh,
    UnOp.COSH: Glsl.Cosh,
}
_COUNTING: dict[UnOp, tuple[Lowering, Lowering]] = {
    UnOp.POPCOUNT: (integers.popcount, wide.popcount),
    UnOp.CLZ: (integers.clz, wide.clz),
    UnOp.CTZ: (integers.ctz, wide.ctz),
    UnOp.REVERSE_BITS: (integers.reverse_bits, wide.reverse_bits),
}
_UNARY: dict[tuple[UnOp, Form], Lowering] = {
    **{(op, Form.F32): _by(floats.extended, number) for op, number in _FUNCTIONS.items()},
    **{(op, Form.U32): narrow for op, (narrow, _) in _COUNTING.items()},
    **{(op, Form.I32): _by_bits(narrow) for op, (narrow, _) in _COUNTING.items()},
    **{(op, Form.WIDE): broad for op, (_, broad) in _COUNTING.items()},
    (UnOp.NEGATE, Form.U32): lambda code, operand: integers.sub(code, code.const(0), operand),
    (UnOp.NEGATE, Form.F32): floats.negate,
    (UnOp.BIT_NOT, Form.U32): lambda code, operand: code.op(Ins.Not, code.u32, operand),
    (UnOp.BIT_NOT, Form.I32): lambda code, operand: code.op(Ins.Not, code.i32, operand),
    (UnOp.BIT_NOT, Form.WIDE): wide.invert,
    (UnOp.ABS, Form.F32): floats.absolute,
    (UnOp.ROUND, Form.F32): floats.rounded,
    (UnOp.SIGN, Form.F32): floats.sign,
    (UnOp.RECIPROCAL, Form.F32): _rounded(rounded_floats.reciprocal, floats.reciprocal),
    (UnOp.SQRT, Form.F32): _rounded(rounded_floats.root, _by(floats.extended, Glsl.Sqrt)),
    (UnOp.INVERSE_SQRT, Form.F32): _rounded(rounded_floats.inverse_root, _by(floats.extended, Glsl.InverseSqrt)),
}
# How the magnitude of an f32 stands to infinity.
_PREDICATES = {UnOp.IS_NAN: Ins.UGreaterThan, UnOp.IS_INF: Ins.IEqual, UnOp.IS_FINITE: Ins.ULessThan}
_COMPARE: dict[BinOp, dict[Form, int]] = {
    BinOp.EQ: {Form.U32: Ins.IEqual, Form.I32: Ins.IEqual, Form.F32: Ins.FOrdEqual, Form.BOOL: Ins.LogicalEqual},
    BinOp.NE: {Form.U32: Ins.INotEqual, Form.I32: Ins.INotEqual, Form.F32: Ins.FUnordNotEqual, Form.BOOL: Ins.LogicalNotEqual},
    BinOp.LT: {Form.U32: Ins.ULessThan, Form.I32: Ins.SLessThan, Form.F32: Ins.FOrdLessThan},
    BinOp.GT: {Form.U32: Ins.UGreaterThan, Form.I32: Ins.SGreaterThan, Form.F32: Ins.FOrdGreaterThan},
    BinOp.LE: {Form.U32: Ins.ULessThanEqual, Form.I32: Ins.SLessThanEqual, Form.F32: Ins.FOrdLessThanEqual},
    BinOp.GE: {Form.U32: Ins.UGreaterThanEqual, Form.I32: Ins.SGreaterThanEqual, Form.F32: Ins.FOrdGreaterThanEqual},
}
_LOGIC = {BinOp.AND: Ins.LogicalAnd, BinOp.OR: Ins.LogicalOr}
_BINARY = {(op.wire_tag, form): function for (op, form), function in _BINARY_OPERATORS.items()}  # tags hash faster than members
_WHOLE = frozenset({Form.WIDE, Form.UVEC2, Form.UVEC4})  # equal where all their words are
_COMPARABLE = "operands of one type, an integer, f32 or bool; EQ and NE take vectors of u32 too"
_OWN = "an operator of the IR's own, on a type that it defines it for"


def binary(code: Code, term: Term, op: BinOp | OpaqueOp, left: Value, right: Value) -> Value:
    """Return ``left op right``."""
    if isinstance(op, OpaqueOp):
        cannot(term, f"opaque operator {op.extension_id:#010x}", _OWN)
    function = _BINARY.get((op.wire_tag, left.kind.form)) if left.kind is right.kind and left.kind.computes else None
    if function is not None:
        result = floats.folded(code, op, left.id, right.id) if left.kind is F32 else None
        return Value(function(code, left.id, right.id) if result is None else result, left.kind)
    if op in _LOGIC:
        operands = casts.truth(code, left), casts.truth(code, right)
        result = code.op(_LOGIC[op], code.bool, *operands)
        code.note_condition(result, _LOGIC[op], *operands)
        return Value(result, BOOL)
    if op in _COMPARE:
        return Value(_compare(code, term, op, left, right), BOOL)
    if not left.kind.computes or left.kind != right.kind:
        cannot(
            term, f"{op.name} of {left.kind.name} and {right.kind.name}", "operands of one type out of u32, i32, u64, f32, bool"
        )
    return cannot(term, f"{op.name} of {left.kind.name}", _OWN)


def _compare(code: Code, term: Term, op: BinOp, left: Value, right: Value) -> int:
    form, opcode = left.kind.form, _COMPARE[op].get(left.kind.form)
    if left.kind is F64 and right.kind is F64:
        doubles.require(code, term, f"{op.name} of f64")
        return doubles.compare(code, _COMPARE[op][Form.F32], left.id, right.id)
    is_whole = form in _WHOLE and op in {BinOp.EQ, BinOp.NE}
    if left.kind != right.kind or not left.kind.compares or not (opcode or is_whole or form is Form.WIDE):
        return cannot(term, f"{op.name} of {left.kind.name} and {right.kind.name}", _COMPARABLE)
    if is_whole:
        result = wide.equal(code, form, left.id, right.id)
        return result if op is BinOp.EQ else code.op(Ins.LogicalNot, code.bool, result)
    if opcode is None:
        return _less_wide(code, op, left, right)
    operands = left.id, right.id
    if form is Form.F32:
        operands = floats.flushed(code, left.id), floats.flushed(code, right.id)
    if form is not Form.U32:
        return code.op(opcode, code.bool, *operands)
    result = code.op(opcode, code.bool, *(code.hide_flag(one) for one in operands))
    code.note_condition(result, opcode, *operands)
    return result


def _less_wide(code: Code, op: BinOp, left: Value, right: Value) -> int:
    if op in {BinOp.GT, BinOp.LE}:
        left, right = right, left
    result = wide.less(code, left.id, right.id, signed=left.kind.signed)
    return result if op in {BinOp.LT, BinOp.GT} else code.op(Ins.LogicalNot, code.bool, result)


def unary(code: Code, term: Term, op: UnOp | OpaqueOp, operand: Value) -> Value:
    """Return ``op operand``."""
    if isinstance(op, OpaqueOp):
        cannot(term, f"opaque operator {op.extension_id:#010x}", _OWN)
    if op is UnOp.LOGICAL_NOT:
        condition = casts.truth(code, operand)
        result = code.op(Ins.LogicalNot, code.bool, condition)
        code.note_condition(result, Ins.LogicalNot, condition)
        return Value(result, BOOL)
    if op in _PREDICATES and operand.kind.form is Form.F32:
        return Value(floats.has_magnitude(code, _PREDICATES[op], operand.id), BOOL)
    if op in UNPACKED_BITS and operand.kind in {U32, I32}:
        shift, mask = map(code.const, UNPACKED_BITS[op])
        word = integers.shift_right(code, code.bits(operand.id) if operand.kind == I32 else operand.id, shift)
        return Value(integers.bit_and(code, word, mask), U32)
    function = _UNARY.get((op, operand.kind.form)) if operand.kind.computes else None
    if function is None:
        cannot(term, f"{op.name} of {operand.kind.name}", _OWN)
    known = floats.folded(code, op, operand.id) if operand.kind is F32 else None
    return Value(function(code, operand.id) if known is None else known, operand.kind)
