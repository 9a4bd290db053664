"""linear_int4 and linear_int8: a few rows of numbers times a matrix of weights of 4 or 8 bits with scales.

That is a layer of a language model that answers one or a few users: each weight is read once and used once a row, so that
it takes what reading takes at least. A workgroup has some rows of weights, its invocations share their columns; each reads a
vector of 16 bytes of all of these rows before it uses any, and what x has for the vector's columns serves all of them. A
vector is made numbers once for all rows of x that are taken at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, Operand, Plan, Size, Step
from vyre_driver.autotune.search.space import Axis, Candidate, Limits, TuningSpace
from vyre_driver.binding.arguments import as_array
from vyre_driver.binding.tensors import is_tensor
from vyre_driver.checks import integer
from vyre_driver.errors import InvalidInput
from vyre_driver.kernels import common
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver.spirv.module import SpirvModule

GROUP_MULTIPLE = 32
"""A group has a multiple of so many weights: as many of 4 bits as 16 bytes hold."""

_FLOATS = tuple(np.dtype(one) for one in (np.float32, np.float16, np.float64))
_USUAL_GROUPS = (32, 64, 128)
_SHIFT, _LOWER, _MIDDLE = 4, 0xF, 8


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored: from ``-most - 1`` to ``most``, ``per_byte`` of them in a byte; ``function`` makes them."""

    function: str
    dtype: np.dtype[Any]
    per_byte: int
    most: int

    def packed(self, numbers: NDArray[np.int8]) -> NDArray[Any]:
        """Return (n, k) numbers as they are stored."""
        if self.per_byte == 1:
            return numbers
        raised = (numbers + np.int8(_MIDDLE)).view(np.uint8)
        return raised[:, 0::2] | raised[:, 1::2] << _SHIFT

    def unpacked(self, stored: NDArray[Any]) -> NDArray[np.int8]:
        """Return the (n, k) numbers of what is stored."""
        if self.per_byte == 1:
            return stored
        pairs = np.stack([stored & _LOWER, stored >> _SHIFT], axis=2)
        return pairs.reshape(len(stored), -1).view(np.int8) - np.int8(_MIDDLE)

    def numbers(self, stored: NDArray[Any], scales: NDArray[np.float16]) -> NDArray[np.float64]:
        """Return the (n, k) weights times their scales; some rows are one or more."""
        found, groups = self.unpacked(stored).astype(np.float64), scales.shape[1]
        grouped = found.reshape(len(found), groups, found.shape[1] // groups)
        grouped *= scales.astype(np.float64)[:, :, np.newaxis]
        return found

    def quantized(self, weight: NDArray[Any], group: int) -> tuple[NDArray[Any], NDArray[np.float16]]:
        """Return weights as they are stored and their scales; as ``quantized_int4``."""
        if is_tensor(weight):
            weight = as_array(weight, f"the weight of {self.function}")
            weight = weight.astype(np.float32) if weight.dtype.name == "bfloat16" else weight  # exact
        self._check(weight, group)
        grouped = weight.reshape(len(weight), weight.shape[1] // group, group).astype(np.float64)
        largest = np.abs(grouped).max(axis=2, initial=0, keepdims=True)
        with np.errstate(over="ignore", under="ignore"):
            scales = (largest / self.most).astype(np.float16)
        if not np.isfinite(scales).all():
            at = np.unravel_index(int(np.argmax(np.abs(weight))), weight.shape)
            raise self._refused(
                f"has {weight[at]} at {tuple(map(int, at))}, and a scale of float16 reaches to {self.most * 65504}",
                "scale the weights down, and what is computed with them up",
            )
        grouped /= np.where(scales == 0, 1, scales).astype(np.float64)
        numbers = np.where(scales == 0, 0, np.rint(grouped).clip(-self.most, self.most)).astype(np.int8)
        return self.packed(numbers.reshape(weight.shape)), scales[:, :, 0]

    def _check(self, weight: NDArray[Any], group: int) -> None:
        if not isinstance(weight, np.ndarray) or weight.ndim != 2 or weight.dtype not in _FLOATS:
            is_array = isinstance(weight, np.ndarray)
            told = (
                f"has the shape {weight.shape} and the type {weight.dtype}"
                if is_array
                else f"is of type {type(weight).__name__}"
            )
            raise self._refused(
                f"{told}, and must be a matrix of float32, float16 or float64",
                "pass an array of two dimensions, converted with .astype(numpy.float32)",
            )
        size, columns = integer(group), weight.shape[1]
        if size is None or size <= 0 or size % GROUP_MULTIPLE or columns % size or not columns:
            raise InvalidInput(
                f"the group of {self.function} is {group!r}, and must be a multiple of {GROUP_MULTIPLE} that divides the "
                f"{columns} columns of the weights",
                fix=_group_fix(columns),
                group=group,
            )
        if not np.isfinite(weight).all():
            at = np.argwhere(~np.isfinite(weight))[0]
            raise self._refused(
                f"has {weight[tuple(at)]} at {tuple(map(int, at))}, and a scale makes only finite numbers",
                "pass finite weights",
            )

    def _refused(self, problem: str, fix: str) -> InvalidInput:
        return InvalidInput(f"the weight of {self.function} {problem}", fix=fix)


def _group_fix(columns: int) -> str:
    """Return what helps where a group does not divide so many columns."""
    fits = [str(one) for one in _USUAL_GROUPS if columns and columns % one == 0]
    if fits:
        return f"give {' or '.join(fits)}"
    return f"append columns of zeros to the weights, to {max(-(-columns // GROUP_MULTIPLE), 1) * GROUP_MULTIPLE} of them"


INT4 = WeightFormat("quantized_int4", np.dtype(np.uint8), 2, 7)
INT8 = WeightFormat("quantized_int8", np.dtype(np.int8), 1, 127)


def quantized_int4(weight: NDArray[Any], group: int = GROUP_MULTIPLE) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """Return weights (n, k) as bytes of two (n, k / 2) and their scales (n, k / group), as ``linear_int4`` takes them.

    A scale is the largest magnitude of its group divided by 7, rounded to float16, and each weight the nearest multiple of it
    from -7 to 7; ties go to the even one. A group whose scale rounds to 0 becomes zeros.

    Parameters
    ----------
    weight
        A matrix of float16, float32 or float64, all of its numbers finite: an array, or a tensor of PyTorch on the CPU, which
        may be of bfloat16 too where ml_dtypes is installed.
    group
        How many weights of a row have a scale in common: a multiple of 32 that divides k; k is one scale a row.

    Raises
    ------
    InvalidInput
        If the weights or the group are not so, or a scale is above 65504.
    """
    return INT4.quantized(weight, group)


def quantized_int8(weight: NDArray[Any], group: int = GROUP_MULTIPLE) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Return weights (n, k) as int8 and their scales (n, k / group), as ``linear_int8`` takes them.

    As ``quantized_int4``, with 127 in the place of 7.

    Raises
    ------
    InvalidInput
        As ``quantized_int4``.
    """
    return INT8.quantized(weight, group)


_F32, _F16 = np.dtype(np.float32), np.dtype(np.float16)
_SUFFIXES: dict[np.dtype[Any], str] = {_F16: "", _F32: "_f32"}
_VECTOR_BYTES = 16
_MOST_LOADS = 16
_SUMS = range(16, 65)
_NUMBERS_AT_ONCE = 2**22


def _rule(candidate: Candidate, limits: Limits) -> str | None:
    """Return why an invocation would have too many or too few loads and sums."""
    across, unroll, rows, batch = (candidate[name] for name in ("WORKGROUP_X", "UNROLL", "ROWS", "BATCH"))
    if unroll * rows > _MOST_LOADS:
        return f"an invocation would have {unroll * rows} loads under way, and {_MOST_LOADS} are worth trying"
    if rows * batch not in _SUMS:
        return f"an invocation would have {rows * batch} sums, and {_SUMS[0]} to {_SUMS[-1]} are worth trying"
    return common.over_shared_memory("its sums take", across * rows * _F32.itemsize, limits)


_SPACE = TuningSpace(
    (
        Axis("WORKGROUP_X", (128, 64, 256, 32, 512), "invocations on the columns of weights", "x"),
        Axis("UNROLL", (1, 2), "vectors of 16 bytes of a row of weights that an invocation loads at once"),
        Axis("ROWS", (8, 4, 16, 2), "rows of weights of a workgroup"),
        Axis("BATCH", (4, 8, 2), "rows of x at once, at most"),
    ),
    _rule,
)


@dataclass(frozen=True, slots=True)
class Linear(common.IncludedKernel):
    """``y = x @ (weight * scales).T`` of ``x[..., k]``, ``n`` rows of quantized weights and ``scales[n, k / group]``.

    A size is (batch, n, k, group, bytes of a number of x), where all axes of x before the last are the batch. Sums are float32.
    """

    name: str
    format: WeightFormat
    inputs = ("x", "weight", "scales")
    tuned = _SPACE
    feature = common.HALVES
    sizes = tuple((batch, n, k, 32, 2) for batch in (1, 8, 32) for n, k in ((4096, 4096), (4096, 14336), (14336, 4096)))
    """Layers of a language model of 8 billion weights."""

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the modules for x of float16 and of float32."""
        kind = "_subgroups" if device.has_subgroup_arithmetic else ""
        return tuple(shipped_module(f"{self.name}{suffix}{kind}") for suffix in _SUFFIXES.values())

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (batch, n, k, group, bytes of a number of x); raises InvalidInput."""
        x, weight, scales = (operands[name] for name in self.inputs)
        stored, per_byte = self.format.dtype, self.format.per_byte
        common.check_parameters(self.name, parameters)
        common.check_rows(self.name, {"x": x}, (_F16, _F32), least_axes=2)
        for name, dtype in (("weight", stored), ("scales", _F16)):
            common.check_matrices(
                self.name, {name: operands[name]}, (dtype,), f"pass what kernels.{self.format.function} returns"
            )
        batch, k, (n, columns) = common.row_count(x.shape), x.shape[-1], weight.shape
        if columns * per_byte != k:
            raise self._refused("weight", f"has {columns * per_byte} numbers a row, and x has {k}", "pass those of one layer")
        if not k or k % GROUP_MULTIPLE:
            problem = f"has {k} columns, and these must be a multiple of {GROUP_MULTIPLE}, and not 0"
            raise self._refused("x", problem, "append columns of zeros to x, and to the weights before they are quantized")
        groups = scales.shape[1]
        if scales.shape[0] != n or not groups or k % (groups * GROUP_MULTIPLE):
            problem = (
                f"has the shape {scales.shape}, and must have {n} rows, and columns for equal groups of a multiple of "
                f"{GROUP_MULTIPLE} of the {k} weights in a row"
            )
            raise self._refused("scales", problem, "pass those that the weights were quantized with")
        return batch, n, k, k // groups, x.dtype.itemsize

    def plan(self, call: Call) -> Plan:
        """Return one dispatch; none runs where nothing comes out."""
        (batch, n, k, group, _), candidate, x = call.size, call.candidate, call.operands["x"]
        y = Operand((*x.shape[:-1], n), x.dtype)
        if 0 in call.size:
            return common.zeros_plan("y", y.shape, y.dtype)
        module = dict(zip(_SUFFIXES, self.modules(call.device), strict=True))[x.dtype]
        numbers = _VECTOR_BYTES * self.format.per_byte
        shares = math.ceil(batch / candidate["BATCH"])
        specs = {**dict(candidate.constants), "BATCH": math.ceil(batch / shares), "PER_SCALE": group // numbers}
        groups = common.grid_of(math.ceil(n / candidate["ROWS"]) * shares, call.device.physical.limits)
        push = {"batch": batch, "rows": n, "vectors": k // numbers}
        return Plan((Step(module, (*self.inputs, "y"), groups, specs, push),), {"y": y})

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return numbers of both signs whose sums do not cancel, and all weights that there are."""
        batch, n, k, group, byte_len = size
        dtypes = {one.itemsize: one for one in _SUFFIXES}
        if byte_len not in dtypes or not group or k % group:
            raise InvalidInput(
                f"{size} is no size of {self.name}: it has a group of {group} in {k} and numbers of {byte_len} bytes",
                fix="give batch, n, k, a group that divides k, and 2 (float16) or 4 (float32)",
            )
        rng = np.random.default_rng(seed)
        x = (rng.random((batch, k), np.float32) - np.float32(0.25)).astype(dtypes[byte_len])
        low, above = -self.format.most - 1, self.format.most + 1
        numbers = np.maximum(rng.integers(low, above, (n, k), np.int8), rng.integers(low, above, (n, k), np.int8))
        scales = (rng.random((n, k // group), np.float32) + np.float32(0.5)) / np.float32(self.format.most * math.sqrt(k))
        return (x, self.format.packed(numbers), scales.astype(_F16)), {}

    def expected(self, *arrays: NDArray[Any], **_: object) -> NDArray[Any]:
        """Return the product with weights times scales, in float64, rounded once; some rows at a time, for their memory."""
        x, weight, scales = arrays
        wide = x.reshape(common.row_count(x.shape), x.shape[-1]).astype(np.float64)
        found = np.empty((len(wide), len(weight)), x.dtype)
        step = max(_NUMBERS_AT_ONCE // max(wide.shape[1], 1), 1)
        with np.errstate(all="ignore"):
            for start in range(0, len(weight), step):
                part = slice(start, start + step)
                found[:, part] = wide @ self.format.numbers(weight[part], scales[part]).T
        return found.reshape(*x.shape[:-1], len(weight))

    def tolerance(self, size: Size) -> float:
        """Return 8 + sqrt(k) units of 2**-23 for the sums; of float16 its own 2**-10 besides."""
        return common.rounding_error(8 + math.sqrt(size[2]), size[4])

    def moved_bytes(self, size: Size) -> int:
        """Return the bytes of x, of weights and scales, and of y."""
        batch, n, k, group, byte_len = size
        return byte_len * batch * (k + n) + n * (k // self.format.per_byte + _F16.itemsize * (k // group))

    def operations(self, size: Size) -> int:
        """Return a multiplication and an addition for each number of x and each of its weights."""
        return 2 * math.prod(size[:3])

    def _refused(self, name: str, problem: str, fix: str) -> InvalidInput:
        return InvalidInput(f"{name} of {self.name} {problem}", fix=fix, binding=name)


LINEAR_INT4 = Linear("linear_int4", INT4)
LINEAR_INT8 = Linear("linear_int8", INT8)
