"""A fleet of two worker processes: two drivers on one device stand for two GPUs."""

from __future__ import annotations

import functools
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import imported

from vyre_driver import kernels
from vyre_driver.errors import DeviceLost, DispatchFailed, InstallationUnusable, InvalidInput, WorkerLost
from vyre_driver.lang import In, Index, InOut, elementwise, f32, kernel
from vyre_driver.spirv.shipped import shipped_module

imported("distributed")
from distributed import Client, Scheduler, SpecCluster  # noqa: E402 -- an extra

from vyre_driver.distributed import FleetPool, LocalFleet  # noqa: E402 -- an extra
from vyre_driver.distributed.futures import of_fleet  # noqa: E402
from vyre_driver.distributed.pool import FleetReport  # noqa: E402
from vyre_driver.distributed.scheduling import Versions, prepare_scheduler  # noqa: E402
from vyre_driver.distributed.worker import JoinFleet, worker_driver  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver import Driver
    from vyre_driver.vulkan import PhysicalDevice

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("ended_tracker")]
X = np.arange(100, dtype=np.float32)
PUSH = {"alpha": 2.0, "count": 100}
WAITS_S = 60.0


@kernel
def add_to(i: Index, x: In[f32], y: InOut[f32], a: f32) -> None:
    y[i] = a * x[i] + y[i]


@elementwise
def half(x: f32) -> f32:
    return x * 0.5


def uuid_and_process(driver: Driver) -> tuple[str, int]:
    return driver.device.device_uuid.hex(), os.getpid()


def die_once(driver: Driver, number: int, once: str) -> tuple[int, float]:
    """Work that kills its process the first time that it is done for number 3."""
    if number == 3 and not Path(once).exists():
        Path(once).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number, float(kernels.saxpy(driver)(X, X, alpha=float(number))[1])


def lose_device(driver: Driver, number: int, runs: str, times: int) -> tuple[int, float]:
    """Work for whose number 3 the device is lost as often as is said."""
    if number == 3:
        with Path(runs).open("a") as log:
            log.write("x")
        if Path(runs).stat().st_size <= times:
            raise DeviceLost("the device was lost", fix="make a new driver")
    return number, float(kernels.saxpy(driver)(X, X, alpha=float(number))[1])


def slow_once(driver: Driver, flag: str) -> Any:  # noqa: ANN401 -- a kernel
    """A kernel whose call number 15 ends when it is begun once more."""

    def doubled(x: Any) -> Any:  # noqa: ANN401 -- an array
        if x[0] == 15.0:
            try:
                Path(flag).touch(exist_ok=False)
            except FileExistsError:
                Path(f"{flag}.again").touch()
            ends = time.monotonic() + WAITS_S
            while not Path(f"{flag}.again").exists():
                if time.monotonic() > ends:
                    raise TimeoutError("nobody has begun this call once more")
                time.sleep(0.02)
        time.sleep(0.02)
        return kernels.saxpy(driver)(x, x, alpha=1.0)

    return doubled


def deadly_at_9(driver: Driver, runs: str) -> Any:  # noqa: ANN401 -- a kernel
    """A kernel that kills its process when its first number is 9."""

    def doubled(x: Any) -> Any:  # noqa: ANN401 -- an array
        if x[0] == 9.0:
            with Path(runs).open("a") as log:
                log.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return kernels.saxpy(driver)(x, x, alpha=1.0)

    return doubled


def refuse(driver: Driver, runs: str) -> None:
    with Path(runs).open("a") as log:
        log.write("x")
    raise InvalidInput(f"an array does not fit {driver.device.kind}", fix="give another")


def test_each_process_of_a_fleet_has_the_device_of_the_uuid_that_it_was_given(
    fleet: LocalFleet, pool: FleetPool, physical_device: PhysicalDevice
) -> None:
    uuid = physical_device.device_uuid.hex()
    found = fleet.client.run(lambda dask_worker: uuid_and_process(dask_worker.plugins["vyre-driver"].driver))
    assert (fleet.devices, {one for one, _ in found.values()}) == ([f"uuid:{uuid}"] * 2, {uuid})
    assert len({process for _, process in found.values()} | {os.getpid()}) == 3
    assert [(one["uuid"], one["lost"]) for one in pool.report()] == [(uuid, False)] * 2


def test_results_of_a_windowed_map_come_back_in_the_order_of_the_calls(pool: FleetPool) -> None:
    saxpy = pool.compile(shipped_module("saxpy"))
    told: list[int] = []
    taken: list[int] = []

    def calls() -> Iterator[tuple[np.ndarray[Any, Any], ...]]:
        for number in range(20):
            taken.append(number)
            yield X, X + number

    results = pool.map(saxpy, calls(), window=3, on_progress=lambda now: told.append(now.under_way), push_constants=PUSH)
    first = next(results)
    assert (first.tolist(), taken) == ((3 * X).tolist(), [0, 1, 2])
    assert [one.tolist() for one in results] == [(3 * X + number).tolist() for number in range(1, 20)]
    assert told == [2] * 18 + [1, 0]


def test_a_window_in_bytes_bounds_the_arrays_under_way(pool: FleetPool) -> None:
    saxpy = pool.compile(shipped_module("saxpy"))
    told: list[int] = []
    calls = ((X, X + number) for number in range(5))
    found = pool.map(saxpy, calls, window_bytes=1600, on_progress=lambda now: told.append(now.under_way), push_constants=PUSH)
    assert [one.tolist() for one in found] == [(3 * X + number).tolist() for number in range(5)]
    assert told == [1, 1, 1, 1, 0]


def scaled_sum(driver: Driver, x: Any, number: int, factor: float = 1.0) -> Any:  # noqa: ANN401 -- arrays
    return factor * kernels.saxpy(driver)(x, x, alpha=float(number))[1]


def test_functions_are_mapped_as_kernels_are_and_futures_are_given_as_their_results(pool: FleetPool) -> None:
    saxpy = pool.compile(kernels.saxpy)
    kept = saxpy(X, X, alpha=0.0, keep=True)
    assert list(pool.map(scaled_sum, ((kept, number) for number in range(30)), factor=2.0)) == [2.0 * n + 2 for n in range(30)]
    assert [one[1] for one in saxpy.map(((kept, X) for _ in range(9)), alpha=3.0)] == [4.0] * 9
    assert list(pool.map(scaled_sum, [(X, 1)], window=1, hedge=True)) == [2.0]


@pytest.mark.parametrize(
    ("made", "arrays", "options", "expected"),
    [
        (shipped_module("saxpy"), (X, X), {"push_constants": PUSH}, 3 * X),
        (shipped_module("saxpy"), (X, X), {"alpha": 3.0, "count": 100}, 4 * X),
        (add_to, (X, X, 2.0), {}, 3 * X),
        (add_to.program(), (X, X), {"a": 2.0}, 3 * X),
        (half, (X,), {}, X / 2),
        (kernels.saxpy, (X, X), {"alpha": 2.0}, 3 * X),
        (functools.partial(kernels.matmul, dtype="float32"), (np.eye(4, dtype="f4"), np.eye(4, dtype="f4")), {}, np.eye(4)),
    ],
    ids=["module", "named push constants", "kernel in Python", "program", "elementwise", "included kernel", "with options"],
)
def test_kernels_of_every_kind_travel(pool: FleetPool, made: Any, arrays: Any, options: Any, expected: Any) -> None:  # noqa: ANN401
    compiled = pool.compile(made)
    found = compiled(*arrays, **options).result(WAITS_S)
    assert (found.tolist(), arrays[0].tolist()) == (expected.tolist(), arrays[0].tolist())
    again = pickle.loads(pickle.dumps(compiled))  # noqa: S301
    assert (again.digest, again.name, again.signature) == (compiled.digest, compiled.name, compiled.signature)


def test_what_cannot_travel_is_refused_where_it_is_given(pool: FleetPool) -> None:
    with pytest.raises(
        InvalidInput, match=r"'<lambda>' cannot travel to other processes: .* Fix: give a function that a module"
    ):
        pool.compile(lambda driver: kernels.softmax(driver) and None)
    with pytest.raises(InvalidInput, match=r"of type int, which cannot travel\. Fix: give a SpirvModule"):
        pool.compile(3)
    with pytest.raises(InvalidInput, match=r"window is 0\. Fix: give a whole number from 1 on"):
        pool.map(pool.compile(half), [], window=0)
    with pytest.raises(InvalidInput, match=r"losses is 0, and a task loses 1 device or more\. Fix"):
        FleetPool(pool.client, losses=0)


def test_results_kept_on_the_device_are_arguments_of_other_calls_and_stay_as_they_are(pool: FleetPool) -> None:
    for made, options in ((shipped_module("saxpy"), PUSH), (add_to, {"a": 2.0}), (kernels.saxpy, {"alpha": 2.0})):
        compiled = pool.compile(made)
        first = compiled(X, X, keep=True, **options)
        second, again = (compiled(X, first, keep=True, **options) for _ in range(2))
        assert pool.submit(lambda _, one: type(one).__name__, first).result(WAITS_S) == "KeptArray"
        found = [one.result(WAITS_S).tolist() for one in (first, second, again)]
        assert found == [(3 * X).tolist(), (5 * X).tolist(), (5 * X).tolist()]


def test_a_kernel_is_called_in_work_of_its_own(pool: FleetPool) -> None:
    compiled = pool.compile(half)
    assert pool.submit(lambda _, one: one.local(X + 1).tolist(), compiled).result(WAITS_S) == ((X + 1) / 2).tolist()
    with pytest.raises(DispatchFailed, match=r"kernel 'half' has no pool here\. Fix: call kernel\.local"):
        pickle.loads(pickle.dumps(compiled))(X)  # noqa: S301
    with pytest.raises(DispatchFailed, match="there is no driver here"):
        compiled.local(X)
    with pytest.raises(DispatchFailed, match=r"there is no driver here: .* Fix: make a FleetPool"):
        worker_driver()


def test_a_killed_worker_costs_nothing_but_time(pool: FleetPool, tmp_path: Path) -> None:
    once = str(tmp_path / "once")
    found = [pool.submit(die_once, number, once) for number in range(12)]
    assert [one.result(WAITS_S) for one in found] == [(number, 1.0 + number) for number in range(12)]
    pool.client.wait_for_workers(2, timeout=WAITS_S)
    assert [one["lost"] for one in pool.report()] == [False, False]


def test_a_kernel_outlives_the_process_that_compiled_it_first(pool: FleetPool) -> None:
    compiled = pool.compile(half)
    (process,) = pool.client.run(os.getpid, workers=[compiled.home]).values()
    os.kill(process, signal.SIGKILL)
    assert compiled(X).result(WAITS_S).tolist() == (X / 2).tolist()
    pool.client.wait_for_workers(2, timeout=WAITS_S)
    pool.warm([compiled])
    assert compiled.home not in {one["worker"] for one in pool.report()}


def test_when_a_device_is_lost_its_work_goes_to_another_and_the_process_is_started_again(
    pool: FleetPool, tmp_path: Path
) -> None:
    before = {process for _, process in pool.client.run(_process).values()}
    runs = tmp_path / "runs"
    found = [pool.submit(lose_device, number, str(runs), 1) for number in range(12)]
    assert [one.result(WAITS_S) for one in found] == [(number, 1.0 + number) for number in range(12)]
    assert runs.read_text() == "xx"
    after = before
    ends = time.monotonic() + WAITS_S
    while (after == before or len(after) < 2) and time.monotonic() < ends:
        time.sleep(0.05)
        after = {process for _, process in pool.client.run(_process, on_error="ignore").values()}
    assert (len(after), after == before) == (2, False)


def test_work_that_has_lost_two_devices_is_not_given_a_third(pool: FleetPool, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with pytest.raises(DeviceLost, match="the device was lost"):
        pool.submit(lose_device, 3, str(runs), 9).result(WAITS_S)
    assert runs.read_text() == "xx"


@pytest.mark.thorough
@pytest.mark.parametrize("losses", [2, 3])
def test_an_input_that_kills_every_process_is_quarantined_and_named(fleet: LocalFleet, tmp_path: Path, losses: int) -> None:
    pool = FleetPool(fleet.client, losses=losses)
    runs = tmp_path / "runs"
    doubled = pool.compile(functools.partial(deadly_at_9, runs=str(runs)))
    calls = [doubled(X + number) for number in (9, 1)]
    error = calls[0].exception(WAITS_S)
    assert isinstance(error, WorkerLost)
    told = f"{losses} worker processes died while they had task deadly_at_9-"
    assert (error.problem.startswith(told), error.context["task"], error.fix) == (
        True,
        calls[0].key,
        "run its input alone in Driver(strict=True), or raise losses if the processes were killed for other reasons",
    )
    assert runs.read_text() == "x" * losses
    with pytest.raises(WorkerLost):
        calls[0].result(WAITS_S)
    pool.client.wait_for_workers(2, timeout=WAITS_S)
    assert doubled(X + 1).result(WAITS_S).tolist() == (2 * (X + 1)).tolist()


def test_an_error_of_the_work_is_not_tried_again(pool: FleetPool, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with pytest.raises(InvalidInput, match=r"an array does not fit software|an array does not fit"):
        pool.submit(refuse, str(runs)).result(WAITS_S)
    assert runs.read_text() == "x"


def test_another_version_is_refused_when_it_joins() -> None:
    other = Versions("9.9.9", *Versions.own()[1:])
    with pytest.raises(
        InstallationUnusable, match=r"the scheduler cannot join the fleet: vyre-driver .* here and 9\.9\.9 there\. Fix"
    ):
        prepare_scheduler(other, 2, 60.0, dask_scheduler=object())  # type: ignore[arg-type]
    with pytest.raises(InstallationUnusable, match=r"worker .* cannot join the fleet: vyre-driver"):
        other.check_same("worker tcp://10.0.0.1:8786")


@pytest.mark.thorough
def test_a_worker_of_another_version_leaves_the_fleet() -> None:
    with LocalFleet([0], allow_software=True) as fleet:
        with pytest.raises(
            InstallationUnusable, match=r"worker tcp://.* cannot join the fleet: vyre-driver .* and 9\.9\.9 there\. Fix"
        ):
            fleet.client.register_plugin(JoinFleet(Versions("9.9.9", *Versions.own()[1:])))
        ends = time.monotonic() + WAITS_S
        while fleet.client.scheduler_info()["workers"] and time.monotonic() < ends:
            time.sleep(0.05)
        assert fleet.client.scheduler_info()["workers"] == {}


def _process(dask_worker: Any) -> tuple[str, int]:  # noqa: ANN401 -- Dask's
    return uuid_and_process(dask_worker.plugins["vyre-driver"].driver)


def test_a_call_that_hangs_on_one_worker_is_hedged_on_the_other(pool: FleetPool, tmp_path: Path) -> None:
    compiled = pool.compile(functools.partial(slow_once, flag=str(tmp_path / "slow")))
    pool.client.wait_for_workers(2, timeout=WAITS_S)
    found = list(pool.map(compiled, ((X + number,) for number in range(20)), window=4, hedge=True))
    assert [float(one[0]) for one in found] == [2.0 * number for number in range(20)]


@pytest.mark.thorough
def test_a_worker_of_dasks_own_opens_a_driver_by_the_preload(fleet: LocalFleet, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "distributed.cli.dask_worker", fleet.client.scheduler.address, "--no-dashboard"]
    command += [
        "--preload",
        "vyre_driver.distributed",
        "--name",
        "preloaded",
        "--local-directory",
        str(tmp_path),
        "--nthreads",
        "1",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as started:
        try:
            fleet.client.wait_for_workers(3, timeout=WAITS_S)
            pool = FleetPool(fleet.client)
            workers = fleet.client.scheduler_info(n_workers=-1)["workers"]
            (address,) = [one for one, facts in workers.items() if facts["name"] == "preloaded"]
            assert sum(one["worker"] == address and not one["lost"] for one in pool.report()) == 1
        finally:
            os.killpg(started.pid, signal.SIGTERM)
            started.wait(WAITS_S)


VANISHES = """
import sys, time
from distributed import Client
from vyre_driver.distributed import FleetPool
pool = FleetPool(Client(sys.argv[1]))
held = [pool.submit(lambda driver, number: time.sleep(0.2) or number, number) for number in range(40)]
print(held[0].result(), flush=True)
time.sleep(60)
"""


def test_the_work_of_a_client_that_vanishes_is_let_go_and_others_go_on(pool: FleetPool) -> None:
    def work_at_scheduler(dask_scheduler: Any = None) -> set[str]:  # noqa: ANN401 -- Dask's
        return {key for key in dask_scheduler.tasks if key.startswith("run_work")}

    before = pool.client.run_on_scheduler(work_at_scheduler)  # what tests before have failed with is held by their tracebacks
    command = [sys.executable, "-c", VANISHES, pool.client.scheduler.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as vanishing:
        assert vanishing.stdout is not None
        assert vanishing.stdout.readline() == "0\n"
        assert len(pool.client.run_on_scheduler(work_at_scheduler) - before) == 40
        vanishing.kill()
    assert pool.compile(half)(X).result(WAITS_S).tolist() == (X / 2).tolist()
    ends = time.monotonic() + WAITS_S
    while (left := pool.client.run_on_scheduler(work_at_scheduler) - before) and time.monotonic() < ends:
        time.sleep(0.05)
    assert left == set()


def test_without_workers_work_fails_after_a_bounded_wait() -> None:
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        SpecCluster({}, {"cls": Scheduler, "options": options}, silence_logs=40) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        with pytest.raises(WorkerLost, match=r"had no worker for 0\.2 s\. Fix: start workers"):
            FleetPool(client, no_workers_s=0.2)
        future = of_fleet(client.submit(os.getpid), client)
        with pytest.raises(WorkerLost, match=r"no worker could take this task within 0\.2 s\. Fix: start workers"):
            future.result(WAITS_S)


def test_a_fleet_of_different_devices_is_refused_where_it_must_not_be(
    fleet: LocalFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(FleetPool(fleet.client, same_device=True).report()) == 2
    kinds = FleetReport({"device": device, "driver": "1.0"} for device in ("a", "b"))
    monkeypatch.setattr(FleetPool, "report", lambda _: kinds)
    with pytest.raises(
        InvalidInput, match=r"the fleet has 2 kinds of devices: 'a' \(1\.0\), 'b' \(1\.0\)\. Fix: start workers on"
    ):
        FleetPool(fleet.client, same_device=True)
