"""Checks traces against the trace event format, and tells what nests in what."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import Any

from vyre_driver.profiling.trace_events import DEVICE_TRACKS

Event = dict[str, Any]
# Of each phase the keys that it has, and those that it may have.
KEYS = {
    "M": ({"name", "pid", "tid", "ts", "args"}, set()),
    "X": ({"name", "cat", "pid", "tid", "ts", "dur"}, {"args"}),
    "i": ({"name", "cat", "pid", "tid", "ts", "s"}, {"args"}),
    "b": ({"name", "cat", "pid", "tid", "ts", "id"}, {"args"}),
    "e": ({"name", "cat", "pid", "tid", "ts", "id"}, set()),
    "s": ({"name", "cat", "pid", "tid", "ts", "id"}, set()),
    "f": ({"name", "cat", "pid", "tid", "ts", "id", "bp"}, set()),
}
ROUNDED_US = 0.0011  # a nanosecond, as floats have it


def faults(document: dict[str, Any]) -> list[str]:
    """Return what is wrong with a document by the format, or with how its events lie in each other."""
    events = json.loads(json.dumps(document, allow_nan=False))["traceEvents"]
    found = [fault for one in events for fault in _faults_of(one)]
    if found:
        return found
    named = {(one["pid"], one["tid"]) for one in events if one["name"] == "thread_name"}
    found += [f"no name for the thread of {one}" for one in events if one["ph"] != "M" and _thread(one) not in named]
    times = [one["ts"] for one in events if one["ph"] != "M"]
    found += [] if times == sorted(times) else ["events are not in the order of time"]
    return found + _unpaired(events, "b", "e") + _unpaired(events, "s", "f") + _crossing(events)


def _thread(one: Event) -> tuple[int, int]:
    return one["pid"], one["tid"]


def _faults_of(one: Event) -> list[str]:
    needed, allowed = KEYS.get(one.get("ph", ""), (None, None))
    if needed is None or allowed is None:
        return [f"no such phase: {one}"]
    keys = set(one) - {"ph"}
    found = [] if needed <= keys <= needed | allowed else [f"other keys than of {one['ph']}: {one}"]
    numbers = [one.get("ts", 0), one.get("dur", 0)]
    if not all(isinstance(value, int | float) and math.isfinite(value) and value >= 0 for value in numbers):
        found.append(f"a time that is none: {one}")
    if not all(type(one.get(name)) is int for name in ("pid", "tid")) or not isinstance(one.get("name"), str):
        found.append(f"pid, tid or name of another type: {one}")
    return found


def _unpaired(events: list[Event], first: str, last: str) -> list[str]:
    begins = {one["id"]: one for one in events if one["ph"] == first}
    ends = {one["id"]: one for one in events if one["ph"] == last}
    found = [] if begins.keys() == ends.keys() else [f"{first} and {last} without each other: {begins.keys() ^ ends.keys()}"]
    return found + [f"{last} before {first}: {ends[at]}" for at in begins if at in ends and ends[at]["ts"] < begins[at]["ts"]]


def _crossing(events: list[Event]) -> list[str]:
    return [
        f"{one['name']} crosses the end of {around['name']}"
        for one, around in _nested(events)
        if around and not _in(one, around)
    ]


def _in(one: Event, around: Event) -> bool:
    return bool(one["ts"] + one["dur"] <= around["ts"] + around["dur"] + ROUNDED_US)


def _nested(events: list[Event]) -> list[tuple[Event, Event | None]]:
    """Return each complete event with the one that is around it."""
    stacks: dict[tuple[int, int], list[Event]] = defaultdict(list)
    found: list[tuple[Event, Event | None]] = []
    for one in events:
        if one["ph"] != "X":
            continue
        stack = stacks[_thread(one)]
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= one["ts"] + ROUNDED_US:
            stack.pop()
        found.append((one, stack[-1] if stack else None))
        stack.append(one)
    return found


def on_host(document: dict[str, Any], thread: int | None = None) -> list[str]:
    """Return what threads of the host did, in order: "call > execute"; of one thread, or of all."""
    path: dict[int, str] = {}
    found = []
    for one, around in _nested(document["traceEvents"]):
        if one["tid"] >= DEVICE_TRACKS or thread not in {None, one["tid"]}:
            continue
        path[id(one)] = one["name"] if around is None else f"{path[id(around)]} > {one['name']}"
        found.append(path[id(one)])
    return found


def on_device(document: dict[str, Any]) -> list[str]:
    """Return what the device did, in order."""
    return [one["name"] for one in document["traceEvents"] if one["ph"] == "X" and one["tid"] >= DEVICE_TRACKS]


def thread_names(document: dict[str, Any]) -> set[str]:
    """Return the names of the tracks."""
    return {one["args"]["name"] for one in document["traceEvents"] if one["name"] == "thread_name"}
