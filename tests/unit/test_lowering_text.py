"""What lowered programs look like to people: the golden disassembly of saxpy, which docs/lowering.md shows too."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from example_programs import example

from vyre_driver.lowering.emit.target import FLUSH, PRESERVE, ROUND_TO_EVEN, LoweringTarget

if TYPE_CHECKING:
    from conftest import Lower

pytestmark = pytest.mark.validation

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "text" / "saxpy.lowered.txt"
CONTROLS = LoweringTarget(frozenset({FLUSH, PRESERVE, ROUND_TO_EVEN}))


def disassembled(code: bytes) -> str:
    tool = shutil.which("spirv-dis")
    assert tool is not None, "spirv-dis comes with spirv-val"
    done = subprocess.run([tool, "--no-header", "--no-indent", "-"], input=code, capture_output=True, check=True)
    return done.stdout.decode()


def function(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    first = next(place for place, line in enumerate(lines) if " = OpFunction " in line)
    return lines[first : lines.index("OpFunctionEnd", first) + 1]


def test_saxpy_reads_as_the_golden_text(lower: Lower) -> None:
    program = example("saxpy", 2.0)
    assert disassembled(lower(program, (), CONTROLS).code) == GOLDEN.read_text("utf-8")


def test_the_documentation_shows_what_is_emitted() -> None:
    assert function((ROOT / "docs" / "lowering.md").read_text("utf-8")) == function(GOLDEN.read_text("utf-8"))
