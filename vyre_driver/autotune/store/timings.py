"""The times of a search as a tuning record keeps them: one line of text, the winner first, then the fastest others.

``1234+-50/20 TILE=16, UNROLL=2; 1300+-40/9 TILE=8, UNROLL=2`` is nanoseconds, their median absolute deviation, the timed runs,
and the candidate, of each. Records are shared by machines, so there is a limit to everything: 16 candidates, of 80 characters
of ASCII each. A candidate's other characters are replaced by question marks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_TIMINGS = 16
_MOST_CHARACTERS = 80
_MOST_NUMBER = 10**18 - 1
_NUMBER = r"(?:0|[1-9][0-9]{0,17})"
_NAME = r"[!#-:<-\[\]-~](?:[ !#-:<-\[\]-~]{0,78}[!#-:<-\[\]-~])?"
_ONE = rf"{_NUMBER}\+-{_NUMBER}/{_NUMBER} {_NAME}"
TIMINGS = rf"(?:{_ONE}(?:; {_ONE}){{0,{MOST_TIMINGS - 1}}})?"
"""The pattern of the text, which is empty for no times; nothing in it has to be escaped in TOML."""
_UNFIT = re.compile(r'[^ -~]|["\\;]')
_PARTS = re.compile(r"(\d+)\+-(\d+)/(\d+) (.+)")


class Timing(NamedTuple):
    """The time of one candidate: the median of its timed runs and their median absolute deviation, in nanoseconds."""

    candidate: str
    median_ns: int
    spread_ns: int
    samples: int


def format_timings(timings: Iterable[Timing]) -> str:
    """Return the text of times, the first 16 of them."""
    return "; ".join(
        f"{_number(one.median_ns)}+-{_number(one.spread_ns)}/{_number(one.samples)} {_name(one.candidate)}"
        for one in list(timings)[:MOST_TIMINGS]
    )


def parse_timings(text: str) -> list[Timing]:
    """Return the times of a text that matches ``TIMINGS``."""
    found = [_PARTS.fullmatch(one) for one in text.split("; ")] if text else []
    parts = [one.groups() for one in found if one is not None]
    return [Timing(name, int(median), int(spread), int(samples)) for median, spread, samples, name in parts]


def _number(value: int) -> int:
    return min(max(value, 0), _MOST_NUMBER)


def _name(candidate: str) -> str:
    name = _UNFIT.sub("?", candidate)
    if len(name) > _MOST_CHARACTERS:
        name = name[: _MOST_CHARACTERS - 3] + "..."
    return name.strip() or "?"
