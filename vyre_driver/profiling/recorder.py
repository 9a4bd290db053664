"""What one driver did while it was recorded: its timeline, the intervals of its device, and the host's time of both.

The device's ticks become CLOCK_MONOTONIC by moments at which both clocks are known. What is recorded is frozen values: spans of
the host's threads, and spans of the device.

Source: Vulkan 1.3, ``timestampPeriod`` and ``timestampValidBits``; VK_EXT_calibrated_timestamps.
"""

from __future__ import annotations

import bisect
import os
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.errors import DispatchFailed, VyreError
from vyre_driver.telemetry._timeline import label_of_number
from vyre_driver.telemetry.events import EventKind
from vyre_driver.telemetry.stages import Stage
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.runtime.base import BaseDriver
    from vyre_driver.telemetry._timeline import TimelineEvent
    from vyre_driver.vulkan.layer._layer import Interval, Moment

_LEAST_APART_NS = 10_000_000  # two moments from which a rate is known
_ROUND_TRIPS = 5
_ROUND_TRIP_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class DeviceClock:
    """How to get from ticks to CLOCK_MONOTONIC: one moment at which both are known, and the ns of a tick."""

    ticks: int
    host_ns: int
    tick_ns: float
    bits: int
    deviation_ns: int

    def host_time_ns(self, ticks: int) -> int:
        """Return the host's time of a moment, which may lie before the known one."""
        apart = (ticks - self.ticks) % (1 << self.bits)
        if apart >= 1 << (self.bits - 1):
            apart -= 1 << self.bits
        return self.host_ns + round(apart * self.tick_ns)


def clock_of(moments: Sequence[Moment], period_ns: float, bits: int) -> DeviceClock | None:
    """Return the clock that goes through the first and the last of the moments; None without one.

    The two clocks run apart by some ns in a ms, which the moments tell where they are far enough apart.
    """
    if not moments:
        return None
    first, last = moments[0], moments[-1]
    ticks = (last.ticks - first.ticks) % (1 << bits)
    is_far = last.host_ns - first.host_ns >= _LEAST_APART_NS and ticks > 0
    tick_ns = (last.host_ns - first.host_ns) / ticks if is_far else period_ns
    return DeviceClock(first.ticks, first.host_ns, tick_ns, bits, max(first.deviation_ns, last.deviation_ns))


def moment_of(device: KomputeDevice) -> tuple[Moment | None, tuple[int, int] | None]:
    """Return a moment at which both clocks are known, and the host's times between which work was submitted to find it.

    A device that cannot tell is asked by round trips: its clock is written between the host's times of submission and end. Its
    intervals are being kept.
    """
    layer = device.layer
    if not device.is_timed:
        return None, None
    known = _layer.read_moment(layer)
    if known is not None or not layer.is_alive:
        return known or _layer.last_moment(layer), None
    began = time.monotonic_ns()
    sent = [trip for trip in (_round_trip(device, layer) for _ in range(_ROUND_TRIPS)) if trip is not None]
    ended = time.monotonic_ns()
    written = {one.submit_ns: one for one in _layer.intervals(layer) if began <= one.submit_ns <= ended}
    found = [
        _layer.Moment(one.last, (since + until) // 2, (until - since) // 2)
        for since, until in sent
        for one in [next((written[at] for at in written if since <= at <= until), None)]
        if one is not None
    ]
    return min(found, key=lambda one: one.deviation_ns, default=None), (began, ended)


def _round_trip(device: KomputeDevice, layer: _layer.LayerDevice) -> tuple[int, int] | None:
    """Return the host's times around empty work; None if it failed or took a second."""
    with device.in_use:
        empty = _layer.Transfer(layer, ())
        began = time.monotonic_ns()
        if empty.submit() is not None or empty.wait(_ROUND_TRIP_NS):
            return None
        return began, time.monotonic_ns()


class HostSpan(NamedTuple):
    """What a thread did from one ns of CLOCK_MONOTONIC to another; the same for what only happened."""

    name: str
    category: str
    began_ns: int
    ended_ns: int
    thread: int
    args: Mapping[str, Any]
    is_async: bool = False


class DeviceSpan(NamedTuple):
    """What a queue of the device did, in the host's time, and when which thread submitted it."""

    name: str
    category: str
    began_ns: int
    ended_ns: int
    queue: int
    moved_bytes: int
    submit_ns: int
    submitted_ns: int
    thread: int


@dataclass(frozen=True, slots=True)
class Recording:
    """What one driver did while it was recorded.

    ``clock`` says in words whose clock the device's spans are by. ``unix_ns`` is the system's time at ``began_ns``. ``missing``
    counts what is not in it, by reason.
    """

    pid: int
    number: int
    device: str
    began_ns: int
    ended_ns: int
    unix_ns: int
    spans: Sequence[HostSpan]
    work: Sequence[DeviceSpan]
    threads: Mapping[int, str]
    clock: str
    missing: Mapping[str, int] = field(default_factory=dict)


_STAGES = {
    Stage.COMPILE: ("compile", "compile"),
    Stage.LOWER: ("lower", "compile"),
    Stage.VALIDATE: ("spirv-val", "compile"),
    Stage.STORE: ("store in cache", "cache"),
    Stage.PIPELINE: ("make pipeline", "compile"),
    Stage.UPLOAD: ("upload", "transfer"),
    Stage.EXECUTE: ("execute", "execute"),
    Stage.READ_BACK: ("read back", "transfer"),
    Stage.SUBMIT: ("submit", "submit"),
    Stage.WAIT: ("wait", "wait"),
    Stage.WRITE_BUFFER: ("write buffer", "transfer"),
    Stage.READ_BUFFER: ("read buffer", "transfer"),
    Stage.FILL_BUFFER: ("fill buffer", "transfer"),
    Stage.COPY_BUFFER: ("copy buffer", "transfer"),
}
_KINDS = tuple(EventKind)
_LABELS = {1: "copy", 2: "fill"}


def host_spans(events: Iterable[TimelineEvent], names: Mapping[str, str]) -> list[HostSpan]:
    """Return the spans of a timeline's events; ``names`` are those of kernels by their keys."""
    found = []
    for began, ended, thread, kind, label, count, text in events:
        made = _stage(Stage(kind), label, text) if kind >= Stage.COMPILE else _event(_KINDS[kind], count, text, names)
        if made is not None:
            found.append(HostSpan(made[0], made[1], began, ended, thread, made[2]))
    return with_overlaps_marked(found)


def _stage(stage: Stage, label: int, text: Any) -> tuple[str, str, dict[str, Any]]:  # noqa: ANN401 -- what was added
    name, category = _STAGES[stage]
    kernel, moved = label_of_number(label)
    args: dict[str, Any] = {}
    if isinstance(text, tuple):
        args = {"buffer": text[0], "bytes": text[1]}
    elif text:
        args["of"] = text
    if kernel:
        args |= {"kernel": kernel, "kernel bytes": moved}
    return name, category, args


def _event(kind: EventKind, count: int, text: Any, names: Mapping[str, str]) -> tuple[str, str, dict[str, Any]] | None:  # noqa: ANN401 -- what was added
    (key, kernel), detail = text
    kernel = names.get(key, kernel)
    named = {"kernel": kernel} if kernel else {}
    match kind:
        case EventKind.DISPATCH:
            many = {"dispatches": count} if count != 1 else {}
            return detail or kernel or "dispatch", "call", named | many
        case EventKind.HIT | EventKind.MISS:
            return "cache look-up", "cache", named | {"verdict": kind.value, "reason": detail}
        case EventKind.COMPILE | EventKind.COMPLETE:
            return None  # when it was reported: "make pipeline" and the device's spans are when it was
        case EventKind.TUNE:
            return "tune", "compile", named
        case EventKind.FAILURE:
            failure, problem = detail
            return f"{failure.error} {failure.code}", "failure", named | {"problem": problem}
    return kind.value, "cache", named | {"detail": str(detail)}


def with_overlaps_marked(spans: Iterable[HostSpan]) -> list[HostSpan]:
    """Return spans in order, those marked that do not nest on their thread: calls of a stream go on beside each other."""
    ordered = sorted(spans, key=lambda one: (one.thread, one.began_ns, -one.ended_ns))
    calls = [place for place, one in enumerate(ordered) if one.category == "call"]
    marked = {place for pair in _pairs(calls, ordered) for place in pair}
    while True:
        rest = [place for place in range(len(ordered)) if place not in marked]
        more = {last for _, last in _pairs(rest, ordered)}  # the stages that such calls were under way with
        if not more:
            return [one._replace(is_async=True) if place in marked else one for place, one in enumerate(ordered)]
        marked |= more


def _pairs(places: Sequence[int], ordered: Sequence[HostSpan]) -> list[tuple[int, int]]:
    """Return pairs of which the second begins within the first and ends after it, on the same thread."""
    found: list[tuple[int, int]] = []
    stack: list[int] = []
    for place in places:
        one = ordered[place]
        while stack and (ordered[stack[-1]].thread != one.thread or ordered[stack[-1]].ended_ns <= one.began_ns):
            stack.pop()
        if stack and ordered[stack[-1]].ended_ns < one.ended_ns:
            found.append((stack.pop(), place))
        stack.append(place)
    return found


def device_spans(intervals: Sequence[Interval], clock: DeviceClock, spans: Sequence[HostSpan]) -> list[DeviceSpan]:
    """Return what the device did; work without a label gets the name of the span of the host that submitted it."""
    around = _innermost(intervals, spans)
    ends: dict[int, int] = {}
    found = []
    for place, one in enumerate(intervals):
        name, moved = label_of_number(one.label)
        category = "copy" if one.label in _LABELS else "dispatch"
        parent = around.get(place)
        if not name and parent is not None:
            name = parent.args.get("kernel") or parent.name
            moved = parent.args.get("kernel bytes", 0)
            category = "copy" if parent.category == "transfer" else category
        began = max(clock.host_time_ns(one.first), ends.get(one.queue, 0), one.submit_ns)
        ended = max(clock.host_time_ns(one.last), began)
        ends[one.queue] = ended
        found.append(
            DeviceSpan(name or "work", category, began, ended, one.queue, moved, one.submit_ns, one.submitted_ns, one.thread)
        )
    return found


def _innermost(intervals: Sequence[Interval], spans: Sequence[HostSpan]) -> dict[int, HostSpan]:
    """Return the innermost span around the submission of each interval, by the interval's place."""
    by_thread: dict[int, list[HostSpan]] = defaultdict(list)
    for one in spans:
        if not one.is_async:
            by_thread[one.thread].append(one)  # in order, and nested
    found = {}
    for thread in {one.thread for one in intervals}:
        waiting = by_thread.get(thread, [])
        at, stack = 0, []
        for place in sorted((p for p, i in enumerate(intervals) if i.thread == thread), key=lambda p: intervals[p].submit_ns):
            moment = intervals[place].submit_ns
            while at < len(waiting) and waiting[at].began_ns <= moment:
                stack.append(waiting[at])
                at += 1
            while stack and stack[-1].ended_ns < moment:
                stack.pop()
            inside = [one for one in stack if one.ended_ns >= moment]
            if inside:
                found[place] = inside[-1]
    return found


def with_submissions(intervals: Sequence[Interval], spans: Sequence[HostSpan]) -> list[HostSpan]:
    """Return the spans, and in those that submitted work and waited for it when they did the one and the other."""
    around = _innermost(intervals, spans)
    begins: dict[int, list[int]] = defaultdict(list)
    for one in spans:
        begins[one.thread].append(one.began_ns)
    for interval in intervals:
        begins[interval.thread].append(interval.submit_ns)
    for each in begins.values():
        each.sort()
    found = []
    for place, interval in enumerate(intervals):
        parent = around.get(place)
        if parent is None:
            continue
        handed = min(interval.submitted_ns, parent.ended_ns)
        found.append(HostSpan("vkQueueSubmit", "submit", interval.submit_ns, handed, parent.thread, {}))
        if parent.category in {"execute", "call"}:
            following = begins[parent.thread]
            at = bisect.bisect_left(following, handed)
            until = min(parent.ended_ns, following[at] if at < len(following) else parent.ended_ns)
            found.append(HostSpan("wait for the device", "wait", handed, until, parent.thread, {}))
    return sorted([*spans, *found], key=lambda one: (one.thread, one.began_ns, -one.ended_ns))


def spans_of_calls(spans: Sequence[HostSpan]) -> list[DeviceSpan]:
    """Return what a device without a clock did, from submission to end as the host saw it."""
    executed = [one for one in spans if one.category in {"execute", "submit"}]
    covered: dict[int, list[HostSpan]] = defaultdict(list)
    for one in executed:
        covered[one.thread].append(one)
    plain = [
        one
        for one in spans
        if one.category == "call"
        and not one.is_async
        and one.ended_ns > one.began_ns
        and not any(one.began_ns <= other.began_ns and other.ended_ns <= one.ended_ns for other in covered[one.thread])
    ]
    return [
        DeviceSpan(
            one.args.get("kernel") or one.name,
            "dispatch",
            one.began_ns,
            one.ended_ns,
            0,
            one.args.get("kernel bytes", 0),
            one.began_ns,
            one.began_ns,
            one.thread,
        )
        for one in sorted([*executed, *plain], key=lambda one: one.began_ns)
    ]


class Recorder:
    """One driver, recorded from ``start`` to ``stop``; it is not closed or forgotten before that."""

    def __init__(self, driver: BaseDriver, most: int, *, device_clock: bool = True) -> None:
        """Record nothing yet; ``most`` events of the host and spans of the device are kept, these by the ``device_clock``."""
        self.driver = driver
        device: Any = driver.context.device
        self.device: KomputeDevice | None = device if hasattr(type(device), "is_timed") else None
        """The device, where it is open in this process: that of an isolated driver is not."""
        self._most, self._has_device_clock = most, device_clock
        self._pid = os.getpid()
        self._moments: list[Moment] = []
        self._trips: list[tuple[int, int]] = []
        self._began_ns = self._unix_ns = self._ended_ns = 0
        self._keeping: object = None  # which goes with it, whatever interrupts what is below
        self._keeping_intervals: object = None
        self._child: Any = None
        self._recordings: list[Recording] | None = None

    def start(self) -> None:
        """Begin; raises DispatchFailed if the driver is closed."""
        if self.driver.is_closed:
            raise DispatchFailed("the driver to be profiled is closed", fix="make a new Driver")
        device = self.device
        self._keeping = self.driver.events.timeline.keep(self._most)
        try:
            if device is None:
                self._child = self.driver.child()  # type: ignore[attr-defined] # which isolated drivers have
                self._child.ask("a profile", "start_profile", self._most, self._has_device_clock)
            elif device.is_timed and self._has_device_clock:
                self._keeping_intervals = _layer.keep_intervals(device.layer, self._most)
                self._look_at_clocks(device)
            self._began_ns, self._unix_ns = time.monotonic_ns(), time.time_ns()
        except BaseException:
            self._release()
            raise

    def stop(self) -> None:
        """End. It may be called again, and in a fork, where nothing was seen."""
        if not self._began_ns or self._ended_ns:
            return
        self._ended_ns = time.monotonic_ns()
        try:
            if os.getpid() == self._pid:
                if self.device is not None and self._keeping_intervals is not None:
                    self._look_at_clocks(self.device)
                self._recordings = self._seen()
        finally:
            self._release()

    def recordings(self) -> list[Recording]:
        """Return what was seen up to the end, or to now; of an isolated driver in both processes, once it has ended."""
        return self._seen() if self._recordings is None else self._recordings

    def _release(self) -> None:
        self._keeping = self._keeping_intervals = None

    def _look_at_clocks(self, device: KomputeDevice) -> None:
        try:
            moment, trips = moment_of(device)
        except DispatchFailed:  # it is closed, or lost
            moment, trips = _layer.last_moment(device.layer), None
        if moment is not None:
            self._moments.append(moment)
        if trips is not None:
            self._trips.append(trips)

    def _seen(self) -> list[Recording]:
        timeline = self.driver.events.timeline
        until = self._ended_ns or time.monotonic_ns()
        spans = [
            one
            for one in host_spans(timeline.events(), timeline.names())
            if self._began_ns <= one.began_ns and one.ended_ns <= until
        ]
        missing = {"host events beyond the limit": timeline.dropped}
        work: list[DeviceSpan] = [] if self._child is not None else spans_of_calls(spans)
        clock = "the host's clock, from submission to end"
        if self.device is not None and self._moments:
            spans, work, clock = self._with_device(self.device, self.device.layer, spans, until)
            found = _layer.missing_intervals(self.device.layer)
            missing |= dict(zip(_MISSING, found, strict=True))
        own = Recording(
            pid=self._pid,
            number=self.driver.number,
            device=self.driver.device.name,
            began_ns=self._began_ns,
            ended_ns=until,
            unix_ns=self._unix_ns,
            spans=spans,
            work=work,
            threads=timeline.threads(),
            clock=clock,
            missing={name: number for name, number in missing.items() if number},
        )
        return [own, *self._of_child()]

    def _with_device(
        self, device: KomputeDevice, layer: _layer.LayerDevice, spans: list[HostSpan], until: int
    ) -> tuple[list[HostSpan], list[DeviceSpan], str]:
        family = device.physical.compute_family
        bits = 64 if family is None else family.timestamp_valid_bits
        clock = clock_of(self._moments, device.physical.limits.timestamp_period_ns, bits)
        assert clock is not None  # noqa: S101 -- there is a moment
        intervals = [
            one
            for one in _layer.intervals(layer)
            if self._began_ns <= one.submit_ns <= until and not any(a <= one.submit_ns <= b for a, b in self._trips)
        ]
        how = "round trips" if self._trips else "calibrated timestamps"
        about = f"the device's clock, placed by {how} to {clock.deviation_ns} ns"
        return with_submissions(intervals, spans), device_spans(intervals, clock, spans), about

    def _of_child(self) -> list[Recording]:
        """Return what was seen in the child of an isolated driver, which is asked at the end; nothing where it has died."""
        if self._child is None or not self._ended_ns:
            return []
        with suppress(VyreError):
            found: list[Recording] = self._child.ask("the profile", "end_profile")
            return found
        return []


_MISSING = (
    "device spans beyond the limit",
    "submissions with 256 others under way",
    "submissions that had not ended",
)
