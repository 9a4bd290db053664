"""Hand-written cases of the operators that this package adds to the IR, and of words that numbers were extended to.

The operators are asked on every combination of types that they take.

Compilers remember that a word is a number of 8 or 16 bits with its sign or zeros above it, and choose instructions for such
numbers. Every operator of words is asked of every way to make one: what a driver was wrong about, and the like
(docs/conformance.md).

Source: spec items 1.7 (integers) and 1.9.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.conformance.case import Case, case_of, case_of_each, elementwise, output
from vyre_driver.conformance.patterns import NUMPY, each_with_each, edges
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import bitcast
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.extensions import EXTENSIONS, extension
from vyre_driver.ir.operators import BinOp, UnOp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.conformance.options import Options
    from vyre_driver.ir.arithmetic import Expr

U32, I32, U64, I64, F32, BOOL = DataType.U32, DataType.I32, DataType.U64, DataType.I64, DataType.F32, DataType.Bool
_NARROW = (DataType.I8, DataType.I16, DataType.U8, DataType.U16)
_ONES = 2**32 - 1
# Near the edges of 8, 16, 24 and 32 bits, and where an f32 rounds: half way between two, just above and just below.
_WORDS = (
    *(0, 1, 2, 100, 127, 128, 129, 255, 256, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 1 << 16, 0xFF_FFFF, 1 << 24, (1 << 24) + 1),
    *((1 << 24) + 3, (1 << 25) + 2, (1 << 25) + 6, 2**31 - 65, 2**31 - 64, 2**31 - 1, 2**31),
    *(2**31 + 128, 2**31 + 129, 2**31 + 384),
    *(0x80FF_7F80, 0xFFFF_7FFF, 0xFFFF_8000, 0xFFFF_FF7F, 0xFFFF_FF80, 0xFFFF_FF81, _ONES - 1, _ONES, 0xDEAD_BEEF),
)


def _narrowed(dtype: DataType) -> Callable[[Expr], Expr]:
    return lambda x: ir.cast(U32, ir.cast(dtype, x))


def _shifted(by: int) -> Callable[[Expr], Expr]:
    """Return what makes a quotient by a power of two: an arithmetic shift, to compilers."""
    return lambda x: ir.cast(U32, ir.cast(I32, x) / (1 << by))


_WAYS: dict[str, Callable[[Expr], Expr]] = {
    **{f"cast to {dtype}": _narrowed(dtype) for dtype in _NARROW},
    "quotient by 2^24": _shifted(24),
    "quotient by 2^16": _shifted(16),
    "lowest bit, negated": lambda x: ir.unop(UnOp.NEGATE, x & 1),
    "seven bits, inverted": lambda x: ir.unop(UnOp.BIT_NOT, x & 127),
    "upper bits set": lambda x: x | 0xFFFF_FF80,
    "fifteen less a hundred": lambda x: (x & 15) - 100,
    "ones or zeros": lambda x: ir.select(x & 1, ir.u32(_ONES), ir.u32(0)),
    "-1 or a small one": lambda x: ir.cast(U32, ir.select(x & 1, ir.i32(-1), ir.i32(5))),
    "lesser of two": lambda x: ir.minimum(_narrowed(DataType.I8)(x), _narrowed(DataType.I16)(x)),
    "upper byte": lambda x: x >> 24,
    "the word": lambda x: x,
}
"""Makes a word of any word."""


def _with(op: BinOp, constant: int) -> Callable[[Expr], Expr]:
    return lambda w: ir.binop(op, w, ir.u32(constant))


def _signed_with(op: BinOp, constant: int) -> Callable[[Expr], Expr]:
    return lambda w: ir.binop(op, ir.cast(I32, w), ir.i32(constant))


_ORDERS = (BinOp.LT, BinOp.LE, BinOp.GT, BinOp.GE, BinOp.EQ, BinOp.NE)
_CONSTANTS = {
    BinOp.DIV: 3,
    BinOp.MOD: 7,
    BinOp.MUL: 0x0101_0101,
    BinOp.MUL_HIGH: 0x1234_5679,
    BinOp.MIN: 0x7FFF_FFF0,
    BinOp.MAX: 0x8000_0010,
    BinOp.SHL: 9,
    BinOp.SHR: 25,
    BinOp.ROTATE_LEFT: 5,
    BinOp.ROTATE_RIGHT: 13,
    BinOp.ABS_DIFF: 0x8000_0000,
    BinOp.SATURATING_ADD: 200,
    BinOp.SATURATING_SUB: 200,
    BinOp.SATURATING_MUL: 3,
}
_SIGNED_CONSTANTS = {BinOp.DIV: 3, BinOp.MOD: -7, BinOp.MIN: 77, BinOp.MAX: -77, BinOp.MUL: -3}
_THEN: dict[str, tuple[DataType, Callable[[Expr], Expr]]] = {
    "as f32": (F32, partial(ir.cast, F32)),
    "as f32 by way of i32": (F32, lambda w: ir.cast(F32, ir.cast(I32, w))),
    **{f"{op.name} {constant}": (U32, _with(op, constant)) for op, constant in _CONSTANTS.items()},
    "DIV of 2^32 - 2": (U32, lambda w: ir.u32(_ONES - 1) / w),
    "DIV by itself less 3": (U32, lambda w: w / (w - 3)),
    "MUL_HIGH by itself": (U32, lambda w: ir.binop(BinOp.MUL_HIGH, w, w)),
    "SATURATING_MUL by itself": (U32, lambda w: ir.binop(BinOp.SATURATING_MUL, w, w)),
    **{f"{op.name} 128": (BOOL, _with(op, 128)) for op in _ORDERS},
    **{f"{op.name} {_ONES - 127}": (BOOL, _with(op, _ONES - 127)) for op in _ORDERS},
    **{f"signed {op.name} {constant}": (I32, _signed_with(op, constant)) for op, constant in _SIGNED_CONSTANTS.items()},
    **{f"signed {op.name} -128": (BOOL, _signed_with(op, -128)) for op in _ORDERS},
    **{f"signed {op.name} 128": (BOOL, _signed_with(op, 128)) for op in _ORDERS},
    **{op.name: (U32, partial(ir.unop, op)) for op in (UnOp.POPCOUNT, UnOp.CLZ, UnOp.CTZ, UnOp.REVERSE_BITS)},
}
"""What is computed of a word, and its type."""
_THEN_WIDE: dict[str, tuple[DataType, Callable[[Expr], Expr]]] = {
    "as u64": (U64, partial(ir.cast, U64)),
    "as u64 by way of i32": (U64, lambda w: ir.cast(U64, ir.cast(I32, w))),
    "MUL_HIGH of u64": (U64, lambda w: ir.binop(BinOp.MUL_HIGH, ir.cast(U64, w), ir.u64(0xFFFF_0001_0000_0003))),
    "u64 LT 2^32": (BOOL, lambda w: ir.cast(U64, w) < ir.u64(1 << 32)),
}
"""What is computed of it with 64 bits."""


def extension_cases(options: Options) -> Iterator[Case]:
    """Yield them all; the first is what a driver was wrong about."""
    yield _reported()
    given, x = BufferDecl.read("given", 0, U32).with_count(len(_WORDS)), ir.var("x", U32)
    words = {"x": (given, np.array(_WORDS, np.uint32))}
    for name, (dtype, make) in (_THEN | (_THEN_WIDE if options.u64 else {})).items():
        terms = [make(way(x)) for way in _WAYS.values()]
        yield case_of_each(f"{name} of words whose upper bits are alike", words, dtype, terms)
    if options.narrow:
        yield from (_loaded(dtype) for dtype in _NARROW)


def _reported() -> Case:
    signed = BufferDecl.read("signed_in", 0, I32)
    out = BufferDecl.output("floats_out", 1, F32).with_count(1)
    body = [ir.store(out, 0, ir.cast(F32, ir.cast(U32, ir.cast(DataType.I8, ir.load(signed, 0)))))]
    return case_of("a byte below zero as a word and as f32", [signed, out], body, np.array([-1], np.int32), size=(1, 1, 1))


def _loaded(dtype: DataType) -> Case:
    """Return the case of what is computed of elements of 8 or 16 bits, which are loaded with their signs or zeros."""
    limits = np.iinfo(NUMPY[dtype])
    values = np.array([0, 1, 2, 100, limits.max, limits.max - 1, limits.min, limits.min // 2], NUMPY[dtype])
    given = BufferDecl.read("given", 0, dtype).with_count(len(values))
    word = ir.cast(U32, ir.var("x", dtype))
    each: list[Expr] = [ir.cast(F32, word), ir.cast(F32, ir.cast(I32, word)), ir.cast(F32, word + 1)]
    return case_of_each(f"elements of {dtype} as words and as f32", {"x": (given, values)}, F32, each)


COMPARISONS = (BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.LE, BinOp.GT, BinOp.GE)
_MASKS = {one: np.uint64(2**64 - 1) for one in (DataType.U64, DataType.I64)} | {U32: np.uint64(127)}


def added_operator_cases(options: Options) -> Iterator[Case]:
    """Yield one for each operator and each combination of types, of every combination of their edges."""
    for name, operator in EXTENSIONS.items():
        for types in product(*operator.operands):
            if not all(_has(options, one) for one in (*types, operator.result)):
                continue
            every = [edges(one)[:: 3 if len(types) == 3 else 1] for one in types]
            title = f"{name} of {' and '.join(map(str, types))}"
            yield elementwise(title, types, each_with_each(*every), partial(extension, name), operator.result)
    if options.u64:
        yield from _wide_cases()
    yield from _comparisons()
    yield _kept_bits()
    yield from _half_cases()


def _has(options: Options, dtype: DataType) -> bool:
    if dtype in {DataType.U64, DataType.I64}:
        return options.u64
    return options.narrow or dtype not in {DataType.F16, DataType.BF16}


def _kept_bits() -> Case:
    """Return the case of bits of f32 that nothing computes with: subnormals and NaNs stay what they are in every place."""
    bits = np.array([0, 1, 0x8000_0001, 0x807F_FFFF, 0x7FC1_2345, 0xFF80_0001, 0x3F80_0000, 0xFFFF_FFFF], np.uint32)
    i, x, y = ir.gid_x(), ir.var("x", F32), ir.var("y", F32)
    words, floats = BufferDecl.read("words", 0, U32).with_count(8), BufferDecl.read_write("floats", 1, F32).with_count(8)
    out, shared = output(32, 2), BufferDecl.workgroup("shared", 8, F32)
    loaded = bitcast(F32, ir.load(words, i))
    body = [
        ir.let("x", loaded),
        ir.let("y", ir.f32(0.0)),
        ir.assign("y", ir.select(i < 8, x, y)),
        ir.store(shared, i, y),
        ir.store(floats, i, x),
        ir.barrier(),
    ]
    kept = [x, y, ir.load(shared, i ^ 1), ir.load(floats, i ^ 1)]
    body += [ir.store(out, i * 4 + place, bitcast(U32, one)) for place, one in enumerate(kept)]
    return case_of("bits of f32 in every place", [words, floats, out, shared], body, bits, np.zeros(8, np.float32))


def _comparisons() -> Iterator[Case]:
    arrays = each_with_each(edges(DataType.F64), edges(DataType.F64))
    for op in COMPARISONS:
        yield elementwise(f"{op.name} of f64", [DataType.F64] * 2, arrays, partial(ir.binop, op), DataType.Bool)


def _wide_cases() -> Iterator[Case]:
    """Yield the cases of numbers of 64 bits of every length, beside which another of every length stands."""
    place = np.arange(64 * 7, dtype=np.uint64)
    left = (place + np.uint64(1)) * np.uint64(0x9E37_79B9_7F4A_7C15) >> place % np.uint64(64)
    right = (place + np.uint64(3)) * np.uint64(0xC2B2_AE3D_27D4_EB4F) >> place * np.uint64(29) % np.uint64(64)
    for name, operator in EXTENSIONS.items():
        (first, *others) = (types[0] for types in operator.operands)
        if first in {DataType.U64, DataType.I64}:
            arrays = [left.view(NUMPY[first]), *((right & _MASKS[one]).astype(NUMPY[one]) for one in others)]
            types = [first, *others]
            yield elementwise(f"{name} of every length", types, arrays, partial(extension, name), operator.result)


def _half_cases() -> Iterator[Case]:
    """Yield the cases of f16 and bf16 throughout their range, and of the f32 half way between two neighbours and beside it."""
    every = np.arange(0, 1 << 16, 61, dtype=np.uint32)
    finite = every[(every & 0x7FFF) < 0x7C00].astype(np.uint16).view(np.float16).astype(np.float32)
    between = finite.view(np.uint32) + np.uint32(1 << 12)  # half a step of f16, where that is normal
    small = (np.arange(-64, 64) * 2.0**-26).astype(np.float32).view(np.uint32)
    near = np.concatenate([between, small, (every << np.uint32(16)) + np.uint32(1 << 15)])
    around = np.concatenate([near - np.uint32(1), near, near + np.uint32(1)])
    for half in ("f16", "bf16"):
        unpacked = partial(extension, f"unpack_{half}")
        yield elementwise(f"bits of {half}", [U32], [every], lambda x, make=unpacked: bitcast(U32, make(x)), U32)
        yield elementwise(f"f32 between two {half}", [F32], [around.view(np.float32)], partial(extension, f"pack_{half}"), U32)
