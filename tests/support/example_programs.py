"""The programs of the folder ``examples``."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre_driver.ir import Program

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str, *arguments: object) -> Program:
    """Make the program that a file makes in a function of its own name."""
    made: Program = runpy.run_path(str(EXAMPLES / f"{name}.py"))[name](*arguments)
    return made
