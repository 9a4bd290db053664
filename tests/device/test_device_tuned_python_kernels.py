"""Kernels written as Python functions whose constants, or whose workgroup, are tuned on a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from refusals import refusal
from tuned_code import FEW

from vyre_driver import Driver
from vyre_driver.autotune import AutotuneStore, Status
from vyre_driver.errors import InvalidInput, KernelTypeError, TuningFailed
from vyre_driver.lang import Const, Group, In, Index, InOut, Out, bool_, f32, i32, kernel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vyre_driver.lang import Kernel

pytestmark = pytest.mark.device

X = np.arange(1 << 14, dtype=np.float32)


@kernel(tune={"BLOCK": [64, 256, 128]})
def doubled(g: Group[BLOCK], x: In[f32], y: Out[f32], *, BLOCK: Const[int] = 128) -> None:  # noqa: F821, N803 -- a constant
    kept = g.shared(f32, BLOCK)
    kept[g.local] = x[g.index]
    g.barrier()
    y[g.index] = kept[g.local] * 2.0


@kernel(tune=True)
def saxpy(i: Index, x: In[f32], y: InOut[f32], a: f32) -> None:
    y[i] = a * x[i] + y[i]


@kernel(tune=True)
def turned(i: Index, j: Index, x: In[f32], y: Out[f32]) -> None:
    y[i, j] = x[i, j] + 1.0


@kernel(tune={"TURNS": [1, 2, 3]}, over="y")
def of_constant(i: Index, y: Out[i32], *, TURNS: Const[int]) -> None:  # noqa: N803 -- a constant
    y[i] = TURNS


@kernel(tune={"IS_SPLIT": [False, True], "UNROLL": range(1, 3)})
def flagged(
    i: Index,
    x: In[bool_],
    y: Out[bool_],
    *,
    IS_SPLIT: Const[bool],  # noqa: N803 -- a constant
    UNROLL: Const[int],  # noqa: N803 -- a constant
) -> None:
    y[i] = x[i] if IS_SPLIT or UNROLL == 2 else not (not x[i])  # noqa: SIM208 -- the same another way


def workgroup_of(one: Kernel, driver: Driver, *given: Any) -> tuple[int, int, int]:  # noqa: ANN401 -- a call's
    """Return the workgroup that a call ran with."""
    one.on(driver)(*given)
    launches = one._launcher._by_driver  # noqa: SLF001 -- the launches of the driver
    (launch,) = next(launches[key] for key in launches if key() is driver).values()
    return launch.compiled.workgroup_size


def keep_for(one: Kernel, driver: Driver, candidate: Callable[[Any], Any], *given: Any) -> None:  # noqa: ANN401 -- a call's
    """Keep a record of a choice as if it had been the fastest."""
    result = one.on(driver).tune(*given, budget=FEW)
    chosen = next(outcome.candidate for outcome in result.outcomes if candidate(outcome.candidate))
    from vyre_driver.lang.launch import tuning

    made: list[Any] = []
    found = tuning._target  # noqa: SLF001 -- what records are for
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "_target", lambda *a: made.append(found(*a)) or made[-1])
        one.on(driver).tune(*given, budget=FEW)
    target, size = made[0]
    driver.tuning.keep(target, target.record(chosen, 1_000, 1, "x".join(map(str, size))), replace=True)
    one._launcher.forget(driver)  # noqa: SLF001 -- as after a tuning


def test_constants_are_measured_and_what_they_write_is_compared(layered: Driver) -> None:
    result = doubled.on(layered).tune(X, budget=FEW)
    assert [dict(one.candidate.constants)["BLOCK"] for one in result.outcomes] == [128, 64, 256]
    assert {one.status for one in result.outcomes} <= {Status.TIMED, Status.DROPPED}
    assert result.reference is not None
    assert result.kernel == "doubled"
    np.testing.assert_array_equal(doubled.on(layered)(X), 2 * X)


def test_a_record_decides_and_a_value_in_the_call_wins(layered: Driver) -> None:
    keep_for(doubled, layered, lambda one: one["BLOCK"] == 256, X)
    assert workgroup_of(doubled, layered, X) == (256, 1, 1)
    on = doubled.on(layered)
    np.testing.assert_array_equal(on(X, BLOCK=64), 2 * X)
    np.testing.assert_array_equal(on.with_(BLOCK=64)(X), 2 * X)
    sizes = {launch.compiled.workgroup_size[0] for one in doubled._launcher._by_driver.values() for launch in one.values()}  # noqa: SLF001
    assert {64, 256} <= sizes
    assert str(refusal(lambda: on.tune(X, BLOCK=64), InvalidInput)) == (
        "every constant of doubled that may be tuned is given. Fix: leave some out of the call and of with_."
    )


def test_without_a_record_the_default_is_taken(layered: Driver) -> None:
    assert workgroup_of(doubled, layered, X) == (128, 1, 1)
    assert of_constant.on(layered).over(2)(np.zeros(2, np.int32)).tolist() == [1, 1]


def test_the_workgroup_of_a_kernel_with_indices_is_measured(layered: Driver) -> None:
    result = saxpy.on(layered).tune(X, X.copy(), 2.0, budget=FEW)
    assert [one.candidate.workgroup_size[0] for one in result.outcomes] == [64, 128, 256, 32, 512]
    both = turned.on(layered).tune(X.reshape(128, 128), budget=FEW)
    assert {one.candidate.workgroup_size[:2] for one in both.outcomes} >= {(16, 16), (8, 4), (64, 1)}
    np.testing.assert_array_equal(turned.on(layered)(X.reshape(128, 128)), X.reshape(128, 128) + 1)


def test_what_is_worked_on_in_place_is_not_changed_by_tuning(layered: Driver) -> None:
    y, here = np.ones_like(X), layered.buffer(np.ones_like(X))
    saxpy.on(layered).tune(X, y, 2.0, budget=FEW)
    saxpy.tune(layered.buffer(X), here, 2.0, budget=FEW)
    assert y.sum() == here.read().sum() == X.size
    np.testing.assert_array_equal(saxpy.on(layered)(X, y, 2.0), 2 * X + 1)


def test_bools_are_constants_and_elements(layered: Driver) -> None:
    x = X % 3 == 0
    result = flagged.on(layered).tune(x, budget=FEW)
    assert [tuple(value for _, value in one.candidate.constants) for one in result.outcomes] == [(0, 1), (0, 2), (1, 1), (1, 2)]
    np.testing.assert_array_equal(flagged.on(layered)(x), x)


def test_candidates_that_write_something_else_fail(layered: Driver) -> None:
    with pytest.raises(TuningFailed, match=r"of_constant of size \(4,\)"):
        of_constant.on(layered).tune(np.zeros(4, np.int32), budget=FEW)


def test_another_driver_finds_the_record_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tuned.toml"
    with Driver(autotune=str(file)) as first:
        keep_for(doubled, first, lambda one: one["BLOCK"] == 64, X)
        first.tuning.store.save_if_dirty(file)
    with Driver(autotune=str(file)) as second:
        assert workgroup_of(doubled, second, X) == (64, 1, 1)
        assert workgroup_of(kernel(doubled.function), second, X) == (128, 1, 1)  # which may not be tuned


def test_a_kernel_without_a_record_is_tuned_when_the_mode_says_so(
    monkeypatch: pytest.MonkeyPatch, quick_tuning: list[str]
) -> None:
    monkeypatch.setenv("VYRE_AUTOTUNE", "tune")
    with Driver(autotune=AutotuneStore()) as driver:
        y = np.ones_like(X)
        for _ in range(2):
            saxpy.on(driver)(X, y, 2.0)
        assert quick_tuning == ["saxpy"]
        np.testing.assert_array_equal(y, 4 * X + 1)


def test_what_is_said_of_workgroups_is_not_tuned(layered: Driver) -> None:
    keep_for(doubled, layered, lambda one: one["BLOCK"] == 256, X)
    y = np.zeros_like(X)
    doubled.on(layered).groups(2)(X, y)
    assert np.count_nonzero(y) == 2 * 128 - 1
    assert str(refusal(lambda: doubled.on(layered).groups(2).tune(X, y), InvalidInput)) == (
        "doubled is tuned with .groups(2,), and how far these go may depend on what is tuned. "
        "Fix: say how far it goes with .over(...), or by over= of the decorator."
    )


def test_a_kernel_that_checks_itself_is_not_tuned(monkeypatch: pytest.MonkeyPatch, quick_tuning: list[str]) -> None:
    checked = kernel(tune={"BLOCK": [64, 128]}, checks=True)(doubled.function)
    monkeypatch.setenv("VYRE_AUTOTUNE", "tune")
    with Driver(autotune=AutotuneStore()) as driver:
        with pytest.raises(InvalidInput) as refused:
            checked.on(driver).tune(X)
        np.testing.assert_array_equal(checked.on(driver)(X), 2 * X)
    assert str(refused.value) == "doubled has checks=True, and is slower with it. Fix: tune it without."
    assert quick_tuning == []


def test_a_kernel_that_says_nothing_of_tuning_is_not_tuned(layered: Driver) -> None:
    plain = kernel(doubled.function)
    assert str(refusal(lambda: plain.on(layered).tune(X), InvalidInput)) == (
        "doubled says nothing of what may be tuned. "
        'Fix: decorate it with @kernel(tune=True), or tune={"BLOCK": [64, 128, 256]}.'
    )
    with pytest.raises(InvalidInput, match="without elements"):
        saxpy.on(layered).tune(X[:0], X[:0].copy(), 1.0)


FIX = 'Fix: give True, or constants with their values: tune={"BLOCK": [64, 128, 256]}.'
DECORATED: dict[str, tuple[Any, str]] = {
    "a number": (3, f"tune of 'k' is 3. {FIX}"),
    "nothing": ({}, f"tune of 'k' is {{}}. {FIX}"),
    "a group": (True, f"'k' is to be tuned, and has a Group, whose size is part of what it does. {FIX}"),
    "no constant": ({"x": [1]}, "tune of 'k' names 'x', which is no constant of it. Fix: name 'BLOCK', 'F'."),
    "no values": ({"BLOCK": []}, "tune of 'k' gives 'BLOCK' the values []. Fix: give a list of one or more."),
    "a float": ({"BLOCK": [64.0]}, "tune of 'k': BLOCK of k is 64.0, and Const[int] wants int. Fix: give int(...)."),
    "a negative number": (
        {"BLOCK": [64, -1]},
        "tune of 'k' gives 'BLOCK' the value -1, and a record keeps 0 to 4294967295. Fix: give values in that range.",
    ),
    "a constant of floats": ({"F": [0.5]}, "'F' of 'k' is a Const[float], and a record keeps whole numbers. Fix: tune others."),
}


@pytest.mark.parametrize("which", DECORATED)
def test_what_may_be_tuned_is_checked_where_it_is_said(which: str) -> None:
    given, message = DECORATED[which]

    def k(g: Group[BLOCK], x: In[f32], *, BLOCK: Const[int], F: Const[float] = 0.5) -> None:  # noqa: F821, N803
        pass

    assert str(refusal(lambda: kernel(tune=given)(k), KernelTypeError)) == message


def test_a_record_has_room_for_three_constants_beside_the_workgroup() -> None:
    def k(i: Index, *, A: Const[int], B: Const[int], C: Const[int], D: Const[int]) -> None:  # noqa: N803
        pass

    assert str(refusal(lambda: kernel(tune=dict.fromkeys("ABCD", (1, 2)))(k), KernelTypeError)) == (
        "tune of 'k': a record has room for 3 constants besides the workgroup's size and UNROLL, and the space has 4: "
        "A, B, C, D. Fix: tune fewer at once."
    )
