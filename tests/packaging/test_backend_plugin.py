"""The example of a backend in a package of its own: built, installed, found, run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.packaging
ROOT = Path(__file__).parents[2]
OPTIONS = ("--no-build-isolation", "--no-deps", "--no-index", "--no-cache-dir", "--disable-pip-version-check", "--quiet")

RANKING = """
import sys
from vyre_driver.backends import broken_plugins, known_ids, rank_backends
assert "recording" in known_ids() and "recording_backend" not in sys.modules
rows = [one.id for one in rank_backends(allow_software=True) if one.facts is not None]
print(rows, broken_plugins())
"""
DISPATCH = """
import numpy as np
from vyre_driver import acquire
from vyre_driver.backends import DispatchConfig
from vyre_driver.spirv.shipped import shipped_module
x = np.arange(100, dtype=np.float32)
with acquire("recording", allow_software=True) as backend:
    push_constants = {"alpha": 2, "count": 100}
    (y,) = backend.dispatch(shipped_module("saxpy"), [x, x], DispatchConfig(label="mine"), push_constants=push_constants)
    loaded = backend.load(shipped_module("saxpy"))
    loaded.dispatch([x, x], push_constants={"alpha": 2, "count": 100})
    print(np.array_equal(y, 3 * x), [one[:3] for one in backend.records], backend.profile.backend, loaded.id)
"""

CONFORMANCE = """
from contextlib import ExitStack
from itertools import chain
from vyre_driver.conformance.adapters import open_backend
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.suite import ask, random_cases
with ExitStack() as stack:
    backend = open_backend("recording", stack, allow_software=True)
    report = ask(backend, chain(hand_written(Options()), random_cases(0, 20)))
for reason in report.unsupported:
    print(reason)
print(report.asked > 400, report.asked - report.agreed, len(report.failures))
"""
# What it forwards to refuses, by name: the cases that have no lowering.
LACKING = {"vyre.node.async_load", "elements of a type", "vyre.node.trap", "barrier of the whole grid"}
NOT_FUSED = {"an fma of f64 that rounds once"}
NVIDIA = 4  # VK_DRIVER_ID_NVIDIA_PROPRIETARY, whose fma rounds once


@pytest.fixture(scope="module")
def plugin(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the example was installed to, from a wheel of it."""
    made, place = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("plugin")
    pip = [sys.executable, "-m", "pip"]
    source = str(checkout / "examples" / "backend_plugin")
    subprocess.run([*pip, "wheel", *OPTIONS, "--wheel-dir", str(made), source], check=True)
    wheels = [str(one) for one in made.glob("*.whl")]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--quiet", "--target", str(place), *wheels], check=True)
    return place


@pytest.fixture
def run_beside(plugin: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run code where the example is installed."""

    def run(code: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(plugin), str(ROOT)])}
        command = [sys.executable, "-W", "error", "-c", code]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=110)

    return run


@pytest.mark.device
def test_the_example_ranks_behind_what_it_forwards_to(run_beside: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    done = run_beside(RANKING)
    assert (done.returncode, done.stdout) == (0, "['kompute', 'recording'] ()\n"), done.stderr


@pytest.mark.device
def test_the_example_runs_and_records(run_beside: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    done = run_beside(DISPATCH)
    records = "[('mine', 800, 400), ('', 800, 400)]"
    assert (done.returncode, done.stdout) == (0, f"True {records} recording recording:passthrough\n"), done.stderr


@pytest.mark.device
def test_the_example_answers_as_the_reference_does(
    run_beside: Callable[[str], subprocess.CompletedProcess[str]], physical_device: PhysicalDevice
) -> None:
    done = run_beside(CONFORMANCE)
    *reasons, counts = done.stdout.splitlines() or [done.stderr]
    wanted = LACKING if physical_device.driver_id == NVIDIA else LACKING | NOT_FUSED
    told = {lacking for lacking in wanted for reason in reasons if lacking in reason}
    number = len(wanted)
    assert (done.returncode, counts, told, len(reasons)) == (0, f"True {number} 0", wanted, number), done.stdout + done.stderr


@pytest.mark.device
def test_the_verb_asks_it_by_its_id(run_beside: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    arguments = ["conform", "--backend", "recording", "--count", "2", "--no-cases", "--allow-software"]
    done = run_beside(f"from vyre_driver.cli import main\nraise SystemExit(main({arguments}))")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "asked 2, agreed 2, failed 0"), done.stderr
