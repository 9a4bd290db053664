"""Kernels of matrices on ordinary arithmetic units: products of float32 and of float16, summed in float32, and the transpose.

A workgroup makes one tile of the result. Tiles of both matrices go through shared memory, twice as much as one step needs: the
next step's part is loaded while this one's is multiplied. An invocation keeps its part of the tile in registers. Where there
are few tiles, workgroups sum parts of k side by side, and a second dispatch adds the parts.

float16 matrices are read as such (``storageBuffer16BitAccess``), not as words of two: rows of odd length start in the middle
of a word, and a matrix of an odd number of elements ends there.

The transpose copies words of 4 bytes and never interprets them, so that NaNs keep their bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, Operand, Plan, Size, Step
from vyre_driver.autotune.measure.tuned import BoundPlan, TunedKernel
from vyre_driver.autotune.search.space import Axis, Candidate, Limits, TuningSpace
from vyre_driver.binding.arguments import as_array
from vyre_driver.errors import InvalidInput
from vyre_driver.kernels import common
from vyre_driver.kernels.products import product
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.driver import Driver
    from vyre_driver.runtime.kernel import Kernel
    from vyre_driver.spirv.module import SpirvModule

_QUAD = 4
_VECTOR_BYTES = 16
_BLOCKS = ((8, 8), (8, 12), (8, 4), (4, 8), (4, 4))  # columns and rows that an invocation sums
# Tiles, columns and rows, for which k may be split, each with the workgroup whose invocations sum most.
_SPLIT = {
    (128, 128): (16, 16),
    (128, 64): (16, 8),
    (64, 128): (8, 16),
    (64, 64): (8, 8),
    (128, 32): (16, 4),
    (128, 16): (16, 4),
    (32, 128): (8, 16),
}
_ADDING = 128  # the workgroup of shaders/matmul_parts.comp
_MOST_PARTIAL = 2**24  # sums of parts that memory is taken for
_LEAST_PART = 128  # products of a sum that are worth a part of their own
_HALF_A_ROUND = 0.55  # of a round's time, with half as many invocations or fewer: each gets on nearly twice as fast,
_PROCESSORS = 128  # if their workgroups are on as many processors
_RESIDENT = 2**15  # invocations that a large device has at work
# In products of all of those: what it takes to write, read and add one sum each, and to start adding.
_ADDED, _ADDING_STARTS = 32, 4096


def _rule(candidate: Candidate, limits: Limits) -> str | None:
    """Return why a tile cannot be split among the invocations, or is not a good choice."""
    across, down, _ = candidate.workgroup_size
    values = dict(candidate.constants)
    wide, high, deep, parts = values["TILE_X"], values["TILE_Y"], values["UNROLL"], values["SPLIT_K"]
    invocations = across * down
    if wide % (_QUAD * across) or high % (_QUAD * down):
        return f"a tile of {wide}x{high} is not a whole number of 4x4 blocks for {across}x{down} invocations"
    if wide * deep % (_QUAD * invocations) or high * deep % (_QUAD * invocations):
        return f"{invocations} invocations cannot load parts of {wide}x{deep} and {high}x{deep} in equal shares"
    columns, rows = wide // across, high // down
    if (columns, rows) not in _BLOCKS:
        return f"an invocation would make {columns}x{rows} sums, and 4x4 to 8x12 are worth trying"
    if parts > 1 and _SPLIT.get((wide, high)) != (across, down):
        return f"k is split for tiles that differ, each with one workgroup, and not for {wide}x{high} with {across}x{down}"
    shared = 2 * deep * (wide // _QUAD + high // _QUAD + 1) * _VECTOR_BYTES
    return common.over_shared_memory("its tiles take", shared, limits)


_SPACE = TuningSpace(
    (
        Axis("TILE_X", (128, 64, 32), "columns of the result that a workgroup makes"),
        Axis("TILE_Y", (64, 128, 96, 32, 16), "rows of the result that a workgroup makes"),
        Axis("SPLIT_K", (1, 2, 4, 8, 16, 32, 128), "parts of k that are summed side by side"),
        Axis("WORKGROUP_X", (16, 8), "invocations side by side", "x"),
        Axis("WORKGROUP_Y", (8, 16, 4), "invocations below each other", "y"),
        Axis("UNROLL", (16, 8), "products of a sum that go through shared memory at once, without a loop"),
    ),
    _rule,
)


def _split(candidate: Candidate, size: Size, least: int = 1) -> int:
    """Return how much of k a workgroup sums: all of it, or what the candidate and memory for the parts' sums leave.

    There are at least so many parts.
    """
    m, n, k = size
    parts, step = min(candidate["SPLIT_K"], max(_MOST_PARTIAL // (m * n), 1)), candidate["UNROLL"]
    parts = max(parts, least)
    return math.ceil(k / (parts * step)) * step if parts > 1 else k


def _cost(candidate: Candidate, size: Size) -> int:
    """Return about how long a product takes on a large device, in products that each of its invocations makes.

    Rounds of as many invocations as are at work at once sum a part of k each, with one load for each row and column of sums.
    """
    m, n, k = size
    part = _split(candidate, size)
    parts = math.ceil(k / part)
    across, down, _ = candidate.workgroup_size
    tiles = math.ceil(n / candidate["TILE_X"]) * math.ceil(m / candidate["TILE_Y"])
    columns, rows = candidate["TILE_X"] // across, candidate["TILE_Y"] // down
    working = tiles * parts * across * down
    is_half = 2 * working <= _RESIDENT and tiles * parts >= _PROCESSORS
    rounds = _HALF_A_ROUND if is_half else math.ceil(working / _RESIDENT)
    cost = int(rounds * part * (columns * rows + columns + rows))
    return cost if parts == 1 else cost + _ADDING_STARTS + _ADDED * math.ceil(parts * m * n / _RESIDENT)


@dataclass(frozen=True, slots=True)
class Matmul(common.IncludedKernel):
    """``c = a @ b`` of ``a[..., k]`` and ``b[k, n]``, row-major; ``c`` is float32. A size is (m, n, k).

    All axes of ``a`` before the last count rows, m in all: they follow each other as those of one matrix.
    """

    name: str
    dtype: np.dtype[Any]
    feature: str | None = None
    inputs = ("a", "b")
    tuned = _SPACE
    otherwise = ", or convert the matrices to float32"
    sizes = tuple((side, side, side) for side in (64, 128, 256, 512, 1024, 2048, 4096, 8192))

    def modules(self, _device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the module for any matrices, the one for rows of whole vectors of four, and the one that adds parts of k."""
        return shipped_module(self.name), shipped_module(f"{self.name}_wide"), shipped_module("matmul_parts")

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (m, n, k); raises InvalidInput."""
        common.check_parameters(self.name, parameters)
        common.check_rows(self.name, operands, (self.dtype,), least_axes=2)
        a, b = operands["a"].shape, operands["b"].shape
        m, k, (inner, n) = common.row_count(a), a[-1], b[-2:]
        if k != inner:
            raise InvalidInput(
                f"a of {self.name} has {k} columns and b has {inner} rows", fix="pass matrices that can be multiplied"
            )
        if len(b) > 2:
            raise InvalidInput(
                f"b of {self.name} has the shape {b}, and must be one matrix for all rows of a",
                fix=f"call kernels.matmul(driver, {self.dtype.name!r}), which multiplies batches",
                binding="b",
            )
        return m, n, k

    def untuned(self, candidates: Sequence[Candidate], size: Size) -> Candidate:
        """Return what should take the least time on a large device; of equals what makes least past edges, then large tiles."""
        m, n, k = size
        if 0 in size:
            return candidates[0]

        def preference(one: Candidate) -> tuple[int, int, int]:
            x, y = one["TILE_X"], one["TILE_Y"]
            return _cost(one, size), math.ceil(n / x) * x * math.ceil(m / y) * y, -x * y

        return min((one for one in candidates if one["SPLIT_K"] == 1 or k >= one["SPLIT_K"] * _LEAST_PART), key=preference)

    def plan(self, call: Call) -> Plan:
        """Return one dispatch, or two if parts of k are summed apart; of matrices without elements the one that makes zeros."""
        (m, n, k), constants = call.size, dict(call.candidate.constants)
        f32 = np.dtype(np.float32)
        c = Operand((*call.operands["a"].shape[:-1], n), f32)
        if 0 in call.size:
            return common.zeros_plan("c", c.shape, f32)
        del constants["SPLIT_K"]
        any_matrices, wide, adding = self.modules(call.device)
        limits, least = call.device.physical.limits, common.least_parts(k, call.candidate["UNROLL"], 1, call.device)
        part = _split(call.candidate, call.size, least)
        parts = math.ceil(k / part)
        tiles = math.ceil(n / constants["TILE_X"]) * math.ceil(m / constants["TILE_Y"])
        across, down, _ = common.grid_of(tiles, limits)
        module, out = wide if n % _QUAD == 0 else any_matrices, "c" if parts == 1 else "parts"
        pushed = {"m": m, "n": n, "k": k, "part": part}
        step = Step(module, ("a", "b", out), (across, down, parts), constants, pushed)
        outputs = {"c": c}
        if parts == 1:
            return Plan((step,), outputs)
        pushed = {"elements": m * n, "count": parts}
        add = Step(adding, ("parts", "c"), common.grid_of(math.ceil(m * n / _ADDING), limits), push_constants=pushed)
        return Plan((step, add), outputs, {"parts": Operand((parts, m, n), f32)})

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
        return common.rounding_error(8 + math.sqrt(size[2]))

    def moved_bytes(self, size: Size) -> int:
        """Return the bytes of the three matrices."""
        m, n, k = size
        return (m * k + k * n) * self.dtype.itemsize + m * n * 4

    def operations(self, size: Size) -> int:
        """Return a multiplication and an addition for each product."""
        m, n, k = size
        return 2 * m * n * k


MATMUL = Matmul("matmul", np.dtype(np.float32))
MATMUL_F16 = Matmul("matmul_f16", np.dtype(np.float16), common.HALVES)


_MATRIX_AXES = 2


class Float32Matmul(TunedKernel):
    """``a @ b`` of float32 arrays with any batch axes.

    Where ``b`` is one matrix, the rows of a batch of ``a`` are those of one matrix, and the kernel for two matrices takes them
    all. A batch of ``b`` needs a kernel that goes over batches, which has constants and tuning records of its own.
    """

    def __init__(self, driver: Driver) -> None:
        """Choose what the driver's device runs of it; raises as ``TunedKernel``."""
        super().__init__(driver, MATMUL)

    @cached_property
    def _batched(self) -> TunedKernel:
        """The kernel for batches of ``b``, made when the first one comes: few callers have any."""
        return TunedKernel(self.driver, product("float32"))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the dispatches that calls have needed until now."""
        return super().kernels + (self._batched.kernels if "_batched" in self.__dict__ else ())

    def bind(
        self,
        *buffers: Buffer,
        out: Buffer | Sequence[Buffer],
        candidate: Candidate | None = None,
        **parameters: Any,  # noqa: ANN401 -- refused
    ) -> BoundPlan:
        """Bind resident buffers; as ``TunedKernel.bind``."""
        if _has_batch(buffers):
            common.check_parameters(self.name, parameters)
            return self._batched.bind(*buffers, out=out, candidate=candidate)
        return super().bind(*buffers, out=out, candidate=candidate, **parameters)

    def forget(self) -> None:
        """Look the records up again at the next call."""
        super().forget()
        if "_batched" in self.__dict__:
            self._batched.forget()

    def close(self) -> None:
        """Let the buffers of calls go; a second call does nothing."""
        super().close()
        if "_batched" in self.__dict__:
            self._batched.close()

    def _called(self, arrays: tuple[object, ...], parameters: dict[str, Any], out: object) -> tuple[NDArray[Any] | Buffer, ...]:
        given = tuple(array if isinstance(array, Buffer) else as_array(array) for array in arrays)
        if _has_batch(given):
            common.check_parameters(self.name, parameters)
            return self._batched._called(given, parameters, out)  # noqa: SLF001 -- of the same class
        return super()._called(given, parameters, out)


def _has_batch(arrays: Sequence[object]) -> bool:
    """Whether ``b`` of a call is a batch of matrices; a call with another number of arrays is refused later."""
    return len(arrays) == 2 and len(getattr(arrays[1], "shape", ())) > _MATRIX_AXES


_WORD_BYTES = 4
_TYPES_FIX = "convert it with .astype(numpy.float32), or reinterpret another type of 4 bytes with .view(numpy.uint32)"
_AXES_FIX = "pass one matrix: a vector as a.reshape(1, -1), the matrices of a batch one by one"
_DTYPES = tuple(np.dtype(one) for one in (np.float32, np.uint32, np.int32))


def _transpose_rule(candidate: Candidate, limits: Limits) -> str | None:
    """Return why a tile cannot be split among the invocations."""
    wide, high, vectors = (candidate[name] for name in ("TILE_X", "TILE_Y", "UNROLL"))
    invocations = candidate.workgroup_size[0]
    if wide * high % (_QUAD * invocations * vectors):
        return f"{wide}x{high} words are not a whole number of {vectors} vectors for each of {invocations} invocations"
    return common.over_shared_memory("its tile takes", high * (wide + 1) * _WORD_BYTES, limits)


_TRANSPOSE_SPACE = TuningSpace(
    (
        Axis("TILE_X", (64, 32), "columns that a workgroup reads"),
        Axis("TILE_Y", (64, 32), "rows that a workgroup reads"),
        Axis("BAND", (8, 1, 64), "tiles below each other that are turned before the next to the right"),
        Axis("WORKGROUP_X", (256, 512, 128, 1024, 64), "invocations", "x"),
        Axis("UNROLL", (4, 2, 1), "loads that an invocation waits for at once"),
    ),
    _transpose_rule,
)


@dataclass(frozen=True, slots=True)
class Transpose(common.IncludedKernel):
    """``b[j, i] = a[i, j]`` of a row-major matrix of float32, uint32 or int32. A size is (rows, columns) of ``a``."""

    name = "transpose"
    inputs = ("a",)
    sizes = ((256, 256), (1024, 1024), (4096, 4096), (64, 2**20), (2**20, 64), (16384, 16384))
    """Squares, and a long matrix each way."""
    tuned = _TRANSPOSE_SPACE

    def modules(self, _device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the module for any matrix, then the one for rows and columns of whole vectors of four."""
        return shipped_module("transpose"), shipped_module("transpose_wide")

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (rows, columns)."""
        common.check_parameters(self.name, parameters)
        is_matrix = len(operands["a"].shape) == 2
        common.check_matrices(self.name, operands, _DTYPES, _TYPES_FIX if is_matrix else _AXES_FIX)
        return operands["a"].shape

    def plan(self, call: Call) -> Plan:
        """Return one dispatch."""
        (m, n), constants = call.size, dict(call.candidate.constants)
        if 0 in call.size:
            return common.zeros_plan("b", (n, m), call.operands["a"].dtype)
        module = self.modules(call.device)[m % _QUAD == 0 and n % _QUAD == 0]
        tiles = math.ceil(n / constants["TILE_X"]) * math.ceil(m / constants["TILE_Y"])
        groups = common.grid_of(tiles, call.device.physical.limits)
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
