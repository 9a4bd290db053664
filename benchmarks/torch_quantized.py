"""PyTorch's side of benchmarks.quantized: its version, or an empty line without CUDA; then ``float16 BATCH N K GROUP`` a line.

What comes back is microseconds of one product, below 0 for what it cannot do; ``int4`` is its product with weights of 4 bits.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

try:
    import torch
except ImportError:
    torch = None

if TYPE_CHECKING:
    from collections.abc import Callable

_BUSY_S = 0.12
_BATCH_US = 8000
_SAMPLES = 5


def float16(batch: int, n: int, k: int, _group: int, count: int) -> Callable[[], object]:
    x = torch.rand(batch, k, device="cuda", dtype=torch.float16)
    weights = [torch.rand(n, k, device="cuda", dtype=torch.float16) for _ in range(count)]
    return lambda: [torch.nn.functional.linear(x, one) for one in weights]


def int4(batch: int, n: int, k: int, group: int, count: int) -> Callable[[], object]:
    x = torch.rand(batch, k, device="cuda", dtype=torch.bfloat16)
    stored = torch.randint(0, 256, (n, k // 2), device="cuda", dtype=torch.uint8)
    weights = [torch._convert_weight_to_int4pack(stored, 8) for _ in range(count)]  # noqa: SLF001 -- it has no other name
    scales = [torch.rand(k // group, n, 2, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    pairs = list(zip(weights, scales, strict=True))
    return lambda: [torch._weight_int4pack_mm(x, one, group, scale) for one, scale in pairs]  # noqa: SLF001 -- the same


def timed_us(run: Callable[[], object], repeats: int) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeats):
        run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1000 / repeats


def product_us(kind: str, sizes: list[int], count: int) -> float:
    """Return microseconds of one product of many, recorded as a graph: launched one by one, the host would be the limit."""
    run = {"float16": float16, "int4": int4}[kind](*sizes, count)
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    repeats = max(1, int(_BATCH_US / max(timed_us(graph.replay, 3), 1)))
    until = time.perf_counter() + _BUSY_S
    while time.perf_counter() < until:
        timed_us(graph.replay, repeats)
    return statistics.median(timed_us(graph.replay, repeats) for _ in range(_SAMPLES)) / count


def main() -> None:
    print(torch.__version__ if torch is not None and torch.cuda.is_available() else "", flush=True)
    for line in sys.stdin:
        kind, *numbers = line.split()
        try:
            took = product_us(kind, [int(one) for one in numbers], int(sys.argv[1]))
        except Exception as error:  # noqa: BLE001 -- whatever it cannot do
            print(f"{line.strip()}: {error}", file=sys.stderr, flush=True)
            took = -1.0
        torch.cuda.empty_cache()
        print(took, flush=True)


if __name__ == "__main__":
    main()
