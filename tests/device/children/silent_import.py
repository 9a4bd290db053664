"""Import the package and tell as JSON what that did beyond defining names.

Usage: python -B silent_import.py
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.chmod", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
changes: list[str] = []


def watch(event: str, arguments: tuple[object, ...]) -> None:
    if event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING):
        changes.append(f"{event} {arguments[0]!r}")


sys.addaudithook(watch)

import vyre_driver  # noqa: E402 -- after the hook that watches it
import vyre_driver.target.profile  # noqa: E402
import vyre_driver.vulkan.devices  # noqa: E402
import vyre_driver.vulkan.layer.enable  # noqa: E402, F401

if __name__ == "__main__":
    report = {
        "kp imported": any(name.split(".")[-1] == "kp" for name in sys.modules),
        "libvulkan mapped": "libvulkan" in Path("/proc/self/maps").read_text("utf-8"),
        "changes on disk": changes,
        "root logger": [logging.root.handlers, logging.root.level],
    }
    json.dump(report, sys.stdout)
