"""Kernels over the blocks of Dask's arrays, and how large a block may be to fit every device of a fleet.

Arrays on disk are read and written block by block by the workers, and what was written is not computed again. Beside an array
that is written lies a folder: ``plan.json`` (format 1, docs/distributed.md) says what the blocks are of, and an empty file
named after a block's place, ``3.0``, says that it was written whole. Parquet files are read through pyarrow.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
from distributed import as_completed

from vyre_driver.checks import integer, integer_within, is_whole
from vyre_driver.distributed import tasks
from vyre_driver.distributed.futures import told
from vyre_driver.distributed.pool import FleetKernel, FleetPool
from vyre_driver.distributed.worker import empty_pinned
from vyre_driver.errors import BackendUnavailable, FileUnusable, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from distributed import Client
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


PLAN_FORMAT = 1
Region = tuple[slice, ...]


def from_npy(path: str | os.PathLike[str], chunks: object) -> da.Array:
    """Return a file of numpy's (.npy) as an array of Dask's whose blocks the workers read, each by a memory map.

    Raises
    ------
    FileUnusable
        If it cannot be read as such a file.
    """
    place = os.path.abspath(path)  # noqa: PTH100 -- links stay as they are named
    whole = _opened(place, "r")
    stamp = Path(place).stat()
    lengths = da.core.normalize_chunks(chunks, whole.shape, dtype=whole.dtype)
    name = f"npy-{dask.base.tokenize(place, stamp.st_mtime_ns, stamp.st_size, lengths)}"
    made: da.Array = da.map_blocks(
        _read, place, dtype=whole.dtype, chunks=lengths, meta=np.empty((0,) * whole.ndim, whole.dtype), name=name
    )
    return made


def store_regions(  # noqa: PLR0913 -- by keyword
    client: Client,
    array: da.Array,
    target: Any,  # noqa: ANN401 -- a path, or an array of Zarr
    marks: str | os.PathLike[str] | None = None,
    *,
    tag: str | None = None,
    on_progress: Callable[[int, int], object] | None = None,
) -> int:
    """Compute an array on the workers, each of which writes its blocks where they belong; returns how many were written now.

    Blocks that an earlier run wrote are left out, so that a run that was ended goes on. All processes see the same files.

    Parameters
    ----------
    client
        Whose workers compute.
    array
        The array to compute.
    target
        The path of a .npy file, which is made if it is not there, or an array of Zarr, whose chunks no two blocks may share.
    marks
        The folder of the marks; None is beside a .npy file, with ``.regions`` at the end of its name.
    tag
        The computation's name, in place of the array's name in Dask. That is the same in the next run only if all that
        the array is made of has a name there: random numbers and functions with state have none.
    on_progress
        Called with how many blocks are written, and how many there are.

    Raises
    ------
    InvalidInput
        If shapes or types differ, or blocks share a chunk of the target, or the marks are of another computation.
    FileUnusable
        If a file cannot be read or written.
    VyreError
        If a block raises it; blocks that were not written by then are left to the next run.
    """
    is_file = isinstance(target, (str, os.PathLike))
    if not is_file and marks is None:
        raise InvalidInput("there is no folder for the marks of an array that is no file", fix="give marks=FOLDER")
    place = os.path.abspath(target) if is_file else target  # noqa: PTH100 -- as above
    folder = Path(f"{place}.regions" if marks is None else marks).absolute()
    _check_plan(folder, array, tag or array.name, str(place) if is_file else "")
    _check_target(array, _made(place, array) if is_file else target)
    blocks = {".".join(map(str, at)): at for at in np.ndindex(*array.numblocks)}
    missing = {mark: at for mark, at in blocks.items() if not (folder / mark).exists()}
    found = array.to_delayed()
    write = dask.delayed(_write, pure=False)
    waiting = [write(found[at], place, _region(array.chunks, at), str(folder / mark)) for mark, at in missing.items()]
    futures = client.compute(waiting)
    try:
        for done, future in enumerate(as_completed(futures, loop=client.loop), len(blocks) - len(missing) + 1):
            error = future.exception()
            if error is not None:
                raise told(error)  # noqa: TRY301 -- the others are to be cancelled
            if on_progress is not None:
                on_progress(done, len(blocks))
    except BaseException:
        client.cancel(futures)  # else the next run would be given this one's failure
        raise
    return len(missing)


def _check_plan(folder: Path, array: da.Array, tag: str, place: str) -> None:
    """Write the plan, or check that the one that is there is of the same computation."""
    plan = {
        "format": PLAN_FORMAT,
        "computation": tag,
        "target": place,
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "chunks": [list(one) for one in array.chunks],
    }
    file = folder / "plan.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            draft = folder / f"plan.{os.getpid()}"
            draft.write_text(json.dumps(plan, indent=1) + "\n", "utf-8")
            draft.replace(file)
        known = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise FileUnusable(
            f"the marks in {folder} cannot be used: {error}", fix="remove the folder, or name another", path=str(folder)
        ) from error
    differing = sorted(name for name in plan if not isinstance(known, dict) or known.get(name) != plan[name])
    if differing:
        raise InvalidInput(
            f"the marks in {folder} are of another computation: it differs in {', '.join(differing)}",
            fix="remove the folder to compute all anew, or give tag=NAME in both runs if they are the same",
        )


def _made(place: str, array: da.Array) -> np.ndarray[Any, Any]:
    """Return the file's array, made if it is not there."""
    if not Path(place).exists():
        try:
            np.lib.format.open_memmap(place, mode="w+", dtype=array.dtype, shape=array.shape).flush()
        except OSError as error:
            raise FileUnusable(
                f"{place} cannot be made: {error}", fix="name a place that can be written to", path=place
            ) from error
    return _opened(place, "r+")


def _opened(place: str, mode: Any) -> np.ndarray[Any, Any]:  # noqa: ANN401 -- numpy's literals
    try:
        return np.lib.format.open_memmap(place, mode=mode)
    except (OSError, ValueError) as error:
        raise FileUnusable(
            f"{place} cannot be used as a .npy file: {error}", fix="name a file that numpy.save wrote", path=place
        ) from error


def _check_target(array: da.Array, target: Any) -> None:  # noqa: ANN401 -- an array
    if tuple(target.shape) != array.shape or np.dtype(target.dtype) != array.dtype:
        raise InvalidInput(
            f"the target has shape {tuple(target.shape)} of {target.dtype}, and the array {array.shape} of {array.dtype}",
            fix="make a target of the array's shape and type",
        )
    stored: Sequence[int] | None = getattr(target, "chunks", None)
    for axis, (length, parts) in enumerate(zip(stored or (), array.chunks, strict=False)):
        if any(begin % length for begin in list(itertools.accumulate(parts))[:-1]):
            raise InvalidInput(
                f"blocks along axis {axis} are {parts[0]} long, and share the target's chunks of {length}",
                fix=f"rechunk the array to multiples of {length} along axis {axis}",
            )


def _region(chunks: Sequence[Sequence[int]], at: Sequence[int]) -> Region:
    """Return where a block lies."""
    begins = [sum(parts[:index]) for parts, index in zip(chunks, at, strict=True)]
    return tuple(slice(begin, begin + parts[index]) for begin, parts, index in zip(begins, chunks, at, strict=True))


def _read(place: str, block_info: Any = None) -> np.ndarray[Any, Any]:  # noqa: ANN401 -- Dask's
    """Read a block, on a worker."""
    region = tuple(slice(*one) for one in block_info[None]["array-location"])
    found = _opened(place, "r")[region]
    block = empty_pinned(found.shape, found.dtype)
    block[...] = found
    return block


def _write(block: Any, target: Any, region: Region, mark: str) -> None:  # noqa: ANN401 -- arrays
    """Write a block, on a worker; and the mark when all of it is on the disk."""
    if isinstance(target, str):
        opened: Any = _opened(target, "r+")
        opened[region] = np.asarray(block)
        opened.flush()
    else:
        target[region] = np.asarray(block)
    Path(mark).touch()


def from_parquet(path: str | os.PathLike[str], column: str, *, row_groups: int = 1) -> da.Array:
    """Return a column of numbers of a Parquet file as an array of Dask of one axis; each block is some row groups of the file.

    Workers read what they need of the column alone. Rows without a value are an error where they are read.

    Parameters
    ----------
    path
        The file, which all processes see.
    column
        Its name.
    row_groups
        How many row groups of the file make a block.

    Raises
    ------
    BackendUnavailable
        If pyarrow is not installed.
    FileUnusable
        If it cannot be read as such a file.
    InvalidInput
        If there is no such column, it has no numbers, or ``row_groups`` is no whole number of 1 or more.
    """
    if not is_whole(row_groups) or row_groups < 1:
        raise InvalidInput(f"row_groups is {row_groups!r}", fix="give a whole number from 1 on")
    place = os.path.abspath(path)  # noqa: PTH100 -- links stay as they are named
    with _opened_parquet(place) as file:
        dtype = _dtype_of(file, place, column)
        rows = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
    stamp = Path(place).stat()
    lengths = tuple(sum(rows[at : at + row_groups]) for at in range(0, len(rows), row_groups)) or (0,)
    name = f"parquet-{dask.base.tokenize(place, stamp.st_mtime_ns, stamp.st_size, column, row_groups)}"
    made: da.Array = da.map_blocks(
        _read_groups, place, column, row_groups, dtype=dtype, chunks=(lengths,), meta=np.empty(0, dtype), name=name
    )
    return made


def _opened_parquet(place: str) -> Any:  # noqa: ANN401 -- pyarrow has no types
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise BackendUnavailable(f"pyarrow cannot be imported: {error}", fix="run pip install pyarrow") from error
    try:
        return parquet.ParquetFile(place)
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these
        raise FileUnusable(
            f"{place} cannot be read as a Parquet file: {error}", fix="name a Parquet file", path=place
        ) from error


def _dtype_of(file: Any, place: str, column: str) -> np.dtype[Any]:  # noqa: ANN401 -- pyarrow has no types
    names = file.schema_arrow.names
    if column not in names:
        raise InvalidInput(f"{place} has no column {column!r}", fix=f"name one of {', '.join(names)}")
    kind = file.schema_arrow.field(column).type
    try:
        found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    except NotImplementedError:
        found = np.dtype(object)
    if found.kind not in "iufb":
        raise InvalidInput(
            f"column {column!r} of {place} is of type {kind}, which has no numbers", fix="name a column of numbers"
        )
    return found


def _read_groups(place: str, column: str, row_groups: int, block_info: Any = None) -> np.ndarray[Any, Any]:  # noqa: ANN401 -- Dask's
    """Read a block, on a worker."""
    (at,) = block_info[None]["chunk-location"]
    with _opened_parquet(place) as file:
        groups = list(range(at * row_groups, min((at + 1) * row_groups, file.num_row_groups)))
        read = file.read_row_groups(groups, columns=[column])[column] if groups else None
    if read is None:
        return np.empty(0, block_info[None]["dtype"])
    if read.null_count:
        raise InvalidInput(
            f"column {column!r} of {place} has {read.null_count} rows without a value in block {at}",
            fix="fill them before, or name a column without such rows",
        )
    return np.asarray(read.to_numpy())
