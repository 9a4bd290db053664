"""The compiled tally counts, sums, keeps and tells what its plain twin does, of every sequence of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import counters_twin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre_driver.telemetry._counters import Counters, Replays

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
    assert (without_times(kept), without_times(ours_heard)) == (without_times(twin.recent()), without_times(twin_heard))
    assert ours_heard[-len(kept) :] == (kept if heard else [])


@pytest.mark.parametrize("kinds", [0, 17])
def test_a_tally_has_1_to_16_kinds(kinds: int) -> None:
    with pytest.raises(ValueError, match=f"^{kinds} kinds are outside 1 to 16$"):
        Counters(kinds)


@pytest.mark.parametrize("kind", [-1, 16])
def test_a_kind_that_there_is_not_is_refused_and_changes_nothing(kind: int) -> None:
    tally = Counters(16)
    for tell in (lambda: tally.add(kind, 1, None, 1, ""), lambda: Replays(tally, kind, None)):
        with pytest.raises(ValueError, match=f"^kind {kind} is outside 0 to 15$"):
            tell()
    assert (tally.counts(), tally.total_ns(), tally.recent()) == ([0] * 16, [0] * 16, [])


@pytest.mark.parametrize(("duration_ns", "count"), [(2**63, 1), (1, 2**63)])
def test_a_number_of_more_than_64_bits_is_refused_and_changes_nothing(duration_ns: int, count: int) -> None:
    tally = Counters(1)
    with pytest.raises(OverflowError):
        tally.add(0, duration_ns, None, count, "")
    assert (tally.counts(), tally.total_ns(), tally.recent()) == ([0], [0], [])
