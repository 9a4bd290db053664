"""Hand-written cases of f32 at its ends: comparisons that a NaN alone fails, operators on subnormals, halves that may be some.

The comparisons are of results whose range a compiler knows, but for the NaN. One of them a program: beside others a compiler
may find another way. NVIDIA's compiler took the first for true (docs/conformance.md).

Source: IEEE 754-2019, 5.11 (every NaN compares unordered with everything); spec item 1.7 (floats).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.conformance.case import Case, elementwise
from vyre_driver.ir import builders as ir
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.functions import expm1, fmod, hypot, remainder
from vyre_driver.ir.operators import BinOp, UnOp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.ir.arithmetic import Expr

F32 = DataType.F32
_WORDS = (0x7FC0_0000, 0xFFC1_2345, 0x7F80_0000, 0xFF80_0000, 0, 1 << 31, 0x3F80_0000, 0xBF80_0000, 0x7F7F_FFFF, 0x0080_0000)
_NO_LESS: dict[str, Callable[[Expr], Expr]] = {
    "a distance of a function": lambda x: ir.abs_diff(expm1(x), expm1(x)),
    "a distance": lambda x: ir.abs_diff(x, x),
    "a magnitude": ir.absolute,
    "a root": ir.sqrt,
    "an exponential": lambda x: ir.unop(UnOp.EXP, x),
    "a square": lambda x: x * x,
    "a sum of squares": lambda x: x * x + ir.f32(1.0),
    "a fused square": lambda x: ir.fma(x, x, ir.f32(0.0)),
    "the greater of a number and 0": lambda x: ir.maximum(x, ir.f32(0.0)),
    "a magnitude rounded down": lambda x: ir.unop(UnOp.FLOOR, ir.absolute(x)),
    "a quotient of a square": lambda x: x * x / ir.f32(3.0),
    "a root of a magnitude": lambda x: ir.sqrt(ir.absolute(x)),
    "a magnitude of a root": lambda x: ir.absolute(ir.sqrt(x)),
    "a hyperbolic cosine": lambda x: ir.unop(UnOp.COSH, x),
}


_SUBNORMALS = (1, 0x8000_0001, 0x0012_3456, 0x8065_4321, 0x007F_FFFF, 0x807F_FFFF)
_OF_SUBNORMALS: dict[str, Callable[[Expr], Expr]] = {
    "magnitude": ir.absolute,
    "negation": lambda x: ir.unop(UnOp.NEGATE, x),
    "magnitude of the negation": lambda x: ir.absolute(ir.unop(UnOp.NEGATE, x)),
    "distance from 0": lambda x: ir.abs_diff(x, ir.f32(0.0)),
    "lesser beside 1": lambda x: ir.minimum(x, ir.f32(1.0)),
    "greater beside -1": lambda x: ir.maximum(x, ir.f32(-1.0)),
    "product with 2^100": lambda x: x * ir.f32(2.0**100),
    "sum": lambda x: x + x,
    "fma": lambda x: ir.fma(x, ir.f32(2.0**100), x),
    "root": ir.sqrt,
    "inverse root": lambda x: ir.unop(UnOp.INVERSE_SQRT, x),
    "reciprocal": lambda x: ir.unop(UnOp.RECIPROCAL, x),
    "quotient by 3": lambda x: x / ir.f32(3.0),
    "quotient by 2^-100": lambda x: x / ir.f32(2.0**-100),
    "divisor of 3": lambda x: ir.f32(3.0) / x,
    "number rounded down": lambda x: ir.unop(UnOp.FLOOR, x),
    "number rounded up": lambda x: ir.unop(UnOp.CEIL, x),
    "sign": lambda x: ir.unop(UnOp.SIGN, x),
    "remainder by 1": lambda x: fmod(x, ir.f32(1.0)),
    "remainder by 1, as Python's": lambda x: remainder(x, ir.f32(1.0)),
    "remainder of 1": lambda x: fmod(ir.f32(1.0), x),
    "length with 0": lambda x: hypot(x, ir.f32(0.0)),
    "truth": lambda x: ir.cast(F32, ir.cast(DataType.Bool, x)),
    "equality with 0": lambda x: ir.cast(F32, x.eq(ir.f32(0.0))),
    "order beside 0": lambda x: ir.cast(F32, x < ir.f32(0.0)),
}


def float_cases() -> Iterator[Case]:
    """Yield them all."""
    yield from _comparisons()
    given = np.array(_SUBNORMALS, np.uint32).view(np.float32)
    for name, make in _OF_SUBNORMALS.items():
        yield elementwise(f"the {name} of subnormals", [F32], [given], make, F32)
    yield from _halves()


def _halves() -> Iterator[Case]:
    """Yield halves about the least normal number: half of the greatest number below twice it is rounded up to it."""
    words = np.array([0x00FF_FFFF, 0x80FF_FFFF, 0x00FF_FFFE, 0x0100_0000, 0x80FF_FFFD, 0x0080_0000], np.uint32)
    given = words.view(np.float32)
    yield elementwise("halves as products with a constant", [F32], [given], lambda x: x * ir.f32(0.5), F32)
    yield elementwise("halves as quotients by a constant", [F32], [given], lambda x: x / ir.f32(2.0), F32)
    for name, value, op in (("products", 0.5, BinOp.MUL), ("quotients", 2.0, BinOp.DIV)):
        other = np.full(len(given), value, np.float32)
        yield elementwise(f"halves as {name}", [F32, F32], [given, other], partial(ir.binop, op), F32)


def _comparisons() -> Iterator[Case]:
    """Yield the comparisons that a NaN alone fails."""
    zero, one = ir.f32(0.0), ir.f32(1.0)
    for name, make in _NO_LESS.items():
        yield _comparison(f"whether {name} is no less than 0", make, lambda y: y >= zero)
        yield _comparison(f"whether {name} is less than 0, or not", make, lambda y: (y < zero).not_())
    yield _comparison("whether a magnitude turned is no more than 0", ir.absolute, lambda y: ir.unop(UnOp.NEGATE, y) <= zero)
    yield _comparison("whether the lesser of a magnitude and 1 is no more", ir.absolute, lambda y: ir.minimum(y, one) <= one)
    yield _comparison("whether a sign is no more than 1", lambda x: ir.unop(UnOp.SIGN, x), lambda y: y <= one)
    yield _comparison("whether a magnitude is no less than the number", lambda x: x, lambda x: ir.absolute(x) >= x)
    for op in (BinOp.EQ, BinOp.NE, BinOp.LE, BinOp.GE):
        yield _comparison(f"whether a number is {op.name} itself", lambda x: x, partial(_beside_itself, op))


def _beside_itself(op: BinOp, x: Expr) -> Expr:
    return ir.binop(op, x, x)


def _comparison(name: str, make: Callable[[Expr], Expr], compare: Callable[[Expr], Expr]) -> Case:
    given = np.array(_WORDS, np.uint32).view(np.float32)
    return elementwise(name, [F32], [given], lambda x: ir.select(compare(make(x)), ir.f32(0.0), ir.f32(1.0)), F32)
