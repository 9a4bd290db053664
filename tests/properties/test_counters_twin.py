"""The compiled tally counts, sums, keeps and tells what its plain twin does, of every sequence of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import counters_twin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre_driver.telemetry._counters import Counters, Dispatches, KernelCounts

if TYPE_CHECKING:
    from vyre_driver.telemetry._counters import Parts

Added: TypeAlias = tuple[int, int | None, str | None, int, str]
KINDS = 5
ADDED = st.tuples(
    st.integers(0, KINDS - 1),
    st.none() | st.integers(0, 2**50),
    st.none() | st.text(max_size=3),
    st.integers(0, 2**50),
    st.text(max_size=3),
)
RUNS = st.lists(st.tuples(st.lists(ADDED, min_size=1, max_size=5), st.integers(1, 150)), max_size=6)  # repeated, past the 256


def without_times(kept: list[Parts]) -> list[Added]:
    return [(kind, duration_ns, key, count, detail) for kind, _, duration_ns, key, count, detail in kept]


@given(runs=RUNS, heard=st.booleans())
def test_a_sequence_of_events_leaves_what_it_leaves_in_the_twin(runs: list[tuple[list[Added], int]], *, heard: bool) -> None:
    ours, twin = Counters(KINDS), counters_twin.Counters(KINDS)
    ours_heard: list[Parts] = []
    twin_heard: list[Parts] = []
    ours.hear, twin.hear = (ours_heard.append, twin_heard.append) if heard else (None, None)
    for events, repeats in runs:
        for event in events * repeats:
            ours.add(*event)
            twin.add(*event)
    kept = ours.recent()
    assert (ours.counts(), ours.total_ns()) == (twin.counts(), twin.total_ns())
    assert [ours.histogram(kind) for kind in range(KINDS)] == [twin.histogram(kind) for kind in range(KINDS)]
    assert (without_times(kept), without_times(ours_heard)) == (without_times(twin.recent()), without_times(twin_heard))
    assert ours_heard[-len(kept) :] == (kept if heard else [])


@pytest.mark.parametrize("kinds", [0, 17])
def test_a_tally_has_1_to_16_kinds(kinds: int) -> None:
    with pytest.raises(ValueError, match=f"^{kinds} kinds are outside 1 to 16$"):
        Counters(kinds)


@pytest.mark.parametrize("kind", [-1, 16])
def test_a_kind_that_there_is_not_is_refused_and_changes_nothing(kind: int) -> None:
    tally = Counters(16)
    refused = [
        lambda: tally.add(kind, 1, None, 1, ""),
        lambda: Dispatches(tally, kind, 0, None, ()),
        lambda: Dispatches(tally, 0, kind, None, ()),
    ]
    for tell in refused:
        with pytest.raises(ValueError, match=f"^kind {kind} is outside 0 to 15$"):
            tell()
    assert (tally.counts(), tally.total_ns(), tally.recent()) == ([0] * 16, [0] * 16, [])


@pytest.mark.parametrize(("duration_ns", "count"), [(2**63, 1), (1, 2**63)])
def test_a_number_of_more_than_64_bits_is_refused_and_changes_nothing(duration_ns: int, count: int) -> None:
    tally = Counters(1)
    with pytest.raises(OverflowError):
        tally.add(0, duration_ns, None, count, "")
    assert (tally.counts(), tally.total_ns(), tally.recent()) == ([0], [0], [])


@pytest.mark.parametrize(
    ("duration_ns", "place"),
    [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (2**42, 42), (2**42 + 1, 43), (2**63 - 1, 43), (-5, 0)],
)
def test_a_duration_is_in_the_place_of_the_power_of_two_that_it_does_not_exceed(duration_ns: int, place: int) -> None:
    tally = Counters(2)
    tally.add(1, duration_ns, None, 1, "")
    assert (tally.histogram(1)[place], sum(tally.histogram(1)), sum(tally.histogram(0))) == (1, 1, 0)
    with pytest.raises(ValueError, match=r"^kind 2 is outside 0 to 1$"):
        tally.histogram(2)


def test_dispatches_are_counted_for_their_kernels_and_only_a_kernel_by_itself_has_taken_the_time() -> None:
    tally, one, other = Counters(2), KernelCounts("one"), KernelCounts("other")
    alone = Dispatches(tally, 0, 1, "subject", ((one, 1),), "label")
    several = Dispatches(tally, 0, 1, None, ((one, 2), (other, 3)))
    began = alone.now()
    alone.ran(began)
    alone.ran(began, "its own")
    alone.labelled("another").was_seen(alone.handed_over())
    several.ran(began)
    several.was_seen(several.handed_over())
    alone.measured(70)
    several.measured(700)
    kept = tally.recent()
    assert [(kind, subject, count, detail) for kind, _, _, subject, count, detail in kept] == [
        (0, "subject", 1, "label"),
        (0, "subject", 1, "its own"),
        (0, "subject", 1, "label"),
        (1, "subject", 1, "another"),
        (0, None, 5, ""),
        (0, None, 5, ""),
        (1, None, 5, ""),
    ]
    assert [kept[place][2] is None for place in (2, 5)] == [True, True]
    took_ns = sum(duration_ns or 0 for _, _, duration_ns, subject, _, _ in kept if subject)
    found = [(each.name, each.dispatches, each.total_ns, each.device_ns) for each in (one, other)]
    assert (found, tally.counts()) == ([("one", 7, took_ns, 70), ("other", 6, 0, 0)], [13, 6])
