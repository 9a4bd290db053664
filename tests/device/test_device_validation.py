"""The Khronos validation layer, with synchronization validation, has nothing to say of what we and kompute do.

It stands below our layer, so it sees what reaches the Vulkan driver. Cases are in children/validated.py. Before the first of
them each kind of validation has to report a fault that support/planted_faults.c makes: a layer says nothing of settings that
it does not know, and may list a kind as enabled that finds nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from child_scenes import scenes
from validation_layer import (
    REQUIRED,
    SETTINGS,
    STATUS,
    VALIDATOR,
    build_planted_faults,
    complaint,
    identifiers,
    messages,
    silent_kinds,
)

from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from conftest import Finished, RunChild

    from vyre_driver import SpirvModule

CHILD = Path(__file__).parent / "children" / "validated.py"
OTHERS = {"race", "memory_that_cuda_sees", "copy_both_ways", "main"}
SCRIPTS = ["validated.py", "subgroups.py", "shipped_kernels.py", "parts.py", "order.py"]
CASES = [case for script in SCRIPTS for case in scenes(script) if case not in OTHERS]

pytestmark = [pytest.mark.device, pytest.mark.validation]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the program that plants faults."""
    place = tmp_path_factory.mktemp("planted")
    build_planted_faults(place)
    return place


@pytest.fixture(scope="module", autouse=True)
def _each_kind_reports(planted: Path) -> None:
    """Skip or fail where the layer does not report a planted fault of each kind."""
    silent = silent_kinds(planted, SETTINGS)
    if silent and REQUIRED:
        pytest.fail(f"VYRE_REQUIRE=validation: {complaint(silent)}", pytrace=False)
    if silent:
        pytest.skip(complaint(silent))


def validated(run_forked: RunChild, tmp_path: Path, case: str) -> Finished:
    """Run a case below the validator."""
    settings = tmp_path / "vk_layer_settings.txt"
    settings.write_text(SETTINGS, "utf-8")
    layers = os.pathsep.join([VALIDATOR, *filter(None, [os.environ.get("VK_INSTANCE_LAYERS")])])
    env = {"VK_INSTANCE_LAYERS": layers, "VK_LAYER_SETTINGS_PATH": str(settings)}
    return run_forked(str(CHILD), case, env=env, hangs_after_s=300)  # a newer layer takes longer over a hundred shaders


@pytest.mark.parametrize("case", CASES)
def test_the_validator_is_on_and_reports_nothing(run_forked: RunChild, tmp_path: Path, case: str) -> None:
    done = validated(run_forked, tmp_path, case)
    is_on = not STATUS.isdisjoint(identifiers(done.stdout))
    assert (done.status, done.stderr, is_on, messages(done.stdout)) == (0, "", True, [])


@pytest.mark.usefixtures("fake_cuda")
def test_the_validator_has_nothing_to_say_of_memory_that_is_exported(run_python: RunChild, tmp_path: Path) -> None:
    done = validated(run_python, tmp_path, "memory_that_cuda_sees")
    assert (done.status, done.stderr, messages(done.stdout)) == (0, "", [])


def test_the_validator_reports_a_race_that_we_make(run_forked: RunChild, tmp_path: Path) -> None:
    done = validated(run_forked, tmp_path, "race")
    names = sorted(name for name in identifiers(done.stdout) if name not in STATUS)  # either buffer may come first
    assert (done.status, names) == (0, ["SYNC-HAZARD-READ-AFTER-WRITE"] * 3 + ["SYNC-HAZARD-WRITE-AFTER-READ"] * 3)


def test_kinds_that_are_off_are_named_with_the_version_of_the_layer(planted: Path) -> None:
    without = "".join(line for line in SETTINGS.splitlines(keepends=True) if "sync" not in line.casefold())
    silent = silent_kinds(planted, without)
    assert silent == ["synchronization", "submissions", "shader accesses"]
    assert re.fullmatch(
        r"VK_LAYER_KHRONOS_validation 1\.\d+\.\d+ does not report the planted faults of these kinds: "
        r"synchronization, submissions, shader accesses\. "
        r"Fix: add to SETTINGS in tests/support/validation_layer\.py what this version needs to find them\.",
        complaint(silent),
    )


def kernels() -> dict[str, SpirvModule]:
    """The shaders that are shipped, and those that the cases above run."""
    sys.path.insert(0, str(CHILD.parent))
    try:
        import validated as child
    finally:
        sys.path.remove(str(CHILD.parent))
    texts = {f"wide {kind}": child.WIDE.format(kind=kind) for kind in ("double", "int64_t")}
    texts |= {
        "bytes": child.BYTES,
        "constants": child.CONSTANTS,
        "slow": child.SLOW,
        "copy": child.COPY,
        "subgroups": child.subgroups.SIZES,
    }
    names = [one.name.removesuffix(".spv") for one in files("vyre_driver.shaders").iterdir() if one.name.endswith(".spv")]
    shipped = {name: shipped_module(name) for name in sorted(names)}
    return shipped | {name: child.glsl(text) for name, text in texts.items()}


def test_spirv_val_accepts_every_shader(run_program: RunChild, tmp_path: Path) -> None:
    refused = {}
    for name, module in kernels().items():
        file = tmp_path / "module.spv"
        file.write_bytes(module.code)
        done = run_program(str(shutil.which("spirv-val")), "--target-env", "vulkan1.1", str(file))
        if done.status:
            refused[name] = done.stderr
    assert refused == {}
