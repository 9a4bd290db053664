"""One fresh process of benchmarks.lang: prints the microseconds of a kernel's first call, whose module has been imported.

Imports nothing that a user's process would not, or what is imported late would seem to cost nothing.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import vyre_driver.lang  # noqa: F401 -- it has been imported, and is no part of what is timed
from benchmarks.lang_kernels import gallery_module
from vyre_driver import Driver

CONTENDERS = ("kernel", "program", "second kernel")
WIRE = "program.wire"
_COUNT = 64


def measure(contender: str, folder: Path, device: str | None) -> float:
    """Return what this process spends on the first result, in microseconds."""
    saxpy = gallery_module("saxpy").saxpy
    x, y = np.ones(_COUNT, np.float32), np.ones(_COUNT, np.float32)
    with Driver(device, allow_software=True) as driver:
        if contender == "second kernel":
            gallery_module("heat").warm.on(driver)(np.ones((8, 8), np.float32), rate=0.1)
        began = time.perf_counter_ns()
        if contender != "program":
            found = saxpy.on(driver)(x, y, 2.0)
        else:
            from vyre_driver.ir import Program
            from vyre_driver.target.config import ProgramConfig

            program = Program.from_wire((folder / WIRE).read_bytes())
            compiled = driver.compile(program, config=ProgramConfig(floats="device"))
            found = compiled(x, y, push_constants={"a": 2.0}, out=y, workgroups=(1,))
        took = (time.perf_counter_ns() - began) / 1000
    if not (found == 3).all():
        raise AssertionError(f"saxpy gave {found}")
    return took


if __name__ == "__main__":
    print(measure(sys.argv[1], Path(sys.argv[2]), sys.argv[3] or None))
