"""PyTorch's side of benchmarks.products: its version, or an empty line without CUDA; then a type and a side a line."""

from __future__ import annotations

import statistics
import sys
import time

try:
    import torch
except ImportError:
    torch = None

_BUSY_S = 0.12
_REPEATS = 20
_SAMPLES = 5


def product_us(name: str, side: int) -> float:
    """Return the microseconds of one of many products on one stream, from events around them."""
    if name == "int8":
        a, b = (torch.randint(-100, 100, (side, side), device="cuda", dtype=torch.int8) for _ in range(2))
        run = lambda: torch._int_mm(a, b.t())  # noqa: E731, SLF001 -- it has no other name
    else:
        a, b = (torch.rand(side, side, device="cuda").sub(0.25).to(getattr(torch, name)) for _ in range(2))
        out = torch.empty_like(a)
        run = lambda: torch.mm(a, b, out=out)  # noqa: E731
    until = time.perf_counter() + _BUSY_S
    while time.perf_counter() < until:
        run()
        torch.cuda.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for _ in range(_SAMPLES):
        begin.record()
        for _ in range(_REPEATS):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / _REPEATS)
    return statistics.median(times)


def main() -> None:
    print(torch.__version__ if torch is not None and torch.cuda.is_available() else "", flush=True)
    for line in sys.stdin:
        name, side = line.split()
        print(product_us(name, int(side)), flush=True)


if __name__ == "__main__":
    main()
