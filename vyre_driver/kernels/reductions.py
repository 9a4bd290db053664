"""reduce_sum and reduce_max reduce an array to one number; inclusive_scan gives its running sums, ``numpy.cumsum``.

A reduction is two dispatches: the workgroups share the array and leave a number each, and one workgroup goes through these.
Nothing is added atomically, so a sum of floats is the same whenever device and constants are. The maximum is numpy's: a NaN
wins. Floats are compared by their bits: +0 is greater than -0, denormal numbers count.

A scan is three: each workgroup sums its run of the array, one workgroup scans these sums, and each goes through its run again
from the sum before it. That reads the array twice. A single pass (each workgroup looking back for the sums of those before
it) would read it once, and may hang: Vulkan does not promise that a workgroup which others wait for is running. Floats are
added in another order than numpy's, and closer to the exact sums than its one running sum; a device may make zero of
denormal numbers.

Sums of integers wrap around.

Source: Vulkan 1.3, "Shader Execution" (no order among workgroups).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, KernelDefinition, Operand, Plan, Size, Step
from vyre_driver.autotune.search.space import Axis, Candidate, Limits, TuningSpace
from vyre_driver.errors import InvalidInput
from vyre_driver.kernels.common import (
    BLOCKS,
    SIZES,
    VECTOR,
    PaddedBuffers,
    blocks,
    check_parameters,
    checked_count,
    over_shared_memory,
    variant,
    zeros_plan,
)
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver.spirv.module import SpirvModule

# KIND in shaders/reduce.glsl.
SUMS = {"float32": 0, "uint32": 1, "int32": 1}
_MAXIMA = {"float32": 2, "uint32": 3, "int32": 4}
_WORKGROUPS = (256, 512, 128, 1024)  # multiples of all subgroup sizes, 128 at most, so that subgroups can be full
BLOCKWISE = (
    Axis("WORKGROUP_X", _WORKGROUPS, "invocations of a workgroup", "x"),
    Axis("UNROLL", (4, 2, 8, 1), "vectors that an invocation loads at once"),
    Axis("BLOCKS", BLOCKS, "most workgroups that share the array"),
)
"""64 candidates of a kernel that shares an array among blocks."""


def float_tolerance(count: int) -> float:
    """Return how far a sum of so many float32 of one sign may be from the exact one, relative to it.

    Each addition on the way of a number rounds once: one for each tile that its workgroup takes, with the fewest and smallest
    workgroups, and less than two hundred in the trees within and across them.
    """
    turns = count // (VECTOR * min(_WORKGROUPS) * min(BLOCKS))
    return (200 + turns) * 2.0**-24


def _reduction_rule(candidate: Candidate, limits: Limits) -> str | None:
    return over_shared_memory(candidate.workgroup_size[0], limits)


class NumbersKernel(KernelDefinition):
    """A kernel of one array of shape (n,), n to 2^30 - 1, of float32, uint32 or int32."""

    inputs = ("x",)
    is_included = True
    sizes = SIZES

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (n,); raises InvalidInput."""
        check_parameters(self.name, parameters, ())
        return (checked_count(self.name, "x", operands["x"], tuple(SUMS)),)

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return float32 from 0 to 1."""
        return (np.random.default_rng(seed).random(size[0], np.float32),), {}


@dataclass(frozen=True)
class Reduction(NumbersKernel):
    """An array of shape (n,), n to 2^30 - 1, of float32, uint32 or int32, to one number of its type, of shape ().

    The sum of nothing is 0; a maximum of nothing is refused.
    """

    name: str
    is_sum: bool

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the kernel's own, with or without subgroups, and the one that copies a few words."""
        return variant("reduce", device), shipped_module("copy_words")

    def space(self, _device: DeviceFacts) -> TuningSpace:
        """Return 64 candidates, without those whose workgroups share more than the device has."""
        return TuningSpace(BLOCKWISE, _reduction_rule)

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (n,); raises InvalidInput."""
        found = super().size(operands, parameters)
        if found == (0,) and not self.is_sum:
            raise InvalidInput(
                f"{self.name} got x with 0 elements, and a maximum has no identity: none is the largest of nothing",
                fix="pass one element or more",
                operand="x",
                count=0,
            )
        return found

    def plan(self, call: Call) -> Plan:
        """Return two dispatches, or one where one workgroup does it all."""
        (count,), x, candidate = call.size, call.operands["x"], call.candidate
        if not count:
            return zeros_plan("out", (), x.dtype)
        padded = PaddedBuffers(count)
        kinds = SUMS if self.is_sum else _MAXIMA
        specs = {**dict(candidate.constants), "KIND": kinds[x.dtype.name]}
        module, source = variant("reduce", call.device), padded.read("x", x)
        outputs = {"out": Operand((), x.dtype)}
        groups = blocks(count, candidate)
        if groups == 1:
            step = Step(module, (source, "out"), (1, 1, 1), specs, {"count": count})
            return Plan((*padded.before, step), outputs, padded.temporaries)
        steps = (
            Step(module, (source, "results"), (groups, 1, 1), specs, {"count": count}),
            Step(module, ("results", "out"), (1, 1, 1), specs, {"count": groups}),
        )
        return Plan(steps, outputs, {"results": Operand((max(groups, VECTOR),), x.dtype)})

    def expected(self, *arrays: NDArray[Any], **_: object) -> NDArray[Any]:
        """Return numpy's maximum, or its sum: of floats in float64, rounded once, of integers wrapped around."""
        (x,) = arrays
        with np.errstate(all="ignore"):
            if not self.is_sum:
                return np.asarray(x.max())
            if x.dtype == np.float32:
                return np.asarray(x.sum(dtype=np.float64).astype(np.float32))
            return np.asarray(x.sum(dtype=x.dtype))

    def tolerance(self, size: Size) -> float:
        """Return 0 for the maximum, which is exact."""
        return float_tolerance(size[0]) if self.is_sum else 0.0

    def moved_bytes(self, size: Size) -> int:
        """Return the bytes of the array and of the result."""
        return 4 * size[0] + 4


def _scan_rule(candidate: Candidate, limits: Limits) -> str | None:
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
        return TuningSpace(BLOCKWISE, _scan_rule)

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
