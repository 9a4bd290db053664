"""What a trace comes to: from recorded values to events, figures, text and page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from traces import faults

from vyre_driver.errors import InvalidInput
from vyre_driver.profiling.recorder import (
    DeviceClock,
    DeviceSpan,
    HostSpan,
    Recording,
    clock_of,
    device_spans,
    host_spans,
    with_overlaps_marked,
    with_submissions,
)
from vyre_driver.profiling.report import histogram, html_of
from vyre_driver.profiling.summary import KernelTimes, figures_of, text_of
from vyre_driver.profiling.trace_events import document_of, joined, read_document, write_document
from vyre_driver.telemetry._timeline import Timeline, label_of
from vyre_driver.telemetry.events import EventKind, Events
from vyre_driver.vulkan.layer._layer import Interval, Moment

if TYPE_CHECKING:
    from pathlib import Path

US = 1000
THREAD = 77


def host(name: str, category: str, began_us: int, ended_us: int, thread: int = THREAD) -> HostSpan:
    return HostSpan(name, category, began_us * US, ended_us * US, thread, {})


def work(name: str, began_us: int, ended_us: int, moved: int = 0) -> DeviceSpan:
    return DeviceSpan(name, "dispatch", began_us * US, ended_us * US, 0, moved, began_us * US, began_us * US, THREAD)


def recording(
    *, pid: int = 10, unix_ns: int = 5_000_000_000, spans: tuple[HostSpan, ...] = (), done: tuple[DeviceSpan, ...] = ()
) -> Recording:
    return Recording(
        pid, 1, "a device", 0, 1_000 * US, unix_ns, spans, done, {THREAD: "MainThread"}, "a clock", {"of a kind": 3}
    )


BUSY = recording(
    spans=(host("compile", "compile", 0, 100), host("step", "call", 100, 250)),
    done=(work("step", 110, 130, 2_000), work("step", 150, 190, 2_000), work("other", 200, 240)),
)


def test_one_slow_dispatch_leaves_the_others_apart_in_the_histogram() -> None:
    times = (10.0, 12.0, 14.0, 18.0, 22.0, 100_000.0)
    picture = histogram(KernelTimes("step", "dispatch", 6, sum(times), 16.0, 22.0, times, 0))
    assert re.findall(r"<title>(\d+)</title>", picture) == ["3", "1", "1", "1"]


def test_equal_and_unmeasured_times_make_a_histogram() -> None:
    for times, bars in (((5.0,) * 5, ["5"]), ((0.0,) * 5, ["5"]), ((0.0, 0.0, 3.0), ["2", "1"])):
        picture = histogram(KernelTimes("step", "dispatch", len(times), sum(times), 5.0, 5.0, times, 0))
        assert re.findall(r"<title>(\d+)</title>", picture) == bars


def test_kernels_have_their_times_and_tracks_their_gaps() -> None:
    found = figures_of(document_of([BUSY]))
    kernels = [(one.name, one.count, one.total_us, one.median_us, one.p90_us, one.bytes_per_second) for one in found.kernels]
    assert kernels == [("step", 2, 60.0, 30.0, 40.0, pytest.approx(4_000 / 60e-6)), ("other", 1, 40.0, 40.0, 40.0, None)]
    (track,) = found.tracks
    assert (track.busy_us, track.from_us, track.to_us) == (100.0, 110.0, 240.0)
    assert [(at, pytest.approx(took)) for at, took in track.gaps] == [(130.0, 20.0), (190.0, 10.0)]
    assert found.host == {"compile": (1, pytest.approx(100e-6))}


def test_the_summary_has_kernels_gaps_stages_and_what_is_missing() -> None:
    lines = text_of(document_of([BUSY]), 1e8).splitlines()
    assert lines[:3] == [
        "Profile of 1.00 ms",
        "a device (process 10, driver 1): times by a clock",
        "  missing: 3 of a kind",
    ]
    assert [re.split(r"  +", line) for line in lines if line.startswith("step")] == [
        ["step", "2", "60.0 us", "30.0 us", "40.0 us", "0.1 GB/s", "67%"]
    ]
    assert "a device #1 queue: busy 100.0 us of 130.0 us (77%)" in lines
    assert text_of(document_of([recording()])).count("The device did nothing.") == 1


def test_a_page_escapes_what_it_shows_and_draws_no_more_bars_than_points() -> None:
    many = tuple(work("<i>", 10 * number, 10 * number + 9) for number in range(20_000))
    page = html_of(document_of([recording(done=many)]), None)
    assert ("<i>" in page, "&lt;i&gt;" in page, len(page) < 400_000) == (False, True, True)


def test_spans_that_cross_are_asynchronous_and_what_nests_is_not() -> None:
    chunks = [host("chunk", "call", 10 * number, 10 * number + 25) for number in range(4)]
    nested = [host("call", "call", 200, 300), host("execute", "execute", 210, 290)]
    found = with_overlaps_marked([*chunks, *nested])
    assert [(one.name, one.is_async) for one in found] == [("chunk", True)] * 4 + [("call", False), ("execute", False)]
    document = document_of([recording(spans=tuple(found))])
    assert faults(document) == []


def test_the_checks_of_traces_find_what_is_wrong() -> None:
    crossing = document_of([recording(spans=(host("a", "compile", 0, 20), host("b", "compile", 10, 30)))])
    assert faults(crossing) == ["b crosses the end of a"]
    negative = document_of([recording(done=(work("step", 20, 10),))])
    assert len(faults(negative)) == 1


def test_a_devices_spans_follow_each_other_and_are_named_by_what_submitted_them() -> None:
    named = label_of("named", 64)
    call = HostSpan("call", "call", 0, 900 * US, THREAD, {"kernel": "outer"})
    intervals = [
        Interval(100, 200, 90 * US, 91 * US, THREAD, 0, 0),
        Interval(150, 300, 92 * US, 93 * US, THREAD, named, 0),
        Interval(120, 130, 95 * US, 96 * US, THREAD, 1, 1),
        Interval(400, 500, 999 * US, 999 * US, THREAD, 0, 0),
    ]
    found = device_spans(intervals, DeviceClock(0, 0, 1000.0, 64, 1), [call])
    seen = [(one.name, one.category, one.began_ns // US, one.ended_ns // US, one.queue, one.moved_bytes) for one in found]
    assert seen == [
        ("outer", "dispatch", 100, 200, 0, 0),
        ("named", "dispatch", 200, 300, 0, 64),
        ("copy", "copy", 120, 130, 1, 0),
        ("work", "dispatch", 999, 999, 0, 0),
    ]


def test_what_submits_has_the_submission_and_the_wait_in_it() -> None:
    spans = [host("call", "call", 0, 100), host("read back", "transfer", 80, 100)]
    found = with_submissions([Interval(0, 0, 10 * US, 12 * US, THREAD, 0, 0)], spans)
    assert [(one.name, one.began_ns // US, one.ended_ns // US) for one in found] == [
        ("call", 0, 100),
        ("vkQueueSubmit", 10, 12),
        ("wait for the device", 12, 80),
        ("read back", 80, 100),
    ]


@pytest.mark.parametrize(
    ("moments", "ticks", "expected"),
    [
        ([Moment(1000, 5000, 7)], 1100, 5200),  # ticks of 2 ns
        ([Moment(1000, 5000, 7)], 900, 4800),
        ([Moment(2**36 - 10, 5000, 7)], 10, 5040),  # wrapped around
        ([Moment(0, 0, 7), Moment(10_000_000, 30_000_000, 9)], 1_000_000, 3_000_000),  # which is 3 ns by both moments
        ([Moment(0, 0, 7), Moment(1_000, 3_000, 9)], 1_000_000, 2_000_000),  # too near to tell
    ],
)
def test_ticks_become_the_hosts_time(moments: list[Moment], ticks: int, expected: int) -> None:
    clock = clock_of(moments, 2.0, 36)
    assert clock is not None
    assert (clock.host_time_ns(ticks), clock.deviation_ns) == (expected, moments[-1].deviation_ns)
    assert clock_of([], 2.0, 36) is None


def test_joined_traces_are_placed_by_the_systems_clock(tmp_path: Path) -> None:
    later = recording(pid=11, unix_ns=5_000_002_000, spans=(host("later", "compile", 1, 2),))
    for name, one in (("a.json", BUSY), ("b.json.gz", later)):
        write_document(tmp_path / name, document_of([one]))
    found = joined([read_document(tmp_path / name) for name in ("a.json", "b.json.gz")])
    assert faults(found) == []
    (moved,) = [one for one in found["traceEvents"] if one["name"] == "later"]
    assert (moved["ts"], found["otherData"]["started_unix_ns"], len(found["otherData"]["drivers"])) == (3.0, 5_000_000_000, 2)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "no trace that vyre_driver has written"),
        ("[1", "no trace that vyre_driver has written"),
        ('{"traceEvents": [], "otherData": {"format": "vyre_driver.trace", "version": 2, "started_unix_ns": 1}}', "version 2"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "other.json").write_text(text, "utf-8")
    with pytest.raises(InvalidInput, match=problem):
        read_document(tmp_path / "other.json")
    with pytest.raises(InvalidInput, match="no traces to join"):
        joined([])


def test_a_timeline_keeps_events_while_somebody_holds_it_and_counts_those_beyond() -> None:
    timeline = Timeline()
    timeline.add(64, 10)
    assert (timeline.now(), timeline.events()) == (0, [])
    first = timeline.keep(2)
    second = timeline.keep(1000)
    for number in range(1, 4):
        timeline.add(64, number, 0, "text", ended_ns=number + 5)
    timeline.add(64, 0)  # begun while it was off
    del first
    assert timeline.is_on
    del second
    seen = [(began, ended, kind, count, text) for began, ended, _, kind, _, count, text in timeline.events()]
    assert (seen, timeline.dropped, timeline.is_on) == ([(1, 6, 64, 1, "text"), (2, 7, 64, 1, "text")], 1, False)
    held = timeline.keep(5)
    assert (timeline.events(), timeline.dropped, held is not None) == ([], 0, True)
    with pytest.raises(ValueError, match="0 events are outside"):
        timeline.keep(0)


def test_events_appear_by_label_or_by_kernel_and_the_end_of_submitted_work_is_left_to_the_device() -> None:
    events = Events()
    named = events.dispatches("k1", ("saxpy.spv",))
    labelled, unnamed = named.labelled("first step"), events.dispatches("k2", ("scale",))
    events.timeline.name("k1", "saxpy")
    held = events.timeline.keep(100)
    for one in (named, labelled, unnamed, events.dispatches(None, ("a", "a", "b"), "batch")):
        one.ran(one.now())
    named.was_seen(named.handed_over())
    events.emit(EventKind.TUNE, 1, kernel="scale")
    events.failed(EventKind.DISPATCH, InvalidInput("no", fix="yes"), 1, key="k1", kernel="saxpy.spv")
    spans = host_spans(events.timeline.events(), events.timeline.names())
    seen = [(one.name, one.category, dict(one.args)) for one in sorted(spans, key=lambda one: one.ended_ns)]
    assert (seen, held is not None) == (
        [
            ("saxpy", "call", {"kernel": "saxpy"}),
            ("first step", "call", {"kernel": "saxpy"}),
            ("scale", "call", {"kernel": "scale"}),
            ("batch", "call", {"kernel": "a, b", "dispatches": 3}),
            ("saxpy", "call", {"kernel": "saxpy"}),
            ("tune", "compile", {"kernel": "scale"}),
            ("InvalidInput 2201", "failure", {"kernel": "saxpy", "problem": "no"}),
        ],
        True,
    )
