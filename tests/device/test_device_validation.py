"""The Khronos validation layer, with synchronization validation, has nothing to say of what we and kompute do.

It stands below our layer, so it sees what reaches the Vulkan driver. Cases are in children/validated.py.
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

from vyre_driver import SpirvModule
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from conftest import Finished, RunChild

CHILD = Path(__file__).parent / "children" / "validated.py"
VALIDATOR = "VK_LAYER_KHRONOS_validation"
# Tracks memory accesses within a command buffer, and from one submission to the next.
SYNCHRONIZATION = "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT"
SUBMISSIONS = "VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT"
# Without the shader cache every shader is validated anew. To stdout: a log file would be emptied by the next instance.
SETTINGS = f"""khronos_validation.enables = {SYNCHRONIZATION},{SUBMISSIONS}
khronos_validation.disables = VK_VALIDATION_FEATURE_DISABLE_SHADER_VALIDATION_CACHE_EXT
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn,perf,info
khronos_validation.log_filename = stdout
khronos_validation.enable_message_limit = false
"""
# The validator telling that it is there, and with which settings. Nothing else is allowed.
ACTIVE = "UNASSIGNED-khronos-validation-createinstance-status-message"
MESSAGE = re.compile(r"^(?:Validation|(?P<id>[\w-]+)\((?:ERROR|WARN|PERF|INFO) / \w+\)):.*", re.MULTILINE)
CASES = [
    "wide_numbers",
    "bytes_that_fill_no_word",
    "calls_whole_and_split",
    "constants",
    "required_subgroups",
    "shipped_shaders",
    "kernels_on_matrices",
    "dispatches_on_the_devices_clock",
    "kernels_for_long_arrays",
    "chain_in_a_batch",
    "resident_buffers",
    "parts_of_buffers",
    "parts_that_are_bound",
    "pinned_arrays",
    "streams",
    "every_pair_in_order",
    "pipelines_and_memory_shared",
    "drivers_one_after_another",
    "drivers_side_by_side",
    "four_threads",
    "time_out_then_next_run",
    "close_with_work_running",
    "dropped_with_work_running",
    "failures_of_the_device",
    "interrupted_once_made",
]

pytestmark = [pytest.mark.device, pytest.mark.validation]


def validated(run_python: RunChild, tmp_path: Path, case: str) -> Finished:
    """Run a case below the validator."""
    settings = tmp_path / "vk_layer_settings.txt"
    settings.write_text(SETTINGS, "utf-8")
    layers = os.pathsep.join([VALIDATOR, *filter(None, [os.environ.get("VK_INSTANCE_LAYERS")])])
    return run_python(str(CHILD), case, env={"VK_INSTANCE_LAYERS": layers, "VK_LAYER_SETTINGS_PATH": str(settings)})


def messages(done: Finished) -> list[str]:
    """The validator's complaints, whole lines."""
    return [found.group() for found in MESSAGE.finditer(done.stdout) if found.group("id") != ACTIVE]


@pytest.mark.parametrize("case", CASES)
def test_the_validator_is_on_and_reports_nothing(run_python: RunChild, tmp_path: Path, case: str) -> None:
    done = validated(run_python, tmp_path, case)
    enabled = "Current Enables: VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION," in done.stdout
    assert (done.status, done.stderr, enabled, messages(done)) == (0, "", True, [])


@pytest.mark.usefixtures("fake_cuda")
def test_the_validator_has_nothing_to_say_of_memory_that_is_exported(run_python: RunChild, tmp_path: Path) -> None:
    done = validated(run_python, tmp_path, "memory_that_cuda_sees")
    assert (done.status, done.stderr, messages(done)) == (0, "", [])


def test_the_validator_reports_a_race_that_we_make(run_python: RunChild, tmp_path: Path) -> None:
    done = validated(run_python, tmp_path, "race")
    kinds = [line.partition("(")[0] for line in messages(done)]
    one_run = ["SYNC-HAZARD-WRITE-AFTER-READ", "SYNC-HAZARD-READ-AFTER-WRITE"]
    assert (done.status, kinds) == (0, one_run * 3)


def kernels() -> dict[str, SpirvModule]:
    """The shaders that are shipped, and those that the cases above run."""
    sys.path.insert(0, str(CHILD.parent))
    try:
        import validated as child
    finally:
        sys.path.remove(str(CHILD.parent))
    texts = {f"wide {kind}": child.WIDE.format(kind=kind) for kind in ("double", "int64_t")}
    texts |= {"bytes": child.BYTES, "constants": child.CONSTANTS, "slow": child.SLOW, "subgroups": child.subgroups.SIZES}
    names = [one.name.removesuffix(".spv") for one in files("vyre_driver.shaders").iterdir() if one.name.endswith(".spv")]
    shipped = {name: shipped_module(name) for name in sorted(names)}
    return shipped | {name: SpirvModule.from_glsl(text) for name, text in texts.items()}


def test_spirv_val_accepts_every_shader(run_program: RunChild, tmp_path: Path) -> None:
    refused = {}
    for name, module in kernels().items():
        file = tmp_path / "module.spv"
        file.write_bytes(module.code)
        done = run_program(str(shutil.which("spirv-val")), "--target-env", "vulkan1.1", str(file))
        if done.status:
            refused[name] = done.stderr
    assert refused == {}
