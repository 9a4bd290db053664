"""Gather the files that a GLSL source includes before it is compiled: only those in the shader's own directory.

A compiler opens whatever ``#include`` names: files of the working directory and above it, or a FIFO that never ends. Here the
names are judged first, a link that leads out of the directory is refused as ``..`` is, and regular files are read within a
limit. The compiler gets copies of them in a directory of its own.

What looks like a directive is judged as one, also in a comment or after ``#if 0``: a name that nothing reads does no harm.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vyre_driver.errors import FileUnusable, ShaderSyntaxError
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from pathlib import Path

MAX_SOURCE_BYTES = 16 << 20  # of a shader with all that it includes, also where it includes it again
_MAX_FILES = 1000
_MAX_DIRECTIVES = 10_000
_MAX_DEPTH = 100
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_CONTINUED = re.compile(rb"\\(?:\r\n|\r|\n)")
# The last bytes before the word are either the directive's own or the end of a comment within it.
_INCLUDE = re.compile(rb'(?:#|\*/)\s*include(?![A-Za-z0-9_])\s*(?:"([^"]*)"|(/\*))?')
_NAME = re.compile(rb'[^\x00-\x1f\x7f"\\/]+(?:/[^\x00-\x1f\x7f"\\/]+)*')


def gather(source: bytes, name: str, directory: Path | None) -> dict[str, bytes]:
    """Return the files below a directory that a source includes, by their paths in it; none where there is no directory.

    Raises
    ------
    ShaderSyntaxError
        If it includes what is not below the directory, more than 1,000 files, more than 10,000 times, or over 16 MiB in
        all.
    FileUnusable
        If a file that it includes is not a regular file, or cannot be read.
    """
    gathered = _Gathered(name, directory)
    gathered.expand(source, PurePosixPath(), 0)
    return gathered.files


class _Gathered:
    """The files found so far, and how many bytes each has with what it includes."""

    def __init__(self, name: str, directory: Path | None) -> None:
        self.files: dict[str, bytes] = {}
        self._name = name
        self._directory = directory
        self._directives = 0
        self._expanded: dict[str, int] = {}

    def expand(self, source: bytes, place: PurePosixPath, depth: int) -> int:
        """Gather what a source at a place includes; returns its bytes with those of all that it includes."""
        total = len(source)
        for one in _INCLUDE.finditer(_CONTINUED.sub(b"", source)):
            self._directives += 1
            if self._directives > _MAX_DIRECTIVES:
                raise self._refused(f"it and what it includes have more than {_MAX_DIRECTIVES} #include", "include less")
            included = self._judged(one)
            # Beside the file that includes it, else beside those that include that one.
            for parent in [place, *place.parents] if included else ():
                total += self._file(str(parent / included), depth + 1)
            if total > MAX_SOURCE_BYTES or depth > _MAX_DEPTH:
                raise self._refused(
                    f"it includes more than {MAX_SOURCE_BYTES} bytes or {_MAX_DEPTH} levels, or itself",
                    "include less, and no file from one that it includes",
                )
        return total

    def _judged(self, found: re.Match[bytes]) -> str:
        """Return the name in a directive, empty if the compiler will find none in it."""
        name = found[1]
        if name is None:
            if found[2]:
                raise self._refused("it has a comment between #include and the name", "move the comment")
            return ""
        if not _NAME.fullmatch(name) or b".." in name.split(b"/"):
            raise self._leads_out(name)
        return os.fsdecode(name)

    def _leads_out(self, name: bytes) -> ShaderSyntaxError:
        shown = ascii(name.decode("utf-8", "replace")[:80])
        return self._refused(
            f"it includes {shown}, which leads out of its directory", "include files in the shader's directory"
        )

    def _file(self, path: str, depth: int) -> int:
        """Read a file unless that is done; returns the bytes that it expands to, 0 where there is none."""
        if path in self._expanded:
            return self._expanded[path]
        data = None if self._directory is None else _regular_file(self._directory / path)
        if data is None or self._directory is None:
            self._expanded[path] = 0
            return 0
        if not _is_below(self._directory, path):
            raise self._leads_out(os.fsencode(path))
        if len(self.files) >= _MAX_FILES:
            raise self._refused(f"it includes more than {_MAX_FILES} files", "include fewer")
        self.files[path] = data
        self._expanded[path] = MAX_SOURCE_BYTES + 1  # for itself: a circle never ends
        self._expanded[path] = found = self.expand(data, PurePosixPath(path).parent, depth)
        return found

    def _refused(self, problem: str, fix: str) -> ShaderSyntaxError:
        return ShaderSyntaxError(f"{self._name} does not compile: {problem}", fix=fix, source=self._name)


def _is_below(directory: Path, path: str) -> bool:
    """Return whether a path below a directory is below it still where its links are followed."""
    top = os.path.realpath(directory)
    return os.path.commonpath([top, os.path.realpath(directory / path)]) == top


def _regular_file(path: Path) -> bytes | None:
    """Return the bytes of a file, one over the limit at most; None where there is none."""
    try:
        with Opened(path, _OPEN) as descriptor:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    return file.read(MAX_SOURCE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unusable(path, f"cannot be read ({error.strerror})") from error
    raise _unusable(path, "is not a regular file")


def _unusable(path: Path, why: str) -> FileUnusable:
    return FileUnusable(f"{path}, which a shader includes, {why}", fix="include a GLSL text file", path=str(path))
