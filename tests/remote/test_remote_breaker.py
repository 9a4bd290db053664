"""When a store is left alone, and how the processes of a machine tell each other; and what is remembered as absent."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import pytest

from vyre_driver.cache import DiskPipelineCache
from vyre_driver.remote.breaker import Breaker
from vyre_driver.remote.worker import KEPT_S, MOST_ABSENT, AbsentNames

if TYPE_CHECKING:
    from pathlib import Path

NAME = "0123456789abcdef"
BEGINNING = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = BEGINNING

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def breaker(root: Path | None, clock: Clock, spread: float = 0.0) -> Breaker:
    return Breaker(DiskPipelineCache(root), NAME, clock, lambda: spread)


def periods(one: Breaker, clock: Clock, kind: str, times: int) -> list[float]:
    """Fail, look for how long it stays open, and try again, so many times."""
    found = []
    for _ in range(times):
        assert one.failed(kind)
        before = clock.now
        while one.is_open():
            clock.now += 1.0
        found.append(clock.now - before)
        assert one.begin_trial()
        clock.now += 2.0
    return found


@pytest.mark.parametrize("kind", ["refused", "timed_out"])
def test_a_connection_that_is_refused_or_times_out_opens_it_at_once_for_longer_each_time(
    tmp_path: Path, clock: Clock, kind: str
) -> None:
    one = breaker(tmp_path / "root", clock)
    assert (one.is_open(), one.begin_trial()) == (False, False)
    assert periods(one, clock, kind, 8) == [5, 10, 20, 40, 80, 160, 300, 300]


@pytest.mark.parametrize(("spread", "period"), [(-1.0, 4.0), (1.0, 6.0)])
def test_periods_are_spread_by_a_fifth(tmp_path: Path, clock: Clock, spread: float, period: float) -> None:
    assert periods(breaker(tmp_path / "root", clock, spread), clock, "refused", 1) == [period]


def test_answers_that_are_cut_or_late_open_it_at_the_third_within_a_minute(tmp_path: Path, clock: Clock) -> None:
    one = breaker(tmp_path / "root", clock)
    outcomes = []
    for kind, after_s in [("cut", 0), ("late", 31), ("cut", 31), ("other", 1)]:
        clock.now += after_s
        outcomes.append(one.failed(kind))
    assert (outcomes, one.is_open(), one.reason) == ([False, False, False, True], True, "other")


def test_a_failed_trial_opens_it_whatever_failed_and_one_that_works_closes_it(tmp_path: Path, clock: Clock) -> None:
    one = breaker(tmp_path / "root", clock)
    assert one.failed("refused")
    clock.now += 5
    assert (one.is_open(), one.begin_trial(), one.failed("cut"), one.is_open()) == (False, True, True, True)
    clock.now += 10
    assert (one.is_open(), one.begin_trial()) == (False, True)
    one.answered()
    assert (one.is_open(), one.begin_trial(), list((tmp_path / "root" / "remote").iterdir())) == (False, False, [])
    assert periods(one, clock, "refused", 1) == [5]


def test_a_store_that_denies_is_left_alone_for_five_minutes_with_one_warning_that_names_the_setting(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    one = breaker(tmp_path / "root", clock)
    with caplog.at_level(logging.WARNING, "vyre_driver.remote"):
        assert periods(one, clock, "denied", 2) == [300, 300]
    fix = "Fix: check the user and password of VYRE_CACHE_REMOTE_SECRET_FILE, and what that user may do."
    assert caplog.messages == [f"the shared cache is left alone for 300 s: denied. {fix}"]


def test_a_store_that_is_full_stays_closed_to_no_reader(tmp_path: Path, clock: Clock) -> None:
    one = breaker(tmp_path / "root", clock)
    assert ([one.failed("full") for _ in range(4)], one.is_open()) == ([False] * 4, False)


def test_eight_refused_entries_in_a_row_open_it_as_poisoned_and_one_that_is_taken_begins_the_count_anew(
    tmp_path: Path, clock: Clock
) -> None:
    one = breaker(tmp_path / "root", clock)
    assert not any(one.judged(is_refused=number != 7) for number in range(1, 15))
    assert (one.judged(is_refused=True), one.reason) == (True, "poisoned")
    clock.now += 299
    assert one.is_open()


def test_what_one_process_found_out_holds_for_all_of_the_machine(tmp_path: Path, clock: Clock) -> None:
    finder, other = breaker(tmp_path / "root", clock), breaker(tmp_path / "root", clock)
    assert not other.is_open()
    assert finder.failed("refused")
    assert (other.is_open(), other.reason) == (True, "refused")
    clock.now += 5
    assert (other.is_open(), other.begin_trial(), finder.is_open()) == (False, True, True)
    other.answered()
    clock.now += 2
    assert (finder.is_open(), finder.begin_trial()) == (False, False)


@pytest.mark.parametrize("years", [-1, 1])
def test_a_clock_that_is_wrong_by_a_year_keeps_nothing_open(tmp_path: Path, clock: Clock, years: int) -> None:
    one = breaker(tmp_path / "root", clock)
    assert one.failed("refused")
    clock.now += years * 365 * 86_400
    assert (one.is_open(), breaker(tmp_path / "root", clock).is_open()) == (False, False)


def test_without_a_directory_each_process_finds_out_for_itself(clock: Clock) -> None:
    one, other = breaker(None, clock), breaker(None, clock)
    assert (periods(one, clock, "refused", 2), other.is_open()) == ([5, 10], False)


def test_a_state_that_is_not_readable_as_one_counts_as_opened_once(tmp_path: Path, clock: Clock) -> None:
    one = breaker(tmp_path / "root", clock)
    assert one.failed("refused")
    (tmp_path / "root" / "remote" / f"{NAME}.open").write_bytes(b"\xff\0")
    os.utime(tmp_path / "root" / "remote" / f"{NAME}.open", (clock.now + 3, clock.now + 3))
    other = breaker(tmp_path / "root", clock)
    assert other.is_open()
    clock.now += 3
    assert (other.is_open(), other.begin_trial()) == (False, True)


def test_an_absent_name_is_remembered_for_half_a_minute_and_the_oldest_of_4096_give_way(clock: Clock) -> None:
    absent = AbsentNames(clock)
    absent.add("put since")
    absent.drop("put since")
    for number in range(MOST_ABSENT + 1):
        absent.add(str(number))
    assert [name in absent for name in ("put since", "0", "1", "4096")] == [False, False, True, True]
    clock.now += KEPT_S
    assert "4096" not in absent
