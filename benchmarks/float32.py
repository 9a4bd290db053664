"""The shipped float32 product, untuned, with the best candidate of a tuning and with others, beside PyTorch without TF32.

Run as ``python -m benchmarks.float32 --json``: device time, back to back, clocks warm. Results are held against float64 first.
``VYRE_PIPELINE_STATISTICS=1`` has registers and shared memory told.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.peer_process import PeerProcess
from benchmarks.timing import Row, parser, print_rows
from vyre_driver import Driver, kernels
from vyre_driver.autotune import AutotuneStore
from vyre_driver.autotune.measure.tune import tune
from vyre_driver.autotune.search.outcomes import Budget
from vyre_driver.autotune.store.records import size_text
from vyre_driver.kompute.timing import TimedDispatches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.autotune.measure.tuned import BoundPlan, TunedKernel
    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.runtime.bound import BoundKernel

    Size = tuple[int, int, int]

SQUARES: tuple[Size, ...] = tuple((side, side, side) for side in (8192, 4096, 2048, 1024, 512))
SKINNY: tuple[Size, ...] = (
    (1, 4096, 4096),
    (16, 4096, 4096),
    (32, 4096, 4096),
    (4096, 64, 4096),
    (4096, 1, 4096),
    (128, 128, 65536),
)
SMALL: tuple[Size, ...] = ((128, 128, 128), (1, 256, 300), (32, 30, 1000))
_BUSY_S = 0.12
_LONG_BUSY_S, _PAUSE_S = 1.5, 0.3
_ended = [0.0]  # when the device last had work
_BATCH_US = 8000
_SAMPLES = 5
_CHECKED_ROWS = 8


class Products:
    """Matrices of one size on the device, and the kernel bound to them with any candidate."""

    def __init__(self, kernel: TunedKernel, size: Size) -> None:
        self._kernel, self._size = kernel, size
        (a, b), _ = kernel.definition.example(size, 1)
        self._rows = np.unique(np.linspace(0, size[0] - 1, _CHECKED_ROWS).astype(int))
        self._want = a[self._rows].astype(np.float64) @ b.astype(np.float64)
        self._a, self._b = kernel.driver.buffer(a), kernel.driver.buffer(b)
        self._c = kernel.driver.empty(size[:2], np.float32)

    def told(self, candidate: Candidate) -> dict[str, Any]:
        """Return the time with a candidate, after what comes out was checked."""
        plan = self._kernel.bind(self._a, self._b, out=self._c, candidate=candidate)
        self._check(plan)
        took, (m, n, k) = microseconds(plan.bound), self._size
        facts = plan.bound[0].pipeline.facts  # type: ignore[union-attr] # of a dispatch
        compiled = {} if facts is None else {of.name: of.value for exe in facts.executables for of in exe.statistics}
        return {"candidate": str(candidate), "us": took, "tflops": 2 * m * n * k / took / 1e6, **compiled}

    def _check(self, plan: BoundPlan) -> None:
        self._c.fill(np.float32(np.nan))
        plan.run()
        found = np.concatenate([self._c[row : row + 1].read() for row in map(int, self._rows)])
        error = float(np.abs(found - self._want).max() / np.abs(self._want).max())
        assert error <= self._kernel.definition.tolerance(self._size), error  # noqa: S101 -- wrong results are no figures

    def close(self) -> None:
        for one in (self._a, self._b, self._c):
            one.close()


def microseconds(dispatches: Sequence[BoundKernel]) -> float:
    """Return the median device time of one of many runs of what a call dispatches, back to back."""
    once = TimedDispatches(dispatches)
    repeats = max(1, int(_BATCH_US / max(min(device_us(once) for _ in range(3)), 1)))
    many = TimedDispatches(dispatches, repeats)
    warm(many)
    return statistics.median(device_us(many) / repeats for _ in range(_SAMPLES))


def warm(timed: TimedDispatches) -> None:
    """Run for 0.12 s, for 1.5 s after a pause, since clocks that have fallen to a fifth may take a second to rise."""
    has_paused = time.perf_counter() - _ended[-1] > _PAUSE_S
    until = time.perf_counter() + (_LONG_BUSY_S if has_paused else _BUSY_S)
    while time.perf_counter() < until:
        timed.run(10)
        _ended[:] = [time.perf_counter()]


def device_us(timed: TimedDispatches) -> float:
    times = timed.run(10)
    return (times.enqueue_ns + times.wait_ns if times.device_ns is None else times.device_ns) / 1000


def others(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    """Return the first of each tile of 64 rows and columns or more, of which k is not split."""
    first: dict[tuple[int, int], Candidate] = {}
    for one in candidates:
        if one["SPLIT_K"] == 1 and min(one["TILE_X"], one["TILE_Y"]) >= 64:
            first.setdefault((one["TILE_X"], one["TILE_Y"]), one)
    return list(first.values())


def case(kernel: TunedKernel, size: Size, seconds: float, torch: PeerProcess | None) -> list[dict[str, Any]]:
    """Return what one size takes with each choice."""
    what = size_text(size)
    best = tune(kernel, size, budget=Budget(seconds=seconds)).best.candidate if seconds else None
    products, told = Products(kernel, size), []
    chosen = {"untuned": kernel.definition.untuned(kernel.candidates, size)}
    chosen |= {"tuned": best} if best is not None else {}
    if size in SQUARES:
        chosen |= {f"{one['TILE_X']}x{one['TILE_Y']}": one for one in others(kernel.candidates)}
    for name, candidate in chosen.items():
        told.append({"what": what, "choice": name, **products.told(candidate)})
    products.close()
    if torch is not None:
        took = torch.measure(f"float32 {' '.join(map(str, size))}")
        told.append({"what": what, "choice": "torch", "us": took, "tflops": 2 * size[0] * size[1] * size[2] / took / 1e6})
    for one in told:
        print(f"{what} {one['choice']}: {one['us']:.1f} us, {one['tflops']:.2f} TFLOP/s", file=sys.stderr, flush=True)
    return told


def main() -> None:
    """Run every size."""
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=8.0, help="of tuning a size, 0 for none (default %(default)g)")
    options.add_argument("--small", action="store_true", help="sizes that a CPU device manages")
    given = options.parse_args()
    peer = PeerProcess([sys.executable, str(Path(__file__).with_name("torch_products.py"))])
    version, told = peer.read(), []
    with Driver(given.device, autotune=AutotuneStore(), allow_software=given.small or None) as driver:
        kernel = kernels.TunedKernel(driver, kernels.KERNELS["matmul"])
        for size in SMALL if given.small else (*SQUARES, *SKINNY):
            told += case(kernel, size, given.seconds, peer if version else None)
        facts = {**driver.report(), "torch": version or "absent", "busy_s": _BUSY_S, "told": told}
    peer.close()
    rows = [Row(one["what"], one["choice"], *[one["us"]] * 3) for one in told]
    print_rows(rows, facts if given.json else {"torch": facts["torch"]}, as_json=given.json)


if __name__ == "__main__":
    main()
