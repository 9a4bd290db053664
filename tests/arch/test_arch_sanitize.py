"""The scenes of ``make sanitize``, which takes too long for each change, compile against the layer as it is."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1] / "sanitize"


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_scenes_compile_against_the_layer() -> None:
    run = runpy.run_path(str(HERE / "run.py"))
    folders = (run["VULKAN"], run["VULKAN"] / "layer", run["VULKAN"].parent / "include", sysconfig.get_path("include"))
    command = [str(shutil.which("cc")), "-fsyntax-only", *run["FLAGS"], *(f"-I{folder}" for folder in folders)]
    done = subprocess.run([*command, *map(str, sorted(HERE.glob("*.c")))], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
