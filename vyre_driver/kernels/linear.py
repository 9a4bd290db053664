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

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, KernelDefinition, Operand, Plan, Size, Step
from vyre_driver.autotune.search.space import Axis, Candidate, Limits, TuningSpace
from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.kernels.quantized import GROUP_MULTIPLE, INT4, INT8, WeightFormat
from vyre_driver.kernels.tiles import check_matrices, check_rows, grid_of, refuse_parameters, row_count
from vyre_driver.kernels.zeros import zeros_plan
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver.spirv.module import SpirvModule

_F32, _F16 = np.dtype(np.float32), np.dtype(np.float16)
_SUFFIXES: dict[np.dtype[Any], str] = {_F16: "", _F32: "_f32"}
_HALVES = "storageBuffer16BitAccess"
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
    shared = across * rows * _F32.itemsize
    if shared > limits.max_compute_shared_memory_size:
        return f"its sums take {shared} bytes, and a workgroup may share {limits.max_compute_shared_memory_size}"
    return None


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
class Linear(KernelDefinition):
    """``y = x @ (weight * scales).T`` of ``x[..., k]``, ``n`` rows of quantized weights and ``scales[n, k / group]``.

    A size is (batch, n, k, group, bytes of a number of x), where all axes of x before the last are the batch. Sums are float32.
    """

    name: str
    format: WeightFormat
    inputs = ("x", "weight", "scales")
    is_included = True
    sizes = tuple((batch, n, k, 32, 2) for batch in (1, 8, 32) for n, k in ((4096, 4096), (4096, 14336), (14336, 4096)))
    """Layers of a language model of 8 billion weights."""

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the modules for x of float16 and of float32."""
        kind = "_subgroups" if device.has_subgroup_arithmetic else ""
        return tuple(shipped_module(f"{self.name}{suffix}{kind}") for suffix in _SUFFIXES.values())

    def space(self, device: DeviceFacts) -> TuningSpace:
        """Return workgroups, and what an invocation loads and sums; raises UnsupportedFeature."""
        if _HALVES not in device.features:
            raise UnsupportedFeature(
                f"{self.name} needs {_HALVES}, and {device.physical.name!r} is open without it",
                fix="choose another device",
                feature=_HALVES,
            )
        return _SPACE

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (batch, n, k, group, bytes of a number of x); raises InvalidInput."""
        x, weight, scales = (operands[name] for name in self.inputs)
        stored, per_byte = self.format.dtype, self.format.per_byte
        refuse_parameters(self.name, parameters)
        check_rows(self.name, {"x": x}, (_F16, _F32), least_axes=2)
        for name, dtype in (("weight", stored), ("scales", _F16)):
            check_matrices(self.name, {name: operands[name]}, (dtype,), f"pass what kernels.{self.format.function} returns")
        batch, k, (n, columns) = row_count(x.shape), x.shape[-1], weight.shape
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
            return zeros_plan("y", y.shape, y.dtype)
        module = dict(zip(_SUFFIXES, self.modules(call.device), strict=True))[x.dtype]
        numbers = _VECTOR_BYTES * self.format.per_byte
        shares = math.ceil(batch / candidate["BATCH"])
        specs = {**dict(candidate.constants), "BATCH": math.ceil(batch / shares), "PER_SCALE": group // numbers}
        groups = grid_of(math.ceil(n / candidate["ROWS"]) * shares, call.device.physical.limits)
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
        wide = x.reshape(row_count(x.shape), x.shape[-1]).astype(np.float64)
        found = np.empty((len(wide), len(weight)), x.dtype)
        step = max(_NUMBERS_AT_ONCE // max(wide.shape[1], 1), 1)
        with np.errstate(all="ignore"):
            for start in range(0, len(weight), step):
                part = slice(start, start + step)
                found[:, part] = wide @ self.format.numbers(weight[part], scales[part]).T
        return found.reshape(*x.shape[:-1], len(weight))

    def tolerance(self, size: Size) -> float:
        """Return 8 + sqrt(k) units of 2**-23 for the sums; of float16 its own 2**-10 besides."""
        sums = float(np.finfo(np.float32).eps) * (8 + math.sqrt(size[2]))
        return sums if size[4] == _F32.itemsize else sums + float(np.finfo(np.float16).eps)

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
