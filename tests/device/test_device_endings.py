"""How buffers, bound kernels, batches and futures end: in any order, collected, or left to the exit, with work running."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from child_scenes import scenes

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

pytestmark = pytest.mark.device


# That all die in any order at all takes a minute: tests/stress/test_stress_cycles.py.
@pytest.mark.parametrize("case", [one for one in scenes("endings.py") if not one.startswith("all_are_")])
def test_a_process_ends_cleanly_when(run_forked: RunChild, children: Path, case: str) -> None:
    done = run_forked("-W", "error", str(children / "endings.py"), case)
    assert (done.status, done.stdout, done.stderr) == (0, "", "")
