"""layernorm and rmsnorm: rows along the last axis, each scaled by the variance or the mean square of its numbers.

A row is read once where its numbers fit into a workgroup's registers: they are summed, squared and scaled from there. Longer
rows are read twice, by one workgroup, or by several where they are longer than the candidate's tile: one dispatch leaves what
each part comes to, a second puts these together and writes.

A variance is of the differences from the mean, never a mean of squares less the mean's. An invocation takes both of its own
numbers, less the row's first one, and those of two are put together by the difference of their means: a row of numbers that are
near each other and far from 0 loses nothing. Source: the pairwise updating formulae for variances (1979).
"""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, KernelDefinition, Operand, Plan, Size, Step
from vyre_driver.autotune.search.space import Axis, Candidate, Limits, TuningSpace
from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.kernels.long_arrays import check_parameters
from vyre_driver.kernels.tiles import check_rows, grid_of, row_count
from vyre_driver.kernels.zeros import zeros_plan
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver.spirv.module import SpirvModule

_F32, _F16 = np.dtype(np.float32), np.dtype(np.float16)
_SUFFIXES = {_F32: "", _F16: "_f16"}
_HALVES = "storageBuffer16BitAccess"
_VECTOR_BYTES = 16
_STATE_BYTES = 16  # of an invocation, in shared memory
_SHORT = 64
_SEVERAL = range(128, 513)
_NUMBERS_AT_ONCE = 2**20
_LAYERNORM_EPS, _RMSNORM_EPS = 1e-5, 1e-6  # as PyTorch's and as most models'
_LENGTHS = (16384, 65536, 4096)


def _rule(candidate: Candidate, limits: Limits) -> str | None:
    """Return why a workgroup's shape is not a good choice: several rows at once are for few invocations a row."""
    (across, rows, _), longest = candidate.workgroup_size, candidate["TILE_X"]
    held = across * candidate["UNROLL"] * _VECTOR_BYTES // _F32.itemsize
    if (across <= _SHORT) != (rows > 1):
        return f"{rows} rows with {across} invocations each; several rows are for {_SHORT} invocations or fewer"
    if rows > 1 and across * rows not in _SEVERAL:
        return f"{rows} rows make a workgroup of {across * rows}; {_SEVERAL[0]} to {_SEVERAL[-1]} are worth trying"
    if rows > 1 and longest != _LENGTHS[0]:
        return f"rows are split at {longest} for more than {_SHORT} invocations"
    if held > longest:
        return f"{across} invocations hold {held} numbers, and a row's part has {longest}"
    shared = across * rows * _STATE_BYTES
    if shared > limits.max_compute_shared_memory_size:
        return f"its sums take {shared} bytes, and a workgroup may share {limits.max_compute_shared_memory_size}"
    return None


_SPACE = TuningSpace(
    (
        Axis("WORKGROUP_X", (256, 512, 128, 1024, 64, 32, 16, 8), "invocations on a row", "x"),
        Axis("WORKGROUP_Y", (1, 8, 16, 32, 4), "rows of a workgroup", "y"),
        Axis("UNROLL", (4, 2, 8, 1), "vectors of 16 bytes that an invocation holds at once"),
        Axis("TILE_X", _LENGTHS, "numbers of a row that a workgroup takes at most"),
    ),
    _rule,
)


class RowsKernel(KernelDefinition):
    """What both kernels share: ``x`` (..., columns) of float32 or float16, the others (columns,) of its type.

    A size is (rows, columns, bytes of a number), so that each type has records of its own. Results are of x's type, sums are
    float32.

    ``out`` may be the buffer of ``x``: a row's numbers are read before any is written, or by the invocation that writes it.
    """

    is_included = True
    sizes = ((256, 16384, 4), (2**21, 64, 4), (2**18, 512, 4), (2**15, 4096, 4), (512, 2**18, 4))
    """One that is soon checked, and at which candidates read rows in every way; 512 MiB of short, longer and split rows."""
    may_overwrite = True
    eps: float
    """What a call without ``eps`` takes."""

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return pairs of modules, for rows of any length and of whole vectors; eight of each type that the device reads.

        For several rows a workgroup; for one, with subgroup operations where there are; for a split row, its two dispatches.
        """
        types = (_F32, _F16) if _HALVES in device.features else (_F32,)
        return tuple(one for dtype in types for pair in self._pairs(dtype, device) for one in pair)

    def space(self, _device: DeviceFacts) -> TuningSpace:
        """Return workgroups, what an invocation holds, and where rows are split."""
        return _SPACE

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (rows, columns, bytes of a number); raises InvalidInput."""
        check_parameters(self.name, parameters, ("eps",))
        x = operands["x"]
        check_rows(self.name, {"x": x}, (_F32, _F16))
        for name in self.inputs[1:]:
            self._check_like_a_row(name, operands[name], x)
        self._eps(parameters)
        return row_count(x.shape), x.shape[-1], x.dtype.itemsize

    def _check_like_a_row(self, name: str, operand: Operand, x: Operand) -> None:
        """Check that an array has the shape and type of one row of x; raises InvalidInput otherwise."""
        row = x.shape[-1:]
        fixes = []
        if operand.shape != row:
            is_reshaped_row = math.prod(operand.shape) == row[0]
            fixes.append(f"pass {name}.reshape(-1)" if is_reshaped_row else f"pass an array of the shape {row}")
        if operand.dtype != x.dtype:
            fixes.append(f"convert it with .astype(numpy.{x.dtype})")
        if fixes:
            raise InvalidInput(
                f"{name} of {self.name} has the shape {operand.shape} and the type {operand.dtype}, and must be as a row of x: "
                f"{row}, {x.dtype}",
                fix=", and ".join(fixes),
                binding=name,
            )

    def plan(self, call: Call) -> Plan:
        """Return one dispatch, or two for rows longer than the candidate's tile; raises UnsupportedFeature."""
        (rows, columns, _), candidate, dtype = call.size, call.candidate, call.operands["x"].dtype
        if 0 in call.size:
            return zeros_plan("y", call.operands["x"].shape, dtype)
        is_wide = columns % (_VECTOR_BYTES // dtype.itemsize) == 0
        several, alone, statistics, apply = (pair[is_wide] for pair in self._pairs(dtype, call.device))
        push, specs = {"rows": rows, "columns": columns, "eps": self._eps(call.parameters)}, dict(candidate.constants)
        parts = math.ceil(columns / candidate["TILE_X"])
        groups = grid_of(math.ceil(rows * parts / candidate.workgroup_size[1]), call.device.physical.limits)
        outputs = {"y": call.operands["x"]}
        if parts == 1:
            module = alone if candidate.workgroup_size[1] == 1 else several
            own = {one.name: specs[one.name] for one in module.reflection.spec_constants}
            return Plan((Step(module, (*self.inputs, "y"), groups, own, push),), outputs)
        steps = (
            Step(statistics, ("x", "statistics"), groups, specs, push),
            Step(apply, (*self.inputs, "y", "statistics"), groups, specs, push),
        )
        return Plan(steps, outputs, {"statistics": Operand((rows, parts, self._state), _F32)})

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return normally distributed numbers around 0.5, weights around 1 and biases around 0."""
        rows, columns, byte_len = size
        dtypes = {one.itemsize: one for one in (_F32, _F16)}
        if byte_len not in dtypes:
            raise InvalidInput(
                f"numbers of {self.name} are to have {byte_len} bytes, and have 4 (float32) or 2 (float16)",
                fix="give a size of rows, columns and 4 or 2",
            )
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((rows, columns), np.float32)
        x += np.float32(0.5)
        others = [
            np.float32(middle) + np.float32(0.25) * rng.standard_normal(columns, np.float32)
            for middle, _ in zip((1, 0), self.inputs[1:], strict=False)
        ]
        return tuple(one.astype(dtypes[byte_len], copy=False) for one in (x, *others)), {}

    def tolerance(self, size: Size) -> float:
        """Return 16 + sqrt(columns / 1024) units of 2**-23 for the sums and the root; of float16 its own 2**-10 besides.

        That is relative to the largest result, unless weights and biases cancel there.
        """
        sums = float(np.finfo(np.float32).eps) * (16 + math.sqrt(size[1] / 1024))
        return sums if size[2] == _F32.itemsize else sums + float(np.finfo(np.float16).eps)

    def moved_bytes(self, size: Size) -> int:
        """Return the bytes of both matrices, and of what is there for each column."""
        rows, columns, byte_len = size
        return byte_len * columns * (2 * rows + len(self.inputs) - 1)

    @property
    @abstractmethod
    def _state(self) -> int:
        """How many float32 the statistics of a part are."""

    def _pairs(self, dtype: np.dtype[Any], device: DeviceFacts) -> tuple[tuple[SpirvModule, SpirvModule], ...]:
        """Return the modules for arrays of a type, of rows of any length and of whole vectors; raises UnsupportedFeature."""
        if dtype == _F16 and _HALVES not in device.features:
            raise UnsupportedFeature(
                f"{self.name} of float16 needs {_HALVES}, and {device.physical.name!r} is open without it",
                fix="choose another device, or convert the arrays to float32",
                feature=_HALVES,
            )
        kinds = ("", "_subgroups" if device.has_subgroup_arithmetic else "", "_statistics", "_apply")
        names = [f"{self.name}{_SUFFIXES[dtype]}{kind}" for kind in kinds]
        return tuple((shipped_module(name), shipped_module(f"{name}_wide")) for name in names)

    def _eps(self, parameters: Mapping[str, Any]) -> float:
        """Return ``eps`` rounded to float32, too large a one as infinite; raises InvalidInput if it is none."""
        given: object = parameters.get("eps", self.eps)
        number = given if isinstance(given, numbers.Real) else None
        try:
            found = math.nan if number is None or type(given) is bool else float(number)
        except OverflowError:  # an integer beyond float64
            found = -math.inf if number is None or number < 0 else math.inf
        if not found >= 0:
            raise InvalidInput(
                f"eps of {self.name} is {given!r}, which is not a number from 0 on", fix="give a float", parameter="eps"
            )
        with np.errstate(all="ignore"):
            return float(np.float32(found))


@dataclass(frozen=True, slots=True)
class LayerNorm(RowsKernel):
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, the variance being the mean of squared differences.

    As PyTorch's ``layer_norm`` has it, a row with a NaN or an infinity in it becomes all NaN.
    """

    name = "layernorm"
    inputs = ("x", "weight", "bias")
    eps = _LAYERNORM_EPS

    @property
    def _state(self) -> int:
        return 4

    def expected(self, *arrays: NDArray[Any], eps: float = _LAYERNORM_EPS, **_: object) -> NDArray[Any]:
        """Return the formula in float64, rounded once."""
        x, weight, bias = arrays
        rows, small = _rows(x), self._eps({"eps": eps})
        found = np.empty_like(rows)
        with np.errstate(all="ignore"):
            for part in _parts(rows):
                row = rows[part].astype(np.float64)
                row -= row.mean(axis=1, keepdims=True)
                row /= np.sqrt((row * row).mean(axis=1, keepdims=True) + small)
                found[part] = row * weight + bias
        return found.reshape(x.shape)


@dataclass(frozen=True, slots=True)
class RmsNorm(RowsKernel):
    """``x / sqrt(mean(x * x) + eps) * weight``.

    As PyTorch's ``rms_norm`` has it, a row with a NaN in it becomes all NaN; in one with infinities these become NaN, and its
    other numbers zeros.
    """

    name = "rmsnorm"
    inputs = ("x", "weight")
    eps = _RMSNORM_EPS

    @property
    def _state(self) -> int:
        return 1

    def expected(self, *arrays: NDArray[Any], eps: float = _RMSNORM_EPS, **_: object) -> NDArray[Any]:
        """Return the formula in float64, rounded once."""
        x, weight = arrays
        rows, small = _rows(x), self._eps({"eps": eps})
        found = np.empty_like(rows)
        with np.errstate(all="ignore"):
            for part in _parts(rows):
                row = rows[part].astype(np.float64)
                row /= np.sqrt((row * row).mean(axis=1, keepdims=True) + small)
                found[part] = row * weight
        return found.reshape(x.shape)


def _rows(x: NDArray[Any]) -> NDArray[Any]:
    """Return an array as a matrix of the rows along its last axis."""
    return x.reshape(row_count(x.shape), x.shape[-1])


def _parts(x: NDArray[Any]) -> list[slice]:
    """Return which rows are computed at a time, for the memory that they take in float64; none of no elements."""
    if not x.size:
        return []
    step = max(_NUMBERS_AT_ONCE // x.shape[1], 1)
    return [slice(start, start + step) for start in range(0, len(x), step)]


LAYERNORM = LayerNorm()
RMSNORM = RmsNorm()
