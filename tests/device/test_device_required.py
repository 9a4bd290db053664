"""The tests' own promise: without a device they are skipped with the reason, and fail where a device is required."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Finished, RunChild

ONE_TEST = f"{Path(__file__).parent / 'test_device_lifetime.py'}::test_leaving_the_with_block_closes_the_driver"
NO_DRIVER = (
    "the Vulkan loader found no driver. Fix: install a Vulkan driver (on Debian mesa-vulkan-drivers brings a software one) "
    "or check what VK_DRIVER_FILES and VK_ICD_FILENAMES name."
)
HIDE_KP = "import sys; sys.modules['kp'] = sys.modules['vyre_driver.kompute.bundled.kp'] = None"
NO_KP = f"{HIDE_KP}; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
OPTIONS = ("-q", "-p", "no:cacheprovider", "--color=no", ONE_TEST)


def run_without_driver(run_python: RunChild, required: str) -> Finished:
    missing = "/nonexistent/icd.json"
    env = {"VK_DRIVER_FILES": missing, "VK_ICD_FILENAMES": missing, "VYRE_REQUIRE": required, "COLUMNS": "400"}
    return run_python("-m", "pytest", *OPTIONS, env=env)


def test_without_a_vulkan_driver_a_device_test_is_skipped_with_the_reason(run_python: RunChild) -> None:
    done = run_without_driver(run_python, "packaging")
    reasons = [line.partition(": ")[2] for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert (done.status, reasons) == (0, [NO_DRIVER])


def test_without_a_vulkan_driver_a_device_test_fails_where_one_is_required(run_python: RunChild) -> None:
    done = run_without_driver(run_python, "packaging,device")
    reasons = [line for line in done.stdout.splitlines() if line.startswith("VYRE_REQUIRE")]
    assert (done.status, reasons) == (1, [f"VYRE_REQUIRE=device: {NO_DRIVER}"])


@pytest.mark.device
def test_without_kp_a_device_test_is_skipped_as_well(run_python: RunChild) -> None:
    done = run_python("-c", NO_KP, *OPTIONS, env={"VYRE_REQUIRE": None, "COLUMNS": "400"})
    told = "kp (kompute) cannot be imported (import of kp halted; None in sys.modules)" in done.stdout
    assert (done.status, told) == (0, True)
