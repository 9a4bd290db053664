"""Kernels of rows along the last axis: softmax, ``exp(x - max) / sum(exp(x - max))``; layernorm and rmsnorm.

A row is read once where its numbers fit into a workgroup's registers: they are put together, scaled and written from there.
Longer rows are read twice, by one workgroup, or by several where they are longer than the candidate's tile: one dispatch leaves
what each part comes to, a second puts these together and writes.

The sum of a softmax is scaled again whenever a larger number comes, so that it is stable for numbers of any magnitude.

A variance is of the differences from the mean, never a mean of squares less the mean's. An invocation takes both of its own
numbers, less the row's first one, and those of two are put together by the difference of their means: a row of numbers that are
near each other and far from 0 loses nothing. Source: the pairwise updating formulae for variances (1979).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, Operand, Plan, Size, Step
from vyre_driver.autotune.search.space import Axis, Candidate, Limits, TuningSpace
from vyre_driver.errors import InvalidInput
from vyre_driver.kernels import common
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from vyre_driver.spirv.module import SpirvModule

_F32, _F16 = np.dtype(np.float32), np.dtype(np.float16)
_SUFFIXES = {_F32: "", _F16: "_f16"}
_VECTOR_BYTES = 16
_SHORT = 64
_NUMBERS_AT_ONCE = 2**20
_LAYERNORM_EPS, _RMSNORM_EPS = 1e-5, 1e-6  # as PyTorch's and as most models'
_LENGTHS = (16384, 65536, 4096)


def _rule(several: range | None, state_bytes: int, candidate: Candidate, limits: Limits) -> str | None:
    """Return why a workgroup's shape is not a good choice: several rows at once are for few invocations a row.

    Of several rows a workgroup has ``several`` invocations, and each ``state_bytes`` of shared memory.
    """
    (across, rows, _), longest = candidate.workgroup_size, candidate["TILE_X"]
    held = across * candidate["UNROLL"] * _VECTOR_BYTES // _F32.itemsize
    if (across <= _SHORT) != (rows > 1):
        return f"{rows} rows with {across} invocations each; several rows are for {_SHORT} invocations or fewer"
    if rows > 1 and several is not None and across * rows not in several:
        return f"{rows} rows make a workgroup of {across * rows}; {several[0]} to {several[-1]} are worth trying"
    if rows > 1 and longest != _LENGTHS[0]:
        return f"rows are split at {longest} for more than {_SHORT} invocations"
    if held > longest:
        return f"{across} invocations hold {held} numbers, and a row's part has {longest}"
    return common.over_shared_memory("its sums take", across * rows * state_bytes, limits)


def _space(
    across: tuple[int, ...], rows: tuple[int, ...], vectors: str, several: range | None, state_bytes: int
) -> TuningSpace:
    return TuningSpace(
        (
            Axis("WORKGROUP_X", across, "invocations on a row", "x"),
            Axis("WORKGROUP_Y", rows, "rows of a workgroup", "y"),
            Axis("UNROLL", (4, 2, 8, 1), f"vectors of {vectors} that an invocation holds at once"),
            Axis("TILE_X", _LENGTHS, "numbers of a row that a workgroup takes at most"),
        ),
        partial(_rule, several, state_bytes),
    )


_SOFTMAX_SPACE = _space((256, 512, 128, 1024, 64, 32), (1, 4, 8, 16), "four numbers", None, 8)
_NORM_SPACE = _space((256, 512, 128, 1024, 64, 32, 16, 8), (1, 8, 16, 32, 4), "16 bytes", range(128, 513), 16)


class RowsKernel(common.IncludedKernel):
    """What the kernels share: ``x`` (..., columns), whose axes before the last one count rows, to ``y`` like it.

    A size is (rows, columns, ...).
    """

    state: int
    """How many float32 the first dispatch leaves of a part of a split row."""
    second_buffers: tuple[str, ...]
    """What the second dispatch of a split row has: ``"parts"`` is what the first has left."""
    dtypes: tuple[np.dtype[Any], ...] = (_F32,)

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return pairs of modules, for rows of any length and of whole vectors; eight of each type that the device reads.

        For several rows a workgroup; for one, with subgroup operations where there are; for a split row, its two dispatches.
        """
        types = self.dtypes if common.HALVES in device.features else (_F32,)
        return tuple(module for dtype in types for pair in self._pairs(dtype, device) for module in pair)

    def plan(self, call: Call) -> Plan:
        """Return one dispatch, or two for rows longer than the candidate's tile; raises UnsupportedFeature."""
        (rows, columns, *_), candidate, x = call.size, call.candidate, call.operands["x"]
        if 0 in call.size:
            return common.zeros_plan("y", x.shape, x.dtype)
        is_wide = columns % (_VECTOR_BYTES // x.dtype.itemsize) == 0
        several, alone, statistics, apply = (pair[is_wide] for pair in self._pairs(x.dtype, call.device))
        push = {"rows": rows, "columns": columns, **self._pushed(call.parameters)}
        specs, outputs = dict(candidate.constants), {"y": x}
        parts = math.ceil(columns / candidate["TILE_X"])
        groups = common.grid_of(math.ceil(rows * parts / candidate.workgroup_size[1]), call.device.physical.limits)
        if parts == 1:
            module = alone if candidate.workgroup_size[1] == 1 else several
            own = {constant.name: specs[constant.name] for constant in module.reflection.spec_constants}
            return Plan((Step(module, (*self.inputs, "y"), groups, own, push),), outputs)
        steps = (
            Step(statistics, ("x", "parts"), groups, specs, push),
            Step(apply, self.second_buffers, groups, specs, push),
        )
        return Plan(steps, outputs, {"parts": Operand((rows, parts, self.state), _F32)})

    def moved_bytes(self, size: Size) -> int:
        """Return the bytes of both matrices, and of what is there for each column."""
        rows, columns, byte_len = (*size, _F32.itemsize)[:3]
        return byte_len * columns * (2 * rows + len(self.inputs) - 1)

    def _pairs(self, dtype: np.dtype[Any], device: DeviceFacts) -> tuple[tuple[SpirvModule, SpirvModule], ...]:
        """Return the modules for arrays of a type, of rows of any length and of whole vectors; raises UnsupportedFeature."""
        if dtype == _F16:
            common.check_feature(f"{self.name} of float16", common.HALVES, device, ", or convert the arrays to float32")
        kinds = ("", "_subgroups" if device.has_subgroup_arithmetic else "", "_statistics", "_apply")
        names = [f"{self.name}{_SUFFIXES[dtype]}{kind}" for kind in kinds]
        return tuple((shipped_module(name), shipped_module(f"{name}_wide")) for name in names)

    def _pushed(self, _parameters: Mapping[str, Any]) -> dict[str, object]:
        """Return the push constants beside rows and columns."""
        return {}


def _by_rows(x: NDArray[Any], compute: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> NDArray[Any]:
    """Return what is computed of rows of float64, rounded once; some rows at a time, for the memory that they take."""
    rows = x.reshape(common.row_count(x.shape), x.shape[-1])
    found = np.empty_like(rows)
    with np.errstate(all="ignore"):
        step = max(_NUMBERS_AT_ONCE // rows.shape[1], 1) if x.size else 1
        for start in range(0, len(rows) if x.size else 0, step):
            found[start : start + step] = compute(rows[start : start + step].astype(np.float64))
    return found.reshape(x.shape)


@dataclass(frozen=True, slots=True)
class Softmax(RowsKernel):
    """Rows of float32, of 0 to 2**20 numbers or more, to rows that sum to 1. A size is (rows, columns).

    As numpy has it, a row with a NaN or a plus infinity in it becomes all NaN, and so does one of minus infinities alone;
    beside other numbers a minus infinity becomes 0.
    """

    name = "softmax"
    inputs = ("x",)
    sizes = ((1024, 64), (256, 2**18), (2**17, 512), (2**15, 4096), (4096, 32768), (128, 2**20))
    """Short rows, rows as long as vocabularies, rows that are split."""
    tuned = _SOFTMAX_SPACE
    state = 2
    second_buffers = ("x", "parts", "y")

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (rows, columns); raises InvalidInput."""
        common.check_parameters(self.name, parameters)
        common.check_rows(self.name, operands, (_F32,))
        shape = operands["x"].shape
        return common.row_count(shape), shape[-1]

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return normally distributed numbers, as large as logits are."""
        return (4 * np.random.default_rng(seed).standard_normal(size, np.float32),), {}

    def expected(self, *arrays: NDArray[Any], **_: object) -> NDArray[Any]:
        """Return the formula in float64, rounded once."""

        def softmax(rows: NDArray[np.float64]) -> NDArray[np.float64]:
            powers = np.exp(rows - rows.max(axis=1, keepdims=True))
            return np.asarray(powers / powers.sum(axis=1, keepdims=True))

        return _by_rows(arrays[0], softmax)

    def tolerance(self, size: Size) -> float:
        """Return 32 + sqrt(columns / 1024) units of 2**-23: for exp near 0, of which Vulkan asks 3 ulp, and for the sums."""
        return common.rounding_error(32 + math.sqrt(size[1] / 1024))


class _Normalization(RowsKernel):
    """What both norms share: ``x`` of float32 or float16, the others (columns,) of its type, results of x's, sums of float32.

    A size is (rows, columns, bytes of a number), so that each type has records of its own.

    ``out`` may be the buffer of ``x``: a row's numbers are read before any is written, or by the invocation that writes it.
    """

    sizes = ((256, 16384, 4), (2**21, 64, 4), (2**18, 512, 4), (2**15, 4096, 4), (512, 2**18, 4))
    """One that is soon checked, and at which candidates read rows in every way; 512 MiB of short, longer and split rows."""
    may_overwrite = True
    tuned = _NORM_SPACE
    dtypes = (_F32, _F16)
    eps: float
    """What a call without ``eps`` takes."""

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (rows, columns, bytes of a number); raises InvalidInput."""
        common.check_parameters(self.name, parameters, ("eps",))
        x = operands["x"]
        common.check_rows(self.name, {"x": x}, (_F32, _F16))
        for name in self.inputs[1:]:
            self._check_like_a_row(name, operands[name], x)
        self._eps(parameters)
        return common.row_count(x.shape), x.shape[-1], x.dtype.itemsize

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
        return common.rounding_error(16 + math.sqrt(size[1] / 1024), size[2])

    def _pushed(self, parameters: Mapping[str, Any]) -> dict[str, object]:
        return {"eps": self._eps(parameters)}

    def _eps(self, parameters: Mapping[str, Any]) -> float:
        """Return ``eps`` rounded to float32, too large a one as infinite; raises InvalidInput if it is none."""
        given: Any = parameters.get("eps", self.eps)
        found = common.float32_of(given)
        if found is None or given < 0 or math.isnan(found):
            raise InvalidInput(
                f"eps of {self.name} is {given!r}, which is not a number from 0 on", fix="give a float", parameter="eps"
            )
        return found


@dataclass(frozen=True, slots=True)
class LayerNorm(_Normalization):
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, the variance being the mean of squared differences.

    As PyTorch's ``layer_norm`` has it, a row with a NaN or an infinity in it becomes all NaN.
    """

    name = "layernorm"
    inputs = ("x", "weight", "bias")
    eps = _LAYERNORM_EPS
    state = 4
    second_buffers = ("x", "weight", "bias", "y", "parts")

    def expected(self, *arrays: NDArray[Any], eps: float = _LAYERNORM_EPS, **_: object) -> NDArray[Any]:
        """Return the formula in float64, rounded once."""
        (x, weight, bias), small = arrays, self._eps({"eps": eps})

        def normalized(rows: NDArray[np.float64]) -> NDArray[np.float64]:
            rows -= rows.mean(axis=1, keepdims=True)
            return np.asarray(rows / np.sqrt((rows * rows).mean(axis=1, keepdims=True) + small) * weight + bias)

        return _by_rows(x, normalized)


@dataclass(frozen=True, slots=True)
class RmsNorm(_Normalization):
    """``x / sqrt(mean(x * x) + eps) * weight``.

    As PyTorch's ``rms_norm`` has it, a row with a NaN in it becomes all NaN; in one with infinities these become NaN, and its
    other numbers zeros.
    """

    name = "rmsnorm"
    inputs = ("x", "weight")
    eps = _RMSNORM_EPS
    state = 1
    second_buffers = ("x", "weight", "y", "parts")

    def expected(self, *arrays: NDArray[Any], eps: float = _RMSNORM_EPS, **_: object) -> NDArray[Any]:
        """Return the formula in float64, rounded once."""
        (x, weight), small = arrays, self._eps({"eps": eps})
        return _by_rows(x, lambda rows: rows / np.sqrt((rows * rows).mean(axis=1, keepdims=True) + small) * weight)


SOFTMAX = Softmax()
LAYERNORM = LayerNorm()
RMSNORM = RmsNorm()
