"""The child process of one check: ``python -m vyre_driver.cli.doctor_probe NAME [ARGUMENT]`` prints it as JSON.

What drivers and loader print themselves goes to standard error, whichever stream they choose.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.cli.doctor_checks import Check

# The functions of each module; only the module of the one that is asked for is imported.
_OF_PACKAGE = {
    "python": "check_python",
    "extensions": "check_extensions",
    "kompute": "check_kompute",
    "plug-ins": "check_plugins",
    "backends": "check_backends",
    "cache": "check_cache",
    "autotune": "check_autotune",
    "dispatch": "check_dispatch",
}
_OF_VULKAN = {
    "variables": "check_variables",
    "device files": "check_device_files",
    "Vulkan loader": "check_loader",
    "manifest": "check_manifest",
    "devices": "check_devices",
}
CHECKS = (*_OF_PACKAGE, *_OF_VULKAN)


def check_named(name: str) -> Callable[..., Check]:
    """Return the function of a check."""
    if name in _OF_PACKAGE:
        from vyre_driver.cli import doctor_package

        found: Callable[..., Check] = getattr(doctor_package, _OF_PACKAGE[name])
    else:
        from vyre_driver.cli import doctor_vulkan

        found = getattr(doctor_vulkan, _OF_VULKAN[name])
    return found


def main() -> None:
    """Run the check that the arguments name."""
    told = os.dup(1)
    os.dup2(2, 1)
    name, *arguments = sys.argv[1:]
    found = check_named(name)(*arguments)
    with os.fdopen(told, "w", encoding="utf-8") as stream:
        json.dump(found.as_data(), stream)
    os._exit(0)  # a driver that crashes while it is unloaded has told what it had to


if __name__ == "__main__":
    main()
