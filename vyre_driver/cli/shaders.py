"""The SHADER of a command line: a file, the name of an included shader, or standard input."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.cli.files import STANDARD, read_bytes, read_stdin
from vyre_driver.cli.options import nearest
from vyre_driver.errors import FileUnusable, InvalidCommand

if TYPE_CHECKING:
    import argparse

    from vyre_driver.ir.program import Program
    from vyre_driver.spirv import SpirvModule

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
