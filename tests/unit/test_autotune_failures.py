"""What comes of candidates that raise, are wrong, or cannot be closed, and of a search that ends early."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import pytest
from made_trials import (
    HUNG,
    NO_LIMIT,
    RIGHT,
    STEPS,
    WRONG,
    Lab,
    MadeTrial,
    agrees,
    all_closed_once,
    found,
    place_of,
    statuses,
)

from vyre_driver.autotune import Candidate, Outcome, Progress, Status
from vyre_driver.autotune.search.outcomes import Abandoned, WrongOutputs
from vyre_driver.autotune.search.search import search, spread
from vyre_driver.errors import DeviceOutOfMemory, TuningFailed


@pytest.mark.parametrize("step", ["make", "outputs", "sample"])
@pytest.mark.parametrize(
    ("error", "status", "detail"),
    [
        (ValueError("no such shader"), Status.FAILED, "ValueError: no such shader"),
        (KeyError(), Status.FAILED, "KeyError"),
        (DeviceOutOfMemory("too much", fix="less"), Status.FAILED, "too much. Fix: less."),
        (HUNG, Status.HUNG, "it did not end. Fix: wait."),
        (WrongOutputs("element 3 is 7"), Status.WRONG, "element 3 is 7"),
    ],
)
def test_a_candidate_that_raises_is_out_and_the_others_are_tried(
    step: str, error: Exception, status: Status, detail: str
) -> None:
    lab = Lab([2e5, 1e5, 3e5], at={(1, step): error})
    result = found(lab)
    assert result.outcomes[1] == Outcome(lab.candidates[1], status, detail=detail)
    assert (result.best.candidate, all_closed_once(lab)) == (lab.candidates[0], True)


@pytest.mark.parametrize(
    ("wrong", "place", "expected"),
    [
        ((), 1, [Status.DROPPED, Status.TIMED, Status.DROPPED]),
        ((1,), 2, [Status.DROPPED, Status.WRONG, Status.DROPPED]),
        ((1, 2), 0, [Status.DROPPED, Status.WRONG, Status.WRONG]),
    ],
)
def test_the_best_is_verified_and_the_next_best_where_it_is_wrong(
    wrong: tuple[int, ...], place: int, expected: list[Status]
) -> None:
    verified = []

    def verify(trial: MadeTrial) -> Exception | None:
        verified.append(trial.place)
        return WrongOutputs("too large") if trial.place in wrong else None

    lab = Lab([3e5, 1e5, 2e5], at={(one, "verify"): verify for one in range(3)})
    result = found(lab)
    assert (place_of(result.best.candidate), statuses(result.outcomes)) == (place, expected)
    assert (verified, all_closed_once(lab)) == ([*wrong, place], True)
    assert result.best.median_ns == lab.costs[place]


def test_many_candidates_are_made_from_all_over_the_space_the_preferred_one_first() -> None:
    assert [spread(range(count)) for count in (0, 8, 9, 16)] == [
        [],
        list(range(8)),
        [0, 8, 4, 2, 6, 1, 5, 3, 7],
        [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15],
    ]


def test_where_none_is_right_at_its_size_there_is_no_best() -> None:
    lab = Lab([2e5, 1e5], at={(place, "verify"): WrongOutputs("too large") for place in range(2)})
    with pytest.raises(TuningFailed) as caught:
        found(lab)
    assert statuses(caught.value.context["outcomes"]) == [Status.WRONG, Status.WRONG]


def test_a_candidate_that_fails_after_some_runs_keeps_its_times_and_is_out() -> None:
    lab = Lab([2e5, 1e5], at={(1, "sample"): lambda trial: HUNG if trial.runs == 4 else None})
    result = found(lab)
    assert result.outcomes[1] == Outcome(lab.candidates[1], Status.HUNG, 2, 1e5, detail=str(HUNG))
    assert result.best.candidate == lab.candidates[0]


@pytest.mark.parametrize("time", [math.nan, math.inf, -1.0])
def test_a_time_that_cannot_be_is_a_failure(time: float) -> None:
    lab = Lab([2e5, time])
    lab.clock = type(lab.clock)()  # the clock of the tests does not go by such times
    lab.noise = lambda: 1.0  # type: ignore[method-assign]
    result = search(lab.candidates, lab.make, budget=NO_LIMIT, agrees=agrees, clock=lambda: 0.0)
    assert result.outcomes[1] == Outcome(lab.candidates[1], Status.FAILED, detail=f"ValueError: a run took {time} ns")


def test_a_run_may_be_too_short_for_the_clock() -> None:
    assert found(Lab([0.0, 1e5])).best == Outcome(Candidate((1, 1, 1)), Status.TIMED, 5, 0.0)


def test_what_differs_from_the_first_right_candidate_is_wrong() -> None:
    lab = Lab([2e5, 3e5, 1e5], at={(0, "make"): ValueError("no"), (2, "outputs"): WRONG})
    result = found(lab)
    assert statuses(result.outcomes) == [Status.FAILED, Status.TIMED, Status.WRONG]
    assert result.outcomes[2].detail == "[1, 2, 3, 4] is not [0, 1, 2, 3]"
    assert (result.reference, result.best.candidate) == (lab.candidates[1], lab.candidates[1])


def test_where_the_right_result_is_known_the_first_may_be_wrong() -> None:
    lab = Lab([1e5, 2e5], at={(0, "outputs"): WRONG})
    result = found(lab, expected=[RIGHT])
    assert statuses(result.outcomes) == [Status.WRONG, Status.TIMED]
    assert (result.reference, result.best.candidate) == (None, lab.candidates[1])


def test_what_cannot_be_compared_has_failed() -> None:
    lab = Lab([1e5, 2e5])

    def fails(right: object, given: object) -> str | None:
        raise ValueError(f"{type(right).__name__} and {type(given).__name__}")

    result = search(lab.candidates, lab.make, budget=NO_LIMIT, agrees=fails, clock=lab.clock)
    assert (statuses(result.outcomes), all_closed_once(lab)) == ([Status.TIMED, Status.FAILED], True)


def test_every_candidate_is_checked_before_any_is_timed() -> None:
    lab = Lab([1e5] * 3)
    steps: list[tuple[int, str]] = []
    lab.at = {
        (place, name): (lambda trial, name=name: steps.append((trial.place, name))) for place in range(3) for name in STEPS
    }
    found(lab, replace(NO_LIMIT, min_samples=1, max_samples=1))
    checks = [(place, name) for place in range(3) for name in ("make", "outputs")]
    timed = [(place, "sample") for _ in range(2) for place in range(3)]
    assert steps[: len(checks) + len(timed)] == checks + timed


def test_where_none_is_right_the_error_says_what_came_of_each() -> None:
    lab = Lab([1e5] * 5, at={(0, "make"): ValueError("no"), (1, "sample"): HUNG, **{(n, "outputs"): WRONG for n in (2, 3, 4)}})
    with pytest.raises(TuningFailed) as caught:
        found(lab, expected=[RIGHT])
    outcomes: Any = caught.value.context["outcomes"]
    assert statuses(outcomes) == [Status.FAILED, Status.HUNG, Status.WRONG, Status.WRONG, Status.WRONG]
    assert caught.value.problem == (
        "none of 5 candidates was right and timed in 0.0 s of 1e+09 s (1 failed, 1 hung, 3 wrong): 1x1x1: ValueError: no; "
        "2x1x1: it did not end. Fix: wait; 3x1x1 and 2 more: [1, 2, 3, 4] is not [0, 1, 2, 3]"
    )
    assert all_closed_once(lab)
    assert pickle.loads(pickle.dumps(caught.value)).context == caught.value.context  # noqa: S301 -- our own


def test_nothing_to_try_is_a_failure() -> None:
    with pytest.raises(TuningFailed, match=r"none of 0 candidates .*there are none"):
        found(Lab([]))


def test_a_trial_may_say_that_no_other_can_be_run() -> None:
    def lost(trial: Any) -> None:  # noqa: ANN401 -- a trial
        if trial.runs == 4:
            raise Abandoned("the device is busy") from HUNG

    lab = Lab([2e5, 1e5, 3e5, 1.5e5], at={(1, "sample"): lost})
    result = found(lab)
    assert statuses(result.outcomes) == [Status.TIMED, Status.HUNG, Status.TIMED, Status.TIMED]
    assert (result.outcomes[1].detail, result.best.candidate) == ("the device is busy", lab.candidates[3])
    assert ([trial.runs for trial in lab.trials], all_closed_once(lab)) == ([4, 4, 3, 3], True)


def test_a_search_that_is_abandoned_before_any_was_timed_has_failed() -> None:
    lab = Lab([1e5] * 3, at={(1, "outputs"): Abandoned("the device is lost")})
    with pytest.raises(TuningFailed) as caught:
        found(lab)
    outcomes: Any = caught.value.context["outcomes"]
    assert statuses(outcomes) == [Status.NOT_TRIED, Status.FAILED, Status.NOT_TRIED]
    assert (len(lab.trials), all_closed_once(lab)) == (2, True)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupt_ends_the_search_and_closes_every_trial(step: str, error: BaseException) -> None:
    lab = Lab([1e5] * 3, at={(1, step): error})
    with pytest.raises(type(error)):
        found(lab)
    assert all_closed_once(lab)


def test_an_error_of_the_listener_ends_the_search_and_closes_every_trial() -> None:
    lab = Lab([1e5] * 3)

    def listener(progress: Progress) -> None:
        if progress.tried == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        found(lab, on_progress=listener)
    assert (len(lab.trials), all_closed_once(lab)) == (2, True)


@pytest.mark.parametrize("costs", [[1e5, 3e5], [3e5, 1e5]])
def test_what_cannot_be_closed_has_failed(costs: list[float]) -> None:
    lab = Lab(costs, at={(1, "close"): ValueError("stuck")})
    result = found(lab)
    assert (result.outcomes[1].status, result.best.candidate) == (Status.FAILED, lab.candidates[0])
    assert result.outcomes[1].detail.endswith("closing it failed: ValueError: stuck")
    assert all_closed_once(lab)


def test_where_the_last_fails_at_the_end_the_best_of_those_left_behind_is_taken() -> None:
    lab = Lab([3e5, 2e5, 1e5], gauss=0.03, at={(2, "sample"): lambda trial: HUNG if trial.runs > 6 else None})
    result = found(lab)
    assert statuses(result.outcomes) == [Status.DROPPED, Status.TIMED, Status.HUNG]
    assert result.best == result.outcomes[1]


def test_trials_are_closed_although_one_of_them_cannot_be_when_the_search_is_interrupted() -> None:
    lab = Lab([1e5] * 3, at={(1, "close"): ValueError("stuck"), (2, "sample"): KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        found(lab)
    assert all_closed_once(lab)


def test_those_that_are_dropped_are_closed_at_once() -> None:
    lab = Lab([1e5] + [9e5] * 20)
    open_then: list[int] = []
    lab.at = {(0, "sample"): lambda _: open_then.append(sum(not trial.closed for trial in lab.trials))}
    found(lab, replace(NO_LIMIT, min_samples=2), expected=[RIGHT])
    assert (open_then[0], open_then[-1]) == (21, 2)  # in the final: it, and the next
    lab.costs = [1e5 * (1 + 0.0001 * place) for place in range(9)] + [9e5] * 20
    lab.trials, lab.gauss = [], 0.03
    open_then.clear()
    found(lab, replace(NO_LIMIT, min_samples=2), expected=[RIGHT])
    assert (open_then[0], open_then[-1] <= 9) == (29, True)
