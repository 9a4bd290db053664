"""``vyre-driver doctor``: check everything that a dispatch depends on, one by one, and say how to fix what fails."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from vyre_driver.cli.doctor_checks import Check, State, worst
from vyre_driver.cli.doctor_children import DEFAULT_TIMEOUT_S, examine
from vyre_driver.cli.options import add_json, print_json, printable
from vyre_driver.cli.progress import progress
from vyre_driver.errors import InvalidCommand

if TYPE_CHECKING:
    import argparse

_WIDTH = 80
_STYLES = {State.OK: "green", State.WARNING: "yellow", State.FAILURE: "bold red"}
_COLUMN = max(len(state.value) for state in State) + 2
_MAX_TIMEOUT_S = 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("--strict", action="store_true", help="end with status 1 on warnings too")
    parser.add_argument(
        "--timeout", metavar="SECONDS", default=str(DEFAULT_TIMEOUT_S), help="for each check (default: %(default)s)"
    )
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Make the checks and print them; the status is 1 if one failed, or with --strict one warned."""
    timeout_s = _seconds(options.timeout)
    checks: list[Check] = []
    with progress("examining") as step:
        for check in examine(timeout_s):
            checks.append(check)
            step(len(checks))
    verdict = worst(checks)
    if options.json:
        facts: dict[str, object] = {
            "verdict": verdict.value,
            "checks": [one.as_data() for one in checks],
            "fixes": _fixes(checks),
        }
        print_json(facts)
    else:
        _print(checks, verdict)
    return int(verdict is State.FAILURE or (options.strict and verdict is State.WARNING))


def _print(checks: list[Check], verdict: State) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    for check in checks:
        said = _wrapped(f"{printable(check.name)}: {printable(check.says)}", _COLUMN)
        console.print(Text(check.state.value.ljust(_COLUMN), _STYLES[check.state]) + Text(said))
        for detail in check.details:
            console.print(" " * (_COLUMN + 2) + _wrapped(printable(detail), _COLUMN + 2))
    fixes = _fixes(checks)
    console.print(f"\nverdict: {verdict.value}" + ("" if fixes else ", nothing to do"))
    for number, fix in enumerate(fixes, start=1):
        head = f"{number}. "
        console.print(head + _wrapped(printable(fix), len(head)))


def _fixes(checks: list[Check]) -> list[str]:
    """Return what to do, the failures' first, each once."""
    ordered = sorted(checks, key=lambda check: -list(State).index(check.state))
    return list(dict.fromkeys(fix for check in ordered for fix in check.fixes))


def _wrapped(text: str, indent: int) -> str:
    """Break a text at spaces so that it fits 80 columns when it begins at column ``indent``."""
    lines = textwrap.wrap(text, _WIDTH - indent, break_long_words=False, break_on_hyphens=False)
    return f"\n{' ' * indent}".join(lines)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= _MAX_TIMEOUT_S:
        raise InvalidCommand(f"--timeout {text!r} is not a number of seconds above 0", fix="write --timeout 30")
    return found
