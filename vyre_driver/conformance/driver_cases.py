"""Programs that a compiler of a driver got wrong, as they were left of random ones.

docs/lowering.md, "Drivers", says what the emitter does about each.

Source: spec items 1.5 to 1.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.conformance.case import Case, case_of, case_of_each
from vyre_driver.conformance.patterns import edges
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import bitcast, convert, floor_divide, operation
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp, BinOp, UnOp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.conformance.options import Options
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node

U32, I32, U64, I64, F32, BOOL = DataType.U32, DataType.I32, DataType.U64, DataType.I64, DataType.F32, DataType.Bool
F64 = DataType.F64
U8, I8 = DataType.U8, DataType.I8
_ALONE = (1, 1, 1)


def driver_cases(options: Options) -> Iterator[Case]:
    """Yield those that these options allow."""
    yield _greatest_after_rotation()
    yield _products_that_overflow()
    yield _chosen_least()
    yield _quotients_of_zeros()
    yield _roots_of_what_is_pushed()
    if options.u64:
        yield from _borrows()
        yield _nested_choices()
        yield _equal_constants()
        yield _quotients_of_quotients()
        yield _quotient_by_bits()
    if options.narrow:
        yield _bits_of_a_byte()
    if options.narrow and options.u64:
        yield _bits_of_a_signed_byte()
    if options.atomics:
        yield _atomic_at_a_condition()


def _bits_of_a_signed_byte() -> Case:
    given, out = BufferDecl.read("signed_bytes_in", 5, I8), BufferDecl.read_write("wide_out", 10, U64)
    other = BufferDecl.read_write("quotients", 15, F32).with_count(1)
    count = ir.unop(UnOp.POPCOUNT, ir.cast(U64, ir.cast(U8, ir.load(given, 1))))
    body = [ir.store(out, 0, count), ir.store(other, 0, ir.f32(0.0) / ir.f32(1.0))]
    values = np.array([126, -72], np.int8), np.array([2**63 - 1], np.uint64), np.array([-222.75], np.float32)
    return case_of("bits of a signed byte without its sign", [given, out, other], body, *values, size=_ALONE)


def _bits_of_a_byte() -> Case:
    given, out = BufferDecl.read("bytes_in", 3, U8), BufferDecl.output("signed_out", 6, I32).with_count(3)
    other = BufferDecl.read_write("quotients", 12, F32)
    count = ir.cast(I32, ir.unop(UnOp.POPCOUNT, ir.cast(U32, ir.load(given, 1))))
    body = [ir.store(other, 1, ir.f32(0.0) / ir.f32(1.0)), ir.store(out, 1, count)]
    values = np.array([31, 133, 163], np.uint8), np.array([173.0], np.float32)
    return case_of("bits of a byte", [given, out, other], body, *values, size=_ALONE)


def _borrows() -> Iterator[Case]:
    """Yield differences of a high word and 64 bits."""
    given, out = BufferDecl.read("wide_in", 2, U64).with_count(1), BufferDecl.read_write("wide_out", 7, U64)
    high = ir.cast(U64, ir.binop(BinOp.MUL_HIGH, ir.u32(62), ir.gid_x()))
    body: list[Node] = [ir.store(out, 0, ir.binop(BinOp.WRAPPING_SUB, high, ir.load(given, 0)))]
    values = np.array([2**32], np.uint64), np.array([9588561041075889510], np.uint64)
    yield case_of("a high word less 64 bits", [given, out], body, *values, size=_ALONE)
    flags = BufferDecl.read("flags_in", 3, BOOL)
    high = ir.cast(U64, ir.binop(BinOp.MUL_HIGH, ir.wid_x(), ir.gid_x()))
    less = ir.cast(U64, ir.unop(UnOp.LOGICAL_NOT, ir.load(flags, 0)))
    body = [ir.store(out, 0, ir.binop(BinOp.WRAPPING_SUB, high, less))]
    values = np.array([2063926500], np.uint32), np.array([328343491766385477], np.uint64)
    yield case_of("a high word less a condition", [flags, out], body, *values, size=_ALONE)
    high = ir.cast(U64, ir.binop(BinOp.MUL_HIGH, ir.gid_x(), ir.gid_x()))
    body = [ir.store(out, ir.gid_x(), ir.binop(BinOp.WRAPPING_SUB, high, ir.load(out, ir.gid_x())))]
    wide = np.array(
        [
            *(15587158854871204429, 14079202870085898980, 7130634601279833375, 9599424445746995411, 1152134654831567673),
            *(12297829381041378645, 11971880646745020487, 8384697464220985486, 16045690984503111693, 13579052101076190266),
            *(0, 11795538244364116326, 12297829381041378645, 4294967297),
        ],
        np.uint64,
    )
    yield case_of("high words less what stands there", [out], body, wide, size=(4, 1, 1), grid=(3, 1, 1))


def _atomic_at_a_condition() -> Case:
    words, counters = BufferDecl.read_write("words_out", 4, U32), BufferDecl.read_write("counters", 9, U32).with_count(1)
    own = ir.load(words, ir.gid_x() + ir.gid_y() + ir.gid_z() * 5)
    place = ir.cast(U32, ir.cast(BOOL, own))
    body = [ir.let("v7", ir.atomic(AtomicOp.MIN, counters, place, ir.unop(UnOp.BIT_NOT, own)))]
    values = np.array([2328016043], np.uint32), np.array([2254898474], np.uint32)
    return case_of("an atomic whose index is a condition", [words, counters], body, *values, size=(1, 5, 1))


def _greatest_after_rotation() -> Case:
    out = BufferDecl.output("words_out", 4, U32).with_count(1)
    turned = ir.binop(BinOp.ROTATE_RIGHT, ir.u32(1), ir.lid_y())
    value = ir.maximum(turned - ir.unop(UnOp.BIT_NOT, ir.gid_x()), ir.gid_x())
    return case_of("the greater of a word and a rotation less its inversion", [out], [ir.store(out, 0, value)], size=_ALONE)


def _products_that_overflow() -> Case:
    """Return two ways to ask whether a product does not fit in a word: by a quotient before it, and by one of it."""
    values = np.array([1, 2, 3, 5, 255, 65535, 65536, 65537, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
    given, out = BufferDecl.read("in", 0, U32), BufferDecl.output("out", 1, U32).with_count(len(values))
    i, x, y = ir.gid_x(), ir.var("x", U32), ir.var("y", U32)
    before = ir.u32(2**32 - 1) / x < y
    product = ir.var("product", U32)
    after = ir.binop(BinOp.NE, product / x, y)
    body = [
        ir.let("x", ir.load(given, i)),
        ir.let("y", ir.load(given, ir.binop(BinOp.MOD, i * 7 + 3, ir.u32(len(values))))),
        ir.let("product", x * y),
        ir.store(out, i, ir.cast(U32, before) + ir.cast(U32, after) * 2),
    ]
    guarded = [ir.if_(i < len(values), body)]
    return case_of("products that do not fit in a word, by quotients", [given, out], guarded, values, size=(32, 1, 1))


def _chosen_least() -> Case:
    values = np.array([-7, -2, -1, 0, 1, 2, 7, 99, 65536, 1044843776], np.int32)
    given, out = BufferDecl.read("in", 0, I32), BufferDecl.output("out", 1, I32).with_count(len(values))
    i, x = ir.gid_x(), ir.var("x", I32)
    negated = 0 - x / 2
    lesser = ir.select(x < negated, x, negated)
    least = ir.select(lesser < 0, lesser, ir.i32(0))
    body = [ir.if_(i < len(values), [ir.let("x", ir.load(given, i)), ir.store(out, i, least)])]
    return case_of("the least of a number and its half negated, by comparisons", [given, out], body, values, size=(32, 1, 1))


def _nested_choices() -> Case:
    signed = BufferDecl.read("signed_in", 1, I32).with_count(3)
    flags = BufferDecl.read("flags_in", 3, BOOL)
    words = BufferDecl.output("words_out", 6, U32).with_count(1)
    signed_out, wide = (
        BufferDecl.read_write("signed_out", 7, I32),
        BufferDecl.read_write("signed_wide_out", 11, I64).with_count(3),
    )
    i, v4 = ir.gid_x(), ir.var("v4", BOOL)
    outer = ir.binop(
        BinOp.OR,
        ir.select(ir.lid_y(), v4, ir.load(flags, 0)),
        ir.load(signed, i) <= 0,
    )
    value = ir.select(outer, ir.load(wide, i), ir.select(v4, ir.load(wide, i), ir.i64(0)))
    body = [
        ir.let("v4", ir.cast(BOOL, ir.cast(I64, ir.load(signed_out, 0)))),
        ir.if_(ir.wid_x() < 0, [ir.store(words, 0, ir.u32(0)), ir.assign("v4", ir.boolean(False))]),
        ir.store(wide, i, value),
    ]
    values = np.array([-2147483647, 1399897139, -1317534701], np.int32), np.array([1695048993], np.uint32)
    rest = np.array([1], np.int32), np.array([2**63 - 1, -(2**63) + 1, 0], np.int64)
    return case_of("choices in choices", [signed, flags, words, signed_out, wide], body, *values, *rest, size=(33, 1, 1))


def _equal_constants() -> Case:
    """Return a comparison of 64 bits that a compiler knows, one of them as those of an f64."""
    out = BufferDecl.read_write("words_out", 0, U32).with_count(1)
    number = bitcast(U64, convert(F64, ir.u64(2)))
    one = operation(BinOp.BIT_XOR, U64, ir.u64(2), operation(BinOp.SHL, U64, ir.u64(2**63), ir.u32(0)))
    body = [ir.if_(ir.binop(BinOp.NE, one, number), [ir.store(out, 0, ir.load(out, 0) + 1)])]
    return case_of("constants of 64 bits that are not equal", [out], body, np.array([6], np.uint32), size=_ALONE)


def _quotients_of_zeros() -> Case:
    """Return quotients of f64 by and of zeros, one of which a compiler finds: infinities and NaNs."""
    every = edges(F64)
    given = BufferDecl.read("given", 0, F64).with_count(every.size)
    x, found = ir.var("x", F64), convert(F64, ir.binop(BinOp.MIN, ir.gid_x(), ir.u32(0)))
    zeros = ir.f64(0.0), ir.f64(-0.0), found
    terms = [operation(BinOp.DIV, F64, *pair) for zero in zeros for pair in ((x, zero), (zero, x))]
    return case_of_each("quotients of f64 by and of zeros", {"x": (given, every)}, F64, terms)


def _roots_of_what_is_pushed() -> Case:
    """Return a load at an index that many operations on numbers that are pushed make."""
    pushed, given = BufferDecl.push("pushed", 0, F32), BufferDecl.read("given", 1, U32).with_count(8)
    out = BufferDecl.read_write("out", 2, U32).with_count(8)
    value: Expr = ir.load(pushed, 0)
    for _ in range(12):
        value = ir.unop(UnOp.SQRT, value)
    body = [ir.store(out, ir.gid_x(), ir.load(given, ir.cast(U32, value * 4.0) + ir.gid_x()))]
    values = np.array([3e38], np.float32), np.arange(8, dtype=np.uint32) * 3, np.zeros(8, np.uint32)
    return case_of("roots of roots of what is pushed as an index", [pushed, given, out], body, *values)


def _quotient_by_bits() -> Case:
    """Return a quotient of i64, rounded down, by the bits of a constant of f64, which are below 0."""
    out = BufferDecl.read_write("signed_wide_out", 0, I64).with_count(3)
    one, i = convert(F64, ir.u32(1)), ir.gid_x()
    number = operation(BinOp.SUB, F64, operation(BinOp.SUB, F64, ir.f64(0.1), one), one)
    value = floor_divide(I64, ir.load(out, i), bitcast(I64, number))
    body = [ir.if_(i < 3, [ir.store(out, i, value)])]
    return case_of("a quotient by the bits of an f64", [out], body, np.array([8, 0, -7], np.int64), size=_ALONE, grid=(3, 1, 1))


def _quotients_of_quotients() -> Case:
    """Return a chain of quotients of i64, each rounded up, that begins with constants."""
    out = BufferDecl.read_write("signed_wide_out", 0, I64).with_count(1)
    value: Expr = operation(BinOp.SUB, I64, ir.i64(2**32 - 1), ir.i64(-1))
    body: list[Node] = []
    for turn in range(3):
        dividend, quotient, rest = (ir.var(f"{name}_{turn}", I64) for name in ("dividend", "quotient", "rest"))
        divisor = operation(BinOp.BIT_AND, I64, ir.i64(-9), ir.i64(-9))
        rounds = ir.binop(
            BinOp.AND,
            ir.binop(BinOp.NE, rest, ir.i64(0)),
            ir.binop(BinOp.LE, ir.i64(0), operation(BinOp.BIT_XOR, I64, rest, divisor)),
        )
        body += [
            ir.let(dividend.name, operation(BinOp.DIV, I64, value, value)),
            ir.let(quotient.name, operation(BinOp.DIV, I64, dividend, divisor)),
            ir.let(rest.name, operation(BinOp.MOD, I64, dividend, divisor)),
            ir.let(
                f"value_{turn}",
                operation(
                    BinOp.BIT_XOR, I64, value, ir.select(rounds, operation(BinOp.ADD, I64, quotient, ir.i64(1)), quotient)
                ),
            ),
        ]
        value = ir.var(f"value_{turn}", I64)
    body.append(ir.store(out, 0, value))
    return case_of("quotients of quotients of i64", [out], body, np.array([0], np.int64), size=_ALONE)
