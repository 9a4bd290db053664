"""What a trace comes to: kernels by their time on the device, the host's time, and the device's idle times, also as text."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vyre_driver.display.line import aligned, count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vyre_driver.profiling.trace_events import Document, Event

_DEVICE = "device "
_NS_PER_US = 1e3
_US_PER_S = 1e6


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """The dispatches of one name on the device; times in us. ``bytes_each`` is 0 where it is not known or not always equal."""

    name: str
    category: str
    count: int
    total_us: float
    median_us: float
    p90_us: float
    durations_us: tuple[float, ...]
    moved_bytes: int

    @property
    def bytes_per_second(self) -> float | None:
        """What it has moved a second of its time; None where the bytes are not known."""
        return self.moved_bytes / (self.total_us / _US_PER_S) if self.moved_bytes and self.total_us else None


@dataclass(frozen=True, slots=True)
class TrackTimes:
    """One queue of a device: the span from its first work to its last, what it was busy of that, and its longest gaps.

    A gap is (when it began, how long it took), in us.
    """

    name: str
    from_us: float
    to_us: float
    busy_us: float
    gaps: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """All of it. ``host`` has the count and the seconds of each stage by its name; one counts in what is around it too."""

    kernels: Sequence[KernelTimes]
    tracks: Sequence[TrackTimes]
    host: Mapping[str, tuple[int, float]]
    failures: int
    seconds: float
    about: Mapping[str, Any]


_MOST_GAPS = 5


def figures_of(document: Document) -> Figures:
    """Return the figures of a document."""
    events = document["traceEvents"]
    complete = [one for one in events if one["ph"] == "X"]
    on_device = [one for one in complete if one["cat"].startswith(_DEVICE)]
    host: dict[str, tuple[int, float]] = {}
    for one in complete:
        if not one["cat"].startswith((_DEVICE, "call", "failure")):
            number, seconds = host.get(one["name"], (0, 0.0))
            host[one["name"]] = number + 1, seconds + one["dur"] / _US_PER_S
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
    return Figures(
        kernels=_kernels(on_device),
        tracks=_tracks(on_device, names),
        host=dict(sorted(host.items(), key=lambda item: -item[1][1])),
        failures=sum(one["cat"] == "failure" for one in events if "cat" in one),
        seconds=document["otherData"]["seconds"],
        about=document["otherData"],
    )


def _kernels(on_device: Iterable[Event]) -> list[KernelTimes]:
    durations: dict[tuple[str, str], list[float]] = defaultdict(list)
    moved: dict[tuple[str, str], int] = defaultdict(int)
    for one in on_device:
        key = one["name"], one["cat"].removeprefix(_DEVICE)
        durations[key].append(one["dur"])
        moved[key] += one["args"].get("bytes", 0)
    found = [
        KernelTimes(
            name,
            category,
            len(each),
            sum(each),
            statistics.median(each),
            _p90(each),
            tuple(each),
            moved[name, category],
        )
        for (name, category), each in durations.items()
    ]
    return sorted(found, key=lambda one: -one.total_us)


def _p90(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]


def _tracks(on_device: Iterable[Event], names: Mapping[tuple[int, int], str]) -> list[TrackTimes]:
    by_track: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for one in on_device:
        by_track[one["pid"], one["tid"]].append(one)
    found = []
    for track, events in sorted(by_track.items()):
        gaps, busy_us = [], 0.0
        first = until = events[0]["ts"]
        for one in sorted(events, key=lambda event: event["ts"]):
            if one["ts"] > until:
                gaps.append((until, one["ts"] - until))
            ends = one["ts"] + one["dur"]
            busy_us += max(0.0, ends - max(until, one["ts"]))
            until = max(until, ends)
        longest = tuple(sorted(gaps, key=lambda gap: -gap[1])[:_MOST_GAPS])
        found.append(TrackTimes(names.get(track, str(track)), first, until, busy_us, longest))
    return found


_MOST_KERNELS = 15
_MOST_STAGES = 12
_WIDEST = 32


def text_of(document: Document, bandwidth: float | None = None) -> str:
    """Return the summary of a document; ``bandwidth`` are bytes a second of the device's memory, None where not known."""
    figures = figures_of(document)
    parts = [_head(figures), _kernel_table(figures, bandwidth), _device(figures.tracks), _host(figures)]
    return "\n\n".join(part for part in parts if part) + "\n"


def duration(us: float) -> str:
    """Return microseconds in the unit that fits."""
    if us >= 1e6:
        return f"{us / 1e6:.2f} s"
    return f"{us / 1e3:.2f} ms" if us >= 1e3 else f"{us:.1f} us"


def rate(bytes_per_second: float | None) -> str:
    """Return bytes a second in GB/s; nothing for None."""
    return "" if bytes_per_second is None else f"{bytes_per_second / 1e9:.1f} GB/s"


def notes_of(figures: Figures) -> list[str]:
    """Return, for each driver, the device, whose clock was read, and what is missing."""
    found = []
    for one in figures.about["drivers"]:
        found.append(f"{one['device']} (process {one['pid']}, driver {one['number']}): times by {one['clock']}")
        found += [f"  missing: {number} {name}" for name, number in one["missing"].items()]
    return found


def _head(figures: Figures) -> str:
    failed = f", {count(figures.failures, 'failure')}" if figures.failures else ""
    return "\n".join([f"Profile of {duration(figures.seconds * 1e6)}{failed}", *notes_of(figures)])


HOST_HEAD = ("count", "total")


def kernel_head(bandwidth: float | None) -> list[str]:
    """Return the headings of what ``kernel_rows`` has beside the names."""
    return ["count", "total", "median", "90 %", "moves", *(["of a copy's"] if bandwidth else [])]


def kernel_rows(kernels: Iterable[KernelTimes], bandwidth: float | None) -> list[list[str]]:
    """Return a row of texts for each kernel, with the share of what a copy moves where that is known."""
    rows = []
    for one in kernels:
        moved = one.bytes_per_second
        share = [f"{moved / bandwidth:.0%}" if moved else ""] if bandwidth else []
        rows.append([one.name, str(one.count), *map(duration, (one.total_us, one.median_us, one.p90_us)), rate(moved), *share])
    return rows


def host_rows(figures: Figures, most: int) -> list[list[str]]:
    """Return a row of texts for each of the stages of the host that took longest."""
    return [[name, str(number), duration(s * _US_PER_S)] for name, (number, s) in list(figures.host.items())[:most]]


def _kernel_table(figures: Figures, bandwidth: float | None) -> str:
    rows = [["on the device", *kernel_head(bandwidth)], *kernel_rows(figures.kernels[:_MOST_KERNELS], bandwidth)]
    for row in rows:
        row[0] = row[0] if len(row[0]) <= _WIDEST else row[0][: _WIDEST - 3] + "..."
    more = len(figures.kernels) - _MOST_KERNELS
    lines = aligned(rows) + ([f"  and {more} more"] if more > 0 else [])
    lines += [f"A copy on the device moves {rate(bandwidth)}."] if bandwidth else []
    return "\n".join(lines) if figures.kernels else "The device did nothing."


def _device(tracks: Sequence[TrackTimes]) -> str:
    lines = []
    for one in tracks:
        whole = one.to_us - one.from_us
        share = one.busy_us / whole if whole else 1.0
        lines.append(f"{one.name}: busy {duration(one.busy_us)} of {duration(whole)} ({share:.0%})")
        longest = ", ".join(f"{duration(took)} at {duration(at)}" for at, took in one.gaps)
        lines += [f"  longest gaps: {longest}"] if longest else []
    return "\n".join(lines)


def _host(figures: Figures) -> str:
    rows = [["on the host", *HOST_HEAD], *host_rows(figures, _MOST_STAGES)]
    return "\n".join(aligned(rows)) if figures.host else ""
