"""What several verbs share: options, how their texts become values, and how results are printed."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING

from vyre_driver.display.line import escaped
from vyre_driver.errors import InvalidCommand

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence

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
