"""The shipped kernels before and after tuning, on the device's clock, beside PyTorch where it and CUDA are there.

Run as ``python -m benchmarks.kernels --json``. Memory-bound kernels are told in bytes per second too, products in operations.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Row, interleave, parser, print_rows
from vyre_driver import Driver, kernels
from vyre_driver.autotune import AutotuneStore
from vyre_driver.autotune.measure.tune import tune
from vyre_driver.autotune.search.outcomes import Budget
from vyre_driver.autotune.store.records import size_text
from vyre_driver.kompute.timing import TimedDispatches

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.autotune.measure.definition import Size
    from vyre_driver.autotune.measure.tuned import TunedKernel
    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.kompute.buffer import Buffer

LARGE: tuple[tuple[str, Size], ...] = (
    ("saxpy", (2**28,)),
    ("reduce_sum", (2**28,)),
    ("reduce_max", (2**28,)),
    ("inclusive_scan", (2**28,)),
    ("histogram", (2**28, 256)),
    ("transpose", (16384, 16384)),
    ("softmax", (2**15, 4096)),
    *((name, (2**17 // byte_len, 4096, byte_len)) for name in ("layernorm", "rmsnorm") for byte_len in (4, 2)),
    *(("layernorm", size) for size in ((2**21, 64, 4), (2**13, 16384, 4), (512, 2**18, 4))),
    *(("matmul", (side, side, side)) for side in (1024, 2048, 4096, 8192)),
    *(("matmul_f16", (side, side, side)) for side in (4096,)),
)
SMALL: tuple[tuple[str, Size], ...] = tuple(
    (name, tuple(min(one, 2**16 if len(size) == 1 else 256) for one in size)) for name, size in LARGE
)
WARM_UP_S = 0.2


class Torch:
    """PyTorch in a process of its own: a case on stdin, its median microseconds on stdout."""

    def __init__(self, repeats: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("torch_kernels.py")), str(repeats)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={"PATH": "/usr/bin:/bin", "HOME": "/tmp"},  # noqa: S108 -- it writes nothing there
        )
        self.version = self._read()

    def measure(self, name: str, size: Size) -> float:
        if self._process.stdin is None:
            raise AssertionError("the process was started with pipes")
        print(name, size_text(size), file=self._process.stdin, flush=True)
        return float(self._read())

    def _read(self) -> str:
        return self._process.stdout.readline().strip() if self._process.stdout else ""


class Bench:
    """One kernel on buffers of its own, timed with any candidate."""

    def __init__(self, kernel: TunedKernel, size: Size, repeats: int) -> None:
        self._kernel, self._repeats = kernel, repeats
        arrays, self._parameters = kernel.definition.example(size, 1)
        self._buffers: list[Buffer] = [kernel.driver.buffer(one) for one in arrays]
        definition = kernel.definition
        operands = definition.operands(self._buffers)
        plan = definition.plan(definition.call(operands, self._parameters, kernel.candidates[0], kernel.device))
        self._out = [kernel.driver.empty(one.shape, one.dtype) for one in plan.outputs.values()]

    def timed(self, candidate: Candidate) -> Callable[[], float]:
        """Return what gives the median microseconds of a run with this candidate."""
        bound = self._kernel.bind(*self._buffers, out=self._out, candidate=candidate, **self._parameters)
        once = TimedDispatches(bound.bound)

        def measure() -> float:
            times = [once.run() for _ in range(self._repeats)]
            return (
                statistics.median(one.enqueue_ns + one.wait_ns if one.device_ns is None else one.device_ns for one in times)
                / 1000
            )

        until = time.monotonic() + WARM_UP_S  # the clock of an idle device is low
        while time.monotonic() < until:
            bound.run()
        return measure

    def close(self) -> None:
        for one in (*self._buffers, *self._out):
            one.close()


def run_case(driver: Driver, torch: Torch, name: str, size: Size, options: Any) -> tuple[list[Row], dict[str, Any]]:
    kernel = kernels.TunedKernel(driver, kernels.KERNELS[name])
    result = tune(kernel, size, budget=Budget(seconds=options.seconds))
    bench = Bench(kernel, size, options.repeats)
    contenders = {"first": bench.timed(kernel.candidates[0]), "tuned": bench.timed(result.best.candidate)}
    if torch.version:
        contenders["torch"] = lambda: torch.measure(name, size)
    what = f"{name} {size_text(size)}"
    rows = interleave(what, contenders, options.rounds)
    bench.close()
    definition = kernel.definition
    facts = {
        "first": str(kernel.candidates[0]),
        "tuned": str(result.best.candidate),
        "candidates": len(kernel.candidates),
        "tuning_seconds": round(result.seconds, 1),
        "timed_runs": result.samples,
        "outcomes": dict(Counter(one.status.value for one in result.outcomes)),
        "moved_bytes": definition.moved_bytes(size),
        "operations": definition.operations(size),
    }
    for row in rows:
        facts[f"{row.contender} GB/s"] = round(definition.moved_bytes(size) / row.median_us / 1e3, 1)
        if definition.operations(size):
            facts[f"{row.contender} TFLOP/s"] = round(definition.operations(size) / row.median_us / 1e6, 2)
    return rows, {what: facts}


def main() -> None:
    """Run every case."""
    options = parser(__doc__)
    options.set_defaults(repeats=20)
    options.add_argument("--seconds", type=float, default=20.0, help="of tuning a case (default %(default)g)")
    options.add_argument("--small", action="store_true", help="sizes that a CPU device manages")
    options.add_argument("--only", action="append", help="a kernel; again for more")
    given = options.parse_args()
    rows: list[Row] = []
    torch = Torch(given.repeats)
    with Driver(given.device, autotune=AutotuneStore(), allow_software=given.small or None) as driver:
        facts = {**driver.report(), "torch": torch.version or "absent", "repeats": given.repeats, "rounds": given.rounds}
        if torch.version:
            copied = 2 * 4 * 2**28
            rows += interleave("copy 268435456", {"torch": lambda: torch.measure("copy", (2**28,))}, given.rounds)
            facts["copy GB/s"] = round(copied / rows[0].median_us / 1e3, 1)
        for name, size in SMALL if given.small else LARGE:
            if not given.only or name in given.only:
                more, told = run_case(driver, torch, name, size, given)
                rows, facts = rows + more, facts | told
                print(told, file=sys.stderr, flush=True)
    print_rows(rows, facts, as_json=given.json)


if __name__ == "__main__":
    main()
