"""The command line: one module for each verb.

Exit status: 0 done, 1 a result was wrong, 2 something given or missing stopped it (one line on stderr with the error's code and
what to do), 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import shlex
import sys
import warnings
from typing import TYPE_CHECKING, Any, NoReturn

from vyre_driver._version import __version__
from vyre_driver.cli.options import printable, say
from vyre_driver.errors import FileUnusable, InvalidCommand, VyreError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

PROGRAM = "vyre-driver"
VERBS = ("doctor", "devices", "run", "spirv", "stub", "demo", "cache", "tune", "conform", "metrics")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of printing usage, so that every error looks the same."""
        raise InvalidCommand(f"the command line is wrong: {message}", fix=f"see {self.prog} --help")


class _PrintIncludes(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:  # noqa: ANN401 -- argparse's
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print ``-I`` and the directory, quoted for a shell."""
        from vyre_driver.embedding import get_include

        say(f"-I{shlex.quote(get_include())}")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status; ``arguments`` are those after the program's name."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = _Parser(prog=PROGRAM, description="Vulkan compute: shaders and arrays in, results out.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    parser.add_argument("--includes", action=_PrintIncludes, help="print the compiler's option for vyre_driver.h, and stop")
    verbs = parser.add_subparsers(required=True, metavar="VERB", parser_class=_Parser)
    for verb in _verbs(given):
        verb.add_parser(verbs)
    if isinstance(sys.stdout, io.TextIOWrapper):  # names need not fit the terminal's encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        options = parser.parse_args(given)
        with warnings.catch_warnings():
            warnings.showwarning = _warn  # type: ignore[assignment] # users need not see where it comes from
            status: int = options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
    except VyreError as error:
        _complain(error)
        return 2
    except KeyboardInterrupt:
        say(f"{PROGRAM}: interrupted", on_stderr=True)
        return 130
    except BrokenPipeError:
        _silence_stdout()
        return 1
    except OSError as error:
        # Files a verb reads and writes raise FileUnusable; what is left is standard output.
        _silence_stdout()
        reason = FileUnusable(f"cannot write standard output ({error.strerror})", fix="free some space")
        _complain(reason)
        return 2
    return status


def _verbs(given: Sequence[str]) -> list[ModuleType]:
    """Import the verb that these arguments begin with, or all of them where they begin otherwise; importing one takes long."""
    if given and given[0] in {"--version", "--includes"}:
        return []
    wanted = given[:1] if given and given[0] in VERBS else VERBS
    return [_verb(name) for name in wanted]


def _verb(name: str) -> ModuleType:
    """Import a verb; those that run something on a device are here, the others in ``_verb_without_device``."""
    match name:
        case "conform":
            from vyre_driver.cli import conform

            return conform
        case "demo":
            from vyre_driver.cli import demo

            return demo
        case "doctor":
            from vyre_driver.cli import doctor

            return doctor
        case "run":
            from vyre_driver.cli import run

            return run
        case "tune":
            from vyre_driver.cli import tune

            return tune
    return _verb_without_device(name)


def _verb_without_device(name: str) -> ModuleType:
    match name:
        case "cache":
            from vyre_driver.cli import cache

            return cache
        case "devices":
            from vyre_driver.cli import devices

            return devices
        case "metrics":
            from vyre_driver.cli import metrics

            return metrics
        case "spirv":
            from vyre_driver.cli import spirv

            return spirv
        case _:
            from vyre_driver.cli import stub

            return stub


def _complain(error: VyreError) -> None:
    """Print an error as one line, whatever names are in it."""
    say(f"{PROGRAM}: error {error.code}: {printable(error)}", on_stderr=True)


def _warn(message: Warning | str, *_: object) -> None:
    """Print a warning as one line."""
    say(f"{PROGRAM}: warning: {printable(message)}", on_stderr=True)


def _silence_stdout() -> None:
    """Keep the interpreter from complaining when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
