"""Spans and metrics of OpenTelemetry, through its own SDK."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from extras import imported
from literals import refusal

from vyre_driver.errors import DispatchTimeout, InvalidSetting
from vyre_driver.profiling.opened import tell_opened
from vyre_driver.telemetry.events import Event, EventKind, Events, Failure
from vyre_driver.telemetry.opentelemetry import OpenTelemetrySpans, export

if TYPE_CHECKING:
    import pytest

LABELS = {"device": "a GPU", "uuid": "00", "number": "3"}
ABOUT = {f"vyre_driver.{name}": value for name, value in LABELS.items()}


class Opened:
    """Stands for a driver."""

    number = 3

    def __init__(self, *, is_isolated: bool = False) -> None:
        self.events = Events()
        self.is_closed = False
        self.device = SimpleNamespace(name="a GPU", device_uuid=b"\0")
        layer = "in the child" if is_isolated else object()
        there: dict[str, Any] = {
            "moved": SimpleNamespace(up=5, down=7),
            "allocated": 9,
            "counters": lambda: {"work_pending": 2},
        }
        self.context = SimpleNamespace(device=SimpleNamespace(layer=layer, **({} if is_isolated else there)))


def spans_provider() -> tuple[Any, Any]:
    sdk, sdk_export = imported("opentelemetry.sdk.trace"), imported("opentelemetry.sdk.trace.export")
    memory = imported("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter, provider = memory.InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(sdk_export.SimpleSpanProcessor(exporter))
    return exporter, provider


def metrics_provider() -> tuple[Any, Any]:
    sdk, sdk_export = imported("opentelemetry.sdk.metrics"), imported("opentelemetry.sdk.metrics.export")
    reader = sdk_export.InMemoryMetricReader()
    return reader, sdk.MeterProvider([reader])


def points(reader: Any) -> dict[str, list[Any]]:  # noqa: ANN401 -- the SDK's
    """The data points of a reader by the names of their instruments."""
    data = reader.get_metrics_data()
    found = [] if data is None else data.resource_metrics[0].scope_metrics
    return {metric.name: list(metric.data.data_points) for scope in found for metric in scope.metrics}


def rows(found: list[Any]) -> list[tuple[dict[str, object], float]]:
    """What is not the same for all points of a driver, and their values."""
    assert all(ABOUT.items() <= dict(one.attributes).items() for one in found)
    return [
        ({name.partition(".")[2]: value for name, value in one.attributes.items() if name not in ABOUT}, one.value)
        for one in found
    ]


def test_spans_begin_and_end_when_the_event_did() -> None:
    exporter, provider = spans_provider()
    spans = OpenTelemetrySpans({"device": "a GPU"}, provider)
    spans.on_event(Event(EventKind.DISPATCH, 1000, 400, "ab", 3, "", kernel="saxpy"))
    spans.on_event(Event(EventKind.EVICT, 2000, None, None, 1, "freed"))
    spans.on_event(Event(EventKind.FAILURE, 3000, 500, "ab", 1, "no", Failure(EventKind.COMPILE, 2101, "InvalidModule")))
    finished = exporter.get_finished_spans()
    failed = finished[2]
    assert (failed.name, failed.status.status_code.name, failed.status.description) == ("vyre_driver.compile", "ERROR", "no")
    assert {"vyre_driver.code": 2101, "vyre_driver.error": "InvalidModule"}.items() <= dict(failed.attributes).items()
    found = [(one.name, one.start_time, one.end_time, dict(one.attributes)) for one in finished[:2]]
    about = {"vyre_driver.device": "a GPU"}
    named = {"vyre_driver.key": "ab", "vyre_driver.kernel": "saxpy", "vyre_driver.count": 3}
    assert found == [
        ("vyre_driver.dispatch", 600, 1000, about | named),
        ("vyre_driver.evict", 2000, 2000, about | {"vyre_driver.count": 1, "vyre_driver.detail": "freed"}),
    ]


def test_a_driver_is_exported_with_all_that_it_counts_and_how_long_its_work_took() -> None:
    exporter, tracers = spans_provider()
    reader, meters = metrics_provider()
    driver: Any = Opened()
    export(driver, tracers, meters)
    work = driver.events.dispatches("ab", ("saxpy",))
    work.was_seen(work.handed_over())
    driver.events.emit(EventKind.COMPILE, 3_000_000, "ab", kernel="saxpy")
    driver.events.failed(EventKind.DISPATCH, DispatchTimeout("late", fix="wait"), 5, "ab", "saxpy")
    found = points(reader)
    counted = {row[0]["kind"]: row[1] for row in rows(found["vyre_driver.events"]) if row[1]}
    assert counted == {"dispatch": 1, "complete": 1, "compile": 1, "failure": 1}
    assert {name: rows(found[f"vyre_driver.{name}"]) for name in ("failures", "kernel.dispatches", "moved", "memory")} == {
        "failures": [({"operation": "dispatch", "code": 2007}, 1)],
        "kernel.dispatches": [({"kernel": "saxpy"}, 1)],
        "moved": [({"direction": "up"}, 5), ({"direction": "down"}, 7)],
        "memory": [({}, 9)],
    }
    assert rows(found["vyre_driver.in_flight"]) == [({}, 2)]
    (compiles,) = found["vyre_driver.compile.duration"]
    assert (compiles.count, compiles.sum, dict(compiles.attributes)) == (1, 0.003, ABOUT | {"vyre_driver.kernel": "saxpy"})
    assert list(compiles.explicit_bounds) == [2**place / 1e9 for place in range(10, 35, 2)]
    assert [one.count for one in found["vyre_driver.complete.duration"]] == [1]
    assert "vyre_driver.dispatch.duration" not in found  # none was waited for
    names = [(one.name, one.status.status_code.name) for one in exporter.get_finished_spans()]
    assert names == [
        ("vyre_driver.dispatch", "UNSET"),
        ("vyre_driver.complete", "UNSET"),
        ("vyre_driver.compile", "UNSET"),
        ("vyre_driver.dispatch", "ERROR"),
    ]


def test_several_drivers_share_instruments_and_one_that_is_closed_or_gone_is_not_looked_at() -> None:
    reader, meters = metrics_provider()
    drivers: list[Any] = [Opened() for _ in range(3)]
    for number, one in enumerate(drivers):
        one.number = number
        export(one, spans_provider()[1], meters)
    drivers[0].is_closed = True
    del drivers[1], one
    found = points(reader)
    assert [point.attributes["vyre_driver.number"] for point in found["vyre_driver.memory"]] == ["2"]
    scopes = reader.get_metrics_data().resource_metrics[0].scope_metrics
    names = [metric.name for scope in scopes for metric in scope.metrics]
    assert len(names) == len(set(names)) > 1


def test_of_an_isolated_driver_what_is_counted_here_is_exported() -> None:
    reader, meters = metrics_provider()
    driver: Any = Opened(is_isolated=True)
    export(driver, spans_provider()[1], meters)
    assert set(points(reader)) == {"vyre_driver.events"}


def test_nothing_is_exported_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    driver: Any = Opened()
    tell_opened(driver)
    assert repr(driver.events) == "<vyre_driver.Events none yet, 0 listeners>"
    monkeypatch.setenv("VYRE_OPENTELEMETRY", "1")
    imported("opentelemetry.trace")
    tell_opened(driver)
    assert repr(driver.events) == "<vyre_driver.Events none yet, 2 listeners>"


def test_what_is_asked_for_and_cannot_be_exported_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_OPENTELEMETRY", "1")
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    driver: Any = Opened()
    kind, code, message = refusal(lambda: tell_opened(driver))
    assert (kind, code) == (InvalidSetting, 2401)
    assert message.startswith(
        "spans and metrics are to be exported, and opentelemetry-api 1.30 or later cannot be used (import of opentelemetry"
    )
    assert message.endswith("Fix: install it (pip install 'opentelemetry-api>=1.30'), or unset VYRE_OPENTELEMETRY.")
