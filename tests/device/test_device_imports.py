"""What importing does, and what it leaves alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild


def test_importing_the_package_loads_no_kp_and_no_vulkan_and_changes_nothing(run_python: RunChild, children: Path) -> None:
    done = run_python("-B", str(children / "silent_import.py"))
    assert json.loads(done.stdout) == {
        "kp imported": False,
        "libvulkan mapped": False,
        "changes on disk": [],
        "root logger": [[], 30],
    }


def test_importing_the_package_prints_nothing(run_python: RunChild) -> None:
    done = run_python("-W", "error", "-c", "import vyre_driver")
    assert (done.status, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.device
def test_loading_kp_leaves_the_root_logger_alone(run_python: RunChild, children: Path) -> None:
    done = run_python(str(children / "quiet_kompute.py"))
    assert json.loads(done.stdout) == {"kp imported": True, "handlers": 0, "kept": True}


@pytest.mark.device
def test_opening_a_driver_leaves_the_root_logger_alone(run_python: RunChild) -> None:
    code = "import logging, vyre_driver; vyre_driver.Driver().close(); print(logging.root.handlers, logging.root.level)"
    done = run_python("-c", code)
    assert (done.status, done.stdout) == (0, "[] 30\n")


@pytest.mark.device
@pytest.mark.validation
def test_a_known_kernel_needs_neither_the_emitter_nor_the_tuning_store_nor_the_validator(
    run_python: RunChild, children: Path
) -> None:
    found = [json.loads(run_python(str(children / "known_kernel.py")).stdout) for _ in range(2)]
    assert found == [{"modules": ["vyre_driver.lowering.emit.entry"], "judged": 1}, {"modules": [], "judged": 0}]
