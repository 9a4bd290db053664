"""What starts light imports little: neither numpy nor what draws tables, which take longer than all else."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import __version__
from vyre_driver.cli import main, parser
from vyre_driver.cli.parser import VERBS

if TYPE_CHECKING:
    from conftest import RunChild

HEAVY = ("numpy", "rich", "kp", "vyre_driver.driver", "vyre_driver.ir", "vyre_driver.spirv")
TELL = f"print([one for one in {HEAVY!r} if one in sys.modules])"
STARTS = {
    "the package": f"import sys, vyre_driver; {TELL}",
    "errors": f"import sys; from vyre_driver import errors, VyreError; {TELL}",
    "keys": f"import sys; from vyre_driver import identity; {TELL}",
    "a cache": f"import sys; from vyre_driver.cache import DiskPipelineCache; {TELL}",
    "--version": f"import sys; from vyre_driver.cli.parser import version_text; print(version_text()); {TELL}",
    "cache dir": f"import sys; from vyre_driver.cli import main; main(['cache', 'dir', '--json']); {TELL}",
}


@pytest.mark.parametrize("what", STARTS)
def test_what_starts_light_imports_neither_numpy_nor_the_driver(what: str, run_python: RunChild) -> None:
    assert run_python("-c", STARTS[what]).stdout.splitlines()[-1] == "[]"


def test_the_version_is_that_of_the_package(run_cli: RunChild) -> None:
    done = run_cli("--version")
    python = sys.version.split()[0]
    beginning = f"vyre-driver {__version__} (Python {python}, numpy {np.__version__}, Linux "
    assert (done.status, done.stdout.count("\n"), done.stderr, done.stdout[: len(beginning)]) == (0, 1, "", beginning)
    assert run_cli("-V").stdout == done.stdout


def test_the_version_is_told_where_numpy_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    assert f"vyre-driver {__version__} (Python {sys.version.split()[0]}, numpy not installed, " in parser.version_text()


def test_help_names_every_verb(run_cli: RunChild) -> None:
    told = run_cli("--help").stdout
    assert [verb for verb in VERBS if f"\n    {verb} " not in told] == []


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_has_its_description_and_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([verb, "--help"])
    told = capsys.readouterr().out
    examples = [f"\n  vyre-driver {one}\n" for one in VERBS[verb].examples]
    assert (VERBS[verb].description in told, [one for one in examples if one not in told], examples != []) == (True, [], True)


@pytest.mark.parametrize("line", [example for verb in VERBS.values() for example in verb.examples])
def test_an_example_can_be_parsed(line: str) -> None:
    options = parser.parsed(shlex.split(line.partition(">")[0]))
    assert callable(options.run)


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        (("device",), "Fix: write devices, or see vyre-driver --help."),
        (("status",), "tune, trace, conform, metrics, top, worker, completion. Fix: see vyre-driver --help."),
        (("version",), "Fix: write --version, or see vyre-driver --help."),
        (("cache", "lst"), "Fix: write list, or see vyre-driver cache --help."),
        (("tune", "run", "saxpy", "--second", "3"), "Fix: write --seconds, or see vyre-driver tune run --help."),
        (("run", "saxpy.spv", "--inn=x=x.npy"), "Fix: write --in, or see vyre-driver run --help."),
        (("completion", "zhs"), "Fix: write zsh, or see vyre-driver completion --help."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_was_probably_meant_is_named(arguments: tuple[str, ...], end: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(arguments)
    assert (status, capsys.readouterr().err.endswith(f"{end}\n")) == (2, True)
