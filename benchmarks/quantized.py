"""linear_int4 and linear_int8 on weights that come from memory, beside PyTorch: device time, back to back, clocks warm.

Run as ``python -m benchmarks.quantized --json``. A batch of dispatches goes through several matrices of weights, so that none
is left in a cache when its turn comes again. All write the same result, so each waits for the one before, as layers of a model
do; "side by side" is of dispatches with results of their own, which need not. Bytes per second are of those that must move.
What they are held against is how fast ``reduce_sum`` reads 1 GiB in the same run. PyTorch's is ``linear`` of float16, in order
too, and its own product with weights of 4 bits in groups (of bfloat16) where it has that.
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
from vyre_driver import Driver, VyreError
from vyre_driver.autotune import AutotuneStore
from vyre_driver.kernels import KERNELS, TunedKernel
from vyre_driver.kompute.timing import TimedDispatches

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.runtime.bound import BoundKernel

_BUSY_S = 0.12
_BATCH_US = 8000
_SAMPLES = 5
_READ = 2**28


def microseconds(dispatches: list[BoundKernel]) -> float:
    """Return the median device time of all of them, one after the other, of many times back to back."""
    once = TimedDispatches(dispatches)
    repeats = max(1, int(_BATCH_US / max(min(device_us(once) for _ in range(3)), 1)))
    many = TimedDispatches(dispatches, repeats)
    until = time.perf_counter() + _BUSY_S
    while time.perf_counter() < until:
        many.run(10)
    return statistics.median(device_us(many) / repeats for _ in range(_SAMPLES))


def device_us(timed: TimedDispatches) -> float:
    times = timed.run(10)
    return (times.enqueue_ns + times.wait_ns if times.device_ns is None else times.device_ns) / 1000


class Layers:
    """Matrices of one kind and size on the device, and x of every batch."""

    def __init__(self, driver: Driver, name: str, shape: tuple[int, int], given: argparse.Namespace) -> None:
        self.kernel = TunedKernel(driver, KERNELS[name])
        self._shape, self._group, self._count = shape, given.group, given.matrices
        arrays, _ = self.kernel.definition.example(self.size(max(given.batches)), 1)
        self._x, weight, scales = arrays
        self._want = self.kernel.definition.expected(*arrays)
        self._weights = [(driver.buffer(weight), driver.buffer(scales)) for _ in range(self._count)]

    def size(self, batch: int) -> tuple[int, ...]:
        return (batch, *self._shape, self._group, 2)

    def candidates(self, batch: int) -> list[Candidate]:
        """Return those that run otherwise than each before: for a small batch several take as much of it at once."""
        found: dict[str, Candidate] = {}
        definition = self.kernel.definition
        operands = definition.operands([self._x[:batch], *self._weights[0]])
        for one in self.kernel.candidates:
            (step,) = definition.plan(definition.call(operands, {}, one, self.kernel.device)).steps
            found.setdefault(str(sorted(step.constants.items())), one)
        return list(found.values())

    def measured(self, candidate: Candidate, batch: int) -> tuple[float, float]:
        """Return microseconds of a product in order and side by side, after a look at what comes out."""
        driver = self.kernel.driver
        x = driver.buffer(self._x[:batch])
        ys = [driver.empty((batch, self._shape[0]), np.float16) for _ in range(self._count)]
        try:
            found = [self._timed(candidate, x, some) for some in (ys[:1] * self._count, ys)]
            got, want = ys[-1].read().astype(np.float64), self._want[:batch].astype(np.float64)
            error = float(np.abs(got - want).max() / np.abs(want).max())
            assert error <= self.kernel.definition.tolerance(self.size(batch)), error  # noqa: S101 -- of wrong results is none
        finally:
            for one in (x, *ys):
                one.close()
        return found[0], found[1]

    def _timed(self, candidate: Candidate, x: Buffer, ys: list[Buffer]) -> float:
        plans = [self.kernel.bind(x, *pair, out=y, candidate=candidate) for pair, y in zip(self._weights, ys, strict=True)]
        return microseconds([one for plan in plans for one in plan.bound]) / self._count

    def close(self) -> None:
        for one in (one for pair in self._weights for one in pair):
            one.close()


def read_speed(driver: Driver, count: int) -> float:
    """Return the gigabytes per second at which reduce_sum reads so many float32."""
    kernel = TunedKernel(driver, KERNELS["reduce_sum"])
    x, out = driver.zeros(count, np.float32), driver.empty((), np.float32)
    took = microseconds(list(kernel.bind(x, out=out).bound))
    for one in (x, out):
        one.close()
    return 4 * count / took / 1e3


def case(layers: Layers, batch: int, which: str, told: list[dict[str, Any]]) -> list[Row]:
    size, definition, rows = layers.size(batch), layers.kernel.definition, []
    what = f"{definition.name}, batch {batch}, {size[1]} x {size[2]}"
    chosen = layers.candidates(batch) if which == "all" else [layers.kernel.candidate(size)]
    for one in chosen:
        try:
            took, apart = layers.measured(one, batch)
        except VyreError as error:
            print(f"{what}: {one} is left out: {error}", file=sys.stderr)
            continue
        speed = definition.moved_bytes(size) / took / 1e3
        told.append({"what": what, "candidate": str(one), "us": took, "GB/s": speed, "us side by side": apart})
        rows.append(Row(what, str(one), took, took, took))
        print(f"{what}: {one}: {took:.2f} us, {speed:.0f} GB/s; side by side {apart:.2f} us", file=sys.stderr)
    return rows


def torch_rows(peer: PeerProcess, line: str, told: list[dict[str, Any]]) -> list[Row]:
    rows = []
    for kind in ("float16", "int4"):
        took = peer.measure(f"{kind} {line}")
        if took >= 0:
            told.append({"what": f"torch {kind} {line}", "us": took})
            rows.append(Row(line, f"torch {kind}", took, took, took))
            print(f"torch {kind} {line}: {took:.2f} us", file=sys.stderr)
    return rows


def options() -> argparse.Namespace:
    found = parser(__doc__)
    numbers: Callable[[str], list[int]] = lambda text: [int(one) for one in text.split(",")]  # noqa: E731
    found.add_argument("--kernels", default="linear_int4,linear_int8", help="with commas (default %(default)s)")
    found.add_argument("--shapes", default="4096x14336,14336x4096", help="n x k, with commas (default %(default)s)")
    found.add_argument("--batches", type=numbers, default=[1, 2, 4, 8, 16, 32], help="with commas (default 1,2,4,8,16,32)")
    found.add_argument("--group", type=int, default=32, help="weights with one scale (default %(default)s)")
    found.add_argument("--matrices", type=int, default=16, help="weights that are gone through (default %(default)s)")
    found.add_argument("--candidates", choices=("first", "all"), default="first", help="of the tuning space, at batches of 1")
    found.add_argument("--all-batches", action="store_true", help="all candidates at every batch")
    found.add_argument("--read", type=int, default=_READ, help="float32 that reduce_sum reads (default %(default)s)")
    return found.parse_args()


def main() -> None:
    given = options()
    peer = PeerProcess([sys.executable, str(Path(__file__).with_name("torch_quantized.py")), str(given.matrices)])
    version, told, rows = peer.read(), [], []
    with Driver(given.device, autotune=AutotuneStore(), allow_software=True) as driver:
        reads = [read_speed(driver, given.read)]
        for shape in (tuple(map(int, one.split("x"))) for one in given.shapes.split(",")):
            for name in given.kernels.split(","):
                layers = Layers(driver, name, shape, given)
                for batch in given.batches:
                    which = given.candidates if batch == 1 or given.all_batches else "first"
                    rows += case(layers, batch, which, told)
                layers.close()
            for batch in given.batches if version else ():
                rows += torch_rows(peer, f"{batch} {shape[0]} {shape[1]} {given.group}", told)
        reads.append(read_speed(driver, given.read))
        facts = {**driver.report(), "torch": version or "absent", "busy_s": _BUSY_S, "read GB/s": reads, "told": told}
    peer.close()
    print(f"reduce_sum reads at {reads[0]:.0f} GB/s before, {reads[1]:.0f} GB/s after", file=sys.stderr)
    print_rows(rows, facts if given.json else {"torch": facts["torch"], "read GB/s": reads}, as_json=given.json)


if __name__ == "__main__":
    main()
