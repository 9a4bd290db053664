"""``vyre-driver stub``: a shader's kernel as a ``.pyi``, for type checkers and editors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.cli.files import OutputFile
from vyre_driver.cli.options import add_json, add_shader, load_shader, print_json, say
from vyre_driver.spirv.stub import stub_of

if TYPE_CHECKING:
    import argparse


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = verbs.add_parser("stub", help="write a shader's kernel as a Python stub", allow_abbrev=False)
    add_shader(parser)
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="where it goes (default: beside the shader, as .pyi; - prints it)"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the stub, or print it."""
    text = stub_of(load_shader(options.shader, options.entry))
    if options.out == Path("-"):
        say(text, end="")
        return 0
    path = options.out or options.shader.with_suffix(".pyi")
    with OutputFile(path) as file:
        file.write_text(text)
    if options.json:
        print_json({"shader": str(options.shader), "stub": str(path)})
    else:
        say(path)
    return 0
