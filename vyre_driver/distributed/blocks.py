"""Kernels over the blocks of Dask's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np

from vyre_driver.distributed import tasks
from vyre_driver.distributed.pool import FleetKernel
from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike

    from vyre_driver.distributed.carried import CarriedKernel

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
