"""The SHADER of a command line: a file, the name of an included shader, or standard input."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.cli.files import STANDARD, read_stdin
from vyre_driver.cli.options import nearest
from vyre_driver.errors import FileUnusable

if TYPE_CHECKING:
    import argparse

    from vyre_driver.spirv import SpirvModule

_SPIRV_MAGICS = (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03")  # in either byte order


def add_shader(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """Add the shader's file and ``--entry``."""
    parser.add_argument(
        "shader",
        nargs="?" if is_optional else None,
        metavar="SHADER",
        help="a GLSL file (.comp, through glslangValidator), a .spv file, an included shader's name, or - for standard input",
    )
    parser.add_argument("--entry", metavar="NAME", help="entry point (default: the only one, or main)")


def load_shader(given: str, entry: str | None) -> SpirvModule:
    """Read a shader: ``.spv`` by its suffix, other files as GLSL, standard input by its first bytes, or an included one.

    Raises what ``SpirvModule.from_file`` and ``from_glsl`` raise, and FileUnusable for a name of neither a file nor a shader.
    """
    from vyre_driver.spirv import SpirvModule  # late: verbs without a shader need none

    if given == STANDARD:
        return _from_stdin(entry)
    if is_included(given):
        return _included(given, entry)
    path = Path(given)
    is_binary = path.suffix == ".spv"
    return SpirvModule.from_file(path, entry=entry) if is_binary else SpirvModule.from_glsl(path, entry=entry)


def is_included(given: str) -> bool:
    """Return whether a shader on the command line is meant as the name of an included one, not of a file."""
    return given != STANDARD and not Path(given).suffix and os.sep not in given and not os.path.lexists(given)


def _from_stdin(entry: str | None) -> SpirvModule:
    from vyre_driver.spirv import SpirvModule
    from vyre_driver.spirv.glsl import compile_glsl

    data = read_stdin("a shader")
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
