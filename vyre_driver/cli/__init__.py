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

from vyre_driver._loading import check_numpy, explained
from vyre_driver._version import __version__
from vyre_driver.cli.options import printable, say
from vyre_driver.errors import FileUnusable, InvalidCommand, VyreError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

PROGRAM = "vyre-driver"
# What each does; the module of its name has ``add_arguments`` and ``run``.
VERBS = {
    "doctor": "examine this machine and say what to repair",
    "devices": "list the Vulkan devices",
    "run": "run a compute shader on files",
    "spirv": "show what a shader declares and needs",
    "stub": "write a shader's kernel as a Python stub",
    "demo": "run three jobs and check their results",
    "cache": "look at the pipeline cache, and keep it in order",
    "tune": "find the best constants of a kernel, and look at what was found",
    "conform": "compare a backend with the reference on random programs",
    "metrics": "print devices and cache as Prometheus text",
}


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:  # noqa: ANN401 -- argparse's
        super().__init__(allow_abbrev=False, **options)

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
    if isinstance(sys.stdout, io.TextIOWrapper):  # names need not fit the terminal's encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        options = _parser(given).parse_args(given)
        with warnings.catch_warnings():
            warnings.showwarning = _warn  # type: ignore[assignment] # users need not see where it comes from
            status: int = options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
    except VyreError as error:
        _complain(error)
        return 2
    except (ImportError, AttributeError) as error:
        told = explained(error)
        if told is None:
            raise
        _complain(told)
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


def _parser(given: Sequence[str]) -> _Parser:
    """Return the parser, which knows of all verbs but that of these arguments the names only: importing one takes long."""
    parser = _Parser(prog=PROGRAM, description="Vulkan compute: shaders and arrays in, results out.")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    parser.add_argument("--includes", action=_PrintIncludes, help="print the compiler's option for vyre_driver.h, and stop")
    verbs = parser.add_subparsers(required=True, metavar="VERB", parser_class=_Parser)
    wanted = next((one for one in given if one in VERBS), None)
    for name, about in VERBS.items():
        of_verb = verbs.add_parser(name, help=about)
        if name == wanted:
            module = _verb(name)
            check_numpy()
            module.add_arguments(of_verb)
            of_verb.set_defaults(run=module.run)
    return parser


def _verb(name: str) -> ModuleType:  # noqa: C901 -- a case a verb
    """Import the module of a verb."""
    verb: ModuleType
    match name:
        case "cache":
            from vyre_driver.cli import cache as verb
        case "conform":
            from vyre_driver.cli import conform as verb
        case "demo":
            from vyre_driver.cli import demo as verb
        case "devices":
            from vyre_driver.cli import devices as verb
        case "doctor":
            from vyre_driver.cli import doctor as verb
        case "metrics":
            from vyre_driver.cli import metrics as verb
        case "run":
            from vyre_driver.cli import run as verb
        case "spirv":
            from vyre_driver.cli import spirv as verb
        case "stub":
            from vyre_driver.cli import stub as verb
        case "tune":
            from vyre_driver.cli import tune as verb
    return verb


def _complain(error: VyreError) -> None:
    """Print an error as one line, whatever names are in it."""
    say(f"{PROGRAM}: error {error.code}: {printable(error)}", on_stderr=True)


def _warn(message: Warning | str, *_: object) -> None:
    """Print a warning as one line."""
    say(f"{PROGRAM}: warning: {printable(message)}", on_stderr=True)


def _silence_stdout() -> None:
    """Keep the interpreter from complaining when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
