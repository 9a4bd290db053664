"""Tuning records that machines share through a store: what one has measured the drivers of others use."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from machines import counts_of, remote_counts
from tuned_code import key, saxpy

from vyre_driver import Driver
from vyre_driver.autotune import AutotuneStore, Candidate
from vyre_driver.autotune.measure import calls
from vyre_driver.autotune.target import program_target
from vyre_driver.lowering.program import prepare_for
from vyre_driver.target.config import DispatchConfig

if TYPE_CHECKING:
    from machines import Machines

    from vyre_driver.autotune.target import TuningTarget

pytestmark = [pytest.mark.device, pytest.mark.redis]

COUNT = "remote_records"


def target_of(driver: Driver) -> TuningTarget:
    return program_target(prepare_for(driver.context.device, saxpy(), None, None), None, driver.device)


def measure(machines: Machines, name: str, workgroup: int, samples: int = 9, *, is_trusted: bool = True) -> None:
    """Be a machine that has found a workgroup best, and tell the store."""
    machines.be(name, signs=True, is_trusted=is_trusted)
    with Driver() as driver:
        target = target_of(driver)
        driver.tuning.keep(target, target.record(Candidate((workgroup, 1, 1)), samples, 100))
        leave(driver)


def leave(driver: Driver) -> None:
    remote = driver.context.first_pipelines.remote
    assert remote is not None
    remote.worker.leave(10.0)
    remote.worker.uploads.is_hurried = False
    remote.worker.absent._since.clear()  # noqa: SLF001 -- what follows is another process


def workgroup_of(driver: Driver) -> int:
    """Compile, and return the workgroup that the code was made for: 64 is declared."""
    made = key(driver.compile(saxpy()))
    tuned = {key(driver.compile(saxpy(), config=DispatchConfig(workgroup_override=(size, 1, 1)))): size for size in (128, 256)}
    return tuned.get(made, 64)


def until_counted(driver: Driver, count: str) -> None:
    until = time.monotonic() + 20
    while not counts_of(driver).get(count):
        assert time.monotonic() < until
        time.sleep(0.005)


def test_what_one_machine_has_measured_another_uses_from_the_next_look_up_on_and_keeps(machines: Machines) -> None:
    measure(machines, "builder", 256)
    machines.be("reader")
    file = machines.records("reader")
    with Driver() as driver:
        assert workgroup_of(driver) == 64
        until_counted(driver, COUNT)
        assert (workgroup_of(driver), counts_of(driver)[COUNT]) == (256, 1)
    machines.server.stop()
    with Driver() as driver:
        assert workgroup_of(driver) == 256
    assert (file.exists(), len(AutotuneStore.load(file.with_name("autotune.taken.toml")))) == (False, 1)


def test_of_two_records_the_better_measured_stays_in_the_store(machines: Machines) -> None:
    measure(machines, "builder", 256, samples=9)
    measure(machines, "hasty", 128, samples=3)
    machines.be("reader")
    with Driver() as driver:
        driver.compile(saxpy())
        until_counted(driver, COUNT)
        assert workgroup_of(driver) == 256


def test_where_calls_are_tuned_on_first_use_what_another_has_measured_is_not_measured_again(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure(machines, "builder", 256)
    machines.be("reader")
    monkeypatch.setenv("VYRE_AUTOTUNE", "tune")
    monkeypatch.setattr("vyre_driver.autotune.store.records.PATIENCE_S", 20.0)  # a busy machine is no failure
    monkeypatch.setattr(calls, "tune_unasked", lambda *_: pytest.fail("it was measured"))
    with Driver() as driver:
        assert workgroup_of(driver) == 256


def test_what_was_taken_is_never_sent_on(machines: Machines) -> None:
    measure(machines, "builder", 256)
    machines.be("launderer", signs=True)
    file = machines.records("launderer")
    for _ in range(2):
        with Driver() as driver:
            driver.compile(saxpy())
            if not file.with_name("autotune.taken.toml").exists():
                until_counted(driver, COUNT)
            assert workgroup_of(driver) == 256
            machines.server.reset()
            leave(driver)
    assert machines.names("t1") == []


def test_the_record_of_a_stranger_is_counted_and_not_used(machines: Machines) -> None:
    machines.be("builder", signs=True)
    measure(machines, "stranger", 256, is_trusted=False)
    machines.be("reader")
    with Driver() as driver:
        driver.compile(saxpy())
        until_counted(driver, "remote_records_refused")
        assert workgroup_of(driver) == 64
        assert remote_counts(counts_of(driver)).get(COUNT) is None


def test_what_nobody_has_measured_is_asked_for_once_in_half_a_minute(machines: Machines) -> None:
    machines.be("builder", signs=True)
    machines.be("reader")
    machines.server.do("CONFIG", "RESETSTAT")
    with Driver() as driver:
        remote = driver.context.first_pipelines.remote
        assert remote is not None
        until = time.monotonic() + 20
        for _ in range(3):
            driver.compile(saxpy())
            while not any(":t1:" in name for name in remote.worker.absent._since):  # noqa: SLF001 -- its answer
                assert time.monotonic() < until
                time.sleep(0.005)
        assert machines.server.do("INFO", "commandstats")["cmdstat_hlen"]["calls"] == 1
