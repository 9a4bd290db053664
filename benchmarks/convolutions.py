"""conv2d with a bias beside PyTorch (channels_last, cuDNN's own search on): device time, back to back, clocks warm.

Run as ``python -m benchmarks.convolutions --json``. Of each size several tilings are timed; each is timed as a product too,
of a stored matrix as large as all windows, which tells what reading windows from the images costs or gains. Padding is half of
the kernel. The first image that comes out is held against float64.
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
from vyre_driver.kernels import TunedKernel
from vyre_driver.kernels.convolution import ConvolutionShape, Window, convolution
from vyre_driver.kernels.products import product
from vyre_driver.kompute.timing import TimedDispatches

if TYPE_CHECKING:
    from vyre_driver.autotune.measure.tuned import BoundPlan
    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.kompute.buffer import Buffer

_BUSY_S = 0.12
_BATCH_US = 8000
_SAMPLES = 5
SIZES = (
    *((32, 56, 56, 64, 64, 3, 3), (32, 28, 28, 128, 128, 3, 3), (32, 14, 14, 256, 256, 3, 3)),
    *((16, 64, 64, 320, 320, 3, 3), (32, 56, 56, 256, 64, 1, 1)),
)
# Tiles of the result, and how many subgroups lie across and down; of fragments of 16 on subgroups of 32.
_CUTS = (((128, 128), (2, 2)), ((64, 128), (2, 2)), ((128, 64), (2, 2)), ((64, 64), (2, 2)), ((32, 64), (1, 4)))


class Contender:
    """conv2d or the product that it is, on buffers of its own."""

    def __init__(self, kernel: TunedKernel, arrays: tuple[Buffer, ...], out: Buffer) -> None:
        self.kernel, self._arrays, self.out = kernel, arrays, out

    def bound(self, candidate: Candidate) -> BoundPlan:
        return self.kernel.bind(*self._arrays, out=self.out, candidate=candidate)

    def close(self) -> None:
        for one in (*self._arrays, self.out):
            one.close()


class Case:
    """One size of one type."""

    def __init__(self, driver: Driver, dtype: str, size: tuple[int, ...]) -> None:
        window = Window(padding=(size[5] // 2, size[6] // 2))
        self.definition, shape = convolution(dtype, window=window), ConvolutionShape(window, *size)
        self._size = size
        (x, weight, bias), _ = self.definition.example(size, 1)
        self._want = self.definition.expected(x[:1], weight, bias)
        kernel = TunedKernel(driver, self.definition)
        like = TunedKernel(driver, product(dtype, out_dtype=dtype, transpose_b=True, bias=True))
        held = [driver.buffer(one) for one in (x, weight, bias)]
        matrix = driver.buffer(np.resize(x, (shape.product.m, shape.product.k)))
        weights, biases = driver.buffer(weight.reshape(weight.shape[0], -1)), driver.buffer(bias)
        outs = [driver.empty(one, bias.dtype) for one in (shape.out, (shape.product.m, shape.product.n))]
        self.convolution = Contender(kernel, tuple(held), outs[0])
        self.product = Contender(like, (matrix, weights, biases), outs[1])

    def candidates(self) -> dict[str, Candidate]:
        """Return what is tried, by name: the cuts that this device takes, and what runs when nothing is tuned."""
        kernel, subgroup = self.convolution.kernel, self.convolution.kernel.driver.device.subgroup_size
        wanted = {(x, y, 1, across * subgroup, down): f"{x} x {y}" for (x, y), (across, down) in _CUTS}
        found = {}
        for one in kernel.candidates:
            cut = one["TILE_X"], one["TILE_Y"], one["SPLIT_K"], *one.workgroup_size[:2]
            if cut in wanted:
                found[f"{wanted[cut]} by {cut[3] // subgroup} x {cut[4]}"] = one
        return found | {"untuned": self.definition.untuned(kernel.candidates, self._size)}

    def check(self, bound: BoundPlan) -> None:
        bound.run(60)
        found, want = self.convolution.out.read()[:1].astype(np.float64), self._want.astype(np.float64)
        error = float(np.abs(found - want).max() / np.abs(want).max())
        assert error <= self.definition.tolerance(self._size), error  # noqa: S101 -- a benchmark of wrong results is none

    def close(self) -> None:
        self.convolution.close()
        self.product.close()


def microseconds(plan: BoundPlan) -> float:
    """Return the median device time of one of many calls, back to back."""
    once = TimedDispatches(plan.bound)
    repeats = max(1, int(_BATCH_US / max(min(device_us(once) for _ in range(3)), 1)))
    many = TimedDispatches(plan.bound, repeats)
    until = time.perf_counter() + _BUSY_S
    while time.perf_counter() < until:
        many.run(60)
    return statistics.median(device_us(many) / repeats for _ in range(_SAMPLES))


def device_us(timed: TimedDispatches) -> float:
    times = timed.run(60)
    return (times.enqueue_ns + times.wait_ns if times.device_ns is None else times.device_ns) / 1000


def run_case(
    driver: Driver, dtype: str, size: tuple[int, ...], peer: PeerProcess | None, told: list[dict[str, Any]]
) -> list[Row]:
    one, rows, what = Case(driver, dtype, size), [], f"{dtype} {'x'.join(map(str, size))}"
    operations = one.definition.operations(size)

    def tell(name: str, took: float, **facts: object) -> None:
        told.append({"what": what, "contender": name, "us": took, "tflops": operations / took / 1e6, **facts})
        rows.append(Row(what, name, took, took, took))

    for name, candidate in one.candidates().items():
        try:
            plan = one.convolution.bound(candidate)
            one.check(plan)
            tell(name, microseconds(plan), candidate=str(candidate), **statistics_of(plan))
            tell(f"{name}, product", microseconds(one.product.bound(candidate)))
        except VyreError as error:
            print(f"{what}: {name} is left out: {error}", file=sys.stderr)
    one.close()
    if peer is not None:
        tell("torch", peer.measure(f"{dtype} {' '.join(map(str, size))}"))
    for row in told[-len(rows) :]:
        print(f"{what}: {row['contender']} {row['us']:.1f} us, {row['tflops']:.1f} TFLOP/s", file=sys.stderr, flush=True)
    return rows


def statistics_of(plan: BoundPlan) -> dict[str, object]:
    """Return the driver's statistics of the code that multiplies, with VYRE_PIPELINE_STATISTICS=1."""
    facts = plan.bound[0].pipeline.facts  # type: ignore[union-attr] # of a dispatch
    return {} if facts is None else {of.name: of.value for exe in facts.executables for of in exe.statistics}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--types", default="float16", help="with commas between (default %(default)s)")
    options.add_argument("--sizes", help="as 32x56x56x64x64x3x3, with commas between (default: five layers)")
    given = options.parse_args()
    sizes = [tuple(map(int, one.split("x"))) for one in given.sizes.split(",")] if given.sizes else SIZES
    peer = PeerProcess([sys.executable, str(Path(__file__).with_name("torch_convolutions.py"))])
    version, told, rows = peer.read(), [], []
    with Driver(given.device, autotune=AutotuneStore(), allow_software=True) as driver:
        for dtype in given.types.split(","):
            for size in sizes:
                rows += run_case(driver, dtype, size, peer if version else None, told)
        facts = {**driver.report(), "torch": version or "absent", "busy_s": _BUSY_S, "told": told}
    peer.close()
    print_rows(rows, facts if given.json else {"torch": facts["torch"]}, as_json=given.json)


if __name__ == "__main__":
    main()
