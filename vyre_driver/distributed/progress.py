"""A progress bar for the calls of ``map`` and the blocks of ``store_regions``."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from vyre_driver.distributed.windowed import FleetProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress(what: str, of: int | None = None) -> Iterator[Callable[..., None]]:
    """Show a bar while the block runs, on a terminal's standard error or in a notebook; elsewhere nothing.

    The block gets what ``FleetPool.map`` and ``store_regions`` take as ``on_progress``.

    Parameters
    ----------
    what
        The name of the work, as the bar shows it.
    of
        How many calls there are; None where that is not known. ``store_regions`` says it itself.
    """
    from rich.console import Console  # late: most programs show no progress
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not (console.is_terminal or console.is_jupyter)) as bars:
        task = bars.add_task(what, total=of)

        def told(now: FleetProgress | int, count: int | None = of) -> None:
            bars.update(task, completed=now.done if isinstance(now, FleetProgress) else now, total=count)

        yield told
