"""A driver's counters in Prometheus's text format.

Source: the Prometheus text exposition format 0.0.4. Names end in ``_total`` for what only grows, and carry their unit.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vyre_driver.telemetry.events import ObservedDriver

PREFIX = "vyre_driver_"
_NS_PER_S = 1e9
_GAUGES = frozenset({"memory_live_bytes", "memory_cached_bytes", "memory_peak_bytes", "features_enabled", "work_pending"})
_IN_FLIGHT = "work_pending"
_MOST_NAMES = 32  # of buffers: a label must not have any number of values
_HISTOGRAMS = {
    "dispatch": "Durations of dispatches that were waited for in the call, a batch as one.",
    "complete": "Durations of submitted work, from its submission until its end was seen.",
    "compile": "Durations of the making of pipelines.",
}
BUCKETS = range(10, 35, 2)
"""Of the exported histograms: the bounds are 2 ** n ns, from 1.02 us to 17.2 s."""
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

    def histogram(self, name: str, about: str, places: Sequence[int], total: float, **labels: object) -> None:
        """Add a histogram in seconds; place n has what took more than 2 ** (n - 1) ns and at most 2 ** n; ``total`` in s."""
        whole = f"{PREFIX}{name}"
        bounds = [(repr((1 << place) / _NS_PER_S), sum(places[: place + 1])) for place in BUCKETS]
        for bound, count in (*bounds, ("+Inf", sum(places))):
            self._add(whole, "histogram", about, count, {**labels, "le": bound}, "_bucket")
        self._add(whole, "histogram", about, total, labels, "_sum")
        self._add(whole, "histogram", about, sum(places), labels, "_count")

    def _add(  # noqa: PLR0913 -- the parts of a sample
        self, name: str, kind: str, about: str, value: float, labels: Mapping[str, object], suffix: str = ""
    ) -> None:
        family = self._families.setdefault(name, _Family(kind, about))
        pairs = ",".join(f'{label}="{str(said).translate(_ESCAPES)}"' for label, said in {**self.labels, **labels}.items())
        family.samples.append(f"{name}{suffix}{{{pairs}}} {_number(value)}" if pairs else f"{name}{suffix} {_number(value)}")

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


def metrics_of(drivers: Sequence[ObservedDriver]) -> MetricsText:
    """Return the metrics of drivers, each sample with the device's name and uuid and the driver's number in its process."""
    text = MetricsText()
    for driver in drivers:
        text.labels = labels_of(driver)
        _add_driver(text, driver.context.snapshot())
    return text


def labels_of(driver: ObservedDriver) -> dict[str, str]:
    """Return the labels of a driver's samples, which no other driver of the process has."""
    device = driver.device
    return {"device": device.name, "uuid": device.device_uuid.hex(), "number": str(driver.number)}


def _add_driver(text: MetricsText, found: Mapping[str, Any]) -> None:
    """Add the samples of a driver's snapshot."""
    report, moved = found["report"], found["moved"]
    about = {"backend": report["backend"], "vulkan": report["api_version"], "driver": report["driver"]}
    about |= {"type": report["device_type"], "command": Path(sys.argv[0] if sys.argv else "").name or "python"}
    text.gauge("info", "What the driver runs on, and in which program; always 1.", 1, **about)
    text.gauge("device_lost", "Whether the device stopped answering.", int(found["is_lost"]))
    _add_events(text, found["events"])
    _add_memory(text, found["memory"])
    for direction in ("up", "down"):
        about_moved = "Bytes of arrays that went up to the device, and came down from it."
        text.counter("moved_bytes", about_moved, moved[direction], direction=direction)
    cache = report["cache"]
    for what, count in cache["counts"].items():
        text.counter("cache", "What the pipeline cache did, and the errors it ignored, by its own names.", count, what=what)
    _add_store(text, cache.get("remote"))
    _add_layer(text, report["layer"])


def _add_events(text: MetricsText, events: Mapping[str, Any]) -> None:
    for kind, one in events["kinds"].items():
        text.counter("events", "Events by kind; dispatches one by one, evictions by entry.", one["count"], kind=kind)
        text.counter("event_seconds", "Seconds that timed events took, by kind.", one["total_ns"] / _NS_PER_S, kind=kind)
    for kind, about in _HISTOGRAMS.items():
        one = events["kinds"][kind]
        text.histogram(f"{kind}_seconds", about, one["histogram"], one["total_ns"] / _NS_PER_S)
    for operation, code, count in events["failures"]:
        text.counter("failures", "What raised, by the error's code.", count, operation=operation, code=code)
    for one in events["kernels"]:
        text.counter("kernel_dispatches", "Dispatches by the kernel's name.", one["dispatches"], kernel=one["name"])
        about = "Seconds of dispatches that were waited for, by the kernel's name; not of batches of several kernels."
        text.counter("kernel_seconds", about, one["total_ns"] / _NS_PER_S, kernel=one["name"])
        if one["device_ns"]:
            about = "Seconds on the device's own clock of dispatches that were timed there, by the kernel's name."
            text.counter("kernel_device_seconds", about, one["device_ns"] / _NS_PER_S, kernel=one["name"])
    text.counter("listeners_dropped", "Listeners that raised.", events["listeners_dropped"])


def _add_memory(text: MetricsText, memory: Mapping[str, Any]) -> None:
    """Add the bytes of all buffers, and the buffers of those names that have most bytes."""
    text.gauge("memory_bytes", "Bytes of device memory that buffers have.", memory["bytes"])
    named = sorted(memory["buffers"].items(), key=lambda item: -item[1][1])[:_MOST_NAMES]
    for name, (number, byte_len) in named:
        text.gauge("buffers", "Buffers by their name, for the names with most bytes.", number, buffer=name)
        text.gauge("buffer_bytes", "Bytes of buffers by their name, for the names with most bytes.", byte_len, buffer=name)


def _add_store(text: MetricsText, store: Mapping[str, Any] | None) -> None:
    """Add what a driver's report says of the store that machines share, if there is one."""
    if store is None:
        return
    text.gauge("cache_remote_usable", "Whether the store that machines share is asked now.", int(store["usable"]))
    text.counter("cache_remote_seconds", "Seconds in which that store was asked, by this process.", store["seconds"])
    for direction in ("read", "written"):
        about = "Bytes of entries that came from that store, and went there, by this process."
        text.counter("cache_remote_bytes", about, store[f"bytes_{direction}"], direction=direction)


def _add_layer(text: MetricsText, layer: Mapping[str, Any]) -> None:
    in_flight = layer["counters"].get(_IN_FLIGHT)
    if in_flight is not None:
        text.gauge("in_flight", "Submissions whose end has not been seen.", in_flight)
    for name, value in layer["counters"].items():
        add = text.gauge if name in _GAUGES else text.counter
        add(f"layer_{name}", f"The Vulkan layer's counter {name}.", value)


def merged(label: str, texts: Iterable[tuple[str, str]]) -> str:
    """Return the metrics of several processes, each with the value of a label, as one text in which each family is once.

    Source: the Prometheus text exposition format 0.0.4.
    """
    families: dict[str, list[str]] = {}
    for value, text in texts:
        lines: list[str] = []
        for line in text.removesuffix("\n").split("\n"):  # a name may have other characters that end lines
            if line.startswith("# HELP "):
                lines = families.setdefault(line.split(" ", 3)[2], [line])
            elif line.startswith("#"):
                if line not in lines:
                    lines.append(line)
            else:
                name, brace, rest = line.partition("{")
                lines.append(f'{name}{{{label}="{value}",{rest}' if brace else _labelled(line, label, value))
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


def _labelled(line: str, label: str, value: str) -> str:
    name, _, number = line.partition(" ")
    return f'{name}{{{label}="{value}"}} {number}'
