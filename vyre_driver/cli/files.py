"""What verbs read and write: arrays as ``.npy`` or raw bytes, and shaders. A written file appears whole or not at all."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import tokenize
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from vyre_driver.cli.options import nearest
from vyre_driver.errors import FileUnusable, InvalidCommand
from vyre_driver.process.whole_files import whole_file

if TYPE_CHECKING:
    import argparse
    from types import TracebackType

    from numpy.typing import NDArray

    from vyre_driver.binding.plan import Binding
    from vyre_driver.ir.program import Program
    from vyre_driver.spirv import SpirvModule

STANDARD = "-"  # standard input or output, in the place of a file
_NPY_MAGIC = b"\x93NUMPY"
_PART_BYTES = 64 << 20
MAX_BYTES = (4 << 30) + (64 << 10)  # the largest range that Vulkan can bind, and the head of a .npy file


def read_array(path: Path, binding: Binding) -> NDArray[Any]:
    """Return the array of a ``.npy`` file, or a raw file's bytes as the binding's elements.

    Raises FileUnusable for a file that cannot be read or is no ``.npy`` file though it is named so, InvalidInput for raw bytes
    that do not fit the binding.
    """
    data = read_bytes(path)
    return _array_of(data, str(path)) if path.suffix == ".npy" else binding.from_bytes(data)


def read_stdin_array() -> NDArray[Any]:
    """Return the array of a ``.npy`` file from standard input; raises as ``read_stdin``, and FileUnusable if it is none."""
    return _array_of(read_stdin("a .npy file"), "standard input")


def _array_of(data: bytes, name: str) -> NDArray[Any]:
    try:
        return load_npy(io.BytesIO(data))
    except ValueError as error:
        raise FileUnusable(f"{name} is not a .npy file ({error})", fix="write it with numpy.save", path=name) from error


def read_stdin(what: str) -> bytes:
    """Return all of standard input, at most 4 GiB.

    Raises
    ------
    InvalidCommand
        If it is a terminal: nobody types that.
    FileUnusable
        If it cannot be read, or holds more.
    """
    fix = f"pipe {what} into it, or name a file"
    if os.isatty(0):
        raise InvalidCommand(f"{what} is to come from standard input, which is a terminal", fix=fix)
    try:
        with os.fdopen(0, "rb", closefd=False) as file:  # sys.stdin is None where it is closed
            data = _read(file, MAX_BYTES + 1)
    except OSError as error:
        raise FileUnusable(f"cannot read standard input ({error.strerror})", fix=fix, path=STANDARD) from error
    if len(data) > MAX_BYTES:
        raise FileUnusable(f"standard input is larger than {MAX_BYTES} bytes", fix=fix, path=STANDARD)
    return data


def load_npy(file: BinaryIO) -> NDArray[Any]:
    """Return the array of an open ``.npy`` file; a bad one raises ValueError, whatever numpy raises."""
    if file.read(len(_NPY_MAGIC)) != _NPY_MAGIC:
        raise ValueError("it does not begin as one")
    file.seek(0)
    try:
        return np.asarray(np.load(file, allow_pickle=False))
    except (ValueError, EOFError, OSError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError) as error:
        raise ValueError(" ".join(str(error).split())) from error


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes, at most 4 GiB: no buffer holds more.

    Raises FileUnusable for one that cannot be read, holds more, or is a device that holds anything.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            is_device = stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)
            data = b"" if found.st_size > MAX_BYTES else _read(file, 1 if is_device else MAX_BYTES + 1)
    except OSError as error:
        raise FileUnusable(f"cannot read {path} ({error.strerror})", fix="name a readable file", path=str(path)) from error
    if is_device and data:
        raise FileUnusable(f"cannot read {path} (it is a device)", fix="name a file with data", path=str(path))
    if max(found.st_size, len(data)) > MAX_BYTES:
        raise FileUnusable(f"{path} is larger than {MAX_BYTES} bytes", fix="name a smaller file", path=str(path))
    return data


def _read(file: BinaryIO, most: int) -> bytes:
    """Read up to the end or ``most`` bytes, in parts: asked for at once, that much memory would be taken first."""
    parts = []
    while most and (part := file.read(min(most, _PART_BYTES))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


class OutputFile:
    """A file to be written once the result is there; opening it early reports a bad path before any work is done.

    It is there whole when the block ends; if the block raises, what stood there before still stands. Only what ``whole_file``
    writes directly, such as a pipe, is changed at once.
    """

    def __init__(self, path: Path) -> None:
        """Open it; raises FileUnusable if it cannot be made."""
        self.path = path
        self._whole = whole_file(path)
        try:
            self._file = self._whole.__enter__()
        except OSError as error:
            raise unwritable(self.path, error) from error

    def write(self, array: NDArray[Any]) -> None:
        """Write an array as ``.npy`` when the path is named so, else as raw bytes; raises FileUnusable if that fails."""
        try:
            if self.path.suffix == ".npy":
                np.save(self._file, array, allow_pickle=False)
            else:
                self._file.write(np.ascontiguousarray(array).data)
            self._file.flush()
        except OSError as error:
            raise unwritable(self.path, error) from error

    def __enter__(self) -> OutputFile:
        """Return the file itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Give it its name, or remove it."""
        try:
            self._whole.__exit__(kind, error, traceback)
        except OSError as close_error:
            if error is None:
                raise unwritable(self.path, close_error) from close_error


def unwritable(path: Path, error: OSError) -> FileUnusable:
    """Return what is raised for a file that cannot be written."""
    fix = "name a file in a writable directory"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        fix = "free some space, or name a file on another disk"
    return FileUnusable(f"cannot write {path} ({error.strerror or error})", fix=fix, path=str(path))


class StandardOutput:
    """Standard output, for one ``.npy`` file and nothing else: what is printed within the block goes to standard error."""

    path = STANDARD

    def __init__(self) -> None:
        """Check that it may be written to; raises InvalidCommand for a terminal, FileUnusable if it is closed."""
        if sys.stdout is None:
            raise FileUnusable("cannot write standard output (it is closed)", fix="open it, or name a file", path=STANDARD)
        if sys.stdout.isatty():
            raise InvalidCommand(
                "an array is to go to standard output, which is a terminal", fix="send it into a file or a pipe, or name a file"
            )

    def __enter__(self) -> StandardOutput:
        """Put standard error in its place, also for what drivers and libraries print."""
        sys.stdout.flush()
        self._file = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        return self

    def write(self, array: NDArray[Any]) -> None:
        """Write an array as ``.npy``; raises OSError."""
        np.save(_Writing(self._file), array, allow_pickle=False)  # numpy asks a pipe for its position
        self._file.flush()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Put it back."""
        with suppress(OSError):
            sys.stdout.flush()
        os.dup2(self._file.fileno(), 1)
        try:
            self._file.close()
        except OSError:
            if error is None:
                raise


class _Writing:
    """A file of which only ``write`` is known, so that numpy takes no shortcut."""

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write


_PROGRAM_MAGIC = b"VYRE"
_SPIRV_MAGICS = (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03")  # in either byte order


def add_shader(parser: argparse.ArgumentParser, *, takes_programs: bool = False, is_optional: bool = False) -> None:
    """Add the shader's file and ``--entry``."""
    program = "a .vyre file with a program, " if takes_programs else ""
    parser.add_argument(
        "shader",
        nargs="?" if is_optional else None,
        metavar="SHADER",
        help="a GLSL file (.comp, through glslangValidator), a .spv file, "
        f"{program}an included shader's name, or - for standard input",
    )
    parser.add_argument("--entry", metavar="NAME", help="entry point (default: the only one, or main)")


def load_shader(given: str, entry: str | None) -> SpirvModule:
    """Read a shader: ``.spv`` by its suffix, other files as GLSL, standard input by its first bytes, or an included one.

    Raises what ``SpirvModule.from_file`` and ``from_glsl`` raise, and FileUnusable for a name of neither a file nor a shader.
    """
    from vyre_driver.spirv import SpirvModule  # late: verbs without a shader need none

    if given == STANDARD:
        return _module_of(read_stdin("a shader"), entry)
    if is_included(given):
        return _included(given, entry)
    path = Path(given)
    is_binary = path.suffix == ".spv"
    return SpirvModule.from_file(path, entry=entry) if is_binary else SpirvModule.from_glsl(path, entry=entry)


def load_code(given: str, entry: str | None) -> SpirvModule | Program:
    """Read a shader, or a program in a wire container: a file by the suffix ``.vyre``, what is piped by its first bytes.

    Raises what ``load_shader`` raises, InvalidContainer for bytes that are no program, InvalidCommand for one with an entry.
    """
    if given == STANDARD:
        data = read_stdin("a shader")
        if data[:4] != _PROGRAM_MAGIC:
            return _module_of(data, entry)
    elif Path(given).suffix == ".vyre":
        data = read_bytes(Path(given))
    else:
        return load_shader(given, entry)
    if entry is not None:
        raise InvalidCommand("a program has no entry points, and --entry names one", fix="leave --entry out")
    from vyre_driver.ir.program import Program  # late: most run shaders

    return Program.from_wire(data)


def is_included(given: str) -> bool:
    """Return whether a shader on the command line is meant as the name of an included one, not of a file."""
    return given != STANDARD and not Path(given).suffix and os.sep not in given and not os.path.lexists(given)


def _module_of(data: bytes, entry: str | None) -> SpirvModule:
    """Return the module in what was piped in: SPIR-V or GLSL."""
    from vyre_driver.spirv import SpirvModule
    from vyre_driver.spirv.glsl import compile_glsl

    name = "standard input"
    if data[:4] in _SPIRV_MAGICS:
        return SpirvModule.from_bytes(data, name=name, entry=entry)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FileUnusable(
            f"standard input is neither SPIR-V nor GLSL text ({error})", fix="pipe a shader into it", path=STANDARD
        ) from error
    return SpirvModule.from_bytes(compile_glsl(text, name=name), name=name, entry=entry)


def _included(name: str, entry: str | None) -> SpirvModule:
    from vyre_driver.spirv.shipped import shipped_module, shipped_names

    names = shipped_names()
    if name in names:
        return replace(shipped_module(name), entry=entry)
    near = nearest(name, names)
    fix = f"write {near[0]}" if near else "name a file"
    raise FileUnusable(
        f"there is no file {name}, and no included shader of that name",
        fix=f"{fix}, or one of vyre-driver run --list",
        path=name,
    )
