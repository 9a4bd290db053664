"""How large the blocks of an array may be, so that each fits every device of a fleet."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.checks import integer, integer_within
from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import DTypeLike

    from vyre_driver.distributed.pool import FleetKernel, FleetPool

AIM_BYTES = 256 << 20
_SHARE_OF_MEMORY = 0.7
_IN_FLIGHT = 2
_OF_ONE_ROW = frozenset({"module", "program"})  # others lay a long grid along several axes


def plan_chunks(  # noqa: PLR0913 -- by keyword
    pool: FleetPool,
    shape: Sequence[int],
    dtype: DTypeLike,
    *,
    buffers: int = 2,
    kernel: FleetKernel | None = None,
    whole: Iterable[int] = (),
    aim_bytes: int = AIM_BYTES,
) -> tuple[tuple[int, ...], ...]:
    """Return chunks, as Dask's arrays have them, whose blocks fit every device of the fleet.

    A block has at most ``aim_bytes``, what a buffer may have, and so much that two calls with ``buffers`` arrays of its size
    take seven tenths of the memory that a worker's share of its device has left. Leading axes are split first.

    Parameters
    ----------
    pool
        The fleet.
    shape, dtype
        The array's.
    buffers
        How many arrays of a block's size a call has, results among them.
    kernel
        One of a module or a program bounds a block by the grid too: an invocation for each element along its first axis, of
        which Vulkan guarantees 65,535 workgroups (``maxComputeWorkGroupCount``, Vulkan's table of required limits).
    whole
        Axes that are not split, such as the rows of a softmax.
    aim_bytes
        The size of a block beyond which nothing is gained.

    Raises
    ------
    InvalidInput
        If a number is out of range, an axis is not there, or no block fits because of the axes that stay whole.
    """
    extents = [integer_within(one, 0, 2**63 - 1) for one in shape]
    if None in extents or not extents:
        raise InvalidInput(f"the shape is {shape!r}", fix="give one whole number or more, each of 0 or more")
    for name, given in (("buffers", buffers), ("aim_bytes", aim_bytes)):
        if (integer(given) or 0) < 1:
            raise InvalidInput(f"{name} is {given!r}", fix="give a whole number from 1 on")
    kept = set(whole)
    if kept - set(range(len(extents))):
        raise InvalidInput(
            f"axes {sorted(kept)} stay whole, and there are axes 0 to {len(extents) - 1}", fix="name axes that are there"
        )
    sizes = kernel.workgroup_size if kernel is not None and kernel.carried.kind in _OF_ONE_ROW else ()
    itemsize = np.dtype(dtype).itemsize
    most = most_elements(pool.report(), itemsize, buffers=buffers, workgroup=sizes[0] if sizes else None, aim_bytes=aim_bytes)
    return split([int(one) for one in extents if one is not None], most, kept)


def most_elements(
    facts: Iterable[Mapping[str, Any]], itemsize: int, *, buffers: int, workgroup: int | None, aim_bytes: int = AIM_BYTES
) -> int:
    """Return how many elements of a block fit every worker, by the facts that ``FleetPool.report`` tells."""
    told = list(facts)
    sharing = Counter(_device(one) for one in told)
    bounds = [aim_bytes // itemsize]
    for one in told:
        memory = _SHARE_OF_MEMORY * one["memory_bytes"] / sharing[_device(one)]
        bounds += [int(memory / (buffers * _IN_FLIGHT * itemsize)), one["buffer_bytes"] // itemsize]
        if workgroup is not None:
            bounds.append(one["workgroups"] * workgroup)
    return max(1, min(bounds))


def split(shape: Sequence[int], most: int, whole: set[int]) -> tuple[tuple[int, ...], ...]:
    """Return chunks of at most ``most`` elements, leading axes split first; raises InvalidInput where whole axes leave none."""
    lengths = [extent if at in whole else 1 for at, extent in enumerate(shape)]
    least = math.prod(lengths)
    if least > most:
        raise InvalidInput(
            f"the axes that stay whole make blocks of {least} elements, and the devices of the fleet take {most}",
            fix="let one of these axes be split, or work on devices with more memory",
        )
    for at in reversed(range(len(shape))):
        if at not in whole:
            lengths[at] = max(1, min(shape[at], most // math.prod(lengths)))
    return tuple(_parts(extent, length) for extent, length in zip(shape, lengths, strict=True))


def _parts(extent: int, length: int) -> tuple[int, ...]:
    full, rest = divmod(extent, max(length, 1))
    return (length,) * full + ((rest,) if rest else ()) or (0,)


def _device(facts: Mapping[str, Any]) -> tuple[str, str]:
    return facts["worker"].rpartition(":")[0], facts["uuid"]
