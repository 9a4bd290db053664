"""vyre-driver worker: two of them, each with a cache of its own, are two nodes of a fleet."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import signal
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import imported
from servers import free_port

from vyre_driver import Driver, kernels
from vyre_driver.errors import DispatchFailed, InvalidInput, WorkerLost
from vyre_driver.lang import In, Index, Out, f32, kernel

dask: Any = imported("dask")
imported("distributed")
from distributed import Client, Scheduler, SpecCluster  # noqa: E402 -- an extra

from vyre_driver.distributed import FleetPool, joining, tasks  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import RunChild

    from vyre_driver.distributed.joining import Certificates

X = np.arange(64, dtype=np.float32)
WAITS_S = 60.0
SILENT_S = 3.0
NOWHERE = ("--tls-ca", "nowhere.pem", "--tls-cert", "nowhere.pem", "--tls-key", "nowhere.pem")


@kernel
def tripled(i: Index, x: In[f32], y: Out[f32]) -> None:
    y[i] = 3.0 * x[i]


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return joining.make_certificates(str(tmp_path / "certificates"))


@pytest.fixture
def client(certificates: Certificates) -> Iterator[Client]:
    """A client of a scheduler that takes encrypted connections only."""
    security = certificates.security()
    options = {"host": "127.0.0.1", "protocol": "tls://", "security": security, "dashboard_address": "127.0.0.1:0"}
    with (
        SpecCluster({}, {"cls": Scheduler, "options": options}, security=security, silence_logs=40) as cluster,
        Client(cluster, set_as_default=False) as opened,
    ):
        yield opened


SLOW_KERNEL = """
import time

def note(log, what):
    with open(log, "a") as file:
        file.write(what + "\\n")

def slow(driver, log):
    def call(x):
        note(log, "begin")
        time.sleep(0.5)
        note(log, "end")
        return x
    return call
"""


@contextlib.contextmanager
def running(address: str, place: Path, certificates: Certificates | None = None) -> Iterator[list[subprocess.Popen[str]]]:
    """Two nodes, each with a cache and tuning records of its own; they import what lies in the place."""
    command = [sys.executable, "-m", "vyre_driver", "worker", address, "--device", "0"]
    if certificates is not None:
        command += ["--tls-ca", certificates.ca, "--tls-cert", certificates.cert, "--tls-key", certificates.key]
    nodes = []
    for name in ("a", "b"):
        env = {**os.environ, "VYRE_CACHE_DIR": str(place / name), "LP_NUM_THREADS": "1", "PYTHONPATH": str(place)}
        env["VYRE_AUTOTUNE_FILE"] = str(place / name / "autotune.toml")
        how: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
        nodes.append(subprocess.Popen(command, env=env, **how))
    try:
        assert [(one.stdout.readline().split(" for ")[0] if one.stdout else "") for one in nodes] == ["1 processes work"] * 2
        yield nodes
    finally:
        for one in nodes:
            if one.poll() is None:
                one.send_signal(signal.SIGTERM)
        for one in nodes:
            one.communicate(timeout=WAITS_S)


@contextlib.contextmanager
def nodes_of(client: Client, certificates: Certificates, place: Path) -> Iterator[FleetPool]:
    with running(client.scheduler.address, place, certificates) as nodes:
        yield FleetPool(client, no_workers_s=WAITS_S)
    assert [one.returncode for one in nodes] == [0, 0]


@pytest.mark.device
@pytest.mark.thorough
def test_nodes_join_by_tls_and_what_one_has_compiled_the_other_takes(
    client: Client, certificates: Certificates, tmp_path: Path
) -> None:
    with nodes_of(client, certificates, tmp_path) as pool:
        compiled = pool.compile(tripled.program())
        assert compiled(X, out_shapes={"y": X.shape}).result(WAITS_S).tolist() == (3 * X).tolist()
        pool.warm([compiled])
        assert sorted(one["kernels"] for one in pool.report()) == [1, 1]
        found = client.run(lambda dask_worker: dask_worker.plugins["vyre-driver"].driver.cache.stats()["counts"])
        assert sorted((one.get("hit", 0), one.get("miss", 0)) for one in found.values()) == [(0, 1), (1, 0)]
        with pytest.raises(InvalidInput, match=r"'tripled' travels by its name, and this worker has not .* Fix: install"):
            pool.compile(tripled)


@pytest.mark.device
@pytest.mark.thorough
def test_one_node_has_called_a_kernel_before_the_other_begins_and_uses_its_tuning_records(
    client: Client, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_this_test.py").write_text(SLOW_KERNEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    made: Any = importlib.import_module("of_this_test")
    with monkeypatch.context() as patch, Driver(allow_software=True, autotune=tmp_path / "a" / "autotune.toml") as driver:
        patch.setenv("VYRE_CACHE_DIR", str(tmp_path / "cache"))
        saxpy = kernels.saxpy(driver)
        driver.tuning.keep(saxpy.target, saxpy.target.record(saxpy.candidates[-1], 9, 1000, "64"))
        measured = saxpy.candidates[-1].constants
    with nodes_of(client, certificates, tmp_path) as pool:
        log, workers = tmp_path / "log", sorted(client.scheduler_info()["workers"])
        slow = pool.compile(functools.partial(made.slow, log=str(log)))
        waiting = [client.submit(tasks.call, slow.carried, [X], {}, 1, workers=[one], pure=False) for one in workers]
        assert [one.result(WAITS_S).tolist() for one in waiting] == [X.tolist()] * 2
        assert log.read_text().split() == ["begin", "end", "begin", "end"]
        pool.warm([pool.compile(kernels.saxpy)])

        def constants_of(driver: Driver) -> str:
            return str(kernels.saxpy(driver).candidate((64,)).constants)

        ends, chosen = time.monotonic() + WAITS_S, set[str]()
        while chosen != {str(measured)} and time.monotonic() < ends:
            chosen = set(client.run(lambda dask_worker: constants_of(dask_worker.plugins["vyre-driver"].driver)).values())
        assert chosen == {str(measured)}


@pytest.mark.device
@pytest.mark.thorough
def test_when_a_host_stops_answering_its_work_goes_to_another_after_a_bounded_silence(tmp_path: Path) -> None:
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "worker_ttl": SILENT_S}
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "5s"}),  # what is asked for results that lie on the host
        SpecCluster({}, {"cls": Scheduler, "options": options}, silence_logs=50) as cluster,
        Client(cluster, set_as_default=False) as client,
        running(client.scheduler.address, tmp_path) as nodes,
    ):
        pool = FleetPool(client)
        client.wait_for_workers(2, timeout=WAITS_S)
        under_way = [pool.submit(lambda _, number: time.sleep(0.1) or number, number) for number in range(40)]
        assert under_way[0].result(WAITS_S) == 0
        os.killpg(nodes[0].pid, signal.SIGSTOP)
        try:
            assert [one.result(WAITS_S) for one in under_way] == list(range(40))
            assert len(client.scheduler_info()["workers"]) == 1
        finally:
            os.killpg(nodes[0].pid, signal.SIGCONT)


@pytest.mark.device
@pytest.mark.thorough
def test_when_the_scheduler_is_gone_futures_fail_nodes_say_so_and_a_new_one_takes_over(tmp_path: Path) -> None:
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    with scheduler_at(port) as first, running(address, tmp_path) as nodes, Client(address, set_as_default=False) as client:
        pool = FleetPool(client)
        tripled_by = pool.compile(tripled.program())
        waiting = pool.submit(lambda _: time.sleep(2.0))
        first.kill()
        with pytest.raises(WorkerLost, match=r"the connection to the scheduler was lost .* Fix: start the scheduler again"):
            waiting.result(WAITS_S)
        with pytest.raises(DispatchFailed, match=r"the client of the fleet is connecting\. Fix: make a new Client"):
            tripled_by(X, out_shapes={"y": X.shape})
        said = [one.communicate(timeout=WAITS_S)[1] for one in nodes]
        assert [one.returncode for one in nodes] == [2, 2]
        assert ["no scheduler answers at tcp://127.0.0.1:" in one for one in said] == [True, True]
        with scheduler_at(port), running(address, tmp_path):
            ends = time.monotonic() + WAITS_S
            while client.status == "connecting" and time.monotonic() < ends:
                time.sleep(0.05)
            with pytest.raises(DispatchFailed, match=r"was started again, and knows nothing of this pool\. Fix: make a new"):
                tripled_by(X, out_shapes={"y": X.shape})
            again = FleetPool(client).compile(tripled.program())
            assert again(X, out_shapes={"y": X.shape}).result(WAITS_S).tolist() == (3 * X).tolist()


@contextlib.contextmanager
def scheduler_at(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Dask's own scheduler in a process."""
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen([*command, "--no-dashboard"], stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_certificate_is_its_owners_alone_and_not_made_twice(run_here: RunChild, tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    made = run_here("worker", "--make-certificates", str(folder))
    assert (made.status, made.stdout.splitlines()[:2]) == (0, [str(folder / "cert.pem"), str(folder / "key.pem")])
    assert stat.S_IMODE((folder / "key.pem").stat().st_mode) == 0o600
    key = (folder / "key.pem").read_bytes()
    again = run_here("worker", "--make-certificates", str(folder))
    assert (again.status, (folder / "key.pem").read_bytes()) == (2, key)
    assert again.complaint[0].endswith("Fix: name a folder that has no certificates yet.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "there is no ADDRESS of a scheduler. Fix: write vyre-driver worker tls://HOST:PORT."),
        (("10.0.0.1:8786",), "'10.0.0.1:8786' is beyond this host, and without TLS anybody there may run code here. Fix:"),
        (("tcp://node0:8786",), "'tcp://node0:8786' is beyond this host"),
        (("tls://127.0.0.1:8786",), "'tls://127.0.0.1:8786' is encrypted, and there is no certificate for it. Fix: give --tls"),
        (("tls://[::1]:1", "--tls-ca", "x"), "some of --tls-ca, --tls-cert and --tls-key are missing. Fix: give all three"),
        (("http://127.0.0.1:80",), "'http://127.0.0.1:80' is no address of a scheduler. Fix: write tls://HOST:PORT"),
        (("tcp://127.0.0.1:99999",), "'tcp://127.0.0.1:99999' is no address of a scheduler."),
        (("tls://h:1", *NOWHERE), "nowhere.pem cannot be read: No such file or directory. Fix: name a file in PEM."),
    ],
)
def test_what_may_not_join_is_refused(run_here: RunChild, arguments: tuple[str, ...], said: str) -> None:
    done = run_here("worker", *arguments)
    assert (done.status, done.stdout) == (2, "")
    assert said in done.complaint[0]


@pytest.mark.device
def test_where_no_scheduler_answers_the_worker_says_so(run_here: RunChild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "ANSWERS_WITHIN_S", 0.3)
    done = run_here("worker", "tcp://127.0.0.1:1", "--device", "0")
    assert (done.status, done.stdout) == (2, "")
    assert "no scheduler answers at tcp://127.0.0.1:1 within 0.3 s" in done.complaint[0]
