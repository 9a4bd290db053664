"""How the work of one kernel is recorded among a driver's events, and named in messages."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from typing_extensions import Self

    from vyre_driver.telemetry._counters import Dispatches
    from vyre_driver.telemetry.events import Events


class Observed:
    """Records the dispatches of a kernel (``dispatches``), their stages and what it fails with; ``what`` it is, in words."""

    __slots__ = ("dispatches", "failed", "timeline", "what")

    def __init__(self, events: Events, key: str, name: str) -> None:
        """Record under this key of the cache and this name."""
        self.what = f"kernel {key[:16]}"
        self.timeline = events.timeline
        self.dispatches: Dispatches = events.dispatches(key, (name,))
        self.failed = functools.partial(events.failed, EventKind.DISPATCH, key=key, kernel=name)

    def labelled(self, label: str) -> Self:
        """Return the same for dispatches with a label."""
        made = object.__new__(type(self))
        made.what, made.failed, made.timeline = self.what, self.failed, self.timeline
        made.dispatches = self.dispatches.labelled(label)
        return made


class ObservedBatch:
    """As ``Observed``, for the kernels of a batch, which are recorded as one."""

    __slots__ = ("dispatches", "failed", "timeline", "what")

    def __init__(self, events: Events, kernels: list[str], label: str) -> None:
        """Record under the names of its kernels, one for each dispatch."""
        self.what = f"a batch of {len(kernels)}"
        self.timeline = events.timeline
        self.dispatches: Dispatches = events.dispatches(None, kernels, label)
        self.failed = functools.partial(events.failed, EventKind.DISPATCH, kernel=self.dispatches.subject[1])
