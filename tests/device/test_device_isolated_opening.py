"""What an isolated driver says whose process dies before it has opened its device."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from vyre_driver import Driver
from vyre_driver.errors import DriverCrashed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.device


def test_a_child_that_dies_before_its_device_is_open_blames_no_shader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("""
import os, signal, sys
if "vyre_driver.isolated.child" in sys.orig_argv:
    os.kill(os.getpid(), signal.SIGKILL)
""")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(DriverCrashed) as caught:
        Driver(isolated=True)
    error = caught.value
    assert (error.context["how"], error.context["signal"]) == ("SIGKILL", signal.SIGKILL)
    assert str(error) == (
        f"the process {error.context['pid']} of an isolated driver has ended (SIGKILL): it died while it opened its device. "
        "Fix: run vyre-driver doctor, which opens each device in a process of its own and says what ends it."
    )
