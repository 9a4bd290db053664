"""Kernels over the blocks of Dask's arrays, and how large a block may be to fit every device of a fleet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np

from vyre_driver.checks import integer, integer_within
from vyre_driver.distributed import tasks
from vyre_driver.distributed.pool import FleetKernel
from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import DTypeLike

    from vyre_driver.distributed.carried import CarriedKernel
    from vyre_driver.distributed.pool import FleetPool

    Links = tuple[tuple[CarriedKernel, dict[str, Any]], ...]

_COMBINE = ("sum", "max", "min", "prod")


@dataclass(frozen=True, slots=True)
class BlockTask:
    """What a worker does with the blocks of one place: the kernels one after the other, on the device in between."""

    links: Links
    losses: int
    is_stacked: bool = False

    @property
    def __name__(self) -> str:
        """What Dask's dashboard calls its tasks."""
        return f"vyre-{self.links[-1][0].name}"

    def __call__(self, *blocks: Any, **_: Any) -> Any:  # noqa: ANN401 -- an array
        """Return the block of the result."""
        links = [
            (kernel, {name: _of_blocks(value, blocks) for name, value in options.items()}) for kernel, options in self.links
        ]
        found = tasks.call_chain(links, blocks, self.losses)
        return np.asarray(found)[np.newaxis] if self.is_stacked else found

    def __dask_tokenize__(self) -> object:
        """Return what names it in Dask's graphs: kernels by their digests, not by where they were compiled."""
        links = [(kernel.digest, sorted(options.items())) for kernel, options in self.links]
        return dask.base.normalize_token((links, self.is_stacked))


def map_blocks(  # noqa: PLR0913 -- by keyword
    kernel: FleetKernel | Sequence[FleetKernel | tuple[FleetKernel, Mapping[str, Any]]],
    *arrays: da.Array,
    dtype: DTypeLike,
    chunks: object = None,
    drop_axis: int | Sequence[int] = (),
    new_axis: int | Sequence[int] | None = None,
    losses: int = 2,
    **options: Any,  # noqa: ANN401 -- the kernel's
) -> da.Array:
    """Return an array of Dask's whose blocks are what a kernel makes of the blocks of arrays, when it is computed.

    Parameters
    ----------
    kernel
        A kernel, or several that are called one after the other: each gets what the one before returned, which stays on the
        device. Options of one of several stand beside it: ``[blur, (scale, {"factor": 2.0})]``.
    arrays
        Arrays of Dask's with the same numbers of blocks along their axes; a result may have other axes.
    dtype, chunks, drop_axis, new_axis
        Of the result, as ``dask.array.map_blocks``.
    losses
        How many devices may be lost under a block until it fails.
    options
        Options of a call of the first kernel. An option that is a function is called with the blocks, and gives the value:
        ``count=lambda x, y: x.size``; in ``push_constants`` too.

    Raises
    ------
    InvalidInput
        If there is no kernel or array, or chunks do not line up.
    """
    task = BlockTask(_links(kernel, options), losses)
    _check_chunks(arrays)
    axes = (
        max(one.ndim for one in arrays)
        - len(np.atleast_1d(drop_axis))
        + len(np.atleast_1d(() if new_axis is None else new_axis))
    )
    made: da.Array = da.map_blocks(
        task,
        *arrays,
        dtype=np.dtype(dtype),
        chunks=chunks,
        drop_axis=list(np.atleast_1d(drop_axis).astype(int)),
        new_axis=new_axis,
        meta=np.empty((0,) * axes, dtype),
        name=f"vyre-{dask.base.tokenize(task, *arrays, dtype, chunks, drop_axis, new_axis)}",
    )
    return made


def reduce_blocks(
    kernel: FleetKernel | Sequence[FleetKernel | tuple[FleetKernel, Mapping[str, Any]]],
    *arrays: da.Array,
    shape: Sequence[int],
    dtype: DTypeLike,
    combine: str = "sum",
    losses: int = 2,
    **options: Any,  # noqa: ANN401 -- the kernel's
) -> da.Array:
    """Return an array of Dask's that combines what a kernel makes of each place's blocks, in a tree over the workers.

    Parameters
    ----------
    kernel, arrays, losses, options
        As ``map_blocks``; every block gives an array of ``shape``.
    shape, dtype
        Of the result: combined in this type, on the host.
    combine
        ``"sum"``, ``"max"``, ``"min"`` or ``"prod"``.

    Raises
    ------
    InvalidInput
        As ``map_blocks``, or if ``combine`` is none of these.
    """
    if combine not in _COMBINE:
        raise InvalidInput(f"combine is {combine!r}", fix=f"give one of {', '.join(_COMBINE)}")
    task = BlockTask(_links(kernel, options), losses, is_stacked=True)
    _check_chunks(arrays)
    run = dask.delayed(task, pure=True)
    places = zip(*(one.to_delayed().ravel() for one in arrays), strict=True)
    parts = [da.from_delayed(run(*blocks), (1, *shape), meta=np.empty((0,) * (1 + len(shape)), dtype)) for blocks in places]
    stacked = da.concatenate(parts, axis=0)
    how = {} if combine in {"max", "min"} else {"dtype": np.dtype(dtype)}
    made: da.Array = getattr(stacked, combine)(axis=0, split_every=16, **how)
    return made


def _links(kernel: object, options: dict[str, Any]) -> Links:
    if isinstance(kernel, FleetKernel):
        return ((kernel.carried, options),)
    found: list[tuple[CarriedKernel, dict[str, Any]]] = []
    for at, one in enumerate(kernel if isinstance(kernel, (list, tuple)) else ()):
        pair = one if isinstance(one, tuple) else (one, {})
        if len(pair) != 2 or not isinstance(pair[0], FleetKernel) or not isinstance(pair[1], Mapping):
            raise InvalidInput(
                f"kernel {at} of the chain is {one!r}", fix="give what FleetPool.compile returned, or (kernel, options)"
            )
        found.append((pair[0].carried, {**pair[1], **(options if at == 0 else {})}))
    if not found:
        raise InvalidInput(f"there is no kernel in {kernel!r}", fix="give what FleetPool.compile returned")
    return tuple(found)


def _check_chunks(arrays: Sequence[da.Array]) -> None:
    if not arrays or not all(isinstance(one, da.Array) for one in arrays):
        raise InvalidInput(
            f"map_blocks got {', '.join(type(one).__name__ for one in arrays) or 'no array'}",
            fix="give arrays of dask.array, as dask.array.from_array(x, chunks) makes them",
        )
    first = arrays[0]
    for at, one in enumerate(arrays[1:], 2):
        if one.shape == first.shape and one.chunks != first.chunks:
            raise InvalidInput(
                f"array {at} has chunks {one.chunks}, and array 1 of the same shape has {first.chunks}",
                fix=f"line them up: array{at}.rechunk(array1.chunks)",
            )
        if one.numblocks != first.numblocks:
            raise InvalidInput(
                f"array {at} has {one.numblocks} blocks along its axes, and array 1 has {first.numblocks}",
                fix="rechunk one of them, so that blocks of the same place belong together",
            )


def _of_blocks(value: object, blocks: Sequence[Any]) -> object:
    if isinstance(value, Mapping):
        return {name: _of_blocks(one, blocks) for name, one in value.items()}
    return value(*blocks) if callable(value) and not isinstance(value, type) else value


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
