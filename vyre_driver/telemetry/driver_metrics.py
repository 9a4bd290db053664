"""The metrics of a driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.telemetry.prometheus import MetricsText

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.driver import Driver

_NS_PER_S = 1e9
_GAUGES = frozenset({"memory_live_bytes", "memory_cached_bytes", "memory_peak_bytes", "features_enabled", "work_pending"})


def metrics_of(drivers: Sequence[Driver]) -> MetricsText:
    """Return the metrics of drivers, each sample with the device's name and uuid and the driver's number in its process."""
    text = MetricsText()
    for driver in drivers:
        text.labels = labels_of(driver)
        _add_driver(text, driver)
    return text


def labels_of(driver: Driver) -> dict[str, str]:
    """Return the labels of a driver's samples, which no other driver of the process has."""
    device = driver.physical_device
    return {"device": device.name, "uuid": device.device_uuid.hex(), "number": str(driver.number)}


def _add_driver(text: MetricsText, driver: Driver) -> None:
    report = driver.report()
    text.gauge(
        "info",
        "What the driver runs on; always 1.",
        1,
        backend=report["backend"],
        vulkan=driver.physical_device.api,
        driver=report["driver"],
        type=report["device_type"],
    )
    text.gauge("device_lost", "Whether the device stopped answering.", int(driver.device.is_lost))
    counts, total_ns = driver.events.counts(), driver.events.total_ns()
    for kind, count in counts.items():
        text.counter("events", "Events by kind; dispatches one by one, evictions by entry.", count, kind=kind.value)
    for kind, spent_ns in total_ns.items():
        text.counter("event_seconds", "Seconds that timed events took, by kind.", spent_ns / _NS_PER_S, kind=kind.value)
    for (operation, code), count in sorted(driver.events.failures().items(), key=lambda item: (item[0][0].value, item[0][1])):
        text.counter("failures", "What raised, by the error's code.", count, operation=operation.value, code=code)
    text.counter("listeners_dropped", "Listeners that raised.", driver.events.listeners_dropped)
    cache: Any = report["cache"]
    for what, count in cache["counts"].items():
        text.counter("cache", "What the pipeline cache did, and the errors it ignored, by its own names.", count, what=what)
    layer: Any = report["layer"]
    for hook in layer["hooks"]:
        text.gauge("layer_hook", "Hooks of the Vulkan layer that are active; always 1.", 1, hook=hook)
    for name, value in layer["counters"].items():
        add = text.gauge if name in _GAUGES else text.counter
        add(f"layer_{name}", f"The Vulkan layer's counter {name}.", value)
