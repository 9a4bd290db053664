"""One process of benchmarks.versions: prints what the warm path of the installed vyre_driver takes, in microseconds, as JSON.

Arguments: a directory with small.spv and big.spv, the device or an empty word, and the number of calls to time. It imports
nothing of this project but the package, for it runs against older versions too.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

STARTED = time.perf_counter_ns()  # before the imports, which are part of a first call

import numpy as np  # noqa: E402

from vyre_driver import Driver, SpirvModule  # noqa: E402
from vyre_driver.lang import In, Index, InOut, f32, kernel  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

_BUSY_S = 0.3  # an idle device has slowed its clock down


@kernel
def axpy(i: Index, x: In[f32], y: InOut[f32], a: f32) -> None:
    y[i] = a * x[i] + y[i]


def median_us(call: Callable[[], object], repeats: int) -> float:
    """Return the median microseconds of a call on a device that has been kept busy."""
    end = time.perf_counter() + _BUSY_S
    while time.perf_counter() < end:
        call()
    times = []
    for _ in range(repeats):
        began = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - began)
    return sorted(times)[repeats // 2] / 1000


def measure(folder: Path, device: str | None, repeats: int) -> dict[str, float]:
    """Return the microseconds of each step."""
    small, big = SpirvModule.from_file(folder / "small.spv"), SpirvModule.from_file(folder / "big.spv")
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    with Driver(device, allow_software=True) as driver:
        add = driver.compile(small)
        add(x, y, workgroups=(1,))
        figures = {"first call of a process, imports included": (time.perf_counter_ns() - STARTED) / 1000}
        began = time.perf_counter_ns()
        driver.compile(big)(x, y, workgroups=(1,))
        figures["a big pipeline again"] = (time.perf_counter_ns() - began) / 1000
        began = time.perf_counter_ns()
        on_device = axpy.on(driver)
        on_device(x, y, 2.0)
        figures["first call of a Python kernel"] = (time.perf_counter_ns() - began) / 1000
        bound = add.bind(driver.buffer(x), driver.buffer(y), workgroups=(1,))
        figures["bound.run()"] = median_us(bound.run, repeats)
        figures["call with arrays"] = median_us(lambda: add(x, y, workgroups=(1,)), repeats)
        figures["call of a Python kernel with arrays"] = median_us(lambda: on_device(x, y, 2.0), repeats)
    return figures


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), sys.argv[2] or None, int(sys.argv[3]))))
