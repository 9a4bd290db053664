"""How far calls go through the package: Python calls, files and climbs of first calls, and of making kernels.

Calls are those of the package's functions that ``sys.setprofile`` sees, files are those that the functions are in, and a climb
is a call in a later stage (``STAGES`` in tests/arch/test_arch_folders.py) than the call before it. Each walk runs in a process
of its own with an empty cache; "again" is the least time of five more, without the profile.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import vyre_driver
from vyre_driver import Driver, kernels
from vyre_driver.lang import In, Index, InOut, f32, kernel

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "arch"))

from test_arch_folders import STAGES, stage

_ROOT = Path(__file__).parents[1]
_PACKAGE = str(Path(vyre_driver.__file__).parent) + os.sep


@kernel
def axpy(i: Index, x: In[f32], y: InOut[f32], a: f32) -> None:
    """Add a multiple of one array to another."""
    y[i] = a * x[i] + y[i]


def _axpy(driver: Driver) -> Callable[[], object]:
    x, y = np.ones(64, np.float32), np.ones(64, np.float32)
    return lambda: axpy.on(driver)(x, y, 2.0)


def _product(driver: Driver) -> Callable[[], object]:
    made = kernels.matmul(driver)
    a = np.ones((64, 64), np.float32)
    return lambda: made(a, a)


def _making(name: str, *arguments: object) -> Callable[[Driver], Callable[[], object]]:
    return lambda driver: lambda: getattr(kernels, name)(driver, *arguments)


WALKS: dict[str, Callable[[Driver], Callable[[], object]]] = {
    "first call of a Python kernel": _axpy,
    "first call of a product": _product,
    "kernels.matmul(driver)": _making("matmul"),
    "kernels.matmul(driver, 'float16')": _making("matmul", "float16"),
    "kernels.linear(driver)": _making("linear"),
    "kernels.conv2d(driver)": _making("conv2d"),
    "kernels.attention(driver)": _making("attention"),
    **{
        f"kernels.{name}(driver)": _making(name)
        for name in kernels.__all__
        if name in kernels.KERNELS and name not in {"matmul", "attention", "conv2d", "linear"}
    },
}


class Walk:
    """The calls of the package's functions while it is the profile function."""

    def __init__(self) -> None:
        """Have seen none."""
        self.calls = self.climbs = 0
        self.files: set[str] = set()
        self._at: int | None = None

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Count a call."""
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(_PACKAGE):
            return
        self.calls += 1
        self.files.add(file)
        place = _stage_of(file)
        self.climbs += self._at is not None and place > self._at
        self._at = place


def _stage_of(file: str) -> int:
    """Return the place of a file's stage in the architecture."""
    parts = Path(file).relative_to(_PACKAGE).with_suffix("").parts
    return STAGES.index(stage(".".join(("vyre_driver", *(parts[:-1] if parts[-1] == "__init__" else parts)))))


def walk(name: str) -> str:
    """Return the row of a walk in this process."""
    with ExitStack() as stack:
        driver = stack.enter_context(Driver(allow_software=True))
        again, seen = WALKS[name](driver), Walk()
        sys.setprofile(seen)
        try:
            again()
        finally:
            sys.setprofile(None)
        took = []
        for _ in range(5):
            began = time.perf_counter_ns()
            again()
            took.append(time.perf_counter_ns() - began)
    return f"{name:36}{seen.calls:>8,}{len(seen.files):>8}{seen.climbs:>8,}{min(took) / 1e6:>10.2f}"


def main() -> None:
    """Print a row for each walk, each from a process of its own."""
    print(f"{'':36}{'calls':>8}{'files':>8}{'climbs':>8}{'again, ms':>10}")
    for name in WALKS:
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, "-m", "benchmarks.walks", name]
            subprocess.run(command, check=True, cwd=_ROOT, env={**os.environ, "VYRE_CACHE_DIR": cache})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(walk(sys.argv[1]))
    else:
        main()
