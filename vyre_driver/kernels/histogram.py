"""histogram: how often each value below ``bins`` occurs in an array of uint32; other values are left out.

Counts are kept in shared memory as long as they fit, in as many copies as fit, up to one for each lane that might count at
once: invocations that meet the same value then do not wait for each other. Beyond that all count in global memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, KernelDefinition, Operand, Plan, Size, Step
from vyre_driver.autotune.search.space import Axis, Candidate, Limits, TuningSpace
from vyre_driver.checks import integer_within
from vyre_driver.errors import InvalidInput
from vyre_driver.kernels.common import (
    MAX_COUNT,
    PaddedBuffers,
    blocks,
    check_parameters,
    checked_count,
    over_shared_memory,
    zeros_plan,
    zeros_step,
)
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver.spirv.module import SpirvModule

_BANKS = 32  # of shared memory, on the GPUs that are; more copies than that do not help
_USUAL, _SMALL = (512, 256, 1024), (128, 64)  # Vulkan promises 128 invocations


def _rule(candidate: Candidate, limits: Limits) -> str | None:
    return over_shared_memory(candidate["SHARED_WORDS"], limits)


@dataclass(frozen=True)
class Histogram(KernelDefinition):
    """``histogram(x, bins=256)``: uint32 of shape (n,) to counts, uint32 of shape (bins,); both up to 2^30 - 1."""

    name = "histogram"
    inputs = ("x",)
    is_included = True
    sizes = ((2**16, 256), (2**22, 256), (2**28, 256))
    """From 256 KiB to 1 GiB, of bytes as it were."""

    def modules(self, _device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the kernel's own, the one that clears the counts, and the one that copies a few words."""
        return shipped_module("histogram"), shipped_module("fill_words"), shipped_module("copy_words")

    def space(self, device: DeviceFacts) -> TuningSpace:
        """Return 72 candidates, or 48 of small workgroups; what counts may share has to fit into the device's shared memory."""
        most = device.physical.limits.max_compute_work_group_invocations
        return TuningSpace(
            (
                Axis("WORKGROUP_X", _USUAL if most >= min(_USUAL) else _SMALL, "invocations of a workgroup", "x"),
                Axis("UNROLL", (4, 2, 8), "vectors that an invocation loads at once"),
                Axis("SHARED_WORDS", (4096, 8192, 2048, 1024), "words of shared memory for copies of the counts"),
                Axis("BLOCKS", (528, 1056), "most workgroups that share the array"),
            ),
            _rule,
        )

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (n, bins); raises InvalidInput."""
        check_parameters(self.name, parameters, ("bins",))
        given = parameters.get("bins", 256)
        bins = integer_within(given, 1, MAX_COUNT)
        if bins is None:
            raise InvalidInput(
                f"bins of histogram is {given!r}, which is not an integer from 1 to {MAX_COUNT}",
                fix="give the number of bins",
                parameter="bins",
            )
        return checked_count(self.name, "x", operands["x"], ("uint32",)), bins

    def plan(self, call: Call) -> Plan:
        """Return two dispatches: zeros into the counts, so that each run counts anew, then the counting."""
        (count, bins), candidate = call.size, call.candidate
        counts = Operand((bins,), np.dtype(np.uint32))
        if not count:
            return zeros_plan("counts", counts.shape, counts.dtype)
        padded = PaddedBuffers(count)
        buffers = padded.read("x", call.operands["x"]), "counts"
        groups = blocks(count, candidate)
        push_constants = {"count": count, "bins": bins, "copies": copies(bins, candidate["SHARED_WORDS"])}
        constants = dict(candidate.constants)
        steps = (
            zeros_step("counts", bins),
            *padded.before,
            Step(shipped_module("histogram"), buffers, (groups, 1, 1), constants, push_constants),
        )
        return Plan(steps, {"counts": counts}, padded.temporaries)

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return values that are all as likely, one in a hundred or more of them beyond the bins."""
        count, bins = size
        result = np.random.default_rng(seed).integers(0, bins + bins // 100 + 1, count, np.uint32)
        return (result,), {"bins": bins}

    def expected(self, *arrays: NDArray[Any], bins: int = 256, **_: object) -> NDArray[Any]:
        """Return numpy's ``bincount`` of the values below ``bins``."""
        (x,) = arrays
        return np.bincount(x[x < bins], minlength=bins).astype(np.uint32)

    def moved_bytes(self, size: Size) -> int:
        """Return the bytes of the array and of the counts."""
        return 4 * sum(size)


def copies(bins: int, shared_words: int) -> int:
    """Return how many copies of the counts a workgroup keeps: a power of two up to 32, 0 where not one fits."""
    found = min(shared_words // bins, _BANKS)
    return 1 << (found.bit_length() - 1) if found else 0
