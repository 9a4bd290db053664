"""The transpose of a matrix of 4-byte elements: words are copied, never interpreted, so that NaNs keep their bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, Operand, Plan, Size, Step
from vyre_driver.autotune.search.space import Axis, Candidate, Limits, TuningSpace
from vyre_driver.kernels.common import IncludedKernel, check_matrices, check_parameters, grid_of, over_shared_memory, zeros_plan
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver.spirv.module import SpirvModule

_QUAD = 4
_WORD_BYTES = 4
_TYPES_FIX = "convert it with .astype(numpy.float32), or reinterpret another type of 4 bytes with .view(numpy.uint32)"
_AXES_FIX = "pass one matrix: a vector as a.reshape(1, -1), the matrices of a batch one by one"
_DTYPES = tuple(np.dtype(one) for one in (np.float32, np.uint32, np.int32))


def _rule(candidate: Candidate, limits: Limits) -> str | None:
    """Return why a tile cannot be split among the invocations."""
    wide, high, vectors = (candidate[name] for name in ("TILE_X", "TILE_Y", "UNROLL"))
    invocations = candidate.workgroup_size[0]
    if wide * high % (_QUAD * invocations * vectors):
        return f"{wide}x{high} words are not a whole number of {vectors} vectors for each of {invocations} invocations"
    return over_shared_memory("its tile takes", high * (wide + 1) * _WORD_BYTES, limits)


_SPACE = TuningSpace(
    (
        Axis("TILE_X", (64, 32), "columns that a workgroup reads"),
        Axis("TILE_Y", (64, 32), "rows that a workgroup reads"),
        Axis("BAND", (8, 1, 64), "tiles below each other that are turned before the next to the right"),
        Axis("WORKGROUP_X", (256, 512, 128, 1024, 64), "invocations", "x"),
        Axis("UNROLL", (4, 2, 1), "loads that an invocation waits for at once"),
    ),
    _rule,
)


@dataclass(frozen=True, slots=True)
class Transpose(IncludedKernel):
    """``b[j, i] = a[i, j]`` of a row-major matrix of float32, uint32 or int32. A size is (rows, columns) of ``a``."""

    name = "transpose"
    inputs = ("a",)
    sizes = ((256, 256), (1024, 1024), (4096, 4096), (64, 2**20), (2**20, 64), (16384, 16384))
    """Squares, and a long matrix each way."""
    tuned = _SPACE

    def modules(self, _device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the module for any matrix, then the one for rows and columns of whole vectors of four."""
        return shipped_module("transpose"), shipped_module("transpose_wide")

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (rows, columns)."""
        check_parameters(self.name, parameters)
        is_matrix = len(operands["a"].shape) == 2
        check_matrices(self.name, operands, _DTYPES, _TYPES_FIX if is_matrix else _AXES_FIX)
        return operands["a"].shape

    def plan(self, call: Call) -> Plan:
        """Return one dispatch."""
        (m, n), constants = call.size, dict(call.candidate.constants)
        if 0 in call.size:
            return zeros_plan("b", (n, m), call.operands["a"].dtype)
        module = self.modules(call.device)[m % _QUAD == 0 and n % _QUAD == 0]
        tiles = math.ceil(n / constants["TILE_X"]) * math.ceil(m / constants["TILE_Y"])
        groups = grid_of(tiles, call.device.physical.limits)
        step = Step(module, ("a", "b"), groups, constants, {"m": m, "n": n})
        return Plan((step,), {"b": Operand((n, m), call.operands["a"].dtype)})

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return a matrix of words with any bits."""
        return (np.random.default_rng(seed).integers(0, 2**32, size, np.uint32),), {}

    def expected(self, *arrays: NDArray[Any], **_: object) -> NDArray[Any]:
        """Return the transpose."""
        return np.ascontiguousarray(arrays[0].T)

    def moved_bytes(self, size: Size) -> int:
        """Return the bytes of both matrices."""
        return 2 * _WORD_BYTES * math.prod(size)


TRANSPOSE = Transpose()
