"""Export events as OpenTelemetry spans and counters as its metrics, if its API package is installed.

``VYRE_OPENTELEMETRY`` asks for both, through the process's global providers; ``export`` does so for one driver, through any.

A span is named ``vyre_driver.`` and the event's kind, begins and ends when the event did, and is a child of the span that was
current on the thread. A failure is a span of the attempt, with the status ERROR. Work that was submitted is a span without
length, and its end, once it was seen, one from its submission to then.

Source: OpenTelemetry's specification of the trace and metrics APIs; units are those of UCUM.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

from vyre_driver import settings
from vyre_driver.errors import InvalidSetting
from vyre_driver.telemetry.events import EventKind
from vyre_driver.telemetry.prometheus import BUCKETS, labels_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vyre_driver.telemetry.events import Event, ObservedDriver

    Sample = tuple[float, Mapping[str, str | int]]

_NS_PER_S = 1e9
_TIMED = (EventKind.DISPATCH, EventKind.COMPLETE, EventKind.COMPILE)


class OpenTelemetrySpans:
    """A listener that makes a span of each event."""

    def __init__(self, attributes: Mapping[str, str], tracer_provider: object = None) -> None:
        """Get a tracer of this provider, None for the global one; ``attributes`` are those of each span.

        Raises
        ------
        ImportError
            If opentelemetry-api is not installed.
        """
        from opentelemetry import trace  # late: an extra

        self._trace: Any = trace
        self._tracer = self._trace.get_tracer("vyre_driver", tracer_provider=tracer_provider)
        self._attributes = _prefixed(attributes)

    def on_event(self, event: Event) -> None:
        """Make the span."""
        failure = event.failure
        data: dict[str, object] = {"key": event.key, "kernel": event.kernel or None, "count": event.count}
        data["detail"] = event.detail or None
        if failure is not None:
            data |= {"code": failure.code, "error": failure.error}
        name = event.kind if failure is None else failure.operation
        span = self._tracer.start_span(
            f"vyre_driver.{name.value}",
            start_time=event.ended_ns - (event.duration_ns or 0),
            attributes={**self._attributes, **_prefixed({name: one for name, one in data.items() if one is not None})},
        )
        if failure is not None:
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, event.detail))
        span.end(end_time=event.ended_ns)


class OpenTelemetryMetrics:
    """The instruments of one provider, and the drivers that they look at as long as those live."""

    def __init__(self, meter_provider: object = None) -> None:
        """Make the instruments, of the global provider for None; raises ImportError if opentelemetry-api is not installed."""
        from opentelemetry import metrics  # late: an extra

        provider: Any = meter_provider
        self._observation = metrics.Observation
        self._drivers: set[weakref.ref[ObservedDriver]] = set()
        meter = metrics.get_meter("vyre_driver", meter_provider=provider)
        bounds = [(1 << place) / _NS_PER_S for place in BUCKETS]
        for name, (kind, unit, about) in _OBSERVED.items():
            make = getattr(meter, f"create_observable_{kind}")
            make(f"vyre_driver.{name}", [functools.partial(self._observed, name)], unit=unit, description=about)
        self._durations = {
            kind: meter.create_histogram(
                f"vyre_driver.{kind.value}.duration",
                unit="s",
                description=f"Durations of the events {kind.value!r}.",
                explicit_bucket_boundaries_advisory=bounds,
            )
            for kind in _TIMED
        }

    def add(self, driver: ObservedDriver) -> None:
        """Look at a driver from now on, and record how long its work takes."""
        self._drivers.add(weakref.ref(driver, self._drivers.discard))
        attributes, durations = _prefixed(labels_of(driver)), self._durations

        def record(event: Event) -> None:
            histogram = durations.get(event.kind)
            if histogram is not None and event.duration_ns is not None:
                named = {"vyre_driver.kernel": event.kernel}
                histogram.record(event.duration_ns / _NS_PER_S, {**attributes, **named})

        driver.events.add_listener(record)

    def _observed(self, name: str, _: object) -> Iterator[object]:
        for driver in [one() for one in tuple(self._drivers)]:
            if driver is not None and not driver.is_closed:
                about = labels_of(driver)
                for value, attributes in _samples(driver).get(name, ()):
                    yield self._observation(value, _prefixed({**about, **attributes}))


def export(driver: ObservedDriver, tracer_provider: object = None, meter_provider: object = None) -> None:
    """Export spans and metrics of a driver from now on, through these providers, None for the process's global ones.

    Raises
    ------
    InvalidSetting
        If opentelemetry-api is not installed, or older than 1.30.
    """
    try:
        spans = OpenTelemetrySpans(labels_of(driver), tracer_provider)
        metrics = _metrics_of(meter_provider)
    except (ImportError, TypeError) as error:
        raise InvalidSetting(
            f"spans and metrics are to be exported, and opentelemetry-api 1.30 or later cannot be used ({error})",
            fix=f"install it (pip install 'opentelemetry-api>=1.30'), or unset {settings.OPENTELEMETRY.variable}",
            variable=settings.OPENTELEMETRY.variable,
            value=settings.text(settings.OPENTELEMETRY),
        ) from error
    driver.events.add_listener(spans)
    metrics.add(driver)


@functools.lru_cache(maxsize=4)
def _metrics_of(meter_provider: object) -> OpenTelemetryMetrics:
    """Return the instruments of a provider, made once: two of one name would be two series."""
    return OpenTelemetryMetrics(meter_provider)


def _prefixed(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {f"vyre_driver.{name}": value for name, value in attributes.items()}


_OBSERVED = {
    "events": ("counter", "{event}", "Events by kind; dispatches one by one, evictions by entry."),
    "failures": ("counter", "{failure}", "What raised, by what was tried and the error's code."),
    "kernel.dispatches": ("counter", "{dispatch}", "Dispatches by the kernel's name."),
    "moved": ("counter", "By", "Bytes of arrays that went up to the device, and came down from it."),
    "memory": ("gauge", "By", "Bytes of device memory that buffers have."),
    "in_flight": ("gauge", "{submission}", "Submissions whose end has not been seen."),
}


def _samples(driver: ObservedDriver) -> dict[str, list[Sample]]:
    """Return what is observed of a driver; of one whose device is open in another process only what is counted here."""
    events, device = driver.events.snapshot(), driver.context.device
    found: dict[str, list[Sample]] = {
        "events": [(one["count"], {"kind": kind}) for kind, one in events["kinds"].items()],
        "failures": [(count, {"operation": operation, "code": code}) for operation, code, count in events["failures"]],
        "kernel.dispatches": [(one["dispatches"], {"kernel": one["name"]}) for one in events["kernels"]],
    }
    if not isinstance(device.layer, str):
        found["moved"] = [(device.moved.up, {"direction": "up"}), (device.moved.down, {"direction": "down"})]
        found["memory"], found["in_flight"] = [(device.allocated, {})], [(device.counters()["work_pending"], {})]
    return found
