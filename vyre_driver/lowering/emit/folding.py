"""Fold f32 operators on constants while lowering, each result rounded by itself.

NVIDIA's compiler (580.159.04 on an H200) folds sums of constants without rounding in between, NoContraction or not. A device
is given the result instead, of literals, of the lets that hold them, and of selects between them, through which compilers fold
too: an operator on a select of two constants is a select of two results.

Functions that the semantics leave to the device (sine, exponential, ...) are left to it here too.

Source: spec item 1.7 (floats).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.lowering.emit import floats
from vyre_driver.lowering.emit.code import Choice, Code, Value
from vyre_driver.lowering.emit.kinds import Form

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.lowering.emit.code import Known

_MOST_ALTERNATIVES = 4
_QUIET_NAN = 0x7FC0_0000
_LEAST_NORMAL = np.float32(2.0**-126)
_ZERO, _ONE = np.float32(0), np.float32(1)


def operator(code: Code, op: BinOp | UnOp, *operands: int) -> int | None:
    """Return the result of an operator on f32, None where it is not known."""
    function = _OPERATORS.get(op)
    return None if function is None else _folded(code, function, *operands)


def fma(code: Code, a: int, b: int, c: int) -> int | None:
    """Return a * b + c rounded once, None where it is not known."""
    return _folded(code, _fma, a, b, c)


def of_integer(code: Code, value: Value) -> int | None:
    """Return the f32 nearest to an integer, None where that is not known."""
    number = code.signed_value(value.id)
    if value.kind.form is Form.U32:
        least, most = code.range_of(value.id)
        number = least if least == most else None
    return None if number is None else code.const_f32(_bits(np.float32(number)))


def note_select(code: Code, made: int, condition: int, yes: int, no: int) -> None:
    """Note what a select of two f32 can be."""
    sides = code.floats.get(yes), code.floats.get(no)
    if sides[0] is None or sides[1] is None:
        return
    known = Choice(condition, _where(sides[0], condition, holds=True), _where(sides[1], condition, holds=False))
    if _alternatives(known) <= _MOST_ALTERNATIVES:
        code.floats[made] = known


def _folded(code: Code, function: Callable[..., np.float32], *operands: int) -> int | None:
    known = [code.floats.get(one) for one in operands]
    parts = [one for one in known if one is not None]
    if len(parts) < len(known):
        return None
    with np.errstate(all="ignore"):
        result = _applied(function, parts)
    return _emitted(code, result) if _alternatives(result) <= _MOST_ALTERNATIVES else None


def _applied(function: Callable[..., np.float32], known: Sequence[Known]) -> Known:
    """Return a function's result for every way in which the conditions of its operands can hold."""
    first = next((one.condition for one in known if isinstance(one, Choice)), None)
    if first is None:
        return _bits(function(*(_number(one) for one in known if isinstance(one, int))))
    yes, no = (_applied(function, [_where(one, first, holds=holds) for one in known]) for holds in (True, False))
    return yes if yes == no else Choice(first, yes, no)


def _where(known: Known, condition: int, *, holds: bool) -> Known:
    """Return what is left of a choice where a condition holds, or does not."""
    while isinstance(known, Choice) and known.condition == condition:
        known = known.yes if holds else known.no
    return known


def _alternatives(known: Known) -> int:
    return _alternatives(known.yes) + _alternatives(known.no) if isinstance(known, Choice) else 1


def _emitted(code: Code, known: Known) -> int:
    if not isinstance(known, Choice):
        return code.const_f32(known)
    result = floats.select(code, known.condition, _emitted(code, known.yes), _emitted(code, known.no))
    code.floats[result] = known
    return code.normal(result)  # as all results are


def _number(bits: int) -> np.float32:
    """Return an operand by its bits, a zero of its sign for a subnormal."""
    return _flushed(np.uint32(bits).view(np.float32))


def _flushed(value: np.float32) -> np.float32:
    return np.copysign(_ZERO, value) if abs(value) < _LEAST_NORMAL else value


def _bits(value: np.float32) -> int:
    """Return the bits of a result: one NaN, and no subnormals."""
    return _QUIET_NAN if np.isnan(value) else int(_flushed(value).view(np.uint32))


def _fma(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    """Return a * b + c, rounded once: by way of the f64 with an odd last bit where there is more, which no tie of f32 has."""
    factors = float(a), float(b), float(c)
    near = factors[0] * factors[1] + factors[2]  # infinities, NaNs and the signs of zeros are right by themselves
    if not near or not math.isfinite(near):
        return np.float32(near)
    exact = Fraction(factors[0]) * Fraction(factors[1]) + Fraction(factors[2])
    if Fraction(near) != exact and not np.float64(near).view(np.uint64) & np.uint64(1):
        near = math.nextafter(near, math.inf if exact > Fraction(near) else -math.inf)
    return np.float32(near)


def _round(value: np.float32) -> np.float32:
    """Return the nearest integer, and of two equally near ones the one away from zero; a half more is exact in f64."""
    return np.float32(np.copysign(np.floor(np.abs(np.float64(value)) + 0.5), value))


def _sign(value: np.float32) -> np.float32:
    return value if np.isnan(value) else np.copysign(_ONE, value) if value else _ZERO


_OPERATORS: dict[BinOp | UnOp, Callable[..., np.float32]] = {
    BinOp.ADD: lambda left, right: left + right,
    BinOp.SUB: lambda left, right: left - right,
    BinOp.MUL: lambda left, right: left * right,
    BinOp.DIV: lambda left, right: left / right,
    BinOp.MIN: lambda left, right: right if np.isnan(left) or right < left else left,
    BinOp.MAX: lambda left, right: right if np.isnan(left) or right > left else left,
    BinOp.ABS_DIFF: lambda left, right: np.abs(left - right),
    UnOp.NEGATE: np.negative,
    UnOp.ABS: np.abs,
    UnOp.FLOOR: np.floor,
    UnOp.CEIL: np.ceil,
    UnOp.TRUNC: np.trunc,
    UnOp.ROUND: _round,
    UnOp.SIGN: _sign,
    UnOp.SQRT: np.sqrt,
    UnOp.RECIPROCAL: lambda value: _ONE / value,
    UnOp.INVERSE_SQRT: lambda value: _ONE / np.sqrt(value),
}
