"""Hand-written cases of the operators that this package adds to the IR, on every combination of types that they take."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.conformance.case import Case, case_of, elementwise, output
from vyre_driver.conformance.patterns import NUMPY, edges
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import bitcast
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.extensions import EXTENSIONS, extension
from vyre_driver.ir.operators import BinOp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.conformance.options import Options

U32, F32 = DataType.U32, DataType.F32
COMPARISONS = (BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.LE, BinOp.GT, BinOp.GE)
_MASKS = {one: np.uint64(2**64 - 1) for one in (DataType.U64, DataType.I64)} | {U32: np.uint64(127)}


def added_operator_cases(options: Options) -> Iterator[Case]:
    """Yield one for each operator and each combination of types, of every combination of their edges."""
    for name, operator in EXTENSIONS.items():
        for types in product(*operator.operands):
            if not all(_has(options, one) for one in (*types, operator.result)):
                continue
            every = [edges(one)[:: 3 if len(types) == 3 else 1] for one in types]
            arrays = [np.array(side, many.dtype) for side, many in zip(zip(*product(*every), strict=True), every, strict=True)]
            title = f"{name} of {' and '.join(map(str, types))}"
            yield elementwise(title, types, arrays, partial(extension, name), operator.result)
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
    every = edges(DataType.F64)
    arrays = [np.array(side, every.dtype) for side in zip(*product(every, every), strict=True)]
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
