"""inclusive_scan: the running sums of an array, ``numpy.cumsum``.

Three dispatches: each workgroup sums its run of the array, one workgroup scans these sums, and each goes through its run again
from the sum before it. That reads the array twice. A single pass (each workgroup looking back for the sums of those before
it) would read it once, and may hang: Vulkan does not promise that a workgroup which others wait for is running.

Sums of integers wrap around. Floats are added in another order than numpy's, and closer to the exact sums than its one
running sum; a device may make zero of denormal numbers.

Source: Vulkan 1.3, "Shader Execution" (no order among workgroups).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, Operand, Plan, Size, Step
from vyre_driver.autotune.search.space import Candidate, Limits, TuningSpace
from vyre_driver.kernels.long_arrays import VECTOR, PaddedBuffers, blocks, over_shared_memory, variant
from vyre_driver.kernels.reduction import BLOCKWISE, SUMS, NumbersKernel, float_tolerance
from vyre_driver.kernels.zeros import zeros_plan
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.spirv.module import SpirvModule


def _rule(candidate: Candidate, limits: Limits) -> str | None:
    """A word for each vector of a tile, and its sum."""
    return over_shared_memory(candidate.workgroup_size[0] * candidate["UNROLL"] + 1, limits)


@dataclass(frozen=True)
class InclusiveScan(NumbersKernel):
    """``inclusive_scan(x)``: float32, uint32 or int32 of shape (n,), n from 1 to 2^30 - 1, to an array like it.

    ``out`` may be the buffer of ``x``.
    """

    name = "inclusive_scan"
    may_overwrite = True

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the two of the passes, with or without subgroups, and the one that copies a few words."""
        return variant("scan", device), variant("reduce", device), shipped_module("copy_words")

    def space(self, _device: DeviceFacts) -> TuningSpace:
        """Return 64 candidates, without those whose workgroups share more than the device has."""
        return TuningSpace(BLOCKWISE, _rule)

    def plan(self, call: Call) -> Plan:
        """Return three dispatches, or one where one workgroup does it all."""
        (count,), x, candidate = call.size, call.operands["x"], call.candidate
        if not count:
            return zeros_plan("out", (0,), x.dtype)
        padded = PaddedBuffers(count)
        specs = {**dict(candidate.constants), "KIND": SUMS[x.dtype.name]}
        module = variant("scan", call.device)
        source, target = padded.read("x", x), padded.written("out", x)
        groups = blocks(count, candidate)
        if groups == 1:  # nothing comes before it: no offset is read
            step = Step(module, (source, source, target), (1, 1, 1), specs, {"count": count})
            return Plan((*padded.before, step, *padded.after), {"out": x}, padded.temporaries)
        in_runs = {**specs, "CONSECUTIVE": True}
        steps = (
            Step(variant("reduce", call.device), (source, "sums"), (groups, 1, 1), in_runs, {"count": count}),
            Step(module, ("sums", "sums", "offsets"), (1, 1, 1), specs, {"count": groups}),
            Step(module, (source, "offsets", target), (groups, 1, 1), specs, {"count": count}),
        )
        sums = Operand((max(groups, VECTOR),), x.dtype)
        return Plan(steps, {"out": x}, {"sums": sums, "offsets": sums})

    def expected(self, *arrays: NDArray[Any], **_: object) -> NDArray[Any]:
        """Return numpy's: of floats in float64, each rounded once, of integers wrapped around."""
        (x,) = arrays
        if x.dtype != np.float32:
            return np.cumsum(x, dtype=x.dtype)
        with np.errstate(all="ignore"):
            return np.cumsum(x, dtype=np.float64).astype(np.float32)

    def tolerance(self, size: Size) -> float:
        """Return that of the last sum, the largest where all numbers have one sign."""
        return float_tolerance(size[0])

    def moved_bytes(self, size: Size) -> int:
        """Return the bytes of one array in and one out; the three dispatches read it twice."""
        return 8 * size[0]
