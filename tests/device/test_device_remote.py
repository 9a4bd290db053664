"""Drivers of two machines, as two homes, and the store that they share: what one has compiled the other takes.

Below our layer stands the witness layer, as a driver that gives blobs away; what it writes down tells compiling (no initial
data) from taking a blob.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from blake3 import blake3
from machines import X, counts_of, entry_of, events_of, given, remote_counts, use, use_driver
from racing import USE, race

from vyre_driver import Driver
from vyre_driver.cache import DiskPipelineCache, flight
from vyre_driver.errors import CacheNotWarm, InvalidSetting
from vyre_driver.remote.tier import Fetch, RemoteTier
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild
    from machines import Machines

    from vyre_driver.identity.keys import PipelineCacheKey

pytestmark = [pytest.mark.device, pytest.mark.redis, pytest.mark.cold_mesa]


def test_what_one_machine_has_compiled_the_other_takes(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    trace, counts = use()
    assert (trace.reason, remote_counts(counts), given(witness)) == ("no entry", {"remote_miss": 1, "remote_put": 1}, [0])
    machines.be("reader")
    trace, counts = use()
    assert (trace.reason, trace.verdict.name) == ("no entry; taken from the store, signed by builder", "MISS")
    assert (counts, given(witness)) == ({"miss": 1, "put": 2, "remote_hit": 1}, [1032])
    trace, counts = use()
    assert (trace.verdict.name, counts, given(witness)) == ("HIT", {"hit": 1}, [1032])


@pytest.mark.parametrize("must_be_warm", [False, True])
def test_an_entry_that_a_kernel_takes_from_the_store_has_the_kernels_name(
    machines: Machines, witness: Path, monkeypatch: pytest.MonkeyPatch, *, must_be_warm: bool
) -> None:
    machines.be("builder", signs=True)
    use()
    root = machines.be("reader")
    if must_be_warm:
        monkeypatch.setenv("VYRE_ASSERT_WARM", "1")
    with Driver() as driver:
        driver.compile(shipped_module("saxpy"))
        events_of(driver, EventKind.FETCH, 1)
    assert [(entry.kernel, entry.imported) for entry in DiskPipelineCache(root).entries()] == [("saxpy.spv", True)]
    assert given(witness) == [0]


def test_what_was_imported_is_never_sent_on(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    use()
    (name,) = machines.names()
    machines.be("launderer", signs=True)
    use()
    machines.server.do("DEL", name)
    assert (remote_counts(use()[1]), machines.names()) == ({}, [])
    assert given(witness) == [0, 1032, 1032]


def test_an_entry_of_a_signer_who_is_not_trusted_is_compiled_here(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    use()
    machines.server.reset()
    machines.be("stranger", signs=True, is_trusted=False)
    use()
    machines.be("reader")
    trace, counts = use()
    assert (trace.reason, remote_counts(counts)) == ("no entry", {"remote_refused_untrusted": 1})
    assert given(witness) == [0, 0, 0]


def test_an_entry_with_other_spirv_is_refused(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    use()
    (name,) = machines.names()
    machines.be("forger", signs=True)
    with Driver() as driver:
        remote = driver.context.first_pipelines.remote
        assert remote is not None
        key, entry = entry_of(machines.folder / "builder")
        machines.server.do("DEL", name)
        remote.compiled(key, entry.spirv[:-4] + b"\0\0\1\0", entry.native)
        remote.worker.leave(10.0)
    assert machines.names() == [name]
    machines.be("reader")
    trace, counts = use()
    assert (trace.reason, remote_counts(counts)) == ("no entry", {"remote_refused_foreign_code": 1})
    assert given(witness) == [0, 0]


def test_a_blob_that_has_killed_one_machine_twice_is_never_given_to_the_drivers_of_others(
    machines: Machines, witness: Path, run_python: RunChild
) -> None:
    machines.be("builder", signs=True)
    use()
    machines.be("victim", signs=True)
    assert [run_python("-c", USE, env={"WITNESS_KILLS": "1"}).status for _ in range(2)] == [-9, -9]
    use()
    assert given(witness) == [0, 1032, 1032, 0]
    machines.be("reader")
    trace, counts = use()
    assert (trace.reason, remote_counts(counts)) == ("no entry", {"remote_refused_deadly": 1})
    assert (len(machines.names("d1")), given(witness)) == (1, [0])


def test_a_strangers_tombstone_keeps_nobody_from_anything(machines: Machines, witness: Path) -> None:

    machines.be("builder", signs=True)
    use()
    machines.be("stranger", signs=True, is_trusted=False)
    with Driver() as driver:
        remote = driver.context.first_pipelines.remote
        assert remote is not None
        key, entry = entry_of(machines.folder / "builder")
        remote.bury(key.digest, blake3(entry.native).digest())
        remote.worker.leave(10.0)
    assert len(machines.names("d1")) == 1
    machines.be("reader")
    assert (remote_counts(use()[1]), given(witness)) == ({"remote_hit": 1}, [0, 1032])


@pytest.mark.usefixtures("witness")
def test_where_nothing_may_be_compiled_compile_waits_for_the_store(machines: Machines) -> None:
    machines.be("builder", signs=True)
    use()
    machines.be("reader")
    with Driver() as driver:
        driver.assert_warm()
        kernel = driver.compile(shipped_module("saxpy"))
        assert kernel.trace.reason == "no entry; taken from the store, signed by builder"
    machines.server.reset()
    machines.be("another")
    with Driver() as driver:
        driver.assert_warm()
        driver.context.first_pipelines.remote.worker.absent._since.clear()  # type: ignore[union-attr]  # noqa: SLF001
        with pytest.raises(CacheNotWarm, match="would have to be compiled: no entry"):
            use_driver(driver)


def test_a_server_that_says_nothing_is_waited_for_once_a_machine(
    machines: Machines, witness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VYRE_CACHE_REMOTE_TIMEOUT", "0.25")
    machines.be("builder", signs=True)
    machines.be("reader")
    with machines.server.frozen():
        first, second = use()[1], use()[1]
    assert (remote_counts(first), remote_counts(second)) == ({"remote_no_answer": 1, "remote_open": 1}, {})
    assert given(witness) == [0, 1032]


def test_a_server_that_is_down_costs_a_machine_one_refused_connection(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    machines.be("reader")
    machines.server.stop()
    first, second = use()[1], use()[1]
    assert (remote_counts(first), remote_counts(second)) == ({"remote_failed": 1, "remote_open": 1}, {})
    assert given(witness) == [0, 1032]


def test_what_comes_after_patience_has_ended_is_stored_all_the_same(
    machines: Machines, witness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_asked, has_blob, wait = threading.Event(), RemoteTier.has_blob, RemoteTier.wait

    def look_at_home_first(tier: RemoteTier, key: PipelineCacheKey) -> bool:
        is_here = has_blob(tier, key)
        is_asked.set()
        return is_here

    def wait_once_it_is_asked(tier: RemoteTier, key: PipelineCacheKey, patience_s: float) -> bool:
        return is_asked.wait(20) and wait(tier, key, patience_s)

    machines.be("builder", signs=True)
    use()
    root = machines.be("reader")
    for pace in (root / "flight").iterdir():
        pace.write_bytes(b"1")  # compiling is expected to take microseconds
    monkeypatch.setattr(RemoteTier, "has_blob", look_at_home_first)  # so that it does not end before the store is asked
    monkeypatch.setattr(RemoteTier, "wait", wait_once_it_is_asked)
    with Driver() as driver:
        with machines.server.frozen():
            assert use_driver(driver).reason == "no entry"
        fetched = [event.detail for event in events_of(driver, EventKind.FETCH, 1)]
        assert (fetched, remote_counts(counts_of(driver))) == (["hit, signed by builder"], {"remote_late": 1})
    assert given(witness) == [0, 0]


def test_one_of_the_processes_of_a_machine_asks_and_the_others_take_what_it_gets(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    use()
    machines.be("reader")
    machines.server.do("CONFIG", "RESETSTAT")
    assert race(4) == ["True\n"] * 4
    stats = machines.server.do("INFO", "commandstats")
    assert (given(witness), stats["cmdstat_getrange"]["calls"]) == ([0, *[1032] * 4], 2)


def test_without_a_right_to_write_in_the_root_what_is_taken_lives_in_memory(
    machines: Machines, witness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.be("builder", signs=True)
    use()
    machines.be("reader")
    monkeypatch.setenv("VYRE_CACHE_READONLY", "1")
    assert (use()[0].reason, given(witness)) == ("no entry; taken from the store, signed by builder", [0, 1032])
    monkeypatch.delenv("VYRE_CACHE_READONLY")
    monkeypatch.setenv("VYRE_CACHE_DISABLE", "1")
    monkeypatch.setattr(flight, "UNKNOWN_PACE_NS", 10**9)  # in memory no pace is known
    assert (use()[0].reason, given(witness)) == ("no entry (memory only); taken from the store, signed by builder", [1032])


def test_an_entry_that_is_used_before_its_answer_was_given_is_named_as_taken(
    machines: Machines, witness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.be("builder", signs=True)
    use()
    machines.be("reader")
    is_used, finish = threading.Event(), Fetch.finish

    def late(fetch: Fetch, outcome: str, signer: str = "") -> None:
        is_used.wait(20)
        finish(fetch, outcome, signer)

    monkeypatch.setattr(Fetch, "finish", late)
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        until = time.monotonic() + 20
        while not (found := driver.cache.peek(kernel._pipelines.key).entry) or not found.native:  # noqa: SLF001
            assert time.monotonic() < until
        kernel(X, X, push_constants={"alpha": 2, "count": 100})
        is_used.set()
    assert (kernel.trace.reason, given(witness)) == ("no entry; taken from the store, signed by builder", [0, 1032])


def test_a_damaged_entry_is_refused_and_stays_for_its_owner(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    use()
    (name,) = machines.names()
    machines.server.do("SETRANGE", name, 400, b"\xff\xff")
    machines.be("reader")
    assert (remote_counts(use()[1]), machines.names()) == ({"remote_refused_corrupt": 1}, [name])
    assert given(witness) == [0, 0]


def test_the_entry_of_another_key_is_refused_under_this_name(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    use()
    (name,) = machines.names()
    with Driver() as driver:
        driver.compile(shipped_module("fill_words"))(X.view("u4"), push_constants={"value": 1, "count": 100})
        driver.context.first_pipelines.remote.worker.leave(10.0)  # type: ignore[union-attr]
    (other,) = {*machines.names()} - {name}
    machines.server.do("COPY", other, name, "REPLACE")
    given(witness)
    machines.be("reader")
    assert (remote_counts(use()[1]), given(witness)) == ({"remote_refused_foreign_key": 1}, [0])


def test_the_report_and_the_metrics_tell_of_the_store(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    with Driver() as driver:
        use_driver(driver)
        driver.context.first_pipelines.remote.worker.leave(10.0)  # type: ignore[union-attr]
        told = driver.report()["cache"]["remote"]  # type: ignore[index]
        metrics = [line for line in driver.metrics().splitlines() if line.startswith("vyre_driver_cache_remote_")]
    size = machines.server.do("STRLEN", machines.names()[0])
    assert told.pop("seconds") > 0
    assert told == {
        "address": machines.server.url,
        "usable": True,
        "reason": "",
        "may_write": True,
        "bytes_read": 0,
        "bytes_written": size,
    }
    assert [line.partition("{")[0] for line in metrics] == [
        "vyre_driver_cache_remote_usable",
        "vyre_driver_cache_remote_seconds_total",
        "vyre_driver_cache_remote_bytes_total",
        "vyre_driver_cache_remote_bytes_total",
    ]
    assert metrics[-1].endswith(f'direction="written"}} {size}')
    assert given(witness) == [0]


def test_a_process_without_a_store_has_nothing_of_it(run_python: RunChild) -> None:
    ours = "('vyre_driver.remote', 'redis', 'cryptography')"
    done = run_python("-c", f"{USE}\nprint(sorted(one for one in sys.modules if one.startswith({ours})))")
    assert (done.stdout, done.stderr) == ("ready\nTrue\n[]\n", "")


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("VYRE_CACHE_REMOTE", "redis://user:secret@host", "the redis: URL has a user or a password in it"),
        ("VYRE_CACHE_REMOTE", "ftp://host", "ftp: is no kind of store"),
        ("VYRE_CACHE_REMOTE_MODE", "write", "VYRE_CACHE_REMOTE_MODE is write, and there is no key to sign with"),
        ("VYRE_CACHE_TRUST_FILE", "/nowhere/trusted", "it cannot be read"),
    ],
)
def test_a_driver_refuses_settings_of_a_store_that_cannot_be_used(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    machines.be("reader")
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidSetting) as caught:
        Driver()
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_with_the_mode_off_the_store_is_not_even_named(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    machines.be("reader")
    monkeypatch.setenv("VYRE_CACHE_REMOTE_MODE", "off")
    with Driver() as driver:
        assert (driver.context.first_pipelines.remote, "remote" in driver.report()["cache"]) == (None, False)  # type: ignore[operator]


def test_who_trusts_nobody_takes_nothing_and_is_told_so(
    machines: Machines, witness: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machines.be("builder", signs=True)
    use()
    machines.be("reader")
    monkeypatch.delenv("VYRE_CACHE_TRUST_FILE")
    assert (remote_counts(use()[1]), given(witness)) == ({}, [0, 0])
    said = "nothing is taken from the shared cache, because nobody is trusted."
    assert caplog.messages == [f"{said} Fix: name a file of public keys by VYRE_CACHE_TRUST_FILE."]
