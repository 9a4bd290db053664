"""Buffers that are shared with PyTorch on a GPU."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

pytestmark = [pytest.mark.device, pytest.mark.cuda]


@pytest.mark.parametrize("first", ["torch", "vulkan"])
def test_pytorch_and_kernels_see_the_same_memory_on_a_gpu(run_python: RunChild, children: Path, first: str) -> None:
    done = run_python(str(children / "torch_cuda.py"), first, env={"VYRE_ALLOW_SOFTWARE": None}, hangs_after_s=300)
    assert (done.status, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert ([fact for fact, holds in found.items() if holds is False], len(found)) == ([], 28)
