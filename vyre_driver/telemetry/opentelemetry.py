"""Export events as OpenTelemetry spans, if its API package is installed and ``VYRE_OPENTELEMETRY`` asks for it.

A span is named ``vyre_driver.`` and the event's kind, begins and ends when the event did, and is a child of the span that was
current on the thread. What failed is a span of what was tried, with the status ERROR. Work that was submitted and not waited
for is a span without length.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vyre_driver import settings
from vyre_driver.errors import InvalidSetting

if TYPE_CHECKING:
    from vyre_driver.telemetry.events import Event, Listener


class OpenTelemetrySpans:
    """A listener that makes a span of each event."""

    def __init__(self, device: str) -> None:
        """Get a tracer from the API package; ``device`` is an attribute of each span.

        Raises
        ------
        ImportError
            If opentelemetry-api is not installed.
        """
        self._trace: Any = import_module("opentelemetry.trace")
        self._tracer = self._trace.get_tracer("vyre_driver")
        self._device = device

    def on_event(self, event: Event) -> None:
        """Make the span."""
        failure = event.failure
        data = {"key": event.key, "count": event.count, "detail": event.detail or None, "device": self._device}
        if failure is not None:
            data |= {"code": failure.code, "error": failure.error}
        name = event.kind if failure is None else failure.operation
        span = self._tracer.start_span(
            f"vyre_driver.{name.value}",
            start_time=event.ended_ns - (event.duration_ns or 0),
            attributes={f"vyre_driver.{name}": value for name, value in data.items() if value is not None},
        )
        if failure is not None:
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, event.detail))
        span.end(end_time=event.ended_ns)


def listeners_from_settings(device: str) -> list[Listener]:
    """Return the listeners that the environment asks a driver to have.

    Raises
    ------
    InvalidSetting
        If it asks for spans, and the package for them is not installed.
    """
    if not settings.switch(settings.OPENTELEMETRY):
        return []
    try:
        return [OpenTelemetrySpans(device)]
    except ImportError as error:
        raise InvalidSetting(
            f"{settings.OPENTELEMETRY.variable} is on, and opentelemetry-api cannot be imported ({error})",
            fix=f"install it (pip install opentelemetry-api), or unset {settings.OPENTELEMETRY.variable}",
            variable=settings.OPENTELEMETRY.variable,
            value=settings.text(settings.OPENTELEMETRY),
        ) from error
