"""Attention on tensor cores, as ``vyre_driver.matrices`` emits it, beside PyTorch: device time, back to back, clocks warm.

Run as ``python -m benchmarks.attention --json``. Of each type and size every cut is timed; what comes out is held against
float64 first, a few rows of two heads. The operations of a causal attention are counted as half of all.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.float32 import microseconds
from benchmarks.peer_process import PeerProcess
from benchmarks.timing import Row, parser, print_rows
from vyre_driver import Driver, SpirvModule, VyreError
from vyre_driver.matrices.attention import PUSHED, attention_module
from vyre_driver.matrices.description import AttentionDescription, AttentionTiling
from vyre_driver.matrices.elements import BF16, F16

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from vyre_driver.runtime.bound import BoundKernel

_BUSY_S = 0.12
_CHECKED_HEADS = 2
_CHECKED_ROWS = 9
# Rows and subgroups, keys of a step, keys turned at a time; whether weights stay where they are, and whether elements are
# as many as expected.
_CUTS = (
    "16x8,64,32 "
    "16x8,64,32,elements "
    "16x8,64,32,direct "
    "16x8,64,32,direct,elements "
    "16x4,64,64,direct "
    "16x4,64,64,direct,elements "
    "16x6,48,48,direct,elements "
    "16x12,48,16,direct,elements "
    "16x8,32,32,direct,elements "
    "32x4,32,32,direct,elements "
    "16x4,32,32,direct,elements"
)
_TOLERANCE = {F16: 2e-3, BF16: 2e-2}
TYPES = {"float16": F16, "bfloat16": BF16}


@dataclass(frozen=True)
class Size:
    """Heads of queries and keys of one length, and their size."""

    heads: int
    length: int
    head: int
    is_causal: bool

    @classmethod
    def read(cls, text: str) -> Size:
        sizes, _, causal = text.partition(",")
        heads, length, head = map(int, sizes.split("x"))
        return cls(heads, length, head, causal == "causal")

    def __str__(self) -> str:
        return f"{self.heads}x{self.length}x{self.head}, {'causal' if self.is_causal else 'all'}"

    def tflops(self, microseconds: float) -> float:
        return 4 * self.heads * self.length**2 * self.head / (2 if self.is_causal else 1) / microseconds / 1e6


def cut(text: str, depth: int, subgroup_size: int) -> AttentionTiling:
    """Return a tiling of a text such as ``16x8,64,32,direct``."""
    rows, keys, turned, *ways = text.split(",")
    height, subgroups = map(int, rows.split("x"))
    fragment = (depth, depth, depth)
    elements = depth * depth // subgroup_size if "elements" in ways else None
    return AttentionTiling(height, int(keys), subgroups, fragment, subgroup_size, int(turned), "direct" in ways, elements)


def bf16_bits(numbers: NDArray[np.float32]) -> NDArray[np.uint16]:
    bits = numbers.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


class Attention:
    """Operands of one type and size on the device, and any tiling bound to them."""

    def __init__(self, driver: Driver, name: str, size: Size) -> None:
        self._driver, self._size, self._element = driver, size, TYPES[name]
        dice = np.random.default_rng(1)
        drawn = [dice.standard_normal((size.heads, size.length, size.head), np.float32) for _ in range(3)]
        bits = [bf16_bits(one) if self._element is BF16 else one.astype(np.float16) for one in drawn]
        self._rows = np.unique(np.linspace(0, size.length - 1, _CHECKED_ROWS).astype(np.int64))
        self._want = self._expected([self._value(one[-_CHECKED_HEADS:]) for one in bits])
        self._inputs = [driver.buffer(one.reshape(-1).view(np.uint32).reshape(-1, 4)) for one in bits]
        self._o = driver.empty(drawn[0].size, bits[0].dtype)

    def _value(self, bits: NDArray[Any]) -> NDArray[np.float64]:
        is_bf16 = bits.dtype == np.uint16
        return ((bits.astype(np.uint32) << 16).view(np.float32) if is_bf16 else bits).astype(np.float64)

    def _expected(self, values: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        q, k, v = values
        scores = q[:, self._rows] @ k.swapaxes(1, 2) * self._size.head**-0.5
        if self._size.is_causal:
            scores = np.where(np.arange(self._size.length) <= self._rows[:, None], scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights @ v / weights.sum(-1, keepdims=True)

    def bound(self, tiling: AttentionTiling) -> BoundKernel:
        size, length, head = self._size, self._size.length, self._size.head
        description = AttentionDescription(self._element, self._element, head, tiling, size.is_causal)
        scale = int(np.float32(head**-0.5).view(np.uint32))
        pushed = [size.heads, size.heads, length, length, scale, 0, *([head, length * head, size.heads * length * head] * 4)]
        kernel = self._driver.compile(SpirvModule.from_bytes(attention_module(description)))
        grid = size.heads * -(-length // tiling.tile), 1, 1
        return kernel.bind(*self._inputs, self._o, workgroups=grid, push_constants=dict(zip(PUSHED, pushed, strict=True)))

    def check(self, bound: BoundKernel) -> str | None:
        """Return what is wrong with what comes out, None if nothing is."""
        bound.run(10)
        shape = self._size.heads, self._size.length, self._size.head
        found = self._value(self._o.read().reshape(shape)[-_CHECKED_HEADS:, self._rows])
        error = float(np.abs(found - self._want).max() / np.abs(self._want).max())
        return None if error <= _TOLERANCE[self._element] else f"it is wrong by {error:.2g} of the largest"

    def close(self) -> None:
        for one in (*self._inputs, self._o):
            one.close()


def case(driver: Driver, name: str, size: Size, tilings: dict[str, AttentionTiling], told: list[dict[str, Any]]) -> list[Row]:
    what, rows, attention = f"{name}, {size}", [], Attention(driver, name, size)
    for text, tiling in tilings.items():
        try:
            bound = attention.bound(tiling)
            complaint = attention.check(bound)
        except VyreError as error:
            complaint = str(error)
        if complaint is not None:
            print(f"{what}: {text} is left out: {complaint}", file=sys.stderr)
            continue
        took = microseconds([bound])
        facts = bound.pipeline.facts  # type: ignore[union-attr] # of a dispatch
        statistics_told = {} if facts is None else {of.name: of.value for exe in facts.executables for of in exe.statistics}
        told.append({"what": what, "cut": text, **asdict(tiling), "us": took, "tflops": size.tflops(took), **statistics_told})
        print(f"{what}: {text} {size.tflops(took):.1f} TFLOP/s, {statistics_told}", file=sys.stderr)
        rows.append(Row(what, text, took, took, took))
    attention.close()
    return rows


def beside(torch: Callable[[str], float], name: str, size: Size, told: list[dict[str, Any]]) -> Row:
    """Return PyTorch's figure."""
    what = f"{name}, {size}"
    took = torch(f"{name} {size.heads} {size.length} {size.head} {'causal' if size.is_causal else 'all'}")
    told.append({"what": what, "torch": True, "us": took, "tflops": size.tflops(took)})
    print(f"{what}: torch {size.tflops(took):.1f} TFLOP/s", file=sys.stderr)
    return Row(what, "torch", took, took, took)


def main() -> None:
    options = parser(__doc__)
    sizes = "32x4096x128,causal 32x4096x128 32x4096x64,causal 32x1024x128,causal"
    options.add_argument("--sizes", default=sizes, help="heads x length x head size, with spaces between (default %(default)s)")
    options.add_argument("--types", default=" ".join(TYPES), help="with spaces between (default %(default)s)")
    options.add_argument("--cuts", default=_CUTS, help="rows x subgroups, keys, keys turned, direct (default %(default)s)")
    options.add_argument("--fragment", type=int, default=16, help="rows, columns and products of a fragment (default 16)")
    given = options.parse_args()
    peer = PeerProcess([sys.executable, str(Path(__file__).with_name("torch_attention.py"))])
    version, told, rows = peer.read(), [], []
    with Driver(given.device, allow_software=True) as driver:
        tilings = {text: cut(text, given.fragment, driver.device.subgroup_size) for text in given.cuts.split()}
        for name in given.types.split():
            for size in map(Size.read, given.sizes.split()):
                rows += case(driver, name, size, tilings, told)
                rows += [beside(peer.measure, name, size, told)] if version else []
        facts = {**driver.report(), "torch": version or "absent", "busy_s": _BUSY_S, "told": told}
    peer.close()
    print_rows(rows, facts if given.json else {"torch": facts["torch"]}, as_json=given.json)


if __name__ == "__main__":
    main()
