"""Products on tensor cores, as ``vyre_driver.matrices`` emits them, beside PyTorch: device time, back to back, clocks warm.

Run as ``python -m benchmarks.products --json``. Of each type and size every tiling is timed; what comes out is held against
float64 first, eight rows of it. PyTorch gives its results in the operands' type, ours in the type that the row names.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.peer_process import PeerProcess
from benchmarks.timing import Row, parser, print_rows
from vyre_driver import Driver, SpirvModule, VyreError
from vyre_driver.kompute.timing import TimedDispatches
from vyre_driver.matrices.description import ProductDescription, Result, Tiling
from vyre_driver.matrices.elements import BF16, F16, F32, S8, S32
from vyre_driver.matrices.product import product_module
from vyre_driver.matrices.tiles import PUSHED

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from vyre_driver.runtime.bound import BoundKernel

_ONE = 0x3F80_0000  # the bits of 1.0
_BUSY_S = 0.12
_BATCH_US = 8000
_SAMPLES = 5
_CHECKED_ROWS = 8
# Tiles and splits, steps of float16; as many bytes of int8 are twice the products.
_CUTS = (((128, 128, 32), (2, 2)), ((64, 256, 32), (1, 4)), ((128, 64, 32), (2, 2)), ((64, 64, 32), (2, 2)))


@dataclass(frozen=True)
class Type:
    """What is multiplied: ``depth`` is k of a fragment; PyTorch multiplies int8 by a transposed matrix alone."""

    description: ProductDescription
    depth: int
    tolerance: float

    def drawn(self, side: int, dice: np.random.Generator) -> NDArray[Any]:
        if self.description.operand is S8:
            return dice.integers(-100, 100, (side, side), np.int8)
        numbers = dice.random((side, side), np.float32) - np.float32(0.25)
        return bf16_bits(numbers) if self.description.operand is BF16 else numbers.astype(np.float16)

    def value(self, bits: NDArray[Any]) -> NDArray[np.float64]:
        is_bf16 = bits.dtype == np.uint16
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64) if is_bf16 else bits.astype(np.float64)


def bf16_bits(numbers: NDArray[np.float32]) -> NDArray[np.uint16]:
    bits = numbers.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


_ANY = Tiling((128, 128, 32), (2, 2), (16, 16, 16), 32)
TYPES = {
    "float16 to float32": Type(ProductDescription(F16, Result(F32, F32), _ANY), 16, 1e-4),
    "float16": Type(ProductDescription(F16, Result(F32, F16), _ANY), 16, 1e-3),
    "bfloat16": Type(ProductDescription(BF16, Result(F32, BF16), _ANY), 16, 1e-2),
    "int8 to int32, b transposed": Type(ProductDescription(S8, Result(S32, S32), _ANY, b_transposed=True), 32, 0),
}
OUT = {F16: np.float16, BF16: np.uint16, F32: np.float32, S32: np.int32}


class Products:
    """Matrices of one type and size on the device, and any description bound to them."""

    def __init__(self, driver: Driver, kind: Type, side: int) -> None:
        self._driver, self._kind, self._side = driver, kind, side
        dice = np.random.default_rng(1)
        a, b = kind.drawn(side, dice), kind.drawn(side, dice)
        self._want = kind.value(a[:_CHECKED_ROWS]) @ kind.value(b)
        stored = np.ascontiguousarray(b.T) if kind.description.b_transposed else b
        self._a, self._b = (driver.buffer(one.reshape(-1).view(np.uint32).reshape(-1, 4)) for one in (a, stored))
        self._c = driver.empty(side * side, OUT[kind.description.result.out])

    def bound(self, description: ProductDescription) -> BoundKernel:
        side, tile = self._side, description.tiling.tile
        pushed = dict(zip(PUSHED, (side,) * 6 + (side * side,) * 3 + (1, side, _ONE), strict=True))
        kernel = self._driver.compile(SpirvModule.from_bytes(product_module(description)))
        grid = -(-side // tile[0]) * -(-side // tile[1]), 1, 1
        return kernel.bind(self._a, self._b, self._c, workgroups=grid, push_constants=pushed)

    def check(self, bound: BoundKernel) -> None:
        bound.run(10)
        found = self._kind.value(self._c.read()[: _CHECKED_ROWS * self._side].reshape(_CHECKED_ROWS, -1))
        error = float(np.abs(found - self._want).max() / np.abs(self._want).max())
        assert error <= self._kind.tolerance, error  # noqa: S101 -- a benchmark of wrong results is none

    def close(self) -> None:
        for one in (self._a, self._b, self._c):
            one.close()


def microseconds(bound: BoundKernel) -> float:
    """Return the median device time of one of many runs, back to back."""
    once = TimedDispatches([bound])
    repeats = max(1, int(_BATCH_US / max(min(device_us(once) for _ in range(3)), 1)))
    many = TimedDispatches([bound], repeats)
    until = time.perf_counter() + _BUSY_S
    while time.perf_counter() < until:
        many.run(10)
    return statistics.median(device_us(many) / repeats for _ in range(_SAMPLES))


def device_us(timed: TimedDispatches) -> float:
    times = timed.run(10)
    return (times.enqueue_ns + times.wait_ns if times.device_ns is None else times.device_ns) / 1000


def descriptions(kind: Type, side: int, subgroup_size: int) -> list[ProductDescription]:
    """Return what is tried: every cut that can be made for subgroups of this size."""
    found = []
    for (m, n, k), split in _CUTS:
        tile = m, n, k * kind.depth // 16
        tiling = Tiling(tile, split, (16, 16, kind.depth), subgroup_size)
        is_exact = not (side % m or side % n or side % (2 * tile[2]))
        one = replace(kind.description, tiling=tiling, has_whole_tiles=is_exact, has_whole_steps=is_exact)
        if one.problem() is None:
            found.append(one)
    return found


def case(driver: Driver, name: str, side: int, torch: Callable[[], float] | None, told: list[dict[str, Any]]) -> list[Row]:
    kind, rows, what = TYPES[name], [], f"{name}, {side}"
    products = Products(driver, kind, side)
    for one in descriptions(kind, side, driver.device.subgroup_size):
        tile, split = ("x".join(map(str, part)) for part in (one.tiling.tile, one.tiling.split))
        try:
            bound = products.bound(one)
            products.check(bound)
        except VyreError as error:
            print(f"{what}: {tile} by {split} is left out: {error}", file=sys.stderr)
            continue
        took = microseconds(bound)
        facts = bound.pipeline.facts  # type: ignore[union-attr] # of a dispatch
        statistics_told = {} if facts is None else {of.name: of.value for exe in facts.executables for of in exe.statistics}
        told.append({"what": what, **asdict(one.tiling), "us": took, "tflops": 2 * side**3 / took / 1e6, **statistics_told})
        rows.append(Row(what, f"{tile} by {split}{'' if one.has_whole_tiles else ', edges'}", took, took, took))
    products.close()
    if torch is not None:
        took = torch()
        told.append({"what": what, "torch": True, "us": took, "tflops": 2 * side**3 / took / 1e6})
        rows.append(Row(what, "torch", took, took, took))
    return rows


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--sides", default="1024,2048,4096,8192", help="rows and columns, with commas (default %(default)s)")
    options.add_argument("--types", help=f"with semicolons between (default: all of {'; '.join(TYPES)})")
    given = options.parse_args()
    peer = PeerProcess([sys.executable, str(Path(__file__).with_name("torch_products.py"))])
    version, told, rows = peer.read(), [], []
    with Driver(given.device, allow_software=True) as driver:
        for name in given.types.split(";") if given.types else TYPES:
            for side in map(int, given.sides.split(",")):
                line = f"{name.split(' ', maxsplit=1)[0]} {side}"
                rows += case(driver, name, side, (lambda line=line: peer.measure(line)) if version else None, told)
        facts = {**driver.report(), "torch": version or "absent", "busy_s": _BUSY_S, "told": told}
    peer.close()
    print_rows(rows, facts if given.json else {"torch": facts["torch"]}, as_json=given.json)
    for one in told:
        print(f"{one['what']}: {one.get('tile', 'torch')} {one['tflops']:.1f} TFLOP/s", file=sys.stderr)


if __name__ == "__main__":
    main()
