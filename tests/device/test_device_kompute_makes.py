"""kompute makes the device, the memory and the pipelines, whatever a driver does: a layer below ours looks who calls."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from made_layers import build_layer

if TYPE_CHECKING:
    from conftest import RunChild

pytestmark = pytest.mark.device

LAYER = Path(__file__).parents[1] / "support" / "kompute_calls.c"
CHILD = Path(__file__).parent / "children" / "kompute_makes.py"


def test_kompute_makes_devices_memory_and_pipelines(run_python: RunChild, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("not installed: cc")
    name = build_layer(LAYER, tmp_path)
    done = run_python(
        str(CHILD), env={"VK_LAYER_PATH": f"{tmp_path}:/usr/share/vulkan/explicit_layer.d", "VK_INSTANCE_LAYERS": name}
    )
    calls = Counter(line for line in done.stderr.splitlines() if line.endswith((": kompute", ": another")))
    assert done.status == 0, done.stderr
    assert {call for call in calls if call.endswith(": another")} <= {"memory of the host: another"}
    made = [calls[f"{call}: kompute"] > 0 for call in ("vkCreateDevice", "vkAllocateMemory", "vkCreateComputePipelines")]
    assert made == [True, True, True]
