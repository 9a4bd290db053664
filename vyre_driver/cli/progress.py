"""Progress bars for long work, on a terminal only, and human-readable numbers."""

from __future__ import annotations

import math
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


def human_count(number: int, what: str) -> str:
    """Return a number of things: ``1 record``, ``2 records``, ``2 entries``."""
    several = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number} {what if number == 1 else several}"
