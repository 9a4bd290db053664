"""What several verbs share: options, how their texts become values, how results are printed, and how progress is shown."""

from __future__ import annotations

import json
import math
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vyre_driver.display.line import escaped
from vyre_driver.errors import InvalidCommand

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vyre_driver.errors import VyreError

SCHEMA = 1
_LEAST_SIMILAR = 0.65  # with difflib's own 0.6, `stub` is proposed for `status`


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print data instead of a table")


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add ``--device``."""
    parser.add_argument(
        "--device", metavar="DEVICE", help="uuid:, pci:, name: or type: and a value, or an index (default: the best)"
    )


def print_json(data: Mapping[str, object]) -> None:
    """Print one JSON document with the schema's number first."""
    print(json.dumps({"schema": SCHEMA, **data}, indent=2))


def line_as_json(data: Mapping[str, object]) -> str:
    """Return one JSON document with the schema's number first, as one line."""
    return json.dumps({"schema": SCHEMA, **data})


def error_as_data(error: VyreError) -> dict[str, object]:
    """Return what an error says as plain data; ``attributes`` are the facts that its message names."""
    return {
        "code": error.code,
        "name": type(error).__name__,
        "problem": error.problem,
        "fix": error.fix,
        "attributes": _plain(error.context),
    }


def _plain(value: object) -> object:
    """Return a value in the types of JSON; what has none becomes text, as do infinities."""
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one) for one in value]
    return str(value)


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Return a list of the known word that was probably meant, or an empty list."""
    from difflib import get_close_matches  # late: only what is mistyped needs it

    return get_close_matches(word, list(known), n=1, cutoff=_LEAST_SIMILAR)


def printable(value: object) -> str:
    """Return a value as one line that cannot steer a terminal: what a terminal might obey is escaped."""
    return escaped(str(value))


def say(text: object = "", *, end: str = "\n", on_stderr: bool = False) -> None:
    """Print lines for people, each made printable: names of files, devices and variables are in them."""
    lines = "\n".join(printable(line) for line in str(text).split("\n"))
    print(lines, end=end, file=sys.stderr if on_stderr else sys.stdout, flush=True)


def tell(options: argparse.Namespace, data: Mapping[str, object], *lines: object) -> None:
    """Print the data where ``--json`` asks for it, and otherwise the lines."""
    if options.json:
        print_json(data)
        return
    for line in lines:
        say(line)


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """Split ``NAME=VALUE`` texts of one option; raises InvalidCommand if a text has no name, or a name comes twice."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidCommand(f"{option} {text!r} is not NAME=VALUE", fix=f"write {option} NAME=VALUE")
        if name in found:
            raise InvalidCommand(f"{option} names {name!r} twice", fix="name it once")
        found[name] = value
    return found


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Read integers separated by commas; raises InvalidCommand if one of them is none."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InvalidCommand(
            f"{option} {text!r} is not a list of integers", fix=f"write {option} 64 or {option} 8,8,1"
        ) from error


_UNITS = (("days", 86400), ("h", 3600), ("min", 60))
_PREFIXES = {4: "T", 3: "G", 2: "M", 1: "k", 0: "", -1: "m", -2: "u", -3: "n"}


@contextmanager
def progress(what: str, of: int | None = None) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error while the block runs; nothing where that is not a terminal.

    ``of`` is how many steps the work has, None when that is not known yet. The block gets the function that says how many are
    done, and how many there are when that is known.
    """
    from rich.console import Console  # late: most verbs show no progress
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr), transient=True, disable=not sys.stderr.isatty()) as bars:
        task = bars.add_task(what, total=of)

        def step(done: int, of: int | None = None) -> None:
            bars.update(task, completed=done, total=of)

        yield step


@contextmanager
def shown_while_it_runs(what: str) -> Iterator[None]:
    """Show what is under way on standard error while the block runs; nothing where that is not a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # late: most verbs show no progress
    from rich.text import Text

    with Console(file=sys.stderr).status(Text(what)):
        yield


def human_bytes(number: int) -> str:
    """Return a number of bytes in units of 1000: ``16.4 kB``."""
    from rich.filesize import decimal

    return decimal(number)


def human_time(seconds: float) -> str:
    """Return a span in its largest unit: ``3 h``; below a minute ``less than a min``."""
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "less than a min"


def human_measure(value: float, unit: str) -> str:
    """Return a measured value from 0 up with three digits and a prefix, from n to T: ``1.81 ms``, ``325 MB/s``."""
    rounded = float(f"{value:.2e}")
    power = math.floor(math.log10(rounded) / 3) if rounded > 0 else 0
    power = min(max(power, min(_PREFIXES)), max(_PREFIXES))
    scaled = rounded / 1000.0**power
    before = len(str(int(scaled)))
    return f"{scaled:.{max(3 - before, 0)}f} {_PREFIXES[power]}{unit}"
