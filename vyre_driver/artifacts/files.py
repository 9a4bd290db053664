"""Files that another program handed over."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vyre_driver.errors import FileUnusable

if TYPE_CHECKING:
    from pathlib import Path


def read_bounded(path: Path, limit: int, *, follows_links: bool = True) -> bytes:
    """Return the bytes of a file; raises FileUnusable if it has more than ``limit``, is a link, or cannot be read.

    A symbolic link is read where ``follows_links`` says so.
    """
    try:
        if not follows_links and path.is_symlink():
            raise FileUnusable(f"{path} is a symbolic link", fix="put the file itself there", path=str(path))
        if not path.is_file():
            problem = "is not a file" if path.exists() else "does not exist"
            raise FileUnusable(f"{path} {problem}", fix="name a file", path=str(path))
        flags = os.O_RDONLY | os.O_CLOEXEC | (0 if follows_links else os.O_NOFOLLOW)
        with os.fdopen(os.open(path, flags), "rb") as file:
            # As many as are there: so much memory is taken before it is read.
            data = file.read(min(limit, os.fstat(file.fileno()).st_size) + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, FileUnusable):
            raise
        raise FileUnusable(f"cannot read {path} ({error})", fix="name a file that can be read", path=str(path)) from error
    if len(data) > limit:
        raise FileUnusable(f"{path} has more than {limit} bytes", fix="name a smaller file", path=str(path))
    return data
