"""Softmax along the last axis: ``exp(x - max) / sum(exp(x - max))``, stable for numbers of any magnitude.

A row is read once for its largest number and its sum, which is scaled again whenever a larger one comes, and written from
registers where it fits there, else from a second reading. Rows longer than the candidate's tile are split among workgroups: one
dispatch finds each part's largest number and sum, a second puts them together and writes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, KernelDefinition, Operand, Plan, Size, Step
from vyre_driver.autotune.search.space import Axis, Candidate, Limits, TuningSpace
from vyre_driver.kernels.tiles import check_rows, grid_of, refuse_parameters, row_count
from vyre_driver.kernels.zeros import zeros_plan
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver.spirv.module import SpirvModule

_QUAD = 4
_PAIR_BYTES = 8
_SHORT = 64
_NUMBERS_AT_ONCE = 2**20


def _rule(candidate: Candidate, limits: Limits) -> str | None:
    """Return why a workgroup's shape is not a good choice: several rows at once are for few invocations a row."""
    (across, rows, _), longest = candidate.workgroup_size, candidate["TILE_X"]
    held = across * candidate["UNROLL"] * _QUAD
    if (across <= _SHORT) != (rows > 1):
        return f"{rows} rows with {across} invocations each; several rows are for {_SHORT} invocations or fewer"
    if rows > 1 and longest != _LENGTHS[0]:
        return f"rows are split at {longest} for more than {_SHORT} invocations"
    if held > longest:
        return f"{across} invocations hold {held} numbers, and a row's part has {longest}"
    shared = across * rows * _PAIR_BYTES
    if shared > limits.max_compute_shared_memory_size:
        return f"its sums take {shared} bytes, and a workgroup may share {limits.max_compute_shared_memory_size}"
    return None


_LENGTHS = (16384, 65536, 4096)
_SPACE = TuningSpace(
    (
        Axis("WORKGROUP_X", (256, 512, 128, 1024, 64, 32), "invocations on a row", "x"),
        Axis("WORKGROUP_Y", (1, 4, 8, 16), "rows of a workgroup", "y"),
        Axis("UNROLL", (4, 2, 8, 1), "vectors of four numbers that an invocation holds at once"),
        Axis("TILE_X", _LENGTHS, "numbers of a row that a workgroup takes at most"),
    ),
    _rule,
)


@dataclass(frozen=True, slots=True)
class Softmax(KernelDefinition):
    """Rows of float32, of 0 to 2**20 numbers or more, to rows that sum to 1. A size is (rows, columns).

    Rows lie along the last axis; all axes before it count rows.

    As numpy has it, a row with a NaN or a plus infinity in it becomes all NaN, and so does one of minus infinities alone;
    beside other numbers a minus infinity becomes 0.
    """

    name = "softmax"
    inputs = ("x",)
    is_included = True
    sizes = ((1024, 64), (256, 2**18), (2**17, 512), (2**15, 4096), (4096, 32768), (128, 2**20))
    """Short rows, rows as long as vocabularies, rows that are split."""

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return pairs of modules, for rows of any length and of whole vectors of four.

        For several rows a workgroup; for one, with subgroup operations where there are; for a split row, its two dispatches.
        """
        alone = "softmax_subgroups" if device.has_subgroup_arithmetic else "softmax"
        kinds = ("softmax", alone, "softmax_statistics", "softmax_apply")
        return tuple(shipped_module(name) for kind in kinds for name in (kind, f"{kind}_wide"))

    def space(self, _device: DeviceFacts) -> TuningSpace:
        """Return workgroups, what an invocation holds, and where rows are split."""
        return _SPACE

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (rows, columns); raises InvalidInput."""
        refuse_parameters(self.name, parameters)
        check_rows(self.name, operands, (np.dtype(np.float32),))
        shape = operands["x"].shape
        return row_count(shape), shape[-1]

    def plan(self, call: Call) -> Plan:
        """Return one dispatch, or two for rows longer than the candidate's tile."""
        (rows, columns), candidate = call.size, call.candidate
        if 0 in call.size:
            return zeros_plan("y", call.operands["x"].shape, call.operands["x"].dtype)
        several, alone, statistics, apply = zip(*[iter(self.modules(call.device))] * 2, strict=True)
        push, specs, is_wide = {"rows": rows, "columns": columns}, dict(candidate.constants), columns % _QUAD == 0
        parts = math.ceil(columns / candidate["TILE_X"])
        groups = grid_of(math.ceil(rows * parts / candidate.workgroup_size[1]), call.device.physical.limits)
        outputs = {"y": call.operands["x"]}
        if parts == 1:
            module = (alone if candidate.workgroup_size[1] == 1 else several)[is_wide]
            own = {one.name: specs[one.name] for one in module.reflection.spec_constants}
            return Plan((Step(module, ("x", "y"), groups, own, push),), outputs)
        steps = (
            Step(statistics[is_wide], ("x", "parts"), groups, specs, push),
            Step(apply[is_wide], ("x", "parts", "y"), groups, specs, push),
        )
        return Plan(steps, outputs, {"parts": Operand((rows, parts, 2), np.dtype(np.float32))})

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return normally distributed numbers, as large as logits are."""
        return (4 * np.random.default_rng(seed).standard_normal(size, np.float32),), {}

    def expected(self, *arrays: NDArray[Any], **_: object) -> NDArray[Any]:
        """Return the formula in float64, rounded once; some rows at a time, for the memory that they take."""
        (x,) = arrays
        if not x.size:
            return np.empty(x.shape, np.float32)
        rows = x.reshape(-1, x.shape[-1])
        found = np.empty(rows.shape, np.float32)
        step = max(_NUMBERS_AT_ONCE // rows.shape[1], 1)
        with np.errstate(all="ignore"):
            for start in range(0, len(rows), step):
                numbers = rows[start : start + step].astype(np.float64)
                powers = np.exp(numbers - numbers.max(axis=1, keepdims=True))
                found[start : start + step] = powers / powers.sum(axis=1, keepdims=True)
        return found.reshape(x.shape)

    def tolerance(self, size: Size) -> float:
        """Return 32 + sqrt(columns / 1024) units of 2**-23: for exp near 0, of which Vulkan asks 3 ulp, and for the sums."""
        return float(np.finfo(np.float32).eps) * (32 + math.sqrt(size[1] / 1024))

    def moved_bytes(self, size: Size) -> int:
        """Return the bytes of both arrays."""
        return 2 * 4 * math.prod(size)


SOFTMAX = Softmax()
