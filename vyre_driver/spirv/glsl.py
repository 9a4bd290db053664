"""GLSL -> SPIR-V, through glslangValidator as a child process."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from vyre_driver.errors import FileUnusable, InvalidInput, ShaderSyntaxError, ToolUnavailable

TOOL = "glslangValidator"
TARGET = "vulkan1.1"  # what kompute's instance asks for
_TIMEOUT_S = 120
_DEFINE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def compile_glsl(source: str | Path, defines: Mapping[str, object] | None = None) -> bytes:
    """Compile a compute shader, given as its text or as the path of a file, to SPIR-V for Vulkan 1.1.

    ``defines`` are preprocessor definitions, name to value.

    Raises
    ------
    ToolUnavailable
        2301 if glslangValidator is not installed, or does not finish in 120 s.
    FileUnusable
        2202 if ``source`` is a path that cannot be read.
    ShaderSyntaxError
        2302 if the source does not compile; the message holds the compiler's lines.
    InvalidInput
        2201 if ``source`` is neither, or a name in ``defines`` is no identifier.
    """
    tool = shutil.which(TOOL)
    if tool is None:
        raise ToolUnavailable(
            f"{TOOL} is not installed, and GLSL is compiled with it",
            fix="install it (on Debian: apt-get install glslang-tools), or pass a .spv file",
            tool=TOOL,
        )
    if isinstance(source, Path):
        try:
            text, name = source.read_text("utf-8"), str(source)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise FileUnusable(f"cannot read {source} ({reason})", fix="name a GLSL text file", path=str(source)) from error
    elif isinstance(source, str):
        text, name = source, "<source>"
    else:
        raise InvalidInput(
            f"a GLSL source of type {type(source).__name__} is neither text nor a path", fix="pass its text, or a Path"
        )
    return _run(tool, text, name, _define_flags(defines or {}))


def _define_flags(defines: Mapping[str, object]) -> list[str]:
    if not isinstance(defines, Mapping):
        raise InvalidInput(f"defines is of type {type(defines).__name__}", fix="pass a dictionary from names to values")
    for name in defines:
        if not isinstance(name, str) or not _DEFINE.fullmatch(name):
            raise InvalidInput(f"{name!r} is no preprocessor name", fix="use letters, digits and underscores", define=name)
        if "\0" in str(defines[name]):
            raise InvalidInput(f"the value of {name!r} holds a NUL character", fix="leave it out", define=name)
    return [f"-D{name}={value}" for name, value in defines.items()]


def _run(tool: str, text: str, name: str, flags: list[str]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="vyre-glsl-") as directory:
        output = Path(directory, "shader.spv")
        command = [tool, "--stdin", "-V", "--target-env", TARGET, "-S", "comp", *flags, "-o", str(output)]
        try:
            done = subprocess.run(
                command, input=text, capture_output=True, encoding="utf-8", errors="replace", timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ToolUnavailable(
                f"{TOOL} did not finish {name} in {_TIMEOUT_S} s", fix="simplify the shader, or pass a .spv file", tool=TOOL
            ) from error
        if done.returncode != 0 or not output.exists():
            raise ShaderSyntaxError(
                f"{name} does not compile: {_complaint(done.stdout + done.stderr, name)}",
                fix="correct the source at the line named",
                source=name,
            )
        return output.read_bytes()


def _complaint(output: str, name: str) -> str:
    """Keep the compiler's ERROR lines, with the file's name where it wrote ``stdin`` or a bare 0."""
    lines = [line.removeprefix("ERROR: ").rstrip() for line in output.splitlines() if line.startswith("ERROR: ")]
    lines = [re.sub(r"^(stdin|0):(?=\d)", lambda _: f"{name}:", line) for line in lines]
    return "; ".join(line for line in lines if "compilation errors" not in line) or output.strip() or "no reason given"
