"""Tuning on a device: a kernel whose cost is known, with candidates that are wrong, and devices that hang or are lost."""

from __future__ import annotations

import itertools
import os
import sys
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from made_kernels import TurningKernel
from tunings import BEST, FEW, SHORT, details, statuses, tuned

from vyre_driver import Driver
from vyre_driver.autotune import AutotuneStore, AutotuneWarning, Candidate, Status
from vyre_driver.autotune.measure.calls import tune_call
from vyre_driver.autotune.measure.definition import Operand
from vyre_driver.autotune.measure.trials import DeviceTrial, IsolatedBench, Workbench
from vyre_driver.autotune.measure.tune import tune
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.autotune.store.record import parse_timings
from vyre_driver.errors import DeviceLost, DispatchTimeout, FileUnusable, InvalidInput, TuningFailed
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.kompute.device import KomputeDevice
from vyre_driver.kompute.timing import DispatchTimes, TimedDispatches
from vyre_driver.vulkan import PhysicalDevice

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("records_in_memory")]


@pytest.mark.parametrize("in_place", [False, True])
def test_the_fastest_candidate_is_found_and_used_from_then_on(driver: Driver, in_place: bool) -> None:  # noqa: FBT001 -- a case
    kernel = TunedKernel(driver, TurningKernel(FEW, in_place=in_place))
    before = kernel.candidate((20_000,))
    result = tune(kernel, budget=SHORT)
    assert (before["TURNS"], kernel.candidate((20_000,))) == (800, result.best.candidate)
    # Where only the host tells the time, most of it is not the device's.
    assert result.best.candidate["TURNS"] == BEST or not (driver.context.device.is_timed or driver.device.is_software)
    assert (result.kernel, result.size, result.reference, set(statuses(result))) == ("turning", (20_000,), None, set(FEW))
    assert result.samples >= sum(one.samples for one in result.outcomes) + len(FEW)
    x = np.arange(20_000, dtype=np.uint32)
    np.testing.assert_array_equal(kernel(x), 3 * x + 1)


def test_the_record_says_what_was_measured_and_is_kept(layered: Driver) -> None:
    kernel = TunedKernel(layered, TurningKernel((800, BEST)))
    result = tune(kernel, (5000,), budget=SHORT)
    assert layered.tuning.best(kernel.target, (4096,)) == result.record
    best = result.best
    assert (result.record.samples, result.record.median_ns, result.record.size) == (
        best.samples,
        round(best.median_ns),
        "4096",
    )
    assert (result.record.tile[0], result.record.kernel) == (BEST, "turning")
    times = {str(one.candidate): (round(one.median_ns), round(one.spread_ns), one.samples) for one in result.outcomes}
    kept = parse_timings(result.record.timings)
    assert (kept[0].candidate, {one.candidate: one[1:] for one in kept}) == (str(best.candidate), times)
    again = tune(kernel, (5000,), budget=replace(SHORT, max_samples=5))
    assert (layered.tuning.best(kernel.target, (4096,)), again.record.samples) == (again.record, 5)


@pytest.mark.parametrize("replace_it", [False, True])
def test_a_record_takes_the_place_of_one_that_was_timed_more_often_where_it_is_to(tmp_path: Path, replace_it: bool) -> None:  # noqa: FBT001 -- a case
    path = tmp_path / "autotune.toml"
    with Driver(autotune=path) as driver:
        kernel = TunedKernel(driver, TurningKernel((BEST,)))
        for most in (6, 5):
            tune(kernel, budget=replace(SHORT, max_samples=most, min_samples=most), replace=replace_it)
    (record,) = AutotuneStore.load(path).records().values()
    assert record.samples == (5 if replace_it else 6)


def test_without_a_clock_on_the_device_so_many_runs_are_timed_as_one_that_the_hosts_will_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TimedDispatches, "run", lambda *_: DispatchTimes(20_000, 80_000, None))
    monkeypatch.setattr(KomputeDevice, "is_timed", False)
    with Driver(autotune=AutotuneStore()) as driver:
        bench = Workbench(driver, TurningKernel((BEST,)), [np.ones(64, np.uint32)], {}, run_timeout=None)
        with closing(bench):
            trial = bench.make(Candidate((1, 1, 1), (("TURNS", BEST),)))
            bench.buffer("y", Operand((64,), np.dtype(np.uint32))).write(np.zeros(64, np.uint32))
            monkeypatch.setattr(Buffer, "write", lambda *_: None)  # no poison, for nothing is run
            trial.outputs()
            assert trial.sample() == 10_000  # ten in a millisecond


def test_a_record_that_cannot_be_saved_is_used_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with Driver(autotune=tmp_path / "file" / "autotune.toml") as driver:
        kernel = TunedKernel(driver, TurningKernel((800, BEST)))
        with pytest.warns(AutotuneWarning, match="nothing is known of tuned kernels"):
            assert kernel.candidate((20_000,))["TURNS"] == 800
        with pytest.raises(FileUnusable):
            tune(kernel, budget=SHORT)
        assert kernel.candidate((20_000,))["TURNS"] == BEST


@pytest.mark.parametrize("isolate", [False, True])
def test_candidates_that_are_wrong_or_do_not_compile_are_never_chosen(layered: Driver, isolate: bool) -> None:  # noqa: FBT001 -- a case
    flaws = ((1, "wrong"), (2, "refuses"), (3, "silent"))
    result = tuned(layered, TurningKernel((1, 2, 3, 400, BEST), flaws), isolate=isolate)
    assert result.best.candidate["TURNS"] == BEST
    assert [statuses(result)[one] for one in (1, 2, 3)] == [Status.WRONG, Status.FAILED, Status.WRONG]
    found = details(result)
    assert found[1].startswith("output 1: 20000 of 20000 elements are wrong, the first at index 0: ")
    assert found[2].startswith("the shader has no specialization constant 'NO_SUCH_CONSTANT'")
    assert found[3] == "nothing was written to the outputs"


@pytest.mark.parametrize("isolate", [False, True])
def test_where_numpy_is_slow_candidates_are_checked_at_a_small_size_and_the_best_with_another_at_its_own(
    layered: Driver,
    isolate: bool,  # noqa: FBT001 -- a case
) -> None:
    flaws = ((1, "wrong"), (2, "wrong when large"), (3, "wrong when large"))
    definition = TurningKernel((1, 400, 2, 3, BEST), flaws, quick_to=1000)
    result = tuned(layered, definition, isolate=isolate)
    assert (result.best.candidate["TURNS"], result.reference) == (BEST, None)
    outcomes = {one.candidate["TURNS"]: (one.status, one.detail.partition(" elements")[0]) for one in result.outcomes}
    assert (outcomes[1], outcomes[2]) == (
        (Status.WRONG, "output 1: 1000 of 1000"),
        (Status.WRONG, "at the size 20000 output 1: 20000 of 20000"),
    )


def test_a_callers_own_arrays_are_tuned_on_and_the_best_compared_there_with_another(layered: Driver) -> None:
    kernel = TunedKernel(layered, TurningKernel((400, 2, BEST), ((2, "wrong when large"),), quick_to=1000))
    result = tune(kernel, arrays=[np.arange(3000, dtype=np.uint32)], budget=SHORT)
    assert (result.size, result.reference, result.best.candidate["TURNS"]) == ((3000,), None, BEST)
    assert details(result)[2].startswith("at the size 3000 output 1: 3000 of 3000 elements are wrong")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parameters": {"a": 1}}, "parameters of turning without arrays"),
        ({"arrays": [np.zeros(4, np.uint32)], "size": (4,)}, r"both the size \(4,\) and arrays"),
        ({"arrays": []}, r"takes 1 array \(x\) and got 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(layered: Driver, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        tuned(layered, TurningKernel(FEW), **options)


def test_where_every_candidate_is_wrong_the_error_names_the_kernel_and_nothing_is_kept(layered: Driver) -> None:
    with pytest.raises(TuningFailed) as caught:
        tuned(layered, TurningKernel((1, 2), ((1, "wrong"), (2, "silent"))))
    assert caught.value.problem.startswith("turning of size (20000,) is not tuned: none of 2 candidates was right and timed")
    assert (caught.value.context["kernel"], len(layered.tuning.store)) == ("turning", 0)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("isolate", [False, True])
def test_a_candidate_keeps_the_device_busy_for_as_long_as_it_is_asked(
    layered: Driver,
    in_place: bool,  # noqa: FBT001 -- a case
    isolate: bool,  # noqa: FBT001 -- a case
) -> None:
    definition, x = TurningKernel((BEST,), in_place=in_place), np.arange(1000, dtype=np.uint32)
    bench: Workbench | IsolatedBench = Workbench(layered, definition, [x], {}, run_timeout=20.0)
    if isolate:
        bench.close()
        bench = IsolatedBench(layered, definition, [x], {}, SHORT)
    with closing(bench), closing(bench.make(Candidate((1, 1, 1), (("TURNS", BEST),)))) as trial:
        began = time.monotonic()
        trial.keep_busy(0.1)
        assert time.monotonic() - began >= 0.1
        (found,) = trial.outputs()
        np.testing.assert_array_equal(found, 3 * x + 1)


def test_a_run_that_hangs_while_the_device_is_kept_busy_is_told_of(layered: Driver) -> None:
    x = np.arange(1000, dtype=np.uint32)
    with (
        closing(Workbench(layered, TurningKernel((BEST,)), [x], {}, run_timeout=20.0, patience=20.0)) as bench,
        closing(bench.make(Candidate((1, 1, 1), (("TURNS", BEST),)))) as trial,
    ):
        bench.run_timeout = 1e-9
        with pytest.raises(DispatchTimeout, match="did not end in"):
            trial.keep_busy(0.1)


@pytest.mark.parametrize(("is_software", "busy"), [(True, 0), (False, 10)])
def test_a_device_other_than_the_hosts_cpu_is_kept_busy_before_the_race_and_before_the_final(
    layered: Driver,
    monkeypatch: pytest.MonkeyPatch,
    is_software: bool,  # noqa: FBT001 -- a case
    busy: int,
) -> None:
    seen: list[float] = []

    def busy_for(_: DeviceTrial, seconds: float) -> float:
        seen.append(seconds)
        return 1.0

    monkeypatch.setattr(DeviceTrial, "keep_busy", busy_for)
    monkeypatch.setattr(PhysicalDevice, "is_software", is_software)
    tuned(layered, TurningKernel((800, BEST)))
    assert seen == [0.1] * busy


def test_two_tunings_agree(layered: Driver) -> None:
    """Fifty of them are in tests/stress."""
    found = {tuned(layered, TurningKernel(FEW), budget=replace(SHORT, max_samples=10)).best.candidate for _ in range(5)}
    assert found == {Candidate((1, 1, 1), (("TURNS", BEST),))}


def test_a_device_that_is_lost_ends_the_tuning_with_what_was_timed(layered: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = itertools.count(1)
    run = TimedDispatches.run

    def lost(dispatches: TimedDispatches, timeout_s: float | None = None) -> DispatchTimes:
        if next(runs) == 16:  # 4 to check, 4 to make ready, 4 for each in turn
            raise DeviceLost("gone", fix="open it again")
        return run(dispatches, timeout_s)

    monkeypatch.setattr(TimedDispatches, "run", lost)
    budget = replace(SHORT, warm_up=0)  # as many runs as fit into a time are nothing to count
    result = tuned(layered, TurningKernel((BEST, 400, 800, 1600)), budget=budget)
    assert [one.samples for one in result.outcomes] == [2, 2, 2, 1]
    assert (result.best.candidate["TURNS"], statuses(result)[1600]) == (BEST, Status.FAILED)
    assert details(result)[1600] == "gone. Fix: open it again."


def test_what_has_no_record_is_tuned_at_its_first_call_where_the_mode_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_AUTOTUNE", "tune")
    with Driver(autotune=AutotuneStore()) as driver:
        kernel = TunedKernel(driver, TurningKernel((800, BEST)))
        x = np.arange(5000, dtype=np.uint32)
        np.testing.assert_array_equal(kernel(x), 3 * x + 1)
        assert (kernel.candidate((5000,))["TURNS"], len(driver.tuning.store)) == (BEST, 1)


@pytest.mark.parametrize("isolate", [False, True])
def test_a_module_of_ones_own_is_tuned_on_the_arrays_of_a_call(layered: Driver, isolate: bool) -> None:  # noqa: FBT001 -- a case
    kernel = TurningKernel((800, BEST))
    space = kernel.space(TunedKernel(layered, kernel).device)
    x = np.arange(20_000, dtype=np.uint32)
    how = {"out_shapes": {"y": 20_000}, "workgroups": (313, 1, 1), "budget": SHORT, "isolate": isolate}
    result = tune_call(layered, kernel.module, (x,), {}, space=space, **how)
    assert (result.best.candidate["TURNS"], result.reference) == (BEST, Candidate((1, 1, 1), (("TURNS", 800),)))


HANGS_IN_PROCESS = """
import os, sys
from made_kernels import TurningKernel
from vyre_driver import Driver
from vyre_driver.autotune import AutotuneStore, Budget
from vyre_driver.errors import TuningFailed
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.autotune.measure.tune import tune

driver = Driver(autotune=AutotuneStore())
try:
    tune(TunedKernel(driver, TurningKernel((100, 1, 2), ((1, "endless"),))), budget=Budget(run_timeout=0.3))
except TuningFailed as error:
    print([one.status.name for one in error.context["outcomes"]])
    print(error.context["outcomes"][1].detail)
sys.stdout.flush()
os._exit(0)  # the device never comes free
"""


def test_without_isolation_a_run_that_hangs_ends_the_tuning(run_python: RunChild) -> None:
    path = os.pathsep.join(sys.path)
    done = run_python("-c", HANGS_IN_PROCESS, env={"PYTHONPATH": path})
    names, detail = done.stdout.splitlines()
    assert (done.status, names) == (0, "['NOT_TRIED', 'HUNG', 'NOT_TRIED']")
    assert detail.endswith("It still runs, so that nothing else can: TURNS=1")
