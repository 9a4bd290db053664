"""The child process of one check: ``python -m vyre_driver.cli.doctor_probe NAME [ARGUMENT]`` prints it as JSON."""

from __future__ import annotations

import os
import sys

from vyre_driver.cli import doctor_vulkan
from vyre_driver.process.child import take_over_stdout


def main() -> None:
    """Run the check that the arguments name."""
    answer = take_over_stdout()
    name, *arguments = sys.argv[1:]
    check = doctor_vulkan.CHECKS.get(name)
    if check is None:
        from vyre_driver.cli import doctor_package  # late: what it imports may be what is broken

        check = doctor_package.CHECKS[name]
    answer(check(*arguments).as_data())
    os._exit(0)  # a driver that crashes while it is unloaded has printed its result


if __name__ == "__main__":
    main()
