"""The child process of one check: ``python -m vyre_driver.cli.doctor_probe NAME [ARGUMENT]`` prints it as JSON.

What drivers and loader print themselves goes to standard error, whichever stream they choose.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre_driver.cli.doctor_checks import Check

# Each name's module and function; only that module is imported.
CHECKS = {
    "python": ("doctor_package", "check_python"),
    "extensions": ("doctor_package", "check_extensions"),
    "kompute": ("doctor_package", "check_kompute"),
    "variables": ("doctor_vulkan", "check_variables"),
    "device files": ("doctor_vulkan", "check_device_files"),
    "Vulkan loader": ("doctor_vulkan", "check_loader"),
    "manifest": ("doctor_vulkan", "check_manifest"),
    "devices": ("doctor_vulkan", "check_devices"),
    "plug-ins": ("doctor_package", "check_plugins"),
    "backends": ("doctor_package", "check_backends"),
    "cache": ("doctor_package", "check_cache"),
    "autotune": ("doctor_package", "check_autotune"),
    "dispatch": ("doctor_package", "check_dispatch"),
}


def main() -> None:
    """Run the check that the arguments name."""
    told = os.dup(1)
    os.dup2(2, 1)
    name, *arguments = sys.argv[1:]
    module, function = CHECKS[name]
    found: Check = getattr(import_module(f"vyre_driver.cli.{module}"), function)(*arguments)
    with os.fdopen(told, "w", encoding="utf-8") as stream:
        json.dump(found.as_data(), stream)
    os._exit(0)  # a driver that crashes while it is unloaded has told what it had to


if __name__ == "__main__":
    main()
