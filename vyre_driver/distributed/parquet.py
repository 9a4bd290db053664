"""Columns of Parquet files as arrays of Dask, read by the workers through pyarrow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np

from vyre_driver.checks import is_whole
from vyre_driver.errors import BackendUnavailable, FileUnusable, InvalidInput


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
