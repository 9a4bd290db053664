"""A program that PyInstaller froze by the hook of this package: it opens a device, and starts no process of itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from extras import imported

import vyre_driver
from vyre_driver.__pyinstaller import hook_dirs

pytestmark = [pytest.mark.packaging, pytest.mark.device]

PROGRAM = """
import numpy as np
from vyre_driver import Driver
from vyre_driver.errors import InstallationUnusable
from vyre_driver.spirv.shipped import shipped_module

x = np.arange(8, dtype=np.float32)
with Driver(allow_software=True) as driver:
    print((driver.compile(shipped_module("saxpy"))(x, x, push_constants={"alpha": 2, "count": 8}) == 3 * x).all())
try:
    Driver(isolated=True, allow_software=True)
except InstallationUnusable as error:
    print(error.code)
"""


def test_a_frozen_program_opens_a_device_and_is_refused_an_isolated_one(tmp_path: Path) -> None:
    imported("PyInstaller")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, "utf-8")
    # PyInstaller does not see an editable installation, and an old one has no entry point.
    options = ["--paths", str(Path(vyre_driver.__file__).parents[1]), "--additional-hooks-dir", *hook_dirs()]
    places = ["--distpath", str(tmp_path / "dist"), "--workpath", str(tmp_path / "work"), "--specpath", str(tmp_path)]
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "ERROR", *options, *places, str(program)]
    made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    frozen = subprocess.run(
        [tmp_path / "dist/program/program"], capture_output=True, text=True, check=False, cwd="/", timeout=300
    )
    assert (frozen.returncode, frozen.stdout.split()) == (0, ["True", "2701"]), frozen.stderr
