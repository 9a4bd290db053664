"""Every bit of every word of three modules, and what spirv-val refuses of them: it never gets to the driver."""

from __future__ import annotations

import array
import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vyre_driver import Driver, SpirvModule
from vyre_driver.errors import VyreError
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from conftest import RunChild

SCRIPT = Path(__file__).parents[1] / "support" / "bit_flips.py"
NAMES = ["saxpy", "byte_histogram", "mandelbrot"]


@pytest.mark.parametrize("name", NAMES)
def test_any_bit_of_any_word_of_a_module_may_flip(run_python: RunChild, name: str) -> None:
    done = run_python(str(SCRIPT), name, *map(str, range(32)), hangs_after_s=600)
    assert (done.status, done.stderr) == (0, "")
    assert sum(json.loads(done.stdout).values()) == len(shipped_module(name).code) * 8


@pytest.mark.device
@pytest.mark.validation
@pytest.mark.parametrize("name", NAMES)
def test_what_spirv_val_refuses_of_them_is_never_compiled(name: str) -> None:
    tool = shutil.which("spirv-val")
    assert tool is not None
    words = array.array("I", shipped_module(name).code)
    compiled, refused = [], 0
    with Driver() as driver:
        for at, word in enumerate(words):
            words[at] = word ^ 1 << at % 32
            code = words.tobytes()
            words[at] = word
            command = [tool, "--target-env", "vulkan1.3", "--scalar-block-layout", "--allow-localsizeid", "-"]
            if subprocess.run(command, input=code, capture_output=True, check=False).returncode == 0:
                continue
            refused += 1
            try:
                driver.compile(SpirvModule.from_bytes(code))
            except VyreError:
                continue
            compiled.append(at)
    assert (compiled, refused > 0) == ([], True)
