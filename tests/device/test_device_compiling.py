"""Compiling lets other threads run, is not forked into, and hears Ctrl-C when it is over.

A layer below ours holds each compilation up until a file is there, so that nothing is left to chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from child_scenes import scenes

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("witness")]


@pytest.mark.parametrize("case", scenes("compiling.py"))
def test_while_a_pipeline_is_compiled(run_forked: RunChild, children: Path, tmp_path: Path, case: str) -> None:
    done = run_forked(str(children / "compiling.py"), case, env={"WITNESS_GATE": str(tmp_path / "gate")})
    assert (done.status, done.stdout, done.stderr) == (0, "", "")
