"""What one driver did, as frozen values: spans of the host's threads, and spans of the device."""

from __future__ import annotations

import bisect
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.telemetry._timeline import label_of_number
from vyre_driver.telemetry.events import EventKind
from vyre_driver.telemetry.stages import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vyre_driver.profiling.clocks import DeviceClock
    from vyre_driver.telemetry._timeline import TimelineEvent
    from vyre_driver.vulkan.layer._layer import Interval


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
    marked = _crossing([place for place, one in enumerate(ordered) if one.category == "call"], ordered)
    while True:
        rest = [place for place in range(len(ordered)) if place not in marked]
        more = {last for _, last in _pairs(rest, ordered)}  # the stages that such calls were under way with
        if not more:
            return [one._replace(is_async=True) if place in marked else one for place, one in enumerate(ordered)]
        marked |= more


def _crossing(places: Sequence[int], ordered: Sequence[HostSpan]) -> set[int]:
    """Return all that take part in a crossing of these places."""
    return {place for pair in _pairs(places, ordered) for place in pair}


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
    covered = {one.thread: [] for one in spans}  # type: dict[int, list[HostSpan]]
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
