"""More drivers at once than anybody wants: ``make stress``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import RunChild

    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device

CHILD = Path(__file__).parents[1] / "device" / "children" / "many_drivers.py"
HANGS_AFTER_S = 300


def test_300_drivers_are_open_at_once(run_python: RunChild, physical_device: PhysicalDevice) -> None:
    """Hardware may have a limit of its own, which is told."""
    done = run_python(str(CHILD), "300", hangs_after_s=HANGS_AFTER_S)
    assert (done.status, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    opened = found["opened"] if not physical_device.is_software and found["refusal"] else 300
    expected = {"opened": opened, "right": opened, "usable": True}
    assert found == {**expected, "refusal": None if opened == 300 else found["refusal"]}
