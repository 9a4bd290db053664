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
