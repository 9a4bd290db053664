"""What noisy times tell of who is still in the race, and of who has won it."""

from __future__ import annotations

import pytest

from vyre_driver.autotune.search.search import (
    FINALISTS,
    PRECISE,
    STABLE,
    Timing,
    finalists,
    is_decided,
    nearest,
    standard_errors,
    survivors,
    winner,
)


def timings(*medians: float, spread: float = 0.0, samples: int = 100) -> list[Timing]:
    """Timings with these medians, and a spread that is a part of each."""
    return [Timing(median, spread * median, samples) for median in medians]


def test_a_timing_is_the_median_and_the_median_deviation_from_it() -> None:
    assert Timing.of([5.0, 1.0, 2.0, 100.0]) == Timing(3.5, 2.0, 4)
    assert (Timing.of([7.0]), Timing.of([])) == (Timing(7.0, 0.0, 1), Timing(0.0, 0.0, 0))


def test_the_error_of_a_median_falls_with_the_root_of_the_number_of_times() -> None:
    few, many = standard_errors(timings(10, spread=0.1, samples=4)), standard_errors(timings(10, spread=0.1, samples=400))
    assert few == [pytest.approx(1.2533 * 1.4826 * 0.1 / 2)]
    assert few[0] == pytest.approx(10 * many[0])


def test_a_spread_that_is_small_by_chance_counts_as_the_typical_one() -> None:
    times = [Timing(10, 0.0, 4), Timing(20, 2.0, 4), Timing(10, 1.0, 4), Timing(10, 5.0, 4)]
    small, usual, same, large = standard_errors(times)
    assert (small, usual, same) == (pytest.approx(usual), pytest.approx(same), pytest.approx(small))
    assert large == pytest.approx(5 * usual)


def test_times_too_short_for_the_clock_have_no_error() -> None:
    assert standard_errors([Timing(0, 0, 5), Timing(0, 0, 5)]) == [0, 0]


@pytest.mark.parametrize(
    ("medians", "stay"),
    [
        ([100, 200, 101.9], [0]),  # the first is surely as fast as any
        ([103, 100], [1]),  # nobody comes after the first that is as fast as any
        ([101.9, 103, 100], [0]),
        ([103, 101.9, 100], [1]),
        ([100], [0]),
    ],
)
def test_without_noise_one_stays(medians: list[float], stay: list[int]) -> None:
    assert survivors(timings(*medians)) == stay


def test_who_is_within_the_noise_stays() -> None:
    error = 1.2533 * 1.4826 * 0.1 / 10  # 1.9 %: three of them both ways and the tie
    assert error == pytest.approx(0.0186, abs=1e-4)
    assert survivors(timings(113, 115, 100, 99.9, spread=0.1)) == [0, 2, 3]


def test_it_is_decided_when_the_medians_are_known() -> None:
    alone = [is_decided(timings(100, spread=spread), PRECISE) for spread in (0.02, 0.04)]
    beside = [
        is_decided(timings(100, 101, spread=spread), precision) for precision in (STABLE, PRECISE) for spread in (0.005, 0.02)
    ]
    assert (alone, beside) == ([True, False], [True, True, True, False])


def test_near_is_who_is_within_a_part_of_the_fastest_as_far_as_the_noise_lets_one_tell() -> None:
    assert nearest(timings(104.1, 104, 100, 110, 101), 0.04) == [1, 2, 4]
    assert nearest(timings(113, 100, 107, spread=0.1), 0.04) == [1, 2]  # two standard errors of each are 3.7 %


def test_finalists_are_the_two_fastest_and_the_first_that_are_near() -> None:
    assert finalists(timings(150, 100, 200)) == [0, 1]
    assert finalists(timings(102, 101, 150, 99.9, 102, 100)) == [0, 1, 3, 4, 5]
    assert finalists(timings(*[101] * 20, 100, 99.9)) == [*range(FINALISTS - 2), 20, 21]
    assert finalists(timings(100)) == [0]


@pytest.mark.parametrize(
    ("medians", "spread", "place"),
    [
        ([102, 100], 0.0, 0),
        ([102.1, 100], 0.0, 1),
        ([105, 102, 100, 100], 0.0, 1),
        ([105, 100], 0.1, 0),  # two standard errors of the difference are 5.3 %
        ([106, 100], 0.1, 1),
    ],
)
def test_the_winner_is_the_first_as_fast_as_the_fastest(medians: list[float], spread: float, place: int) -> None:
    assert winner(timings(*medians, spread=spread)) == place
