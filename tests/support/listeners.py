"""Listeners to events, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre_driver.telemetry.events import Event


class Heard:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def told(self) -> list[tuple[str, int, bool, str]]:
        """Kind, count, whether it was timed, and detail of each; then forgets them."""
        events, self.events = self.events, []
        return [(one.kind.value, one.count, one.duration_ns is not None, one.detail) for one in events]
