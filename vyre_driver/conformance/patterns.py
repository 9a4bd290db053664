"""Numbers that find mistakes: the edges of every type, and between them anything.

The first twelve u32 are upstream's witness. Source: spec item 8, canonical u32 witness.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.backends.reference.values import INTEGERS
from vyre_driver.ir.dtypes import DataType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.conformance.options import Options, RandomSource

WITNESS = (0, 1, 2, 3, 2**32 - 1, 2**32 - 2, 1 << 31, 2**31 - 1, 0xAAAAAAAA, 0x55555555, 0xDEADBEEF, 0xCAFEF00D)
U32_EDGES = (*WITNESS, 31, 32, 33, 63, 64, 255, 256, 65535, 65536)
I32_EDGES = (0, 1, -1, 2, -2, 7, -7, 2**31 - 1, -(2**31), -(2**31) + 1, 65536, -65536)
U64_EDGES = (0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 1, 0xDEADBEEFCAFEF00D, 0xAAAAAAAA55555555)
I64_EDGES = (0, 1, -1, 7, -7, 2**32 - 1, 2**32, -(2**32) - 1, 2**63 - 1, -(2**63), -(2**63) + 1, 0x1EADBEEFCAFEF00D)
F32_EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.25, -100.0, 8388607.5, 16777216.0, 2147483648.0, -2147483648.0)
F32_SPECIAL = (float("inf"), float("-inf"), float("nan"), 3.4028234663852886e38, 1.1754943508222875e-38, 4294967296.0, -1e30)
F64_EDGES = (0.1, -1e300, 2.0**-1022, 1 + 2.0**-52, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 4294967295.5, -2147483649.0, 1e-40)
BF16_BITS = (0x0000, 0x8000, 0x3F80, 0xC000, 0x7F7F, 0x0001, 0x807F, 0x7F80, 0xFF80, 0x7FC0, 0x7FA5)
F16_BITS = (0x0000, 0x8000, 0x3C00, 0xC000, 0x7BFF, 0x0001, 0x83FF, 0x7C00, 0xFC00, 0x7E00)

NUMPY: dict[DataType, np.dtype[Any]] = {
    **INTEGERS,
    DataType.F16: np.dtype(np.float16),
    DataType.BF16: np.dtype(np.uint16),
    DataType.F32: np.dtype(np.float32),
    DataType.F64: np.dtype(np.float64),
    DataType.Bool: np.dtype(np.uint32),
}


def scalar_types(options: Options) -> list[DataType]:
    """Return the types that hand-written cases are about."""
    found = [DataType.U32, DataType.I32, DataType.F32, DataType.Bool]
    found += [DataType.U64, DataType.I64] if options.u64 else []
    return found + ([DataType.U8, DataType.I8, DataType.U16, DataType.I16] if options.narrow else [])


def edges(dtype: DataType) -> NDArray[Any]:
    """Return the edges of a type, as elements of a buffer; a bool is a word, true when it is not zero."""
    if dtype == DataType.F32:
        return np.array([*F32_EDGES, *F32_SPECIAL], np.float32)
    if dtype == DataType.Bool:
        return np.array([0, 1, 2, 1 << 31], np.uint32)
    if dtype == DataType.F64:
        return np.array([*F32_EDGES, *F32_SPECIAL, *F64_EDGES], np.float64)
    known = {DataType.U32: U32_EDGES, DataType.I32: I32_EDGES, DataType.U64: U64_EDGES, DataType.I64: I64_EDGES}
    if dtype in known:
        return np.array(known[dtype], NUMPY[dtype])
    if dtype == DataType.F16:
        return np.array(F16_BITS, np.uint16).view(np.float16)
    if dtype == DataType.BF16:
        return np.array(BF16_BITS, np.uint16)
    limits = np.iinfo(NUMPY[dtype])
    return np.array([0, 1, 2, limits.max, limits.max - 1, limits.min, limits.min + 1], NUMPY[dtype])


def each_with_each(*arrays: NDArray[Any]) -> list[NDArray[Any]]:
    """Return arrays of one length that have every combination of the elements of these."""
    return [np.array(side, one.dtype) for side, one in zip(zip(*product(*arrays), strict=True), arrays, strict=True)]


def array(rng: RandomSource, dtype: DataType, count: int) -> NDArray[Any]:
    """Return elements, half of them edges."""
    result = [_element(rng, dtype) for _ in range(count)]
    return np.array(result, NUMPY[dtype])


def _element(rng: RandomSource, dtype: DataType) -> Any:  # noqa: ANN401 -- a number that the type holds
    if dtype == DataType.F32:
        return rng.pick(F32_EDGES) if rng.chance(50) else rng.between(-4096, 4096) / 16
    if rng.chance(50):
        return edges(dtype)[rng.below(len(edges(dtype)))]
    word = rng.word() | rng.word() << 32
    if dtype == DataType.F16:
        return np.uint16(word & 0xFFFF).view(np.float16)
    width = NUMPY[dtype].itemsize
    return int.from_bytes(word.to_bytes(8, "little")[:width], "little", signed=NUMPY[dtype].kind == "i")
