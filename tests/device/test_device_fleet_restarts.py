"""A process of a fleet that does not come up again at once."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from extras import imported

imported("distributed")

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.device, pytest.mark.thorough]
WAITS_S = 60.0
RESTARTS = """import os, signal, time
from vyre_driver.distributed import FleetPool, LocalFleet
if __name__ == "__main__":
    with LocalFleet([0], allow_software=True) as fleet:
        FleetPool(fleet.client)
        (nanny,) = fleet.cluster.workers.values()
        os.environ["VYRE_AUTOTUNE"] = "neither"
        before = nanny.process.pid
        os.kill(before, signal.SIGKILL)
        while not nanny._failures:
            time.sleep(0.02)
        del os.environ["VYRE_AUTOTUNE"]
        fleet.client.wait_for_workers(1)
        print(nanny.process.pid != before)
"""


def test_a_process_that_does_not_come_up_again_is_started_until_it_does(tmp_path: Path) -> None:
    (tmp_path / "restarts.py").write_text(RESTARTS)
    ended = subprocess.run(
        [sys.executable, "restarts.py"], cwd=tmp_path, capture_output=True, text=True, timeout=WAITS_S, check=False
    )
    assert (ended.stdout, ended.returncode) == ("True\n", 0), ended.stderr
