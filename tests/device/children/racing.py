"""Processes that compile the same module at the same time."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from vyre_driver.identity import device_fields, encode_manifest, manifest_digest

if TYPE_CHECKING:
    from pathlib import Path

    from vyre_driver.vulkan import PhysicalDevice

HANGS_AFTER_S = 110

USE = """
import sys
import numpy as np
from vyre_driver import Driver
from vyre_driver.spirv.shipped import shipped_module

x = np.arange(100, dtype=np.float32)
with Driver() as driver:
    print("ready", flush=True)
    sys.stdin.readline()
    kernel = driver.compile(shipped_module("saxpy"))
    right = np.array_equal(kernel(x, x, push_constants={"alpha": 2, "count": 100}), 3 * x)
print(right)
"""


def expect_to_wait(root: Path, device: PhysicalDevice) -> None:
    """Say of the device that it compiles slowly: on a busy machine, who waits must not run out of patience."""
    (root / "flight").mkdir(mode=0o700, parents=True)
    root.chmod(0o700)
    name = manifest_digest(encode_manifest(device_fields(device))).hex()
    (root / "flight" / f"{name}.pace").write_bytes(b"1000000000")


def race(count: int) -> list[str]:
    """Let so many processes open their drivers, then compile the same module; returns what they said of the result."""
    racers = [
        subprocess.Popen([sys.executable, "-c", USE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        assert [racer.stdout.readline() for racer in racers if racer.stdout] == ["ready\n"] * count
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        return [racer.communicate(timeout=HANGS_AFTER_S)[0] for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
