"""Hand-written cases of the operators that this package adds to the IR, on every combination of types that they take."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.conformance.case import Case, case_of, elementwise, output
from vyre_driver.conformance.patterns import edges
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.extension_builders import bitcast
from vyre_driver.ir.extensions import EXTENSIONS, extension

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.conformance.options import Options

U32, F32 = DataType.U32, DataType.F32


def added_operator_cases(options: Options) -> Iterator[Case]:
    """Yield one for each operator and each combination of types, of every combination of their edges."""
    for name, operator in EXTENSIONS.items():
        for types in product(*operator.operands):
            if not all(_has(options, one) for one in (*types, operator.result)):
                continue
            every = [edges(one) for one in types]
            arrays = [np.array(side, many.dtype) for side, many in zip(zip(*product(*every), strict=True), every, strict=True)]
            title = f"{name} of {' and '.join(map(str, types))}"
            yield elementwise(title, types, arrays, partial(extension, name), operator.result)
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


def _half_cases() -> Iterator[Case]:
    """Yield the cases of all bits of f16 and bf16, and of the f32 half way between two neighbours and beside that."""
    every = np.arange(1 << 16, dtype=np.uint32)
    finite = every[(every & 0x7FFF) < 0x7C00].astype(np.uint16).view(np.float16).astype(np.float32)
    between = finite.view(np.uint32) + np.uint32(1 << 12)  # half a step of f16, where that is normal
    small = np.concatenate([(np.arange(1 << 12) - 2048.0) * 2.0**-26]).astype(np.float32).view(np.uint32)
    near = np.concatenate([between, small, (every << np.uint32(16)) + np.uint32(1 << 15)])
    around = np.concatenate([near - np.uint32(1), near, near + np.uint32(1)])
    for half in ("f16", "bf16"):
        unpacked = partial(extension, f"unpack_{half}")
        yield elementwise(f"all bits of {half}", [U32], [every], lambda x, make=unpacked: bitcast(U32, make(x)), U32)
        yield elementwise(f"f32 between two {half}", [F32], [around.view(np.float32)], partial(extension, f"pack_{half}"), U32)
