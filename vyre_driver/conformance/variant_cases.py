"""Variants of programs that a driver compiled wrongly: the same constructs over many numbers at once.

The programs themselves are in driver_cases.py; docs/conformance.md says what was done about each.

Source: spec items 1.5 to 1.7.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.conformance import patterns
from vyre_driver.conformance.case import Case, case_of, case_of_each
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp, BinOp, UnOp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.conformance.options import Options
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node

U32, I32, U64, I64, F32, BOOL = DataType.U32, DataType.I32, DataType.U64, DataType.I64, DataType.F32, DataType.Bool


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
        yield from _borrows()
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
    columns = zip(*product(*map(patterns.edges, dtypes)), strict=True)
    return [np.array(one, patterns.NUMPY[dtype]) for dtype, one in zip(dtypes, columns, strict=True)]


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


def _borrows() -> Iterator[Case]:
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
