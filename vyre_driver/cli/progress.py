"""Progress bars for long work, on a terminal only, and human-readable numbers."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

_UNITS = (("days", 86400), ("h", 3600), ("min", 60))
_PREFIXES = {4: "T", 3: "G", 2: "M", 1: "k", 0: "", -1: "m", -2: "u", -3: "n"}


class Progress:
    """A bar on standard error while its block runs; nothing where that is not a terminal."""

    def __init__(self, what: str, of: int | None = None) -> None:
        """Name the work; ``of`` is how many steps it has, None when that is not known yet."""
        from rich.console import Console  # late: most verbs show no progress
        from rich.progress import Progress as Bars

        self._bars = Bars(console=Console(file=sys.stderr), transient=True, disable=not sys.stderr.isatty())
        self._task = self._bars.add_task(what, total=of)

    def step(self, done: int, of: int | None = None) -> None:
        """Show how many steps are done, and how many there are when that is known."""
        if of is None:
            self._bars.update(self._task, completed=done)
        else:
            self._bars.update(self._task, completed=done, total=of)

    def __enter__(self) -> Progress:
        """Show the bar."""
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Take it away."""
        self._bars.stop()


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
    """Return a number of things whose plural ends in s: ``1 record``, ``2 records``."""
    return f"{number} {what}{'' if number == 1 else 's'}"
