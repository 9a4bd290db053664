"""The kernels that drivers of any number of processes compile, written down in one file, each once (VYRE_CACHE_RECORD).

A line is appended by one write, so that lines of several processes do not mix, and what a killed process left of one is ended
by the next line. No lock is taken: nobody waits for another process, and two that write the same line at once do no harm.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from blake3 import blake3

from vyre_driver import settings
from vyre_driver.errors import InvalidProgram, InvalidSetting
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vyre_driver.ir.program import Program
    from vyre_driver.lowering.source import KernelSource
    from vyre_driver.spirv.module import SpirvModule

_LOG = logging.getLogger("vyre_driver.recording")
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
_MODE = 0o600  # lines have the code of programs
_PART = 1 << 20
_trying = threading.local()


def recording_of_settings() -> RecordingFile | None:
    """Return the file that VYRE_CACHE_RECORD names, None without one; raises InvalidSetting if it cannot be written."""
    path = settings.absolute_path(settings.CACHE_RECORD)
    if path is None:
        return None
    try:
        return RecordingFile(path)
    except OSError as error:
        variable = settings.CACHE_RECORD.variable
        raise InvalidSetting(
            f"{variable} is {str(path)!r}, which cannot be written ({error.strerror or error})",
            fix=f"set {variable} to a file in a folder that is there and may be written to, or unset it",
            variable=variable,
            value=str(path),
        ) from error


@contextmanager
def unrecorded() -> Iterator[None]:
    """Write down nothing that this thread compiles within the block: it only tries."""
    before = getattr(_trying, "is_on", False)
    _trying.is_on = True
    try:
        yield
    finally:
        _trying.is_on = before


class RecordingFile:
    """A file with a line for each kernel. May be used from several threads, processes and forked children."""

    def __init__(self, path: Path) -> None:
        """Make the file if it is not there; raises OSError where it cannot be written."""
        self._path = path
        self._known: set[bytes] = set()
        self._read_to = 0
        self._told: set[str] = set()
        with Opened(path, _APPEND, _MODE) as descriptor:
            os.pread(descriptor, 1, 0)  # what has no places to read from is no file

    def note(self, code: SpirvModule | Program, source: KernelSource) -> None:
        """Write down what a kernel is compiled of, unless it is there; where that cannot be, warn once and go on."""
        if getattr(_trying, "is_on", False):
            return
        from vyre_driver.lowering.recorded import line_of  # late: most processes record nothing

        try:
            self._add(line_of(code, source))
        except InvalidProgram as error:
            self._warn("a program is not written down", error)
        except OSError as error:
            self._warn(f"kernels are not written down in {self._path}", error.strerror or error)

    def _add(self, line: bytes) -> None:
        from vyre_driver.lowering.recorded import MAX_FILE_BYTES, MAX_LINE_BYTES

        digest = blake3(line).digest()
        if digest in self._known:
            return
        with Opened(self._path, _APPEND, _MODE) as descriptor:
            if os.fstat(descriptor).st_size > MAX_FILE_BYTES:  # which is none of ours, and may be of any size
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            is_whole = self._read_more(descriptor)
            if digest in self._known:
                return
            data = (b"" if is_whole else b"\n") + line + b"\n"
            if len(line) > MAX_LINE_BYTES or os.fstat(descriptor).st_size + len(data) > MAX_FILE_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            if os.write(descriptor, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._known.add(digest)

    def _read_more(self, descriptor: int) -> bool:
        """Learn the whole lines that were added since the last look; returns whether the file ends with one.

        A device, which may be read without end, has a size of 0: nothing is learned from it.
        """
        at, rest = self._read_to, b""
        size = os.fstat(descriptor).st_size
        while part := os.pread(descriptor, min(_PART, max(size - at - len(rest), 0)), at + len(rest)):
            *lines, last = (rest + part).split(b"\n")
            self._known.update(blake3(line).digest() for line in lines)
            at += len(rest) + len(part) - len(last)
            rest = last
        self._read_to = at
        return not rest

    def _warn(self, what: str, error: object) -> None:
        if what not in self._told:
            self._told.add(what)
            _LOG.warning("%s: %s", what, error)
