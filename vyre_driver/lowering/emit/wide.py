"""Operators on 64 bits: the device's own integers, or pairs of words where it has none.

A pair is a vector with the low word first, which is what a bit cast of a 64-bit integer gives too, so that operators without an
instruction for 64 bits are written once.

Source: spec item 1.7 (u64); SPIR-V 1.6, OpBitcast (order of components), OpIAddCarry, OpISubBorrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.lowering.emit import integers
from vyre_driver.lowering.emit.kinds import Form
from vyre_driver.spirv.instructions import Ins
from vyre_driver.spirv.opcodes import Op

if TYPE_CHECKING:
    from vyre_driver.lowering.emit.code import Code

_WORD = 0xFFFF_FFFF


def constant(code: Code, bits: int) -> int:
    """Return 64 bits."""
    low, high = bits & _WORD, bits >> 32
    if code.has_wide:
        return code.module.constant(Op.Constant, code.u64, low, high)
    return code.module.constant(Op.ConstantComposite, code.vector(2), code.const(low), code.const(high))


def halves(code: Code, operand: int) -> list[int]:
    """Return the low and the high word."""
    return code.words_of(code.op(Ins.Bitcast, code.vector(2), operand) if code.has_wide else operand)


def joined(code: Code, low: int, high: int) -> int:
    """Return 64 bits of two words."""
    pair = code.op(Ins.CompositeConstruct, code.vector(2), low, high)
    return code.op(Ins.Bitcast, code.u64, pair) if code.has_wide else pair


def add(code: Code, left: int, right: int) -> int:
    """Return the wrapped sum."""
    if code.has_wide:
        return code.op(Ins.IAdd, code.u64, left, right)
    (low, high), (least, most) = halves(code, left), halves(code, right)
    total, carry = integers.extended(code, Ins.IAddCarry, low, least)
    upper = code.op(Ins.IAdd, code.u32, code.op(Ins.IAdd, code.u32, high, most), carry)
    return joined(code, total, upper)


def sub(code: Code, left: int, right: int) -> int:
    """Return the wrapped difference, of pairs of words everywhere.

    NVIDIA's compiler (580.159.04 on an H200) loses the borrow of a high word of a product less a number of 64 bits.
    """
    (low, high), (least, most) = halves(code, left), halves(code, right)
    rest, borrow = integers.extended(code, Ins.ISubBorrow, low, least)
    upper = code.op(Ins.ISub, code.u32, code.op(Ins.ISub, code.u32, high, most), borrow)
    return joined(code, rest, upper)


def mul_high(code: Code, left: int, right: int) -> int:
    """Return the high 64 bits of a product, of four products of words."""
    (low, high), (least, most) = halves(code, left), halves(code, right)
    _, carried = integers.wide_product(code, low, least)
    first = integers.wide_product(code, high, least)
    second = integers.wide_product(code, low, most)
    middle, over = integers.extended(code, Ins.IAddCarry, first[0], second[0])
    _, over_again = integers.extended(code, Ins.IAddCarry, middle, carried)
    top = integers.wide_product(code, high, most)
    zero = code.const(0)
    total = [joined(code, *top), joined(code, first[1], zero), joined(code, second[1], zero)]
    total += [joined(code, over, zero), joined(code, over_again, zero)]
    result = total[0]
    for one in total[1:]:
        result = add(code, result, one)
    return result


def equal(code: Code, form: Form, left: int, right: int) -> int:
    """Return whether two are equal, in all of their words."""
    if form is Form.WIDE and code.has_wide:
        return code.op(Ins.IEqual, code.bool, left, right)
    same = code.op(Ins.IEqual, code.vector(4 if form is Form.UVEC4 else 2, code.bool), left, right)
    return code.op(Ins.All, code.bool, same)


def less(code: Code, left: int, right: int, *, signed: bool) -> int:
    """Return whether one is less than another; the sign stands in the high word."""
    order = Ins.SLessThan if signed else Ins.ULessThan
    if code.has_wide:
        return code.op(order, code.bool, left, right)
    (low, high), (least, most) = halves(code, left), halves(code, right)
    below = code.op(Ins.ULessThan, code.bool, low, least)
    same = code.op(Ins.IEqual, code.bool, high, most)
    return code.op(
        Ins.LogicalOr,
        code.bool,
        code.op(order, code.bool, high, most),
        code.op(Ins.LogicalAnd, code.bool, same, below),
    )


def invert(code: Code, operand: int) -> int:
    """Return the bits inverted."""
    return code.op(Ins.Not, code.u64 if code.has_wide else code.vector(2), operand)


def popcount(code: Code, operand: int) -> int:
    """Return how many bits are set."""
    low, high = halves(code, operand)
    count = code.op(Ins.IAdd, code.u32, integers.popcount(code, low), integers.popcount(code, high))
    return joined(code, count, code.const(0))


def clz(code: Code, operand: int) -> int:
    """Return the zeros above the highest bit; 64 of 0."""
    low, high = halves(code, operand)
    return _zeros(code, high, integers.clz(code, high), integers.clz(code, low))


def ctz(code: Code, operand: int) -> int:
    """Return the zeros below the lowest bit; 64 of 0."""
    low, high = halves(code, operand)
    return _zeros(code, low, integers.ctz(code, low), integers.ctz(code, high))


def _zeros(code: Code, first: int, in_first: int, in_second: int) -> int:
    ends = code.op(Ins.INotEqual, code.bool, first, code.const(0))
    beyond = code.op(Ins.IAdd, code.u32, code.const(32), in_second)
    return joined(code, code.op(Ins.Select, code.u32, ends, in_first, beyond), code.const(0))


def reverse_bits(code: Code, operand: int) -> int:
    """Return the bits in the opposite order."""
    low, high = halves(code, operand)
    return joined(code, integers.reverse_bits(code, high), integers.reverse_bits(code, low))
