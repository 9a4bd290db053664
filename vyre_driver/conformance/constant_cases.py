"""Hand-written cases of numbers about which compilers know something: constants, and f32 at its ends.

Constants stand where compilers turn operators into others: quotients, products, shifts, differences. Each stands in a chain of
min and max, which compilers reorder by what they believe of its sign, and make one instruction of. The first ones, sums of f32
among them, are what a driver was wrong about (docs/conformance.md).

Of f32 there are comparisons that a NaN alone fails, operators on subnormals, and halves that may be some. The comparisons are
of results whose range a compiler knows, but for the NaN. One of them a program: beside others a compiler may find another way.
NVIDIA's compiler took the first for true (docs/conformance.md).

Source: IEEE 754-2019, 5.11 (every NaN compares unordered with everything); spec item 1.7 (integers, floats).
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.conformance.case import Case, case_of, case_of_each, elementwise
from vyre_driver.conformance.patterns import I32_EDGES, NUMPY, U32_EDGES
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.functions import expm1, fmod, hypot, remainder
from vyre_driver.ir.operators import BinOp, UnOp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.ir.arithmetic import Expr

U32, I32 = DataType.U32, DataType.I32
_LEAST, _MOST = -(2**31), 2**31 - 1
_SMALL = (1, 2, 3, 4, 5, 7, 8, 10, 16, 100, 127, 1000, 65535, 65536, 1 << 30, _MOST)
SIGNED = (*_SMALL, *(-one for one in _SMALL), _LEAST)
UNSIGNED = (*_SMALL, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1)
COUNTS = (0, 1, 5, 16, 30, 31, 32, 33, 63, 64, 2**31, 2**32 - 1)
_GIVEN = {
    I32: (*I32_EDGES, 1044843776, -1044843776, 522421888, 9, -9, 10, -10, 99, -99, 128, -129, 1 << 30, -(1 << 30)),
    U32: (*U32_EDGES, 1044843776, 9, 10, 11, 99, 1000, 1 << 30, 3 << 30, 2**32 - 3),
}


def constant_cases() -> Iterator[Case]:
    """Yield them all."""
    yield _reported()
    yield from _rounded_cases()
    yield from _negation_cases()
    for (term, (make, constants)), (chain, within) in product(_SIGNED_TERMS.items(), _SIGNED_CHAINS.items()):
        yield _case(f"{chain} of i32 {term}", I32, constants, make, within)
    for (term, (make, constants)), (chain, within) in product(_UNSIGNED_TERMS.items(), _UNSIGNED_CHAINS.items()):
        yield _case(f"{chain} of u32 {term}", U32, constants, make, within)


def _reported() -> Case:
    given = BufferDecl.read("signed_in", 0, I32)
    out = BufferDecl.output("signed_out", 1, I32).with_count(1)
    x = ir.load(given, 0)
    least = ir.minimum(ir.minimum(x, x / -2), ir.i32(0))
    name = "the least of a number, its half negated, and 0"
    return case_of(name, [given, out], [ir.store(out, 0, least)], np.array([1044843776], np.int32), size=(1, 1, 1))


def _rounded_cases() -> Iterator[Case]:
    """Yield sums of f32 that are rounded twice, and another number where they are rounded once at the end."""
    given = BufferDecl.read("floats_in", 0, DataType.F32).with_count(3)
    flags = BufferDecl.read("flags_in", 1, DataType.Bool).with_count(2)
    out = BufferDecl.output("signed_out", 2, I32).with_count(2)
    far, less = ir.f32(8388607.5), ir.f32(2.5)
    chosen = ir.select(ir.load(flags, ir.gid_x()), ir.f32(-100.0), ir.f32(-101.0))
    sums = {
        "constants that are rounded twice": ir.abs_diff(ir.f32(-100.0), far) - less,
        "constants of a select that are rounded twice": ir.abs_diff(chosen, far) - less,
        "loaded numbers that are rounded twice": ir.abs_diff(ir.load(given, 0), ir.load(given, 1)) - ir.load(given, 2),
    }
    inputs = np.array([-100.0, 8388607.5, 2.5], np.float32), np.array([1, 0], np.uint32)
    for name, value in sums.items():
        body = [ir.store(out, ir.gid_x(), ir.cast(I32, value))]
        yield case_of(name, [given, flags, out], body, *inputs, size=(2, 1, 1))


_ZERO = ir.i32(0)
_NEGATIONS: tuple[Callable[[Expr], Expr], ...] = (
    lambda x: x * -1,
    lambda x: x * (ir.i32(4) - ir.i32(5)),
    lambda x: _ZERO - x,
    lambda x: ir.i32(5) - ir.i32(5) - x,
    lambda x: ir.cast(I32, ir.unop(UnOp.NEGATE, ir.cast(U32, x))),
    lambda x: ir.unop(UnOp.BIT_NOT, x) + 1,
    lambda x: (x ^ -1) + 1,
    lambda x: _ZERO - x / 2,
    lambda x: _ZERO - (x & 255),
    lambda x: _ZERO - (x + ir.var("y", I32)),
)
_OF_NEGATIONS: dict[str, Callable[[Expr, Expr, Expr], Expr]] = {
    "the least": lambda x, n, _: ir.minimum(ir.minimum(x, n), _ZERO),
    "the least, 0 first,": lambda x, n, _: ir.minimum(_ZERO, ir.minimum(x, n)),
    "the least with another": lambda x, n, y: ir.minimum(ir.minimum(x, n), y),
    "the least of another,": lambda _, n, y: ir.minimum(ir.minimum(y, n), _ZERO),
    "the greatest": lambda x, n, _: ir.maximum(ir.maximum(x, n), _ZERO),
    "limits": lambda x, n, _: ir.minimum(ir.maximum(x, n), _ZERO),
}


def _negation_cases() -> Iterator[Case]:
    """Yield what is taken of numbers and of what negates them, which compilers find however it is written."""
    values, x, y = np.array(_GIVEN[I32], np.int32), ir.var("x", I32), ir.var("y", I32)
    first, other = (BufferDecl.read(name, place, I32).with_count(len(values)) for place, name in enumerate(("given", "other")))
    given = {"x": (first, values), "y": (other, np.roll(values, 3))}
    for name, make in _OF_NEGATIONS.items():
        terms = [make(x, negated(x), y) for negated in _NEGATIONS]
        yield case_of_each(f"{name} of x and what negates it", given, I32, terms)


def _case(
    name: str,
    dtype: DataType,
    constants: tuple[int, ...],
    make: Callable[[Expr, int], Expr],
    within: Callable[[Expr, Expr], Expr],
) -> Case:
    """Return the case of one term with each constant, in a chain of its own."""
    values, x = np.array(_GIVEN[dtype], NUMPY[dtype]), ir.var("x", dtype)
    given = BufferDecl.read("given", 0, dtype).with_count(len(values))
    terms = [within(x, make(x, constant)) for constant in constants]
    return case_of_each(name, {"x": (given, values)}, dtype, terms, limit=ir.buf_len(given))


def _dividend(x: Expr, constant: int) -> Expr:
    """Return a number of which the reference defines the quotient: the least one by -1 is an error there."""
    return ir.maximum(x, ir.i32(_LEAST + 1)) if constant == -1 else x


def _hidden(constant: int) -> Expr:
    """Return a constant that only a compiler finds: a difference of two."""
    return ir.i32(5) - ir.i32((5 - constant + 2**31) % 2**32 - 2**31)


_SIGNED_TERMS: dict[str, tuple[Callable[[Expr, int], Expr], tuple[int, ...]]] = {
    "quotients": (lambda x, constant: _dividend(x, constant) / constant, SIGNED),
    "remainders": (lambda x, constant: _dividend(x, constant) % constant, SIGNED),
    "quotients by hidden constants": (lambda x, constant: _dividend(x, constant) / _hidden(constant), SIGNED),
    "products": (lambda x, constant: x * constant, SIGNED),
    "differences": (lambda x, constant: ir.i32(constant) - x, (0, *SIGNED)),
}
_SIGNED_CHAINS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "the least": lambda x, term: ir.minimum(ir.minimum(x, term), ir.i32(0)),
    "the greatest": lambda x, term: ir.maximum(ir.i32(0), ir.maximum(term, x)),
    "clamps": lambda _, term: ir.minimum(ir.maximum(term, ir.i32(-100)), ir.i32(100)),
    "sums": lambda x, term: ir.maximum(ir.minimum(term + x, ir.i32(7)), ir.i32(0)),
}


def _unsigned(op: BinOp) -> Callable[[Expr, int], Expr]:
    return lambda x, constant: ir.binop(op, x, ir.u32(constant))


_UNSIGNED_TERMS: dict[str, tuple[Callable[[Expr, int], Expr], tuple[int, ...]]] = {
    "quotients": (_unsigned(BinOp.DIV), UNSIGNED),
    "remainders": (_unsigned(BinOp.MOD), UNSIGNED),
    "left shifts": (_unsigned(BinOp.SHL), COUNTS),
    "right shifts": (_unsigned(BinOp.SHR), COUNTS),
    "left rotations": (_unsigned(BinOp.ROTATE_LEFT), COUNTS),
    "right rotations": (_unsigned(BinOp.ROTATE_RIGHT), COUNTS),
}
_UNSIGNED_CHAINS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "the least": lambda x, term: ir.minimum(ir.minimum(x, term), ir.u32(2**31)),
    "clamps": lambda x, term: ir.minimum(ir.maximum(term, ir.u32(3)), x | 100),
}


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
