"""What kernels share: checks of their arrays, grids with a workgroup for each tile, zeros, and buffers of whole vectors.

Kernels over long arrays of 32-bit numbers read four numbers at a time. Their shaders see a buffer as numbers and as vectors of
four, and a buffer must hold one element of each of its views: arrays of fewer than four numbers go through copies of four. A
tile is what a workgroup processes at once, ``UNROLL`` vectors for each of its invocations.

Source: Vulkan 1.3, limits ``maxComputeWorkGroupCount`` (65,535 along an axis is all that every device has) and
``maxStorageBufferRange``.
"""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Operand, Plan, Step
from vyre_driver.errors import InvalidInput
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from vyre_driver.autotune.measure.definition import DeviceFacts
    from vyre_driver.autotune.search.space import Candidate, Limits
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.vulkan.devices import DeviceLimits

_AXES = {1: "one axis", 2: "two axes"}
_AXES_FIXES = {1: "give an array of one row or more", 2: "give a matrix: reshape a vector to one row or one column"}
_MOST_TURNS = 65_400  # of loops, on a CPU device


def grid_of(tiles: int, limits: DeviceLimits) -> tuple[int, int, int]:
    """Return workgroups along x and y for at least so many tiles, row by row; shaders leave those past the last tile.

    A grid that is too large for y as well is refused where it is bound (LimitExceeded).
    """
    across = min(tiles, limits.max_compute_work_group_count[0])
    return across, math.ceil(tiles / across), 1


def least_parts(k: int, step: int, turns: int, device: DeviceFacts) -> int:
    """Return in how many parts k is summed at least, where a step takes so many turns of loops: one, but on a CPU device.

    llvmpipe ends loops after 65,535 turns.
    """
    return math.ceil(k / (_MOST_TURNS // turns * step)) if device.physical.is_software else 1


def check_matrices(
    kernel: str,
    operands: Mapping[str, Operand],
    dtypes: Sequence[np.dtype[np.generic]],
    fix: str,
) -> None:
    """Check that all are matrices of one of these types.

    Raises
    ------
    InvalidInput
        If not; ``fix`` says what makes a matrix of such a type.
    """
    for name, operand in operands.items():
        if len(operand.shape) != 2 or operand.dtype not in dtypes:
            raise InvalidInput(
                f"{name} of {kernel} has the shape {operand.shape} and the type {operand.dtype}, and must be a matrix of "
                f"{_listed(dtypes)}",
                fix=fix,
                binding=name,
            )


def check_rows(
    kernel: str, operands: Mapping[str, Operand], dtypes: Sequence[np.dtype[np.generic]], *, least_axes: int = 1
) -> None:
    """Check that arrays have one of these types, and enough axes: the last one is a row, those before it count rows.

    Raises
    ------
    InvalidInput
        If the type is another one, or there are fewer than ``least_axes`` axes.
    """
    for name, operand in operands.items():
        if operand.dtype not in dtypes:
            raise InvalidInput(
                f"{name} of {kernel} has the type {operand.dtype}, and must have the type {_listed(dtypes)}",
                fix=f"convert it with .astype(numpy.{dtypes[0]})",
                binding=name,
            )
        if len(operand.shape) < least_axes:
            raise InvalidInput(
                f"{name} of {kernel} has the shape {operand.shape}, and must have {_AXES[least_axes]} or more",
                fix=_AXES_FIXES[least_axes],
                binding=name,
            )


def row_count(shape: tuple[int, ...]) -> int:
    """Return how many rows an array has along its last axis; a vector is one row."""
    return math.prod(shape[:-1])


def refuse_parameters(kernel: str, parameters: Mapping[str, object]) -> None:
    """Check that a call has no parameters, and raise InvalidInput otherwise."""
    if parameters:
        raise InvalidInput(f"{kernel} takes no parameters and got {sorted(parameters)}", fix="leave them out")


def _listed(dtypes: Sequence[np.dtype[np.generic]]) -> str:
    *others, last = [dtype.name for dtype in dtypes]
    return f"{', '.join(others)} or {last}" if others else last


_FILLING = 128  # the workgroup of shaders/fill_words.comp
_MOST_FILLING = 1024


def zeros_step(name: str, words: int) -> Step:
    """Return the dispatch that sets so many words of a buffer to 0; it runs nothing where there are none."""
    filling = max(min(-(-words // _FILLING), _MOST_FILLING), 1)
    return Step(shipped_module("fill_words"), (name,), (filling, 1, 1), push_constants={"count": words, "value": 0})


def zeros_plan(name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Plan:
    """Return the plan whose one output is all zeros: of numbers of 4 bytes, or of any where its shape has no elements."""
    return Plan((zeros_step(name, math.prod(shape)),), {name: Operand(shape, dtype)})


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


def check_parameters(kernel: str, parameters: Mapping[str, Any], known: Collection[str], chosen: Collection[str] = ()) -> None:
    """Check that all parameters are known, and raise InvalidInput otherwise; ``chosen`` are what a kernel is made with."""
    for name in parameters:
        if name not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no parameters"
            fix = f"give {name!r} where the kernel is made, arrays by position" if name in chosen else f"leave {name!r} out"
            raise InvalidInput(f"{kernel} {takes} and got {name!r}", fix=fix, parameter=name)


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


def over_shared_memory(words: int, limits: Limits) -> str | None:
    """Return why so many words a workgroup are too many, None if they are not."""
    most = limits.max_compute_shared_memory_size
    return f"{4 * words} bytes of shared memory, and the device has {most}" if 4 * words > most else None


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


def float32_of(given: object) -> float | None:
    """Return a number rounded to float32, too large a one as infinite; None of what is not a number."""
    if type(given) is bool or not isinstance(given, numbers.Real):
        return None
    try:
        found = float(given)
    except OverflowError:  # an integer beyond float64
        found = -math.inf if given < 0 else math.inf
    with np.errstate(all="ignore"):
        return float(np.float32(found))
