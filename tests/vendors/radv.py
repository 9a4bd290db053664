"""What RADV compiles for a device that is not there: ``compiled.py`` in a child process, and what came of it.

Mesa's driver for AMD's GPUs takes itself to be on a device of any family that RADV_FORCE_FAMILY names, and compiles for it.
Since Mesa 26.1 that takes a drm-shim, which Debian does not have.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ICDS = (Path("/usr/share/vulkan/icd.d"), Path("/etc/vulkan/icd.d"))
REMOVED = "RADV_FORCE_FAMILY=<family> has been removed"  # says RADV of Mesa 26.1
FAMILIES = ("vega10", "navi21")  # subgroups of 64, and of 32 or 64
HANGS_AFTER_S = 1800


class Compiled(NamedTuple):
    """What came of one child: the device, how many were compiled and to how much, what was refused and what failed."""

    device: str
    done: int
    native: int
    refused: list[str]
    failed: list[str]


def manifest(driver: str) -> Path | None:
    """The file by which the loader finds a driver, None where it is not installed."""
    found = [
        path for folder in ICDS if folder.is_dir() for path in sorted(folder.iterdir()) if path.name.startswith(f"{driver}_icd")
    ]
    return found[0] if found else None


def of_family(family: str, path: Path) -> dict[str, str]:
    """The environment in which RADV takes itself to be on a device of a family."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VYRE_")}
    return clean | {"RADV_FORCE_FAMILY": family, "VK_DRIVER_FILES": str(path), "VK_ICD_FILENAMES": str(path)}


def compiled(environment: dict[str, str], *what: str) -> Compiled:
    """What a child compiled in an environment; of one that dies or hangs the last thing it named has failed."""
    command = [sys.executable, str(HERE / "compiled.py"), *what]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=HANGS_AFTER_S, check=False, cwd=ROOT
        )
        status, text, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as ended:
        status, text, errors = 124, (ended.stdout or b"").decode(), ""
    lines = text.splitlines()
    failed = [line for line in lines if line.startswith("failed ")]
    last = lines[-1] if lines else "nothing"
    if status != 0 or not last.startswith("done "):
        failed.append(f"the process ended with status {status} after {last!r}: {errors[-2000:]}")
    count, native = map(int, last.split()[1:]) if last.startswith("done ") else (0, 0)
    device = next((line.removeprefix("device ") for line in lines if line.startswith("device ")), "no device")
    return Compiled(device, count, native, [line for line in lines if line.startswith("refused ")], failed)
