"""Shaders whose result tells which dispatches ran, how often and in which order; for the tests and their child processes."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver import SpirvModule

if TYPE_CHECKING:
    from vyre_driver import Driver, Kernel
    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.runtime.bound import BoundKernel

HEAD = "#version 450\nlayout(local_size_x = 64) in;\n"

# In place. Not commutative: the numbers tell the order of the steps.
STEP = """
layout(push_constant) uniform Push { uint factor; uint summand; };
layout(binding = 0) buffer Values { uint values[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < values.length()) values[i] = factor * values[i] + summand; }
"""
# From one buffer into another, a step to the side: each element needs one that another workgroup wrote.
SHIFT = """
layout(binding = 0) readonly buffer From { uint from[]; };
layout(binding = 1) writeonly buffer To { uint to[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < to.length()) to[i] = 3u * from[(i + 67u) % from.length()] + 1u;
}
"""
# Takes its time: each workgroup counts to 60,000 (llvmpipe leaves a loop after 65,535 turns), then adds what ``each`` holds by
# then. What it makes of it says how many workgroups have run.
SPIN = """#version 450
layout(local_size_x = 1) in;
layout(push_constant) uniform Push { uint turns; };
layout(binding = 0) buffer Ended { uint ended[1]; };
layout(binding = 1) readonly buffer Each { uint each[1]; };
void main() {
    uint value = turns;
    for (uint i = 0u; i < turns; i++) value = value * 1664525u + 1013904223u;
    atomicAdd(ended[0], value == 1u ? 0u : each[0]);
}
"""
TURNS = 60_000
_MEASURED_S = 0.01
_CLOCK_RISES_S = 0.15  # of work until a GPU that was idle runs at its full speed, which may be five times that


def _grid(groups: int) -> tuple[int, int]:
    """Return columns and rows of at least so many workgroups; Vulkan promises 65,535 of each."""
    rows = -(-groups // 65_535)
    return -(-groups // rows), rows


@functools.cache
def _compiler() -> str:
    """Return what tells compilers apart: the places and the times of those that there are."""
    name = "glslangValidator"
    places = [Path(shutil.which(name) or "."), *(Path(one, "cmeel.prefix/bin", name) for one in sys.path)]
    return "".join(f"{one} {one.stat().st_mtime_ns}\n" for one in places if one.is_file())


@functools.cache
def glsl(text: str) -> SpirvModule:
    """Compile GLSL text, behind a head that sets 64 invocations a workgroup unless it has its own; the tests do it once.

    Starting the compiler takes 0.07 s. What it made is kept for this compiler, as long as the folder that TESTS_GLSL_DIR names.
    """
    source, folder = text if text.startswith("#version") else HEAD + text, os.environ.get("TESTS_GLSL_DIR")
    if folder is None:
        return SpirvModule.from_glsl(source)
    kept = Path(folder, hashlib.sha256(f"{_compiler()}{source}".encode()).hexdigest())
    if not kept.exists():
        made = kept.with_name(f"{kept.name}-{os.getpid()}-{threading.get_ident()}")
        made.write_bytes(SpirvModule.from_glsl(source).code)
        made.replace(kept)
    return SpirvModule.from_bytes(kept.read_bytes(), name="<source>")


class Spin:
    """A dispatch that lasts about as long as is asked for. ``ended`` counts its workgroups, over all runs."""

    def __init__(self, driver: Driver, seconds: float) -> None:
        """Measure this device under its present load, and bind as many workgroups as take that long."""
        self.kernel: Kernel = driver.compile(glsl(SPIN))
        self.ended: Buffer = driver.buffer(np.zeros(1, np.uint32))
        self.each: Buffer = driver.buffer(np.ones(1, np.uint32))
        groups = 64
        while (took := self._timed(groups)) < _MEASURED_S:
            groups *= 2
        began = time.perf_counter()
        while not driver.device.is_software and time.perf_counter() - began < _CLOCK_RISES_S:
            self._timed(groups)
        wanted = max(1, int(groups * seconds / min(took, self._timed(groups), self._timed(groups))))
        self.grid = _grid(wanted)
        self.groups = self.grid[0] * self.grid[1]
        self.bound: BoundKernel = self.bind(wanted)
        self.ended.write(np.zeros(1, np.uint32))

    def bind(self, groups: int) -> BoundKernel:
        """Return a dispatch of so many workgroups, or a few more to fill the last row."""
        return self.kernel.bind(self.ended, self.each, push_constants={"turns": TURNS}, workgroups=_grid(groups))

    def runs(self) -> float:
        """Return how often it has run, once all that was submitted has ended."""
        return int(self.ended.read()[0]) / self.groups

    def _timed(self, groups: int) -> float:
        bound = self.bind(groups)
        began = time.perf_counter()
        bound.run()
        return time.perf_counter() - began
