"""A driver's counters in Prometheus's text format.

Source: the Prometheus text exposition format 0.0.4. Names end in ``_total`` for what only grows, and carry their unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_driver.driver import Driver

PREFIX = "vyre_driver_"
_NS_PER_S = 1e9
_GAUGES = frozenset({"memory_live_bytes", "memory_cached_bytes", "memory_peak_bytes", "features_enabled", "work_pending"})
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class _Family:
    kind: str
    about: str
    samples: list[str] = field(default_factory=list)


class MetricsText:
    """Metric families, collected one sample after the other and written out together."""

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        """Start without any; ``labels`` are those that samples get from now on."""
        self.labels = dict(labels or {})
        self._families: dict[str, _Family] = {}

    def counter(self, name: str, about: str, value: float, **labels: object) -> None:
        """Add a sample of what only grows; the name is without prefix and ``_total``."""
        self._add(f"{PREFIX}{name}_total", "counter", about, value, labels)

    def gauge(self, name: str, about: str, value: float, **labels: object) -> None:
        """Add a gauge; its name is given without the prefix."""
        self._add(f"{PREFIX}{name}", "gauge", about, value, labels)

    def _add(self, name: str, kind: str, about: str, value: float, labels: Mapping[str, object]) -> None:
        family = self._families.setdefault(name, _Family(kind, about))
        pairs = ",".join(f'{label}="{str(said).translate(_ESCAPES)}"' for label, said in {**self.labels, **labels}.items())
        family.samples.append(f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}")

    def __str__(self) -> str:
        """Return the text: families in the order in which they came, each with its help and type."""
        lines = []
        for name, family in self._families.items():
            lines += [f"# HELP {name} {family.about.translate(_HELP_ESCAPES)}", f"# TYPE {name} {family.kind}", *family.samples]
        return "".join(f"{line}\n" for line in lines)


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(int(value))
    return repr(value) if math.isfinite(value) else {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")


def metrics_of(drivers: Sequence[Driver]) -> MetricsText:
    """Return the metrics of drivers, each sample with the device's name and uuid and the driver's number in its process."""
    text = MetricsText()
    for driver in drivers:
        text.labels = labels_of(driver)
        _add_driver(text, driver)
    return text


def labels_of(driver: Driver) -> dict[str, str]:
    """Return the labels of a driver's samples, which no other driver of the process has."""
    device = driver.device
    return {"device": device.name, "uuid": device.device_uuid.hex(), "number": str(driver.number)}


def _add_store(text: MetricsText, store: Mapping[str, Any] | None) -> None:
    """Add what a driver's report says of the store that machines share, if there is one."""
    if store is None:
        return
    text.gauge("cache_remote_usable", "Whether the store that machines share is asked now.", int(store["usable"]))
    text.counter("cache_remote_seconds", "Seconds in which that store was asked, by this process.", store["seconds"])
    for direction in ("read", "written"):
        about = "Bytes of entries that came from that store, and went there, by this process."
        text.counter("cache_remote_bytes", about, store[f"bytes_{direction}"], direction=direction)


def _add_driver(text: MetricsText, driver: Driver) -> None:
    report = driver.report()
    text.gauge(
        "info",
        "What the driver runs on; always 1.",
        1,
        backend=report["backend"],
        vulkan=driver.device.api,
        driver=report["driver"],
        type=report["device_type"],
    )
    text.gauge("device_lost", "Whether the device stopped answering.", int(driver.context.device.is_lost))
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
    _add_store(text, cache.get("remote"))
    layer: Any = report["layer"]
    for hook in layer["hooks"]:
        text.gauge("layer_hook", "Hooks of the Vulkan layer that are active; always 1.", 1, hook=hook)
    for name, value in layer["counters"].items():
        add = text.gauge if name in _GAUGES else text.counter
        add(f"layer_{name}", f"The Vulkan layer's counter {name}.", value)
