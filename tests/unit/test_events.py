"""What was done: counted, kept, told; and the text that Prometheus reads."""

from __future__ import annotations

import functools
import logging
import math
import threading
import time
import weakref
from typing import TYPE_CHECKING

import pytest
from extras import imported
from listeners import Heard

from vyre_driver.errors import InvalidInput
from vyre_driver.telemetry.events import Event, EventKind, Events
from vyre_driver.telemetry.prometheus import MetricsText

if TYPE_CHECKING:
    from conftest import RunChild


class Raises:
    """A listener that does not work."""

    def on_event(self, event: Event) -> None:
        raise ValueError(event.kind.value)


def parts(event: Event) -> tuple[object, ...]:
    return event.kind, event.duration_ns, event.key, event.count, event.detail


def test_events_are_counted_and_their_times_summed() -> None:
    events = Events()
    events.emit(EventKind.HIT, 5, "ab", detail="hit")
    events.emit(EventKind.HIT, 6, "cd")
    events.emit(EventKind.DISPATCH, 10, "ab", 1, "first")
    events.emit(EventKind.DISPATCH, None, None, 7, "batch")
    events.evicted(3, 4096)
    assert {kind.value: count for kind, count in events.counts().items()} == {
        "compile": 0,
        "hit": 2,
        "miss": 0,
        "dispatch": 8,
        "complete": 0,
        "tune": 0,
        "evict": 3,
        "failure": 0,
        "fetch": 0,
    }
    assert {kind.value: spent for kind, spent in events.total_ns().items() if spent} == {"hit": 11, "dispatch": 10}
    assert [parts(one) for one in events.recent()] == [
        (EventKind.HIT, 5, "ab", 1, "hit"),
        (EventKind.HIT, 6, "cd", 1, ""),
        (EventKind.DISPATCH, 10, "ab", 1, "first"),
        (EventKind.DISPATCH, None, None, 7, "batch"),
        (EventKind.EVICT, None, None, 3, "4096 bytes freed"),
    ]


def test_the_last_256_events_are_kept_with_the_time_of_each() -> None:
    events, began = Events(), time.time_ns()
    for number in range(300):
        events.emit(EventKind.DISPATCH, number, None)
    kept = events.recent()
    assert [one.duration_ns for one in kept] == list(range(44, 300))
    assert all(began <= one.ended_ns <= time.time_ns() for one in kept)


def test_listeners_hear_what_happens_while_they_listen() -> None:
    heard, other, events = Heard(), Heard(), Events()
    events.emit(EventKind.MISS)
    events.add_listener(heard)
    events.add_listener(other)
    events.emit(EventKind.HIT, 1, "ab", 2, "x")
    events.emit(EventKind.DISPATCH, 3, "ab")
    events.remove_listener(heard)
    events.remove_listener(heard)
    events.emit(EventKind.EVICT)
    assert [parts(one) for one in heard.events] == [(EventKind.HIT, 1, "ab", 2, "x"), (EventKind.DISPATCH, 3, "ab", 1, "")]
    assert other.events == list(events.recent()[1:])


def test_a_function_or_a_method_hears_as_an_object_does() -> None:
    events, heard, kinds = Events(), Heard(), []
    events.add_listener(lambda event: kinds.append(event.kind))
    events.add_listener(heard.on_event)
    events.emit(EventKind.HIT)
    events.remove_listener(heard.on_event)
    events.emit(EventKind.MISS)
    assert (kinds, [one.kind for one in heard.events]) == ([EventKind.HIT, EventKind.MISS], [EventKind.HIT])


@pytest.mark.parametrize(
    ("listener", "what"), [(None, "of type NoneType"), (Heard, "the class Heard"), ("on_event", "of type str")], ids=repr
)
def test_what_cannot_listen_is_refused_at_once(listener: object, what: str) -> None:
    with pytest.raises(InvalidInput, match=f"a listener is {what}, which cannot be called with an event"):
        Events().add_listener(listener)  # type: ignore[arg-type]


def takes_two(event: Event, other: object) -> None: ...


def wants_a_keyword(event: Event, *, wanted: object) -> None: ...


@functools.wraps(lambda _: None)
def wraps_one(event: Event, other: object) -> None: ...


async def never_awaited(event: Event) -> None: ...


class TakesNone:
    def on_event(self) -> None: ...


@pytest.mark.parametrize(
    ("listener", "problem"),
    [
        (lambda: None, r"<lambda>\(\) cannot be called with one event: too many positional arguments"),
        (takes_two, r"takes_two\(.*\) cannot be called with one event: missing a required argument: 'other'"),
        (wraps_one, r"<lambda>\(.*\) cannot be called with one event: missing a required argument: 'other'"),
        (wants_a_keyword, r"wants_a_keyword\(.*\) cannot be called with one event: missing a required.*'wanted'"),
        (TakesNone(), r"TakesNone\.on_event\(.*\) cannot be called with one event: too many positional arguments"),
        (never_awaited, r"never_awaited is a coroutine function, and nobody would await it"),
    ],
    ids=["none", "two", "a wrapper of two", "keyword", "method", "coroutine"],
)
def test_a_listener_that_no_event_can_be_given_to_is_refused_when_it_is_added(listener: object, problem: str) -> None:
    events = Events()
    with pytest.raises(InvalidInput, match=rf"^the listener {problem}\. Fix: "):
        events.add_listener(listener)  # type: ignore[arg-type]
    events.emit(EventKind.HIT)
    assert events.listeners_dropped == 0


def test_what_takes_an_event_besides_other_things_or_is_written_in_c_may_listen() -> None:
    events, heard, kept = Events(), [], []

    def takes_more(event: Event, note: str = "", *more: object, **named: object) -> None:
        heard.append((event.kind, note, more, named))

    for one in (takes_more, functools.partial(takes_more, note="noted"), kept.append):
        events.add_listener(one)
    events.emit(EventKind.HIT)
    assert heard == [(EventKind.HIT, "", (), {}), (EventKind.HIT, "noted", (), {})]
    assert (kept, events.listeners_dropped) == (list(events.recent()), 0)


def test_a_listener_that_raises_is_told_no_more_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    heard, events = Heard(), Events([Raises()])
    events.add_listener(heard)
    for _ in range(2):
        events.emit(EventKind.DISPATCH, 1, None)
    assert (len(heard.events), events.listeners_dropped, events.counts()[EventKind.DISPATCH]) == (2, 1, 2)
    assert [(one.name, one.levelname, one.getMessage()) for one in caplog.records] == [
        ("vyre_driver.telemetry.events", "ERROR", "a listener raised, and is removed")
    ]


def test_events_of_8_threads_are_all_counted_and_what_is_kept_of_them_is_whole() -> None:
    events = Events()
    torn: list[tuple[Event, ...]] = []

    def work(number: int) -> None:
        replays, name = events.dispatches(f"replay {number}", ("k",)), str(number)
        for turn in range(2000):
            events.emit(EventKind.DISPATCH, number, name, number, name)
            events.emit(EventKind.HIT, number, name, number, name)
            replays.handed_over()
            if turn % 20 == 0 and not are_whole(kept := events.recent()):
                torn.append(kept)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (torn, len(events.recent()), are_whole(events.recent())) == ([], 256, True)
    assert (events.counts()[EventKind.DISPATCH], events.total_ns()[EventKind.DISPATCH]) == (36 * 2000 + 8 * 2000, 36 * 2000)
    assert (events.counts()[EventKind.HIT], events.total_ns()[EventKind.HIT]) == (36 * 2000, 36 * 2000)


def are_whole(kept: tuple[Event, ...]) -> bool:
    """Whether they are in order, and all parts of each are of one event of the test above."""
    ended_ns = [one.ended_ns for one in kept]
    return ended_ns == sorted(ended_ns) and all(map(is_whole, kept))


def is_whole(event: Event) -> bool:
    if str(event.key).startswith("replay"):
        return parts(event)[1:] == (None, event.key, 1, "")
    return event.duration_ns == event.count == int(str(event.key)) and event.key == event.detail


def test_a_replay_is_told_of_as_a_dispatch_from_its_beginning_to_its_end() -> None:
    heard, events = Heard(), Events()
    replays = events.dispatches("ab", ("k",))
    outside, began_ns = time.monotonic_ns(), time.time_ns()
    began = replays.now()
    replays.ran(began)
    outside = time.monotonic_ns() - outside
    events.add_listener(heard)
    replays.ran(began)
    replays.handed_over()
    first, second, last = events.recent()
    assert (heard.events, parts(last)) == ([second, last], (EventKind.DISPATCH, None, "ab", 1, ""))
    assert parts(first) == (EventKind.DISPATCH, first.duration_ns, "ab", 1, "")
    assert 0 < (first.duration_ns or 0) <= outside
    assert (first.duration_ns or 0) < (second.duration_ns or 0)
    assert began_ns <= first.ended_ns <= second.ended_ns <= last.ended_ns <= time.time_ns()
    assert (events.counts()[EventKind.DISPATCH], events.total_ns()[EventKind.DISPATCH]) == (
        3,
        (first.duration_ns or 0) + (second.duration_ns or 0),
    )


def test_a_label_of_any_text_type_is_kept_as_it_is_and_let_go_when_others_push_it_out() -> None:
    class Label(str):
        __slots__ = ("__weakref__",)

        def __del__(self) -> None:
            events.emit(EventKind.DISPATCH, None, None, detail="its end")

    events, label = Events(), Label("mine")
    gone = weakref.ref(label)
    events.emit(EventKind.DISPATCH, 1, "ab", 1, label)
    (kept,) = events.recent()
    assert kept.detail is label
    del label, kept
    for number in range(256):
        assert gone() is not None
        events.emit(EventKind.DISPATCH, number, None)
    found = [(one.duration_ns, one.detail) for one in events.recent()]
    assert (gone(), found) == (None, [(number, "") for number in range(1, 256)] + [(None, "its end")])
    assert events.counts()[EventKind.DISPATCH] == 258


def test_events_but_for_dispatches_are_logged_for_who_wants_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "vyre_driver"):
        events = Events()
        events.emit(EventKind.MISS, 5, "ab", detail="no entry")
        events.dispatches("ab", ("k",)).handed_over()
    assert [one.getMessage() for one in caplog.records] == ["miss ab: no entry"]


def test_nothing_is_printed_where_nobody_set_logging_up(run_python: RunChild) -> None:
    code = (
        "from vyre_driver.telemetry.events import Events, EventKind\nimport logging\n"
        "logging.getLogger('vyre_driver.pool').warning('lost')\nprint('quiet')"
    )
    done = run_python("-W", "error", "-c", code)
    assert (done.status, done.stdout, done.stderr) == (0, "quiet\n", "")


def test_metrics_are_written_by_family_with_help_type_and_labels() -> None:
    text = MetricsText({"device": 'a "GPU"\\\n'})
    text.counter("x", "Things\nof \\ x.", 3, kind="a")
    text.gauge("y", "y.", 1.5)
    text.counter("x", "ignored", 2**70, kind="b")
    assert str(text) == (
        "# HELP vyre_driver_x_total Things\\nof \\\\ x.\n"
        "# TYPE vyre_driver_x_total counter\n"
        'vyre_driver_x_total{device="a \\"GPU\\"\\\\\\n",kind="a"} 3\n'
        'vyre_driver_x_total{device="a \\"GPU\\"\\\\\\n",kind="b"} 1180591620717411303424\n'
        "# HELP vyre_driver_y y.\n"
        "# TYPE vyre_driver_y gauge\n"
        'vyre_driver_y{device="a \\"GPU\\"\\\\\\n"} 1.5\n'
    )


def test_numbers_that_are_none_are_written_as_prometheus_reads_them() -> None:
    text = MetricsText()
    for number, value in enumerate((math.inf, -math.inf, math.nan, 1e-9)):
        text.gauge(f"n{number}", "n.", value)
    assert [line.partition(" ")[2] for line in str(text).splitlines() if line[0] != "#"] == ["+Inf", "-Inf", "NaN", "1e-09"]


def test_prometheus_reads_what_is_written() -> None:
    parser = imported("prometheus_client.parser")
    text = MetricsText({"device": 'a "GPU"\\\n'})
    text.counter("x", "Things\nof x.", 3, kind="a")
    text.gauge("y", "y.", math.inf)
    found = [
        (family.name, family.type, family.documentation, [(one.name, one.labels, one.value) for one in family.samples])
        for family in parser.text_string_to_metric_families(str(text))
    ]
    labels = {"device": 'a "GPU"\\\n'}
    assert found == [
        ("vyre_driver_x", "counter", "Things\nof x.", [("vyre_driver_x_total", labels | {"kind": "a"}, 3.0)]),
        ("vyre_driver_y", "gauge", "y.", [("vyre_driver_y", labels, math.inf)]),
    ]
