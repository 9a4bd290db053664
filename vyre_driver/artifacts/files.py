"""Files that another program handed over."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vyre_driver.errors import FileUnusable

if TYPE_CHECKING:
    from pathlib import Path


def read_bounded(path: Path, limit: int) -> bytes:
    """Return the bytes of a file, ``limit`` at most; raises FileUnusable if it has more, or cannot be read."""
    try:
        if not path.is_file():
            raise FileUnusable(f"{path} is not a file", fix="name a file", path=str(path))
        with path.open("rb") as file:
            # As many as are there: so much memory is taken before it is read.
            data = file.read(min(limit, os.fstat(file.fileno()).st_size) + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, FileUnusable):
            raise
        raise FileUnusable(f"cannot read {path} ({error})", fix="name a file that can be read", path=str(path)) from error
    if len(data) > limit:
        raise FileUnusable(f"{path} has more than {limit} bytes", fix="name a smaller file", path=str(path))
    return data
