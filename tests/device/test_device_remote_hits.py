"""What a local hit costs with a store that machines share: the same system calls as without."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from typing import TYPE_CHECKING

import pytest
from machines import events_of, use, use_driver

from vyre_driver import Driver
from vyre_driver.cache import DiskPipelineCache
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild
    from machines import Machines

SETTLED_S = 1.1
HIT = """
import os
import time
from vyre_driver import Driver
from vyre_driver.spirv.shipped import shipped_module
module = shipped_module("saxpy")
with Driver() as driver:
    driver.compile(module)
    remote = driver.context.first_pipelines.remote
    while remote is not None and remote.worker._link._store is None:  # its thread imports what reaches the store
        time.sleep(0.01)
    time.sleep(0.2)
    for name in ("/begins", "/ends"):
        os.path.exists(name)
        if name == "/begins":
            assert driver.compile(module).trace.verdict.name == "HIT"
"""

pytestmark = [pytest.mark.device, pytest.mark.redis, pytest.mark.cold_mesa]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_hit_makes_the_same_system_calls_with_a_store_as_without(
    machines: Machines, witness: Path, run_program: RunChild, tmp_path: Path
) -> None:
    root = machines.be("builder", signs=True)
    use()
    while time.time() - root.stat().st_ctime < SETTLED_S:  # a root that has just changed is looked at more closely
        time.sleep(0.05)
    with_store, without = (calls(run_program, tmp_path / "calls", remote) for remote in (machines.server.url, None))
    assert with_store == without
    assert "openat" in with_store
    assert witness.exists()


def calls(run_program: RunChild, file: Path, remote: str | None) -> list[str]:
    """Return the names of the system calls of a hit, in order."""
    command = ["strace", "-f", "-o", str(file), sys.executable, "-c", HIT]
    assert run_program(*command, env={"VYRE_CACHE_REMOTE": remote}).stderr == ""
    lines = file.read_text("utf-8").splitlines()
    begins, ends = (next(number for number, line in enumerate(lines) if f'"/{name}"' in line) for name in ("begins", "ends"))
    found = [re.match(r"\d+ +(\w+)\(", line) for line in lines[begins + 1 : ends]]
    return [one[1] for one in found if one]


def test_a_use_that_is_noted_here_is_told_to_the_store_with_the_next_question(machines: Machines, witness: Path) -> None:
    root = machines.be("builder", signs=True)
    use()
    (name,) = machines.names()
    machines.server.do("EXPIRE", name, 60)
    (entry,) = DiskPipelineCache(root).entries()
    os.utime(entry.path, (0, 0))
    with Driver() as driver:
        use_driver(driver)
        assert machines.server.do("TTL", name) <= 60
        driver.compile(shipped_module("fill_words"))
        events_of(driver, EventKind.FETCH, 1)
        until = time.monotonic() + 20
        while machines.server.do("TTL", name) <= 60:
            assert time.monotonic() < until
            time.sleep(0.005)
    assert witness.exists()
