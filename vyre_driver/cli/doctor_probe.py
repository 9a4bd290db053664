"""The child process of one check: ``python -m vyre_driver.cli.doctor_probe NAME [ARGUMENT]`` prints it as JSON."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from vyre_driver.process.child import take_over_stdout

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
    answer = take_over_stdout()
    name, *arguments = sys.argv[1:]
    answer(check_named(name)(*arguments).as_data())
    os._exit(0)  # a driver that crashes while it is unloaded has printed its result


if __name__ == "__main__":
    main()
