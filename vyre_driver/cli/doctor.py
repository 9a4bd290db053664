"""``vyre-driver doctor``: check everything that a dispatch depends on, one by one, and say how to fix what fails.

Each check runs in a child process (``doctor_probe``): one that crashes or hangs does not stop the others. Some of them run side
by side, for most of their time goes into starting Python; their results are printed in the order of the list.
"""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.text import Text

from vyre_driver import settings
from vyre_driver.cli.doctor_vulkan import Check, State, worst
from vyre_driver.cli.options import add_device, add_json, line_as_json, print_json, printable, say, shown_while_it_runs
from vyre_driver.errors import DeviceNotFound, InvalidCommand
from vyre_driver.process.workers import ChildDied, ChildTimeout, Worker, command_to_try
from vyre_driver.vulkan.manifests import driver_manifests, installed_layers

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping

_WIDTH = 80
_STYLES = {State.OK: "green", State.WARNING: "yellow", State.FAILURE: "bold red"}
_COLUMN = max(len(state.value) for state in State) + 2
_DEFAULT_TIMEOUT_S = 30.0
_PROBE = "vyre_driver.cli.doctor_probe"
_MAX_LOADER_LINES = 8
_MAX_LINE = 200
_BEFORE_DEVICES = ("python", "extensions", "kompute", "shader tools", "variables", "device files", "Vulkan loader", "layers")
_AFTER_DEVICES = ("plug-ins", "backends", "cache", "autotune", "store")
_MAX_TIMEOUT_S = 3600.0
_MOST_AT_ONCE = 4
_WITHOUT_LAYERS = {"VK_LOADER_LAYERS_DISABLE": "~implicit~", "VK_LOADER_LAYERS_ENABLE": "", "VK_INSTANCE_LAYERS": ""}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("--strict", action="store_true", help="end with status 1 on warnings too")
    parser.add_argument(
        "--timeout", metavar="SECONDS", default=str(_DEFAULT_TIMEOUT_S), help="for each check (default: %(default)s)"
    )
    add_device(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Make the checks and print them; the status is 1 if one failed, or with --strict one warned."""
    timeout_s = _seconds(options.timeout)
    checks: list[Check] = []
    console = _console()
    for check in examine(timeout_s, options.device, partial(_announce, as_json=options.json)):
        checks.append(check)
        if not options.json:
            _print_check(console, check)
    verdict = worst(checks)
    if options.json:
        facts: dict[str, object] = {
            "verdict": verdict.value,
            "checks": [one.as_data() for one in checks],
            "fixes": _fixes(checks),
        }
        print_json(facts)
    else:
        _print_verdict(console, checks, verdict)
    return int(verdict is State.FAILURE or (options.strict and verdict is State.WARNING))


def examine(timeout_s: float, device: str | None = None, announce: Callable[[str], None] = lambda _: None) -> Iterator[Check]:
    """Make every check, each within ``timeout_s`` seconds, and yield them; a kernel is run on each device, or on this one.

    ``announce`` is called with the name of each check that begins.
    """
    yield from _side_by_side(map(_Probe, _BEFORE_DEVICES), timeout_s, announce)
    places = driver_manifests()
    if not places:
        fix = "install a Vulkan driver (on Debian mesa-vulkan-drivers brings a software one)"
        yield Check("drivers", State.FAILURE, "no driver manifest is where the loader looks", fixes=(fix,))
    probes = [_Probe("manifest", (place,)) for place in places]
    probes += [_Probe("devices", (), {"VK_LOADER_DEBUG": "error,warn"}), *map(_Probe, _AFTER_DEVICES)]
    facts: dict[str, Any] = {}
    for check in _side_by_side(probes, timeout_s, announce):
        facts = check.facts if check.name == "devices" else facts
        yield check
    every = [f"uuid:{one['device_uuid']}" for one in facts.get("devices", ())]
    devices = every if device is None else [device]
    failed: list[str] = []
    for wanted, check in zip(
        devices, _side_by_side([_Probe("dispatch", (one,)) for one in devices], timeout_s, announce), strict=True
    ):
        failed += [wanted] if check.state is State.FAILURE and check.facts.get("code") != DeviceNotFound.code else []
        yield check
    layers = ", ".join(layer.name for layer in installed_layers() if layer.is_active)
    again = [_Probe("dispatch", (wanted, layers), _WITHOUT_LAYERS) for wanted in failed if layers]
    yield from _side_by_side(again, timeout_s, announce)


def _side_by_side(probes: Iterable[_Probe], timeout_s: float, announce: Callable[[str], None]) -> Iterator[Check]:
    """Run the checks, as many at once as there are cores, 2 to 4, and yield what they find in their order."""
    most, waiting = min(max(2, os.cpu_count() or 1), _MOST_AT_ONCE), iter(probes)
    running: deque[_Running] = deque()
    try:
        while True:
            for probe in islice(waiting, most - len(running)):
                announce(probe.shown)
                running.append(_Running(probe))
            if not running:
                return
            yield running[0].check(timeout_s)
            running.popleft()
    finally:
        for one in running:
            one.worker.end()


class _Probe(NamedTuple):
    """A check by its name, its arguments, and what is different in its process's environment."""

    name: str
    arguments: tuple[str, ...] = ()
    changes: Mapping[str, str] = {}

    @property
    def shown(self) -> str:
        return f"{self.name} {self.arguments[0]}" if self.arguments else self.name


class _Running:
    """A check whose process was started."""

    def __init__(self, probe: _Probe) -> None:
        self.probe = probe
        self.began_s = time.monotonic()
        self.worker = Worker(_PROBE, probe.name, *probe.arguments, env=settings.child_environment(**probe.changes))

    def check(self, timeout_s: float) -> Check:
        """Wait for the result; if its process gave none, how the process ended is the result."""
        probe = self.probe
        command = command_to_try(_PROBE, probe.name, *probe.arguments)
        left_s = max(0.0, self.began_s + timeout_s - time.monotonic())
        try:
            with self.worker, shown_while_it_runs(f"checking {printable(probe.shown)}"):
                data, err = self.worker.only_answer(left_s)
        except ChildTimeout:
            fix = f"find out what hangs with: {command}"
            return Check(probe.shown, State.FAILURE, f"did not end in {timeout_s:g} s and was killed", fixes=(fix,))
        except ChildDied as error:
            how = f"{'was killed by' if error.signal else 'ended with'} {error.how}"
            fix = f"look into it with: {command}; a driver that crashes here would crash your program"
            said = _lines(error.stderr)[-_MAX_LOADER_LINES:]
            return Check(probe.shown, State.FAILURE, f"its process {how}", tuple(said), (fix,), {"status": error.status})
        found = Check.of_data(data)
        loader = tuple(line for line in _lines(err) if "ERROR" in line or "WARN" in line)[:_MAX_LOADER_LINES]
        if loader and probe.changes:
            facts = {"loader_messages": list(loader)}
            return Check(found.name, found.state, found.says, (*found.details, *loader), found.fixes, found.facts | facts)
        return found


def _announce(name: str, *, as_json: bool) -> None:
    """Print which check begins as a line on standard error; a terminal shows it otherwise."""
    if sys.stderr is not None and not sys.stderr.isatty():
        say(line_as_json({"checking": name}) if as_json else f"checking {name}", on_stderr=True)


def _lines(err: bytes) -> list[str]:
    """Return printable lines, none too long."""
    lines = err.decode("utf-8", "backslashreplace").splitlines()
    return ["".join(one if one.isprintable() else "?" for one in line)[:_MAX_LINE] for line in lines if line.strip()]


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True, markup=False, emoji=False)


def _print_check(console: Console, check: Check) -> None:
    """Print a check as soon as it is done: the next one may take long."""
    said = _wrapped(f"{printable(check.name)}: {printable(check.says)}", _COLUMN)
    console.print(Text(check.state.value.ljust(_COLUMN), _STYLES[check.state]) + Text(said))
    for detail in check.details:
        console.print(" " * (_COLUMN + 2) + _wrapped(printable(detail), _COLUMN + 2))


def _print_verdict(console: Console, checks: list[Check], verdict: State) -> None:
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
