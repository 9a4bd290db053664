"""Arrays on disk: blocks are read and written by the workers, and what was written is not computed again.

Beside an array that is written lies a folder: ``plan.json`` (format 1, docs/distributed.md) says what the blocks are of, and an
empty file named after a block's place, ``3.0``, says that it was written whole. Parquet files are read through pyarrow.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
from distributed import as_completed

from vyre_driver.checks import is_whole
from vyre_driver.distributed.futures import told
from vyre_driver.distributed.worker import empty_pinned
from vyre_driver.errors import BackendUnavailable, FileUnusable, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from distributed import Client

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
