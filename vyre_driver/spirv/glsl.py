"""Compile GLSL to SPIR-V with glslangValidator, the system's or a wheel's, in a child process.

A compiler opens whatever ``#include`` names: files of the working directory and above it, or a FIFO that never ends. Here the
files that a source includes are gathered before, only those in the shader's own directory: the names are judged first, a link
that leads out of the directory is refused as ``..`` is, and regular files are read within a limit. The compiler gets copies of
them in a directory of its own.

What looks like a directive is judged as one, also in a comment or after ``#if 0``: a name that nothing reads does no harm.
"""

from __future__ import annotations

import codecs
import math
import os
import re
import signal
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.checks import integer
from vyre_driver.errors import FileUnusable, InvalidInput, ShaderSyntaxError, ToolUnavailable
from vyre_driver.process._opened import Opened
from vyre_driver.process.tools import GLSLANG, Tool, find_tool, not_installed
from vyre_driver.process.workers import ChildTimeout, Ended

if TYPE_CHECKING:
    from typing import BinaryIO


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


UNNAMED = "<source>"
"""What messages call a source that is given as text, without a name."""
TARGET = "vulkan1.1"  # what kompute's instance asks for
_TIMEOUT_S = 120
_MOST_SHOWN = 40
_FIRST_VERSION = 420  # that has compute shaders
_PATH = re.compile(r"[^\n{}();#]+\.(comp|glsl|spv)")
_VERSION = re.compile(rb"^[ \t]*#[ \t]*version\b[ \t]*([0-9]{0,9})[^\n]*", re.MULTILINE)
_DEFINE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A backslash before the end of a line joins two lines, also within the two characters that begin or end a comment.
_COMMENT = re.compile(
    rb"/(?:\\(?:\r\n|\r|\n))*(?:/(?:\\(?:\r\n|\r|\n)|[^\r\n])*|\*.*?(?:\*(?:\\(?:\r\n|\r|\n))*/|\Z))", re.DOTALL
)
_HEADER_NAME = re.compile(r"header name: ([^\s;]+)")
_WITHOUT_FILES = "/proc/self/ns"  # a directory in which no name is a file that can be read as text
_LOWEST_INT, _HIGHEST_INT, _HIGHEST_UINT = -(1 << 31), (1 << 31) - 1, (1 << 32) - 1
_INFINITE_AS_FLOAT32 = 2.0**128 - 2.0**103
_NEITHER_NUMBER_NOR_TEXT = (type(None), bytes, bytearray, complex, list, tuple, dict, set)
_MOST_SIGNALS = 64


def compile_glsl(source: str | Path, defines: Mapping[str, object] | None = None, name: str | None = None) -> bytes:
    """Compile a compute shader, given as its text or as the path of a file, to SPIR-V for Vulkan 1.1.

    ``defines`` are preprocessor definitions, name to value. ``name`` stands for the source in messages, instead of its path or
    ``<source>``. A file may include files of its own directory (``#include``), a text none.

    Raises
    ------
    ToolUnavailable
        If glslangValidator is not installed, cannot be run, or does not finish in 120 s.
    FileUnusable
        If ``source`` is a path that cannot be read, or has over 16 MiB, or so is a file that it includes; or where there is no
        temporary directory for what it includes.
    ShaderSyntaxError
        If the source does not compile; the message holds the compiler's lines. Or it has no ``#version`` of compute shaders, or
        includes what is elsewhere.
    InvalidInput
        If ``source`` is neither, a name in ``defines`` is not an identifier, or GLSL cannot write a value.
    """
    if isinstance(source, str):
        _check_text(source)
    tool = find_tool(GLSLANG)
    if tool is None:
        raise not_installed(GLSLANG, "GLSL is compiled with it")
    directory = None
    if isinstance(source, Path):
        text, name, directory = _read(source), name or str(source), source.parent
    elif isinstance(source, str):
        text, name = source.encode("utf-8", "replace"), name or UNNAMED
        if len(text) > MAX_SOURCE_BYTES:
            raise InvalidInput(
                f"a GLSL source of {len(text)} bytes is over the limit of {MAX_SOURCE_BYTES} bytes", fix="pass a shorter one"
            )
    else:
        raise InvalidInput(
            f"a GLSL source of type {type(source).__name__} is neither text nor a path", fix="pass its text, or a Path"
        )
    flags = _define_flags(defines or {})
    if not text.strip():
        raise ShaderSyntaxError(f"{name} is empty", fix="give the source of a compute shader", source=name)
    # A definition of several lines can hold a directive.
    seen = b"\n".join([*(one.encode("utf-8", "replace") for one in flags), text])
    included = gather(seen, name, directory)
    done, code = _run(tool, text, name, included, flags)
    if done.returncode != 0 or not code:
        raise _refused(text, name, included, done)
    return code


def _check_text(source: str) -> None:
    """Check that a text is not the path of a file; raises InvalidInput."""
    path = source.strip()
    if _PATH.fullmatch(path):
        made = "SpirvModule.from_file" if path.endswith(".spv") else "SpirvModule.from_glsl"
        given = repr(path) if path.endswith(".spv") else f"pathlib.Path({path!r})"
        raise InvalidInput(
            f"the GLSL source is {path!r}, which is the path of a file and not its text", fix=f"call {made}({given})"
        )


def read_file(path: Path, most_bytes: int, what: str) -> bytes:
    """Return what is in a file.

    Raises
    ------
    FileUnusable
        If it cannot be read, or is larger; ``what`` says what to name instead.
    """
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileUnusable(f"cannot read {path} ({reason})", fix=f"name {what}", path=str(path)) from error
    if len(data) > most_bytes:
        fix = f"name {what}, not other data"
        raise FileUnusable(f"{path} is larger than {most_bytes} bytes", fix=fix, path=str(path))
    return data


def _read(path: Path) -> bytes:
    """Return the text of a file: UTF-8, but any bytes other than NUL in comments (GLSL 4.60, 3.1); raises FileUnusable."""
    text = read_file(path, MAX_SOURCE_BYTES, "a GLSL text file")
    wrong = _wrong_byte(text)
    if wrong is not None:
        line = text.count(b"\n", 0, wrong) + 1
        where = f"line {line} has the byte 0x{text[wrong]:02x}"
        reason = where if text[wrong] == 0 else f"{where} outside a comment, which is not UTF-8"
        fix = "name a GLSL text file, and save it as UTF-8"
        raise FileUnusable(f"cannot read {path} ({reason})", fix=fix, path=str(path))
    return text


def _wrong_byte(text: bytes) -> int | None:
    """Return the place of the first byte that is NUL, or outside comments and not UTF-8; None without one."""
    nul = text.find(0)
    before = text if nul < 0 else text[:nul]
    try:
        _COMMENT.sub(lambda found: b" " * len(found[0]), before).decode()
    except UnicodeDecodeError as error:
        return error.start
    return None if nul < 0 else nul


def _define_flags(defines: Mapping[str, object]) -> list[str]:
    if not isinstance(defines, Mapping):
        raise InvalidInput(f"defines is of type {type(defines).__name__}", fix="pass a dictionary from names to values")
    for name in defines:
        if not isinstance(name, str) or not _DEFINE.fullmatch(name):
            raise InvalidInput(f"{name!r} is not a preprocessor name", fix="use letters, digits and underscores", define=name)
        if "\0" in str(defines[name]):
            raise InvalidInput(f"the value of {name!r} holds a NUL character", fix="leave it out", define=name)
    return [f"-D{name}={_literal(name, value)}" for name, value in defines.items()]


def _literal(name: str, value: object) -> str:
    """Return a value as GLSL writes it: a truth value as 1 or 0, which ``#if`` takes too, an integer over i32 as uint.

    Raises InvalidInput for an integer of more than 32 bits, a float that is infinite as float32, NaN, and what is no number.
    """
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    if isinstance(value, _NEITHER_NUMBER_NOR_TEXT) or (isinstance(value, np.ndarray) and value.ndim):
        raise InvalidInput(
            f"the value of {name!r} is of type {type(value).__name__}", fix="give a number, True, False or text", define=name
        )
    number = integer(value)
    if number is not None and not _LOWEST_INT <= number <= _HIGHEST_UINT:
        raise InvalidInput(
            f"the value of {name!r} is {number}, and an integer of GLSL has 32 bits",
            fix=f"give one from {_LOWEST_INT} to {_HIGHEST_UINT}, or text",
            define=name,
        )
    if isinstance(value, (float, np.floating)) and not math.isfinite(value):
        raise InvalidInput(
            f"the value of {name!r} is {value}, for which GLSL has no literal",
            fix="give an expression as text, such as '(1.0 / 0.0)'",
            define=name,
        )
    if isinstance(value, (float, np.floating)) and abs(float(value)) >= _INFINITE_AS_FLOAT32:
        raise InvalidInput(
            f"the value of {name!r} is {value}, and a float of GLSL is 3.4028235e+38 at most",
            fix=f"give a smaller number, or a double as text: '{value}lf'",
            define=name,
        )
    return f"{number}u" if number is not None and number > _HIGHEST_INT else str(value)


def _run(tool: Tool, text: bytes, name: str, included: Mapping[str, bytes], flags: list[str]) -> tuple[Ended, bytes]:
    """Return how the compiler ended, and what it wrote; raises as ``compile_glsl``."""
    arguments = ["--stdin", "-V", "--target-env", TARGET, "-S", "comp", *flags]
    try:
        output = None if included else _memory_file()
        if output is not None:
            return _run_in_memory(tool, text, output, arguments)
        return _run_in_directory(tool, text, included, arguments)
    except ChildTimeout as error:
        raise ToolUnavailable(
            f"{GLSLANG} did not finish {name} in {_TIMEOUT_S} s", fix="simplify the shader, or pass a .spv file", tool=GLSLANG
        ) from error
    except ToolUnavailable:  # which is an OSError too
        raise
    except OSError as error:
        raise FileUnusable(
            f"cannot compile {name}: no temporary directory can be written to ({error.strerror})",
            fix="set TMPDIR to a directory that can be written to and has room, or pass a source without #include",
        ) from error


def _memory_file() -> BinaryIO | None:
    """Return a file in memory that a child can open by its name in /proc; None where there is none, or no /proc."""
    try:
        return os.fdopen(os.memfd_create("vyre-glsl"), "rb") if Path(_WITHOUT_FILES).is_dir() else None
    except OSError:  # a kernel or a sandbox that has none
        return None


def _run_in_memory(tool: Tool, text: bytes, output: BinaryIO, arguments: list[str]) -> tuple[Ended, bytes]:
    """Run it on a source without files, with nothing written to a disk: the root of a container may be read-only."""
    with output:
        number = output.fileno()
        arguments = [*arguments, "-o", f"/proc/self/fd/{number}"]
        done = tool.run(arguments, text, _TIMEOUT_S, cwd=_WITHOUT_FILES, pass_fds=(number,))
        return done, output.read()


def _run_in_directory(tool: Tool, text: bytes, included: Mapping[str, bytes], arguments: list[str]) -> tuple[Ended, bytes]:
    """Run it in a directory with copies of what the source includes."""
    with tempfile.TemporaryDirectory(prefix="vyre-glsl-") as directory:
        output, sources = Path(directory, "shader.spv"), Path(directory, "sources")
        sources.mkdir()
        for path, data in included.items():
            (sources / path).parent.mkdir(parents=True, exist_ok=True)
            (sources / path).write_bytes(data)
        done = tool.run([*arguments, "-o", str(output)], text, _TIMEOUT_S, cwd=sources)
        return done, output.read_bytes() if output.exists() else b""


def _signal_of(status: int) -> int | None:
    """Return the signal that ended a program, by its own status or that of a script which passes it on; None for an exit."""
    for number in (-status, status - 128, 256 - status):  # of Popen, of a shell, of Python's sys.exit
        if 0 < number <= _MOST_SIGNALS:
            return number
    return None


def _refused(text: bytes, name: str, included: Mapping[str, bytes], done: Ended) -> ShaderSyntaxError:
    """Return why a source does not compile; the compiler's own lines do not say what a wrong or missing version is."""
    output = (done.stdout + done.stderr).decode("utf-8", "replace")
    killer = _signal_of(done.returncode)
    if killer is not None and "ERROR: " not in output:
        return ShaderSyntaxError(
            f"{name} does not compile: {GLSLANG} was killed by signal {killer}{_named_signal(killer)}",
            fix="split its longest and deepest expressions, or compile it elsewhere and pass a .spv file",
            source=name,
        )
    return _refused_by_compiler(text, name, included, _complaint(output, name))


def _named_signal(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:  # of real time
        return ""


def _refused_by_compiler(text: bytes, name: str, included: Mapping[str, bytes], complaint: str) -> ShaderSyntaxError:
    version, is_too_old = _VERSION.search(text), "compute shaders require" in complaint
    if text.startswith(codecs.BOM_UTF8):
        return ShaderSyntaxError(
            f"{name} begins with a byte order mark, which is no GLSL", fix="save it as UTF-8 without one", source=name
        )
    if is_too_old and (version is None or int(version[1] or 0) >= _FIRST_VERSION):  # in a comment, say
        return ShaderSyntaxError(
            f"{name} has no #version line; without one GLSL is version 1.10, which has no compute shaders",
            fix="make #version 450 its first line",
            source=name,
        )
    if version is not None and is_too_old:
        written = version[0].strip().decode("utf-8", "replace")[:_MOST_SHOWN]
        return ShaderSyntaxError(
            f"{name} has {written!r}, a version without compute shaders", fix="write #version 450", source=name
        )
    fix = "correct the source at the line named"
    if "'#version' : must occur first" in complaint:
        fix = "move #version above all else but comments"
    elif "'#include' : Could not" in complaint:
        fix = "put what it includes in the shader's own directory, and pass the shader as a Path"
        header = _HEADER_NAME.search(complaint)
        if header is not None and any(os.fsencode(f"<{header[1]}>") in one for one in (text, *included.values())):
            fix = f'write #include "{header[1]}" with quotes, for no directory is searched for a name in <>'
    elif "unexpected token" in complaint:
        marked = [path for path, data in included.items() if data.startswith(codecs.BOM_UTF8)]
        if marked:
            fix = f"save {marked[0]}, which it includes, as UTF-8 without a byte order mark"
    return ShaderSyntaxError(f"{name} does not compile: {complaint}", fix=fix, source=name)


def _complaint(output: str, name: str) -> str:
    """Keep the compiler's ERROR lines, with the file's name where it wrote ``stdin`` or a bare 0."""
    lines = [line.removeprefix("ERROR: ").rstrip() for line in output.splitlines() if line.startswith("ERROR: ")]
    lines = [re.sub(r"^(stdin|0):(?=\d)", lambda _: f"{name}:", line) for line in lines]
    return "; ".join(line for line in lines if "compilation errors" not in line) or output.strip() or "no reason given"
