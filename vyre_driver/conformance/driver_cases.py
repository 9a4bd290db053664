"""Programs that a compiler of a driver got wrong, as they were left of random ones, and variants of them over many numbers.

docs/lowering.md, "Drivers", says what the emitter does about each, and docs/conformance.md what else was done.

Source: spec items 1.5 to 1.7.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.conformance import patterns
from vyre_driver.conformance.case import Case, case_of, case_of_each
from vyre_driver.conformance.patterns import edges
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import bitcast, convert, floor_divide, operation
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp, BinOp, UnOp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

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


def variant_cases(options: Options) -> Iterator[Case]:
    """Yield those that these options allow."""
    yield _greatest()
    yield from _differences()
    yield from _signed_differences()
    yield from _late_zeros()
    yield _joined_floats()
    yield _least()
    yield from _choices((U64, I64, U32) if options.u64 else (U32,))
    if options.u64:
        yield _high_words()
        yield from _high_borrows()
    if options.narrow and options.u64:
        yield from _narrow_bits()
    if options.atomics:
        yield _identities()
        yield from _found_identities()
        yield from _conditions()


def _each(name: str, given: Mapping[str, tuple[DataType, NDArray[np.generic]]], out: DataType, terms: Sequence[Expr]) -> Case:
    """Return the case of terms of every element of arrays of one length; in a term they are variables of the arrays' names."""
    declared = {key: BufferDecl.read(f"{key}_in", place, dtype) for place, (key, (dtype, _)) in enumerate(given.items())}
    return case_of_each(name, {key: (declared[key], array) for key, (_, array) in given.items()}, out, terms)


def _paired(*dtypes: DataType) -> list[NDArray[np.generic]]:
    """Return the edges of types, each with each."""
    return patterns.each_with_each(*map(patterns.edges, dtypes))


def _narrow_bits() -> Iterator[Case]:
    """Yield bits of bytes and of 16 bits, also beside what the shrunk programs have there: a constant quotient."""
    for dtype, unsigned, bits in (
        (DataType.U8, DataType.U8, 8),
        (DataType.I8, DataType.U8, 8),
        (DataType.I16, DataType.U16, 16),
    ):
        values = np.arange(-(2 ** (bits - 1)), 2 ** (bits - 1), 1 if bits == 8 else 257)
        x = ir.cast(unsigned, ir.var("x", dtype))
        terms = [ir.unop(op, ir.cast(U32, x)) for op in (UnOp.POPCOUNT, UnOp.CLZ, UnOp.CTZ, UnOp.REVERSE_BITS)]
        terms += [ir.cast(U32, ir.unop(op, ir.cast(U64, x))) for op in (UnOp.POPCOUNT, UnOp.CLZ, UnOp.CTZ)]
        terms.append(ir.cast(U32, ir.cast(F32, ir.cast(U32, x))))
        quotient = ir.cast(U32, ir.f32(0.0) / ir.f32(1.0))
        given = {"x": (dtype, values.astype(patterns.NUMPY[dtype]))}
        yield _each(f"bits of {dtype}", given, U32, terms)
        yield _each(f"bits of {dtype} beside a quotient", given, U32, [*terms, quotient])
        loaded = ir.cast(U32, ir.cast(F32, ir.cast(U32, x)) / ir.f32(3.0) >= ir.f32(0.0))
        yield _each(f"bits of {dtype} beside a quotient of them", given, U32, [loaded, *terms])


def _high_words() -> Case:
    """Return differences and sums of high words of products and 64 bits."""
    a, b, c = _paired(U32, U32, U64)
    high = ir.cast(U64, ir.binop(BinOp.MUL_HIGH, ir.var("a", U32), ir.var("b", U32)))
    rest = ir.var("c", U64)
    terms = [ir.binop(BinOp.WRAPPING_SUB, high, rest), ir.binop(BinOp.WRAPPING_SUB, rest, high)]
    terms += [ir.binop(BinOp.WRAPPING_ADD, high, rest), ir.binop(BinOp.WRAPPING_SUB, high, ir.cast(U64, ir.var("a", U32)))]
    given = {"a": (U32, a), "b": (U32, b), "c": (U64, c)}
    return _each("high words and 64 bits", given, U64, terms)


def _high_borrows() -> Iterator[Case]:
    """Yield high words of products of 1 and a difference or sum of bools as 64 bits: 0 all, and what they choose."""
    words_given, wide_given = _paired(U32, U64)
    x, w = ir.var("x", U32), ir.var("w", U64)
    flags = {
        "bools": ir.cast(U64, ir.cast(BOOL, w)),
        "comparisons": ir.cast(U64, x < 7),
        "chosen numbers": ir.cast(U64, ir.select(ir.cast(BOOL, x), ir.u32(1), ir.u32(0))),
        "chosen 64 bits": ir.select(ir.cast(BOOL, w), ir.cast(U64, ir.u32(1)), ir.cast(U64, ir.u32(0))),
        "bits": ir.cast(U64, x & 1),
    }
    one = ir.cast(U64, ir.u32(1))
    given = {"x": (U32, words_given), "w": (U64, wide_given)}
    for name, flag in flags.items():
        others = (w, ir.cast(U64, x), ir.select(x >= 7, ir.cast(U64, x), ir.unop(UnOp.POPCOUNT, w)))
        terms: list[Expr] = []
        for op, other in product((BinOp.WRAPPING_SUB, BinOp.WRAPPING_ADD), others):
            high = ir.binop(BinOp.MUL_HIGH, one, ir.binop(op, flag, other))
            back = ir.binop(BinOp.MUL_HIGH, ir.binop(op, other, flag), one)
            terms += [ir.select(ir.cast(U32, high).ne(0), x, ir.u32(3)), ir.select(ir.cast(BOOL, back), x, ir.u32(3))]
            terms.append(ir.cast(U32, ir.binop(BinOp.MUL_HIGH, w, ir.binop(op, flag, other))))
        yield _each(f"borrows of {name}", given, U32, terms)


def _identities() -> Case:
    """Return atomics that change nothing, by a literal: a compiler may make another operation of them."""
    counters = BufferDecl.read_write("counters", 0, U32).with_count(6)
    neutral = {
        AtomicOp.MIN: 2**32 - 1,
        AtomicOp.AND: 2**32 - 1,
        AtomicOp.MAX: 0,
        AtomicOp.OR: 0,
        AtomicOp.ADD: 0,
        AtomicOp.XOR: 0,
    }
    operations = list(neutral.items())
    body = [ir.let(f"v{i}", ir.atomic(op, counters, i, ir.u32(value))) for i, (op, value) in enumerate(operations)]
    values = np.array([7, 2**32 - 1, 2254898474, 0, 1, 2**31], np.uint32)
    return case_of("atomics that change nothing", [counters], body, values, size=(1, 1, 1))


def _found_identities() -> Iterator[Case]:
    """Yield atomics that change nothing, as only the branch tells that they stand in."""
    given = BufferDecl.read("words_in", 0, U32).with_count(2)
    counters = BufferDecl.read_write("counters", 1, U32).with_count(2)
    x = ir.load(given, ir.gid_x())
    ones: dict[AtomicOp, Expr] = {AtomicOp.MIN: ir.unop(UnOp.BIT_NOT, x), AtomicOp.AND: x - 1}
    for op, value in ones.items():
        body = [ir.if_(x.eq(0), [ir.let("v", ir.atomic(op, counters, ir.gid_x(), value))])]
        values = np.array([0, 5], np.uint32), np.array([2254898474, 9], np.uint32)
        name = f"an atomic {op.name.lower()} that changes nothing in its branch"
        yield case_of(name, [given, counters], body, *values, size=(2, 1, 1))


def _greatest() -> Case:
    """Return the greater and the lesser of words and differences of their inverses."""
    x, y = ir.var("x", U32), ir.var("y", U32)
    inverse = ir.unop(UnOp.BIT_NOT, x)
    minuends = [ir.u32(one) for one in (0, 1, 2, 3, 2**31, 2**32 - 1)] + [
        y,
        ir.binop(BinOp.ROTATE_RIGHT, ir.u32(1), ir.lid_y()),
    ]
    terms = [choose(one - inverse, x) for one in minuends for choose in (ir.maximum, ir.minimum)]
    terms += [choose(inverse - one, x) for one in minuends for choose in (ir.maximum, ir.minimum)]
    terms += [choose(x, one + inverse) for one in minuends for choose in (ir.maximum, ir.minimum)]
    xs, ys = _paired(U32, U32)
    return _each("the greater and the lesser beside inverses", {"x": (U32, xs), "y": (U32, ys)}, U32, terms)


def _choices(dtypes: Sequence[DataType]) -> Iterator[Case]:
    """Yield selects by selects of bools: of 64 bits of either sign, and of words."""
    flags = np.array(list(product((0, 1), repeat=3)) * 4, np.uint32).T
    number = np.tile(np.array([-5, 0, 1, 7], np.int32), 8)
    for dtype in dtypes:
        edges = patterns.edges(dtype)
        values = np.resize(edges, 32), np.resize(edges[::-1], 32)
        names = dict(zip("cab", flags, strict=True))
        given = {name: (BOOL, array) for name, array in names.items()}
        given |= {"n": (I32, number), "p": (dtype, values[0]), "q": (dtype, values[1])}
        c, a, b = (ir.var(name, BOOL) for name in "cab")
        n, p, q = ir.var("n", I32), ir.var("p", dtype), ir.var("q", dtype)
        compared = n <= 0
        terms = []
        for op in (BinOp.OR, BinOp.AND):
            outer = ir.binop(op, ir.select(c, a, b), compared)
            terms += [ir.select(outer, p, ir.select(a, p, q)), ir.select(outer, q, ir.select(a, p, ir.cast(dtype, ir.u32(0))))]
            terms += [ir.select(ir.binop(op, ir.select(ir.lid_y(), a, b), compared), p, ir.select(a, p, q))]
        yield _each(f"choices of {dtype} in choices", given, dtype, terms)


def _joined_floats() -> Case:
    """Return constants that meet where branches do, which only the device folds."""
    flags = BufferDecl.read("flags_in", 0, BOOL).with_count(4)
    out = BufferDecl.output("out", 1, I32).with_count(4)
    i, a = ir.gid_x(), ir.var("a", F32)
    body = [
        ir.let("a", ir.f32(-100.0)),
        ir.if_(ir.load(flags, i), [ir.assign("a", ir.f32(-101.0))]),
        ir.store(out, i, ir.cast(I32, ir.abs_diff(a, ir.f32(8388607.5)) - 2.5)),
    ]
    given = np.array([0, 1, 1, 0], np.uint32)
    return case_of("constants that meet behind a branch", [flags, out], body, given, size=(4, 1, 1))


def _least() -> Case:
    """Return the least and the greatest of numbers and what negates them, by comparisons."""
    x, y, zero = ir.var("x", I32), ir.var("y", I32), ir.i32(0)
    half = x / 2
    negations = [zero - one for one in (x, half, y, x & 255)]
    negations += [x * -1, ir.unop(UnOp.BIT_NOT, x) + 1]
    terms = []
    for op, negated in product((BinOp.LT, BinOp.LE, BinOp.GT), negations):
        first = ir.select(ir.binop(op, x, negated), x, negated)
        terms += [ir.select(ir.binop(op, first, one), first, one) for one in (zero, y)]
        terms.append(ir.select(ir.binop(op, first, zero), zero, first))
    xs, ys = _paired(I32, I32)
    return _each("numbers beside their negations, by comparisons", {"x": (I32, xs), "y": (I32, ys)}, I32, terms)


def _numbers_of_bools(x: Expr, loaded: Expr) -> dict[str, Expr]:
    """Return numbers that are 0 or 1, or not 0, as a word is."""
    return {
        "a bool": ir.cast(U32, ir.cast(BOOL, x)),
        "a chosen number": ir.select(ir.binop(BinOp.NE, x, ir.u32(0)), ir.u32(1), ir.u32(0)),
        "a chosen number of numbers": ir.select(ir.cast(BOOL, x), loaded, ir.u32(0)),
        "a number chosen the other way": ir.select(ir.cast(BOOL, x), ir.u32(0), ir.u32(1)),
        "a chosen 5": ir.select(ir.cast(BOOL, x), ir.u32(5), ir.u32(0)),
        "a sum of bools": ir.cast(U32, ir.cast(BOOL, x)) + ir.cast(U32, ir.u32(5) < x),
        "a bool and 0": ir.cast(U32, ir.cast(BOOL, x)) + ir.u32(0),
        "a bool in a byte": ir.cast(U32, ir.cast(DataType.U8, ir.cast(BOOL, x))),
        "a borrow": ir.binop(BinOp.SATURATING_SUB, ir.u32(1), x) ^ 1,
        "an i32 made of a bool": ir.cast(U32, ir.cast(I32, ir.cast(BOOL, x))),
        "a chosen i32": ir.cast(U32, ir.select(ir.cast(BOOL, x), ir.i32(1), ir.i32(0))),
        "an f32 made of a bool": ir.cast(U32, ir.cast(F32, ir.cast(BOOL, x))),
        "the least of 1": ir.minimum(x, ir.u32(1)),
    }


def _conditions() -> Iterator[Case]:
    """Yield what stands behind a comparison of a number that was made of a bool: a branch, an atomic, a load, a store."""
    words = np.array([0, 1, 2328016043, 2**31, 2**32 - 1, 7, 0, 5], np.uint32)
    size = len(words)
    given = BufferDecl.read("words_in", 0, U32).with_count(size)
    out = BufferDecl.read_write("out", 1, U32).with_count(size)
    counters = BufferDecl.read_write("counters", 2, U32).with_count(1)
    pair = BufferDecl.read_write("pair", 3, U32).with_count(2)
    i, x = ir.gid_x(), ir.load(given, ir.gid_x())
    value, zeros = ir.unop(UnOp.BIT_NOT, x), np.zeros(size, np.uint32)
    for name, number in _numbers_of_bools(x, ir.load(given, ir.u32(1))).items():
        below, none = number < 1, number.eq(0)
        bodies: dict[str, list[Node]] = {
            "below 1": [ir.if_(below, [ir.store(out, i, value)])],
            "0": [ir.if_(none, [ir.store(out, i, value)], [ir.store(out, i, x)])],
            "an index of an atomic behind below 1": [
                ir.if_(below, [ir.let("v", ir.atomic(AtomicOp.MIN, counters, number, value))])
            ],
            "an index of an atomic": [ir.let("v", ir.atomic(AtomicOp.MIN, counters, number, value))],
            "an index of a sum": [ir.let("v", ir.atomic(AtomicOp.ADD, counters, number, value))],
            "an index that is stored at": [ir.if_(i < 1, [ir.store(counters, number, value)])],
            "an index of two that is stored at": [ir.if_(i < 1, [ir.store(pair, number, value)])],
            "an index that is loaded at": [ir.store(out, i, ir.load(counters, number) ^ value)],
            "an index behind one that is stored at": [
                ir.if_(i < 1, [ir.store(counters, number, x), ir.store(pair, number, value)])
            ],
        }
        for what, body in bodies.items():
            arrays = words, zeros, np.array([2254898474], np.uint32), np.array([2254898474, 9], np.uint32)
            yield case_of(f"{name} as {what}", [given, out, counters, pair], body, *arrays, size=(size, 1, 1))


def _differences() -> Iterator[Case]:
    """Yield the greater and the lesser of words and differences of their inverses, however these are written."""
    x, y = ir.var("x", U32), ir.var("y", U32)
    inverses = [ir.unop(UnOp.BIT_NOT, x), x ^ (2**32 - 1), ir.u32(2**32 - 1) - x]
    inverses.append(ir.cast(U32, ir.unop(UnOp.BIT_NOT, ir.cast(I32, x))))
    less = (BinOp.SUB, BinOp.SATURATING_SUB, BinOp.ABS_DIFF, BinOp.WRAPPING_SUB)
    terms = []
    for op, inverse, minuend in product(less, inverses, (ir.u32(1), ir.u32(2**31), y)):
        terms += [ir.maximum(ir.binop(op, minuend, inverse), x), ir.minimum(x, ir.binop(op, inverse, minuend))]
    xs, ys = _paired(U32, U32)
    for first in range(0, len(terms), 16):
        given = {"x": (U32, xs), "y": (U32, ys)}
        yield _each(f"differences of inverses, from {first}", given, U32, terms[first : first + 16])


def _signed_differences() -> Iterator[Case]:
    """Yield the same of i32."""
    x, y = ir.var("x", I32), ir.var("y", I32)
    inverse = ir.unop(UnOp.BIT_NOT, x)
    inverses = [inverse, inverse + (y & 0), -1 - x, ir.cast(I32, ir.unop(UnOp.BIT_NOT, ir.cast(U32, x)))]
    terms = []
    for op, one, minuend in product((BinOp.SUB, BinOp.WRAPPING_SUB), inverses, (ir.i32(0), ir.i32(1), ir.i32(-(2**31)), y)):
        terms += [ir.maximum(ir.binop(op, minuend, one), x), ir.minimum(x, ir.binop(op, one, minuend))]
        terms += [ir.minimum(ir.binop(op, minuend, one), x)]
    xs, ys = _paired(I32, I32)
    for first in range(0, len(terms), 12):
        given = {"x": (I32, xs), "y": (I32, ys)}
        yield _each(f"differences of inverses of i32, from {first}", given, I32, terms[first : first + 12])


def _late_zeros() -> Iterator[Case]:
    """Yield the greater and the lesser of an i32 and what is its inverse's negation as soon as a number is found to be 0.

    One term a program: beside others a compiler may find it earlier.
    """
    x = ir.var("x", I32)
    zeros = {
        "a count of leading zeros": ir.unop(UnOp.CLZ, ir.i32(0)) / (2**31 - 1),
        "a lesser": ir.minimum(ir.i32(0), ir.i32(5)),
        "an upper half": ir.cast(I32, ir.binop(BinOp.MUL_HIGH, ir.u32(3), ir.u32(7))),
        "an axis of one invocation": ir.cast(I32, ir.lid_y()),
    }
    xs = np.array(patterns.edges(I32), np.int32)
    for name, zero in zeros.items():
        inverse = ir.unop(UnOp.BIT_NOT, x) + zero
        terms = {
            "the greater beside a difference": ir.maximum(ir.i32(0) - inverse, x),
            "the lesser beside a difference": ir.minimum(ir.i32(0) - inverse, x),
            "the greater beside a sum": ir.maximum(ir.unop(UnOp.BIT_NOT, inverse) + 1, x),
        }
        for what, term in terms.items():
            yield _each(f"{what} with {name}", {"x": (I32, xs)}, I32, [term])
