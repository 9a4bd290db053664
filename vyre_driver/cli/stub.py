"""``vyre-driver stub``: a shader's kernel as a ``.pyi``, for type checkers and editors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.cli.files import STANDARD, add_shader, load_shader, unwritable
from vyre_driver.cli.options import add_json, printable, say, tell
from vyre_driver.process.whole_files import write_whole
from vyre_driver.spirv.stub import stub_of

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    add_shader(parser)
    where = "where it goes (default: beside the shader, as .pyi; - prints it, as it does a piped shader's)"
    parser.add_argument("--out", metavar="FILE", help=where)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Write the stub, or print it."""
    text = stub_of(load_shader(options.shader, options.entry))
    if (options.out or options.shader) == STANDARD:
        say(text, end="")
        return 0
    path = Path(options.shader).with_suffix(".pyi") if options.out is None else Path(options.out)
    try:
        write_whole(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise unwritable(path, error) from error
    tell(options, {"shader": options.shader, "stub": str(path)}, printable(path))
    return 0
