"""What may happen to a process or a store while a driver asks: an entry goes, a clock is wrong, a process forks."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from machines import counts_of, events_of, given, remote_counts, use

from vyre_driver import Driver
from vyre_driver.remote.tier import RemoteTier
from vyre_driver.runtime.warming import WarmReport
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from conftest import RunChild
    from machines import Machines

    from vyre_driver.identity import PipelineCacheKey

pytestmark = [pytest.mark.device, pytest.mark.redis, pytest.mark.cold_mesa]

USED = """
import numpy as np
from vyre_driver import Driver
from vyre_driver.runtime import pipelines
from vyre_driver.spirv.shipped import shipped_module
pipelines.LEAST_COMPILE_S = 0.0
x = np.arange(100, dtype=np.float32)
def use(driver):
    kernel = driver.compile(shipped_module("saxpy"))
    assert np.array_equal(kernel(x, x, push_constants={"alpha": 2, "count": 100}), 3 * x)
    return kernel
"""
WRONG_CLOCK = """
import sys, time
seconds, nanoseconds, wrong = time.time, time.time_ns, 365 * 86400 * int(sys.argv[1])
time.time, time.time_ns = lambda: seconds() + wrong, lambda: nanoseconds() + wrong * 10**9
"""
TELL = """
with Driver() as driver:
    print(use(driver).trace.reason)
    print({name: count for name, count in driver.cache.stats()["counts"].items() if name.startswith("remote_")})
"""
FORK = """
import os, sys, warnings
from vyre_driver.cache import DiskPipelineCache
from vyre_driver.errors import ForkError
from vyre_driver.remote.tier import RemoteTier
from vyre_driver.telemetry.events import Events
driver = Driver()
kernel = use(driver)
remote = driver.context.first_pipelines.remote
print(kernel.trace.reason, flush=True)
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: forking with threads; that is the test
child = os.fork()
if not child:
    try:
        driver.compile(shipped_module("saxpy"))
    except ForkError:
        print("refused", flush=True)
    cache, key = DiskPipelineCache(sys.argv[1]), kernel._pipelines.key
    parts = {"trust": remote._trust, "signer": None, "cache": cache, "device": driver.device, "events": Events(())}
    other = RemoteTier(remote.worker, **parts)
    other.ask(key, kernel._pipelines.spirv)
    other.wait(key, 20.0)
    print(other.origin(key), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
remote.ask_again(kernel._pipelines.key)
print(remote.look([kernel._pipelines.key]))
driver.close()
"""


def test_an_entry_that_goes_between_two_questions_is_compiled_here(
    machines: Machines, witness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.be("builder", signs=True)
    use()
    (name,) = machines.names()
    value = machines.server.do("GET", name)
    machines.server.do("DEL", name)
    given(witness)
    machines.be("reader")
    look = RemoteTier.look

    def look_and_lose(remote: RemoteTier, keys: Sequence[PipelineCacheKey]) -> list[str]:
        found = look(remote, keys)
        machines.server.do("DEL", name)
        return found

    monkeypatch.setattr(RemoteTier, "look", look_and_lose)
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        events_of(driver, EventKind.FETCH, 1)
        machines.server.do("SET", name, value)
        assert (driver.warm([kernel]), given(witness)) == (WarmReport(0, 0, 1), [0])
        assert remote_counts(counts_of(driver)) == {"remote_miss": 2}  # before, and after the look


def make_huge(machines: Machines, name: str) -> None:
    machines.server.do("SETRANGE", name, (100 << 20) - 1, b"\1")


def end_trust(machines: Machines, _name: str) -> None:
    trusted = machines.folder / "trusted"
    trusted.write_text(f"{trusted.read_text('utf-8')} until=2020-01-01", "utf-8")


def replay(machines: Machines, name: str) -> None:
    value = machines.server.do("GET", name)
    machines.server.do("DEL", name)
    machines.server.do("SET", name, value)


@pytest.mark.parametrize(
    ("happens", "count", "blobs"),
    [
        (make_huge, "remote_refused_too_large", [0, 0]),
        (end_trust, "remote_refused_untrusted", [0, 0]),
        (replay, "remote_hit", [0, 1032]),
    ],
)
def test_what_a_server_may_hold_is_taken_only_where_it_is_signed_for_this_key_within_its_time_and_bounds(
    machines: Machines, witness: Path, happens: Callable[[Machines, str], None], count: str, blobs: list[int]
) -> None:
    machines.be("builder", signs=True)
    use()
    happens(machines, machines.names()[0])
    machines.be("reader")
    assert (remote_counts(use()[1]), given(witness)) == ({count: 1}, blobs)


@pytest.mark.parametrize("years", [-1, 1])
def test_a_process_whose_clock_is_wrong_by_a_year_takes_what_is_signed_and_keeps_no_other_from_asking(
    machines: Machines, witness: Path, run_python: RunChild, years: int
) -> None:
    machines.be("builder", signs=True)
    use()
    (name,) = machines.names()
    value = machines.server.do("GET", name)
    today, trusted = dt.datetime.now(tz=dt.timezone.utc).date(), machines.folder / "trusted"
    days = [today + dt.timedelta(days) for days in (-9, 9)]
    trusted.write_text(f"{trusted.read_text('utf-8')} from={days[0]} until={days[1]}", "utf-8")
    machines.be("reader")
    machines.server.stop()
    code = WRONG_CLOCK + USED + TELL
    assert run_python("-c", code, str(years)).stdout == "no entry\n{'remote_failed': 1, 'remote_open': 1}\n"
    with Driver() as driver:
        assert driver.context.first_pipelines.remote.worker.is_open() is False  # type: ignore[union-attr]
    machines.server.start()
    machines.server.do("SET", name, value)
    machines.be("another")
    told = "no entry; taken from the store, signed by builder\n{'remote_hit': 1}\n"
    assert (run_python("-c", code, str(years)).stdout, given(witness)) == (told, [0, 0, 1032])


def test_a_forked_child_asks_by_itself_and_its_parent_goes_on(
    machines: Machines, witness: Path, run_python: RunChild, tmp_path: Path
) -> None:
    machines.be("builder", signs=True)
    use()
    machines.be("reader")
    done = run_python("-c", USED + FORK, str(tmp_path / "child"))
    taken = "taken from the store, signed by builder"
    assert (done.stdout, done.stderr) == (f"no entry; {taken}\nrefused\n{taken}\n['there']\n", "")
    assert given(witness) == [0, 1032]
