"""Kernels of long arrays of 32-bit numbers: saxpy, reduce_sum, reduce_max, inclusive_scan and histogram.

They read four numbers at a time. Their shaders see a buffer as numbers and as vectors of four, and a buffer must hold one
element of each of its views: arrays of fewer than four numbers go through copies of four. A tile is what a workgroup processes
at once, ``UNROLL`` vectors for each of its invocations.

saxpy is bit for bit what numpy gives: the product is rounded before the sum. The handling of denormal numbers is the device's,
and the payload of a NaN may differ.

A reduction is two dispatches: the workgroups share the array and leave a number each, and one workgroup goes through these.
Nothing is added atomically, so a sum of floats is the same whenever device and constants are. The maximum is numpy's: a NaN
wins. Floats are compared by their bits: +0 is greater than -0, denormal numbers count.

A scan is three: each workgroup sums its run of the array, one workgroup scans these sums, and each goes through its run again
from the sum before it. That reads the array twice. A single pass (each workgroup looking back for the sums of those before
it) would read it once, and may hang: Vulkan does not promise that a workgroup which others wait for is running. Floats are
added in another order than numpy's, and closer to the exact sums than its one running sum; a device may make zero of
denormal numbers.

Sums of integers wrap around.

A histogram counts in shared memory as long as its counts fit there, in as many copies as fit, up to one for each lane that
might count at once: invocations that meet the same value then do not wait for each other. Beyond that all count in global
memory.

Source: Vulkan 1.3, "Shader Execution" (no order among workgroups), limit ``maxStorageBufferRange``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, Operand, Plan, Size, Step
from vyre_driver.autotune.search.space import Axis, Candidate, Limits, TuningSpace
from vyre_driver.checks import integer_within
from vyre_driver.errors import InvalidInput
from vyre_driver.kernels.common import IncludedKernel, check_parameters, float32_of, over_shared_memory, zeros_plan, zeros_step
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.spirv.module import SpirvModule

MAX_COUNT = 2**30 - 1
"""Numbers of an array: as many 32-bit ones as 2^32 - 1 bytes hold, which is what ``maxStorageBufferRange`` can say."""

SIZES = (2**16,), (2**22,), (2**28,)
"""From 256 KiB an array, which any cache holds, to 1 GiB."""

VECTOR = 4
BLOCKS = (2112, 4224, 1056, 8448)
"""Most workgroups that share an array: multiples of 132 and of 33, as large GPUs have processors, and few enough for one
workgroup to go through a number of each.
"""


def variant(name: str, device: DeviceFacts) -> SpirvModule:
    """Return the shader that computes within subgroups where the device has them, the one that needs none elsewhere."""
    return shipped_module(f"{name}_subgroups" if device.has_subgroup_arithmetic else name)


def checked_count(kernel: str, name: str, operand: Operand, dtypes: Sequence[str]) -> int:
    """Return the length of an array with one axis, of one of these types.

    Raises
    ------
    InvalidInput
        If it has another shape or type, or more than ``MAX_COUNT`` elements.
    """
    if operand.dtype not in [np.dtype(one) for one in dtypes]:
        raise InvalidInput(
            f"{name} of {kernel} holds {' or '.join(dtypes)} and got {operand.dtype}",
            fix=f"convert it with .astype(numpy.{dtypes[0]})",
            operand=name,
            received=str(operand.dtype),
        )
    if len(operand.shape) != 1:
        raise InvalidInput(
            f"{name} of {kernel} has one axis and got {len(operand.shape)}", fix="pass array.reshape(-1)", operand=name
        )
    count = operand.shape[0]
    if count > MAX_COUNT:
        raise InvalidInput(
            f"{name} of {kernel} has {count} elements, and {MAX_COUNT} can be done",
            fix=f"pass parts of at most {MAX_COUNT} elements",
            operand=name,
            count=count,
            limit=MAX_COUNT,
        )
    return count


def tiles(count: int, candidate: Candidate) -> int:
    """Return how many tiles so many numbers are; the last may be filled in part."""
    vectors = -(-count // VECTOR)
    return -(-vectors // (candidate.workgroup_size[0] * candidate["UNROLL"]))


def blocks(count: int, candidate: Candidate) -> int:
    """Return how many workgroups share the tiles, ``BLOCKS`` at most; where each takes a run, the last may have none."""
    return min(tiles(count, candidate), candidate["BLOCKS"])


class PaddedBuffers:
    """Buffers for shaders with vectors: the arrays themselves, or of fewer than four numbers copies of four.

    These are made by ``shipped_module("copy_words")``, which is among the modules of each kernel.
    """

    def __init__(self, count: int) -> None:
        """Start with no buffers, for arrays of so many numbers."""
        self._count = count
        self._is_few = count < VECTOR
        self.before: list[Step] = []
        self.after: list[Step] = []
        self.temporaries: dict[str, Operand] = {}

    def read(self, name: str, operand: Operand) -> str:
        """Return the name of the buffer that a shader reads for an input."""
        padded = self._padded(name, operand)
        if padded != name:
            self.before.append(self._copied(name, padded))
        return padded

    def written(self, name: str, operand: Operand) -> str:
        """Return the name of the buffer that a shader writes for an output."""
        padded = self._padded(name, operand)
        if padded != name:
            self.after.append(self._copied(padded, name))
        return padded

    def _padded(self, name: str, operand: Operand) -> str:
        if not self._is_few:
            return name
        self.temporaries[f"{name} and more"] = Operand((VECTOR,), operand.dtype)
        return f"{name} and more"

    def _copied(self, source: str, target: str) -> Step:
        return Step(shipped_module("copy_words"), (source, target), (1, 1, 1), push_constants={"count": self._count})


@dataclass(frozen=True)
class Saxpy(IncludedKernel):
    """``saxpy(x, y, alpha=1.0)``: float32 of one shape (n,), n to 2^30 - 1.

    ``out`` may be the buffer of ``x`` or ``y``: each number is read before it is written, by the invocation that writes it.
    """

    name = "saxpy"
    inputs = ("x", "y")
    sizes = SIZES
    may_overwrite = True
    tuned = TuningSpace(
        (
            Axis("WORKGROUP_X", (256, 128, 512, 1024, 64), "invocations of a workgroup", "x"),
            Axis("UNROLL", (2, 4, 1, 8), "vectors that an invocation loads at once"),
            Axis("TURNS", (1, 2, 4, 16), "tiles that a workgroup takes, one after the other"),
        )
    )
    """80 candidates."""

    def modules(self, _device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the kernel's own and the one that copies a few words."""
        return shipped_module("saxpy_vectors"), shipped_module("copy_words")

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (n,); raises InvalidInput."""
        check_parameters(self.name, parameters, ("alpha",))
        count, other = (checked_count(self.name, name, operands[name], ("float32",)) for name in self.inputs)
        if count != other:
            raise InvalidInput(
                f"x of saxpy has {count} elements and y has {other}", fix="pass arrays of one length", counts=(count, other)
            )
        _as_float32(parameters.get("alpha", 1.0))
        return (count,)

    def plan(self, call: Call) -> Plan:
        """Return one dispatch, of a workgroup for each ``TURNS`` tiles as far as the device allows; the others go round."""
        (count,), operands, candidate = call.size, call.operands, call.candidate
        if not count:
            return zeros_plan("out", (0,), np.dtype(np.float32))
        padded = PaddedBuffers(count)
        out = Operand((count,), np.dtype(np.float32))
        buffers = padded.read("x", operands["x"]), padded.read("y", operands["y"]), padded.written("out", out)
        most = call.device.physical.limits.max_compute_work_group_count[0]
        groups = min(-(-tiles(count, candidate) // candidate["TURNS"]), most)
        push = {"alpha": float(_as_float32(call.parameters.get("alpha", 1.0))), "count": count}
        module = shipped_module("saxpy_vectors")
        step = Step(module, buffers, (groups, 1, 1), dict(candidate.constants), push)
        return Plan((*padded.before, step, *padded.after), {"out": out}, padded.temporaries)

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return numbers from 0 to 1."""
        rng = np.random.default_rng(seed)
        x, y = (rng.random(size[0], np.float32) for _ in self.inputs)
        return (x, y), {"alpha": 2.5}

    def expected(self, *arrays: NDArray[Any], alpha: float = 1.0, **_: object) -> NDArray[Any]:
        """Return what numpy gives in float32."""
        x, y = arrays
        with np.errstate(all="ignore"):
            return np.asarray(_as_float32(alpha) * x + y)

    def moved_bytes(self, size: Size) -> int:
        """Two arrays in, one out."""
        return 12 * size[0]


def _as_float32(alpha: object) -> np.float32:
    """Return alpha as numpy rounds it, too large a one as infinite; raises InvalidInput if it is not a number."""
    number = float32_of(alpha)
    if number is None:
        raise InvalidInput(f"alpha of saxpy is {alpha!r}, which is not a real number", fix="give a float", parameter="alpha")
    return np.float32(number)


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
    return over_shared_memory("its sums take", 4 * candidate.workgroup_size[0], limits)


class NumbersKernel(IncludedKernel):
    """A kernel of one array of shape (n,), n to 2^30 - 1, of float32, uint32 or int32."""

    inputs = ("x",)
    sizes = SIZES

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (n,); raises InvalidInput."""
        check_parameters(self.name, parameters)
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
    tuned = TuningSpace(BLOCKWISE, _reduction_rule)

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the kernel's own, with or without subgroups, and the one that copies a few words."""
        return variant("reduce", device), shipped_module("copy_words")

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
    return over_shared_memory("its sums take", 4 * (candidate.workgroup_size[0] * candidate["UNROLL"] + 1), limits)


@dataclass(frozen=True)
class InclusiveScan(NumbersKernel):
    """``inclusive_scan(x)``: float32, uint32 or int32 of shape (n,), n from 1 to 2^30 - 1, to an array like it.

    ``out`` may be the buffer of ``x``.
    """

    name = "inclusive_scan"
    may_overwrite = True
    tuned = TuningSpace(BLOCKWISE, _scan_rule)

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the two of the passes, with or without subgroups, and the one that copies a few words."""
        return variant("scan", device), variant("reduce", device), shipped_module("copy_words")

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


_BANKS = 32  # of shared memory, on the GPUs that are; more copies than that do not help
_USUAL, _SMALL = (512, 256, 1024), (128, 64)  # Vulkan promises 128 invocations


def _histogram_rule(candidate: Candidate, limits: Limits) -> str | None:
    return over_shared_memory("its counts take", 4 * candidate["SHARED_WORDS"], limits)


@dataclass(frozen=True)
class Histogram(IncludedKernel):
    """``histogram(x, bins=256)``: uint32 of shape (n,) to counts, uint32 of shape (bins,); both up to 2^30 - 1."""

    name = "histogram"
    inputs = ("x",)
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
            _histogram_rule,
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
