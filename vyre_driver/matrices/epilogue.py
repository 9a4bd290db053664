"""What becomes of the sums of a product on their way into the result: scaled, biased, activated, added to, rounded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vyre_driver.matrices.function import NumberBuffer
from vyre_driver.spirv.opcodes import Decoration, Glsl, Ins

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.matrices.description import Result
    from vyre_driver.matrices.function import Function, Index


# 1 - erf(x) of x >= 0 is t * (a1 + a2 * t + ...) * exp(-x * x) to 1.5e-7, where t = 1 / (1 + P * x):
# Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
ERF_P = 0.3275911
ERF_COEFFICIENTS = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)

_SIGN, _INFINITY = 0x8000_0000, 0x7F80_0000  # of the bits of a float32


def relu(f: Function, x: int) -> int:
    """Return the larger of x and 0; of a NaN a NaN.

    By its bits: NVIDIA's compiler makes a comparison and a choice of floats one maximum, which is 0 of a NaN. Without the bit
    of the sign those of negative numbers go from 0 to infinity's.
    """
    bits = f.as_word(f.result(Ins.Bitcast, f.u32, x))
    without_sign = f.word(Ins.BitwiseXor, bits, _SIGN)
    is_negative = f.result(Ins.ULessThanEqual, f.bool, f.id_of(without_sign), f.id_of(_INFINITY))
    return f.select(f.f32, is_negative, f.number(0), x)


def silu(f: Function, x: int) -> int:
    """Return ``x / (1 + exp(-x))``."""
    grown = f.glsl(Glsl.Exp, f.f32, f.result(Ins.FNegate, f.f32, x))
    return f.result(Ins.FDiv, f.f32, x, f.result(Ins.FAdd, f.f32, f.number(1), grown))


def gelu(f: Function, x: int) -> int:
    """Return ``x / 2 * (1 + erf(x / sqrt(2)))``, the error function to 1.5e-7."""

    def times(one: int, other: int) -> int:
        return f.result(Ins.FMul, f.f32, one, other)

    def plus(one: int, other: int) -> int:
        return f.result(Ins.FAdd, f.f32, one, other)

    scaled = times(x, f.number(math.sqrt(0.5)))
    size = f.glsl(Glsl.FAbs, f.f32, scaled)
    t = f.result(Ins.FDiv, f.f32, f.number(1), plus(f.number(1), times(f.number(ERF_P), size)))
    series = f.number(ERF_COEFFICIENTS[-1])
    for one in reversed(ERF_COEFFICIENTS[:-1]):
        series = plus(f.number(one), times(series, t))
    decay = f.glsl(Glsl.Exp, f.f32, f.result(Ins.FNegate, f.f32, times(size, size)))
    rest = times(times(series, t), decay)
    # Of a negative x what is left is half of the rest itself: nothing cancels.
    is_negative = f.result(Ins.FOrdLessThan, f.bool, x, f.number(0))
    weight = f.select(f.f32, is_negative, rest, f.result(Ins.FSub, f.f32, f.number(2), rest))
    return times(times(x, f.number(0.5)), weight)


ACTIVATIONS: dict[str, Callable[[Function, int], int]] = {"relu": relu, "gelu": gelu, "silu": silu}


_MATRIX_TIMES_SCALAR = 143


class Epilogue:
    """The buffer of the result, and those that are needed for it: in this order, from one binding on."""

    def __init__(self, function: Function, result: Result, binding: int, scale: int) -> None:
        """Declare them; ``scale`` is the id of the factor."""
        self._f = function
        self._result = result
        self._scale = scale
        self.c = NumberBuffer(function, "c", binding, result.out, Decoration.NON_READABLE)
        names = result.extra_buffers
        self._extra = {
            name: NumberBuffer(function, name, binding + 1 + number, result.out, Decoration.NON_WRITABLE)
            for number, name in enumerate(names)
        }

    def scaled(self, type_id: int, found: int) -> int:
        """Return a number or matrix of float32 times the factor; of whole numbers what it is."""
        if not self._result.accumulator.is_float:
            return found
        f = self._f
        if type_id == f.f32:
            return f.result(Ins.FMul, type_id, found, self._scale)
        return f.result(_MATRIX_TIMES_SCALAR, type_id, found, self._scale)

    def write(self, place: Index, column: Index, total: int) -> None:
        """Store what becomes of a sum, float32 or int32, at a place of the result, which is in this column."""
        self.c.write(place, self._finished(place, column, total))

    def _finished(self, place: Index, column: Index, total: int) -> int:
        f, result = self._f, self._result
        if not result.out.is_float:
            return total
        if not result.accumulator.is_float:
            total = f.result(Ins.ConvertSToF, f.f32, total)
        found = f.result(Ins.FMul, f.f32, total, self._scale)
        if "bias" in self._extra:
            found = f.result(Ins.FAdd, f.f32, found, self._extra["bias"].read(column))
        if result.activation is not None:
            found = ACTIVATIONS[result.activation](f, found)
        if "residual" in self._extra:
            found = f.result(Ins.FAdd, f.f32, found, self._extra["residual"].read(place))
        return found
