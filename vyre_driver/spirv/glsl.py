"""Compile GLSL to SPIR-V with glslangValidator, the system's or a wheel's, in a child process."""

from __future__ import annotations

import codecs
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from vyre_driver.errors import FileUnusable, InvalidInput, ShaderSyntaxError, ToolUnavailable
from vyre_driver.process.tools import GLSLANG, Tool, find_tool, not_installed
from vyre_driver.process.workers import ChildTimeout
from vyre_driver.spirv.includes import MAX_SOURCE_BYTES, gather

UNNAMED = "<source>"
"""What messages call a source that is given as text, without a name."""
TARGET = "vulkan1.1"  # what kompute's instance asks for
_TIMEOUT_S = 120
_MOST_SHOWN = 40
_FIRST_VERSION = 420  # that has compute shaders
_PATH = re.compile(r"[^\n{}();#]+\.(comp|glsl|spv)")
_VERSION = re.compile(rb"^[ \t]*#[ \t]*version\b[ \t]*([0-9]{0,9})[^\n]*", re.MULTILINE)
_DEFINE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def compile_glsl(source: str | Path, defines: Mapping[str, object] | None = None, name: str | None = None) -> bytes:
    """Compile a compute shader, given as its text or as the path of a file, to SPIR-V for Vulkan 1.1.

    ``defines`` are preprocessor definitions, name to value. ``name`` stands for the source in messages, instead of its path or
    ``<source>``. A file may include files of its own directory (``#include``), a text none.

    Raises
    ------
    ToolUnavailable
        If glslangValidator is not installed, cannot be run, or does not finish in 120 s.
    FileUnusable
        If ``source`` is a path that cannot be read, or has over 16 MiB, or so is a file that it includes.
    ShaderSyntaxError
        If the source does not compile; the message holds the compiler's lines. Or it has no ``#version`` of compute shaders, or
        includes what is elsewhere.
    InvalidInput
        If ``source`` is neither, or a name in ``defines`` is not an identifier.
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
    return _run(tool, text, name, gather(seen, name, directory), flags)


def _check_text(source: str) -> None:
    """Check that a text is not the path of a file; raises InvalidInput."""
    path = source.strip()
    if _PATH.fullmatch(path):
        made = "SpirvModule.from_file" if path.endswith(".spv") else "SpirvModule.from_glsl"
        given = repr(path) if path.endswith(".spv") else f"pathlib.Path({path!r})"
        raise InvalidInput(
            f"the GLSL source is {path!r}, which is the path of a file and not its text", fix=f"call {made}({given})"
        )


def _read(path: Path) -> bytes:
    """Return the text of a file in UTF-8; raises FileUnusable."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_SOURCE_BYTES + 1)
        text.decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileUnusable(f"cannot read {path} ({reason})", fix="name a GLSL text file", path=str(path)) from error
    if len(text) > MAX_SOURCE_BYTES:
        fix = "name a GLSL text file, not other data"
        raise FileUnusable(f"{path} is larger than {MAX_SOURCE_BYTES} bytes", fix=fix, path=str(path))
    return text


def _define_flags(defines: Mapping[str, object]) -> list[str]:
    if not isinstance(defines, Mapping):
        raise InvalidInput(f"defines is of type {type(defines).__name__}", fix="pass a dictionary from names to values")
    for name in defines:
        if not isinstance(name, str) or not _DEFINE.fullmatch(name):
            raise InvalidInput(f"{name!r} is not a preprocessor name", fix="use letters, digits and underscores", define=name)
        if "\0" in str(defines[name]):
            raise InvalidInput(f"the value of {name!r} holds a NUL character", fix="leave it out", define=name)
    return [f"-D{name}={value}" for name, value in defines.items()]


def _run(tool: Tool, text: bytes, name: str, included: Mapping[str, bytes], flags: list[str]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="vyre-glsl-") as directory:
        output, sources = Path(directory, "shader.spv"), Path(directory, "sources")
        sources.mkdir()
        for path, data in included.items():
            (sources / path).parent.mkdir(parents=True, exist_ok=True)
            (sources / path).write_bytes(data)
        arguments = ["--stdin", "-V", "--target-env", TARGET, "-S", "comp", *flags, "-o", str(output)]
        try:
            done = tool.run(arguments, text, _TIMEOUT_S, cwd=sources)
        except ChildTimeout as error:
            raise ToolUnavailable(
                f"{GLSLANG} did not finish {name} in {_TIMEOUT_S} s",
                fix="simplify the shader, or pass a .spv file",
                tool=GLSLANG,
            ) from error
        if done.returncode != 0 or not output.exists():
            raise _refused(text, name, _complaint((done.stdout + done.stderr).decode("utf-8", "replace"), name))
        return output.read_bytes()


def _refused(text: bytes, name: str, complaint: str) -> ShaderSyntaxError:
    """Return why a source does not compile; the compiler's own lines do not say what a wrong or missing version is."""
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
    return ShaderSyntaxError(f"{name} does not compile: {complaint}", fix=fix, source=name)


def _complaint(output: str, name: str) -> str:
    """Keep the compiler's ERROR lines, with the file's name where it wrote ``stdin`` or a bare 0."""
    lines = [line.removeprefix("ERROR: ").rstrip() for line in output.splitlines() if line.startswith("ERROR: ")]
    lines = [re.sub(r"^(stdin|0):(?=\d)", lambda _: f"{name}:", line) for line in lines]
    return "; ".join(line for line in lines if "compilation errors" not in line) or output.strip() or "no reason given"
