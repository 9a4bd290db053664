"""A search for the best candidate keeps its promises whatever the candidates do."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st
from made_trials import RIGHT, Lab, MadeTrial, agrees, place_of

from vyre_driver.autotune import Budget, Status
from vyre_driver.autotune.search.outcomes import Abandoned, WrongOutputs
from vyre_driver.autotune.search.search import TIE, Timing, search, survivors, winner
from vyre_driver.errors import DispatchTimeout, TuningFailed

if TYPE_CHECKING:
    from collections.abc import Callable

costs = st.lists(st.floats(1e3, 1e9), min_size=1, max_size=30)
faults = st.sampled_from(
    [
        ValueError("no"),
        DispatchTimeout("it did not end", fix="wait"),
        WrongOutputs("7 is not 8"),
        Abandoned("the device is lost"),
        KeyboardInterrupt(),
    ]
)
budgets = st.builds(
    Budget,
    seconds=st.floats(1e-3, 1e3),
    samples=st.integers(1, 3000),
    min_samples=st.integers(1, 5),
    max_samples=st.integers(5, 100),
)


def after(runs: int, error: BaseException) -> Callable[[MadeTrial], BaseException | None]:
    return lambda trial: error if trial.runs > runs else None


steps = st.sampled_from(["make", "outputs", "sample", "close"])
troubles = st.lists(st.tuples(st.integers(0, 29), steps, st.integers(0, 12), faults), max_size=12)


@given(costs, troubles, budgets, st.integers(0, 99), st.booleans())
def test_budgets_are_kept_trials_closed_once_and_nothing_out_of_order_chosen(
    times: list[float],
    trouble: list[tuple[int, str, int, BaseException]],
    budget: Budget,
    seed: int,
    is_known: bool,  # noqa: FBT001 -- of the strategy
) -> None:
    lab = Lab(times, noise_seed=seed, gauss=0.03, spikes=0.05, make_s=0.01)
    for place, step, runs, error in trouble:
        lab.at[place, step] = after(runs if step == "sample" else -1, error)
    result = None
    with suppress(TuningFailed, KeyboardInterrupt):
        result = search(
            lab.candidates, lab.make, budget=budget, agrees=agrees, expected=[RIGHT] if is_known else None, clock=lab.clock
        )
    assert {trial.closed for trial in lab.trials} <= {1}
    assert sum(trial.runs for trial in lab.trials) <= budget.samples
    assert all(trial.runs <= 2 * (budget.max_samples + 1) for trial in lab.trials)  # race and final
    assert all(seconds <= budget.seconds / 10 for seconds in lab.busy_s)
    longest = max(times) * 6 / 1e9  # with a spike
    assert lab.clock.now - 1000 <= budget.seconds + max(longest, lab.make_s)
    if result is not None:
        assert [one.candidate for one in result.outcomes] == lab.candidates
        assert result.best in result.outcomes
        assert result.best.status in {Status.TIMED, Status.DROPPED}
        assert result.best.candidate not in result.ties
        assert result.best.samples > 0


@given(costs)
@example([1e5 * 1.02, 1e5])
def test_without_noise_the_first_of_those_within_two_per_cent_of_the_fastest_is_found(times: list[float]) -> None:
    lab = Lab(times)
    budget = Budget(seconds=1e9, samples=10**9)
    best = search(lab.candidates, lab.make, budget=budget, agrees=agrees, clock=lab.clock).best
    limit = min(times) * (1 + TIE)
    assert place_of(best.candidate) == next(place for place, one in enumerate(times) if one <= limit)


timings = st.lists(st.builds(Timing, st.floats(0, 1e9), st.floats(0, 1e8), st.integers(1, 500)), min_size=1, max_size=40)


@given(timings)
def test_somebody_stays_in_the_race_with_the_fastest_or_one_as_fast_among_them(those: list[Timing]) -> None:
    left = survivors(those)
    assert left
    assert left == sorted(set(left))
    assert min(those[place].median_ns for place in left) <= min(one.median_ns for one in those) * (1 + TIE)
    assert winner(those) in range(len(those))
