"""What the kernels over long arrays of 32-bit numbers share: they read four numbers at a time.

Their shaders see a buffer as numbers and as vectors of four, and a buffer must hold one element of each of its views: arrays of
fewer than four numbers go through copies of four. A tile is what a workgroup processes at once, ``UNROLL`` vectors for each of
its invocations.

Source: Vulkan 1.3, limits ``maxComputeWorkGroupCount`` and ``maxStorageBufferRange``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Operand, Step
from vyre_driver.errors import InvalidInput
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from vyre_driver.autotune.measure.definition import DeviceFacts
    from vyre_driver.autotune.search.space import Candidate, Limits
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
