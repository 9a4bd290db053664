"""``vyre-driver completion``: the script by which a shell completes verbs and options, made by shtab from the parsers."""

from __future__ import annotations

import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vyre_driver.cli.options import add_json, tell

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from vyre_driver.cli.parser import Verb

SHELLS = ("bash", "zsh", "fish")
_FILES = {"SHADER", "FILE", "PATH"}
_DIRECTORIES = {"DIR", "DIRECTORY"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    import shtab  # late: what the script is made of imports this module's add_arguments

    parser = options.parser_of(options.verbs)
    _mark(parser, options.verbs)
    script = shtab.complete(parser, options.shell)
    if options.json:
        tell(options, {"shell": options.shell, "script": script})
    elif sys.stdout is not None:  # as it is where it was closed
        sys.stdout.write(script)  # with its tabs
    return 0


def _mark(parser: argparse.ArgumentParser, verbs: Mapping[str, Verb] = MappingProxyType({})) -> None:
    """Have what takes a file or a directory complete it, and verbs show what they do in a few words."""
    import shtab

    for action in parser._actions:  # noqa: SLF001 -- argparse has no other way to see them, and shtab goes it too
        complete = shtab.FILE if action.metavar in _FILES else shtab.DIRECTORY if action.metavar in _DIRECTORIES else None
        if complete is not None:
            setattr(action, "complete", complete)  # noqa: B010 -- shtab's mark, of which argparse's types know nothing
        below: Any = action.choices
        for name, one in below.items() if isinstance(below, dict) else ():
            if name in verbs:
                one.description = verbs[name].about  # shtab shows it beside the name
            _mark(one)
