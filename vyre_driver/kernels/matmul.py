"""Matrix products: float32, and of float16 matrices summed in float32; on the device's ordinary arithmetic units.

A workgroup makes one tile of the result. Tiles of both matrices go through shared memory, twice as much as one step needs: the
next step's part is loaded while this one's is multiplied. An invocation keeps its part of the tile in registers.

float16 matrices are read as such (``storageBuffer16BitAccess``), not as words of two: rows of odd length start in the middle
of a word, and a matrix of an odd number of elements ends there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, KernelDefinition, Operand, Plan, Size, Step
from vyre_driver.autotune.search.space import Axis, Candidate, Limits, TuningSpace
from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.kernels.tiles import check_matrices, grid_of
from vyre_driver.kernels.zeros import zeros_plan
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver.spirv.module import SpirvModule

_QUAD = 4
_VECTOR_BYTES = 16
_ALLOWED_BLOCKS = (16, 32, 64, 128)


def _rule(candidate: Candidate, limits: Limits) -> str | None:
    """Return why a tile cannot be split among the invocations, or is not a good choice."""
    across, down, _ = candidate.workgroup_size
    wide, high, deep, unroll = (candidate[name] for name in ("TILE_X", "TILE_Y", "TILE_Z", "UNROLL"))
    invocations = across * down
    if wide % (_QUAD * across) or high % (_QUAD * down):
        return f"a tile of {wide}x{high} is not a whole number of 4x4 blocks for {across}x{down} invocations"
    if wide * deep % (_QUAD * invocations) or high * deep % (_QUAD * invocations):
        return f"{invocations} invocations cannot load parts of {wide}x{deep} and {high}x{deep} in equal shares"
    columns, rows = wide // across, high // down
    if rows * columns not in _ALLOWED_BLOCKS or max(rows, columns) > _QUAD * min(rows, columns):
        return f"an invocation would make {columns}x{rows} sums, and 4x4 to 8x16 are worth trying"
    if max(wide, high) > 2 * min(wide, high):
        return f"a tile of {wide}x{high} has long edges for its area"
    if unroll > deep:
        return f"it unrolls {unroll} of {deep} products"
    shared = 2 * deep * (wide // _QUAD + high // _QUAD + 1) * _VECTOR_BYTES
    if shared > limits.max_compute_shared_memory_size:
        return f"its tiles take {shared} bytes, and a workgroup may share {limits.max_compute_shared_memory_size}"
    return None


_SPACE = TuningSpace(
    (
        Axis("TILE_X", (128, 64, 32, 256), "columns of the result that a workgroup makes"),
        Axis("TILE_Y", (64, 128, 32, 256), "rows of the result that a workgroup makes"),
        Axis("TILE_Z", (16, 8, 32), "products that go through shared memory at once"),
        Axis("WORKGROUP_X", (16, 8, 32), "invocations side by side", "x"),
        Axis("WORKGROUP_Y", (8, 16, 4), "invocations below each other", "y"),
        Axis("UNROLL", (16, 8), "products of a sum without a loop"),
    ),
    _rule,
)


@dataclass(frozen=True, slots=True)
class Matmul(KernelDefinition):
    """``c = a @ b`` of ``a[m, k]`` and ``b[k, n]``, row-major; ``c`` is float32. A size is (m, n, k)."""

    name: str
    dtype: np.dtype[Any]
    feature: str | None = None
    inputs = ("a", "b")
    sizes = tuple((side, side, side) for side in (64, 128, 256, 512, 1024, 2048, 4096, 8192))

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the module for any matrices, then the one for rows of whole vectors of four."""
        if self.feature is not None and self.feature not in device.features:
            raise UnsupportedFeature(
                f"{self.name} needs {self.feature}, and {device.physical.name!r} is open without it",
                fix="run with the vyre layer, choose another device, or convert the matrices to float32",
                feature=self.feature,
            )
        return shipped_module(self.name), shipped_module(f"{self.name}_wide")

    def space(self, _device: DeviceFacts) -> TuningSpace:
        """Return tiles, workgroups and unrolling."""
        return _SPACE

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (m, n, k)."""
        fix = f"pass an array of two dimensions, converted with .astype(numpy.{self.dtype})"
        check_matrices(self.name, operands, parameters, (self.dtype,), fix)
        (m, k), (inner, n) = operands["a"].shape, operands["b"].shape
        if k != inner:
            raise InvalidInput(
                f"a of {self.name} has {k} columns and b has {inner} rows", fix="pass matrices that can be multiplied"
            )
        return m, n, k

    def plan(self, call: Call) -> Plan:
        """Return one dispatch; of matrices without elements the one that makes zeros."""
        (m, n, k), constants = call.size, dict(call.candidate.constants)
        if 0 in call.size:
            return zeros_plan("c", (m, n), np.dtype(np.float32))
        module = self.modules(call.device)[n % _QUAD == 0]
        tiles = math.ceil(n / constants["TILE_X"]) * math.ceil(m / constants["TILE_Y"])
        groups = grid_of(tiles, call.device.physical.limits)
        step = Step(module, ("a", "b", "c"), groups, constants, {"m": m, "n": n, "k": k})
        return Plan((step,), {"c": Operand((m, n), np.dtype(np.float32))})

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return matrices of numbers from -0.25 to 0.75: both signs, and sums that do not cancel."""
        m, n, k = size
        rng = np.random.default_rng(seed)
        a, b = (rng.random(shape, np.float32) - np.float32(0.25) for shape in ((m, k), (k, n)))
        return (a.astype(self.dtype), b.astype(self.dtype)), {}

    def expected(self, *arrays: NDArray[Any], **_: object) -> NDArray[Any]:
        """Return the product, summed in float64 and rounded once."""
        with np.errstate(all="ignore"):  # where a BLAS fills its vectors up with zeros, an infinity times one is not a number
            a, b = (one.astype(np.float64) for one in arrays)
            return (a @ b).astype(np.float32)

    def tolerance(self, size: Size) -> float:
        """Return 8 + sqrt(k) units of 2**-23: the errors of k additions, whose signs are as good as random, add up as roots."""
        return float(np.finfo(np.float32).eps) * (8 + math.sqrt(size[2]))

    def moved_bytes(self, size: Size) -> int:
        """Return the bytes of the three matrices."""
        m, n, k = size
        return (m * k + k * n) * self.dtype.itemsize + m * n * 4

    def operations(self, size: Size) -> int:
        """Return a multiplication and an addition for each product."""
        m, n, k = size
        return 2 * m * n * k


MATMUL = Matmul("matmul", np.dtype(np.float32))
MATMUL_F16 = Matmul("matmul_f16", np.dtype(np.float16), "storageBuffer16BitAccess")
