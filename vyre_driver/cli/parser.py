"""The parser of the command line, and its verbs: what each does, in a few words and in more, and examples of its use.

It is argparse's, whose errors are raised, name what was nearly written, and end as all others do.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from vyre_driver._loading import check_numpy
from vyre_driver._version import __version__
from vyre_driver.cli.options import nearest, say
from vyre_driver.errors import InvalidCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from types import ModuleType


class Verb(NamedTuple):
    """What ``--help`` says of a verb: ``about`` beside its name in the list, the rest in its own help."""

    about: str
    description: str
    examples: tuple[str, ...]


# The module of its name has ``add_arguments`` and ``run``.
VERBS = {
    "doctor": Verb(
        "examine this machine and say what to repair",
        "Check Python, the package, Vulkan, its drivers, the devices and the caches one\n"
        "by one, run a kernel on each device, and say how to fix what fails. Nothing is\n"
        "changed.",
        ("doctor", "doctor --strict --json"),
    ),
    "explain": Verb(
        "say what an error's code means and what to do",
        "Print the page of an error: what happened, an example of its message, common\n"
        "causes, and what to do. Without a code, list all errors.",
        ("explain 2104", "explain LimitExceeded --json", "explain"),
    ),
    "devices": Verb(
        "list the Vulkan devices",
        "List the Vulkan devices, the one that would be taken first. None is opened.",
        ("devices", "devices --json"),
    ),
    "run": Verb(
        "run a compute shader on files",
        "Run a compute shader once on arrays, and write its results to files. SHADER is\n"
        "a file of GLSL, SPIR-V (.spv) or a program (.vyre), the name of an included\n"
        "shader (--list prints them), or - for standard input.",
        (
            "run saxpy --in x=random:1000 --in y=zeros:1000 --push alpha=2 --push count=1000 --out y=y.npy",
            "run blur.comp --in src=picture.npy --count dst=12707 --invocations 131,97 --out dst=- > blurred.npy",
            "run saxpy --in x=random:1000000 --count y=1000000 --push alpha=2 --push count=1000000 --time",
            "run --list",
        ),
    ),
    "spirv": Verb(
        "show what a shader declares and needs",
        "Show a shader's buffers, constants and entry points, and what it requires of a\ndevice. No device is needed.",
        ("spirv saxpy", "spirv blur.comp --json", "spirv saxpy --disassemble"),
    ),
    "stub": Verb(
        "write a shader's kernel as a Python stub",
        "Write a .pyi file for the kernel of a shader, from which type checkers and\neditors know its buffers and constants.",
        ("stub blur.comp", "stub saxpy --out -"),
    ),
    "kernel": Verb(
        "check kernels that are written in Python, and show one",
        "Translate the kernels of Python files, which are imported, and show what became\nof one. No device is needed.",
        ("kernel check kernels.py", "kernel show kernels.py:saxpy --explain", "kernel show kernels.py:total --with BLOCK=64"),
    ),
    "demo": Verb(
        "run four jobs and check their results",
        "Run four jobs, and again in another process, which shows what the cache saves,\n"
        "and check their results. Where there is no GPU, they run on the CPU.",
        ("demo", "demo --files README.md --out-dir /tmp"),
    ),
    "cache": Verb(
        "look at the pipeline cache, and keep it in order",
        "Inspect and maintain the pipeline cache, and take its entries to another\nmachine.",
        ("cache info", "cache list", "cache prune --max-size 500M --max-age 30"),
    ),
    "tune": Verb(
        "find the best constants of a kernel, and look at what was found",
        "Measure which constants make an included kernel fastest on a device, and\ninspect the records of that.",
        ("tune run saxpy --size 1000000 --seconds 20", "tune list", "tune pin tuned.toml saxpy"),
    ),
    "trace": Verb(
        "run a Python program and write what its drivers did over time",
        "Run a Python program as it is, and write what the drivers that it opens did, by\n"
        "the clocks of host and device, for Perfetto; and print where the time went.\n"
        "It leaves out child processes: trace them too, and join the traces.",
        (
            "trace program.py --size 1000",
            "trace -o run.json.gz --html run.html -m package.module",
            "trace --join server.json worker.json -o both.json",
        ),
    ),
    "conform": Verb(
        "compare a backend with the reference on random programs",
        "Run random and hand-written programs on a backend, and compare the results\nwith the reference interpreter's.",
        ("conform --count 100", "conform --backend cpu-ref --seed 7 --count 20 --no-cases"),
    ),
    "metrics": Verb(
        "print devices and cache as Prometheus text",
        "Print the devices and the cache of this machine as text for Prometheus. No\ndevice is opened.",
        ("metrics",),
    ),
    "top": Verb(
        "show what the drivers of this user's processes do",
        "Show the drivers of processes that run with VYRE_TOP=1: dispatches, failures,\n"
        "memory, traffic, kernels and named buffers; on a terminal again and again until\n"
        "Ctrl-C, in a pipe once.",
        ("top", "top --once", "top --json"),
    ),
    "worker": Verb(
        "work for a Dask scheduler, a process for each GPU",
        "Join a Dask scheduler with a process for each GPU of this host, and work until\n"
        "told to end. An address beyond this host has to be encrypted.",
        (
            "worker tcp://127.0.0.1:8786",
            "worker --make-certificates fleet",
            "worker tls://node0:8786 --tls-ca fleet/cert.pem --tls-cert fleet/cert.pem --tls-key fleet/key.pem",
        ),
    ),
    "completion": Verb(
        "print a script that completes this program's verbs and options in a shell",
        "Print a script with which bash, zsh or fish completes verbs and options. Save\n"
        "it where the shell looks for such scripts.",
        (
            "completion bash > ~/.local/share/bash-completion/completions/vyre-driver",
            'completion zsh > "${fpath[1]}/_vyre-driver"',
            "completion fish > ~/.config/fish/completions/vyre-driver.fish",
        ),
    ),
}


PROGRAM = "vyre-driver"


class Parser(argparse.ArgumentParser):
    """A parser that raises InvalidCommand, with the verb or option that was probably meant."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 -- argparse's
        """Take options whole, and help texts with their line breaks."""
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing usage, so that every error looks the same."""
        raise InvalidCommand(f"the command line is wrong: {message}", fix=f"see {self.prog} --help")

    def _print_message(self, message: str, file: Any = None) -> None:  # noqa: ANN401 -- argparse's
        """Print a text, as that of --help; argparse itself ignores a full disk."""
        if message:
            say(message, end="", on_stderr=file is None or file is sys.stderr)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:  # type: ignore[override] # noqa: ANN401 -- argparse's
        """Parse; what is left over is refused here, where the options are known that may have been meant."""
        options, left = super().parse_known_args(args, namespace)
        if left:
            meant = [near for one in left for near in nearest(one.partition("=")[0], self._option_string_actions)]
            self._refuse(f"unrecognized arguments: {' '.join(left)}", meant)
        return options, left

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a value that is none of the choices, and name the one that is like it."""
        if action.choices is None or value in action.choices:
            return
        name = "/".join(action.option_strings) or action.metavar or action.dest
        choices = [str(one) for one in action.choices]
        known = [*choices, *(one for one in self._option_string_actions if one.startswith("--"))]
        meant = nearest(str(value), known)
        self._refuse(f"argument {name}: {value!r} is none of {', '.join(choices)}", meant)

    def _refuse(self, problem: str, meant: Collection[str]) -> NoReturn:
        fix = f"write {next(iter(meant))}, or see" if meant else "see"
        raise InvalidCommand(f"the command line is wrong: {problem}", fix=f"{fix} {self.prog} --help")


class _Print(argparse.Action):
    """Prints a text that is made when it is asked for, and ends."""

    def __init__(self, text: Callable[[], str], **options: Any) -> None:  # noqa: ANN401 -- argparse's
        super().__init__(nargs=0, **options)
        self.text = text

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print it."""
        say(self.text())
        parser.exit()


def parser_of(wanted: Collection[str]) -> Parser:
    """Return the parser with the arguments of these verbs; of the others it knows names only: importing one takes long."""
    parser = Parser(
        prog=PROGRAM,
        description="Vulkan compute: shaders and arrays in, results out.",
        epilog=f"`{PROGRAM} VERB --help` shows a verb's options and examples.",
    )
    parser.add_argument("-V", "--version", action=_Print, text=version_text, help="print the versions of what runs")
    parser.add_argument("--includes", action=_Print, text=_includes, help="print the compiler's option for vyre_driver.h")
    verbs = parser.add_subparsers(required=True, metavar="VERB", parser_class=Parser)
    for name, verb in VERBS.items():
        examples = "".join(f"\n  {PROGRAM} {one}" for one in verb.examples)
        of_verb = verbs.add_parser(name, help=verb.about, description=verb.description, epilog=f"examples:{examples}")
        if name in wanted:
            module = _verb_module(name)
            check_numpy()
            module.add_arguments(of_verb)
            of_verb.set_defaults(run=module.run, parser_of=parser_of, verbs=VERBS)
    return parser


def parsed(given: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments behind the program's name; raises InvalidCommand."""
    return parser_of([one for one in given if one in VERBS][:1]).parse_args(given)


def version_text() -> str:
    """Return one line with the versions that the report of a fault needs; nothing is imported for it."""
    system = os.uname()
    parts = [f"Python {sys.version.split()[0]}", f"numpy {_numpy_version() or 'not installed'}"]
    return f"{PROGRAM} {__version__} ({', '.join([*parts, f'{system.sysname} {system.machine}', *_c_library()])})"


def _numpy_version() -> str:
    """Return the version that pip knows of the numpy that would be imported; nothing where there is none."""
    spec = PathFinder.find_spec("numpy")
    if spec is None or spec.origin is None:
        return ""
    beside = Path(spec.origin).parents[1].glob("numpy-*.dist-info")
    return next((one.name.removeprefix("numpy-").removesuffix(".dist-info") for one in beside), "of unknown version")


def _c_library() -> list[str]:
    """Return the version of glibc, which decides on the wheels that fit; nothing with another library."""
    try:
        found = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        return []
    return [found] if found else []


def _includes() -> str:
    """Return ``-I`` and the directory, quoted for a shell."""
    from vyre_driver.embedding import get_include

    return f"-I{shlex.quote(get_include())}"


def _verb_module(name: str) -> ModuleType:  # noqa: C901, PLR0912 -- a case a verb
    """Import the module of a verb."""
    verb: ModuleType
    match name:
        case "cache":
            from vyre_driver.cli import cache as verb
        case "completion":
            from vyre_driver.cli import completion as verb
        case "conform":
            from vyre_driver.cli import conform as verb
        case "demo":
            from vyre_driver.cli import demo as verb
        case "devices":
            from vyre_driver.cli import devices as verb
        case "doctor":
            from vyre_driver.cli import doctor as verb
        case "explain":
            from vyre_driver.cli import explain as verb
        case "kernel":
            from vyre_driver.cli import kernel as verb
        case "metrics":
            from vyre_driver.cli import metrics as verb
        case "run":
            from vyre_driver.cli import run as verb
        case "spirv":
            from vyre_driver.cli import spirv as verb
        case "stub":
            from vyre_driver.cli import stub as verb
        case "top":
            from vyre_driver.cli import top as verb
        case "trace":
            from vyre_driver.cli import trace as verb
        case "tune":
            from vyre_driver.cli import tune as verb
        case "worker":
            from vyre_driver.cli import worker as verb
    return verb
