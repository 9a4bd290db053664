"""Division of 64 bits: by the device's own instruction, or bit by bit where it has none.

By zero, quotient and remainder are 0. Those of i64 are made of magnitudes: the quotient is rounded to zero, the remainder has
the sign of the dividend, and the least number by -1 wraps.

Source: docs/ir.md, "Operators of this package"; docs/decisions/0019-signed-quotients-are-made-of-magnitudes.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.lowering.emit import wide
from vyre_driver.lowering.emit.blocks import counting
from vyre_driver.lowering.emit.hiding import hide
from vyre_driver.lowering.emit.kinds import Form
from vyre_driver.spirv.instructions import Ins

if TYPE_CHECKING:
    from vyre_driver.lowering.emit.code import Code

_BITS = 64


def divide(code: Code, left: int, right: int) -> int:
    """Return the quotient of u64."""
    return _divided(code, left, right)[0]


def modulo(code: Code, left: int, right: int) -> int:
    """Return the remainder of u64."""
    return _divided(code, left, right)[1]


def divide_signed(code: Code, left: int, right: int) -> int:
    """Return the quotient of i64."""
    (size, sign), (divisor, other) = wide.magnitude(code, left), wide.magnitude(code, right)
    return wide.negated_where(code, divide(code, size, divisor), code.op(Ins.BitwiseXor, code.u32, sign, other))


def modulo_signed(code: Code, left: int, right: int) -> int:
    """Return the remainder of i64."""
    size, sign = wide.magnitude(code, left)
    return wide.negated_where(code, modulo(code, size, wide.magnitude(code, right)[0]), sign)


def _divided(code: Code, left: int, right: int) -> tuple[int, int]:
    """Return quotient and remainder of u64, of which a program often wants both.

    The quotient is hidden: NVIDIA's compiler (580.159.04 on an H200) takes minutes for some chains of them.
    """
    keys = ("quotient", left, right), ("remainder", left, right)
    known = [code.recall(key) for key in keys]
    if known[0] is not None and known[1] is not None:
        return known[0], known[1]
    none, zero = wide.is_zero(code, right), wide.constant(code, 0)
    safe = code.select(Form.WIDE, none, wide.constant(code, 1), right)
    if code.has_wide:
        numbers = (code.op(Ins.Bitcast, code.u64, one) for one in (left, safe))
        low, high = wide.halves(code, code.op(Ins.Bitcast, code.vector(2), code.op(Ins.UDiv, code.u64, *numbers)))
        quotient = wide.joined(code, hide(code, low), high)
        rest = wide.sub(code, left, wide.mul(code, quotient, safe))
    else:
        quotient, rest = _bit_by_bit(code, left, safe)
    found = code.select(Form.WIDE, none, zero, quotient), rest  # the remainder of 1 is 0
    return code.remember(keys[0], found[0]), code.remember(keys[1], found[1])


def _bit_by_bit(code: Code, left: int, right: int) -> tuple[int, int]:
    """Return quotient and remainder of pairs of words by 64 turns of a loop.

    Each takes a bit of the dividend from above into the rest, and one of the quotient from below into the dividend's place. A
    rest that had its upper bit before that is greater than any divisor, and what wraps in the difference is right.
    """
    pair = code.type_of(Form.WIDE)
    taken, rest = code.variable(pair), code.variable(pair)
    code.effect(Ins.Store, taken, left)
    code.effect(Ins.Store, rest, wide.constant(code, 0))
    one = code.const(1)
    with counting(code, code.const(0), code.const(_BITS)):
        dividend, before = code.result(Ins.Load, pair, taken), code.result(Ins.Load, pair, rest)
        upper = wide.shift_right(code, dividend, code.const(_BITS - 1), signed=False)
        grown = wide.bitwise(code, Ins.BitwiseOr, wide.shift_left(code, before, one), upper)
        high = wide.halves(code, before)[1]
        passes = code.op(Ins.UGreaterThanEqual, code.bool, high, code.const(1 << 31))
        below = wide.less(code, grown, right, signed=False)
        fits = code.op(Ins.LogicalOr, code.bool, passes, code.op(Ins.LogicalNot, code.bool, below))
        left_over = code.select(Form.WIDE, fits, wide.sub(code, grown, right), grown)
        bit = wide.joined(code, code.op(Ins.Select, code.u32, fits, one, code.const(0)), code.const(0))
        code.effect(Ins.Store, taken, wide.bitwise(code, Ins.BitwiseOr, wide.shift_left(code, dividend, one), bit))
        code.effect(Ins.Store, rest, left_over)
    return code.result(Ins.Load, pair, taken), code.result(Ins.Load, pair, rest)
