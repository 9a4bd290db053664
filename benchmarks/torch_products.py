"""PyTorch's side of benchmarks.float32: its version, or an empty line without CUDA.

Then a type and m, n and k a line, or one number for all of them.
"""

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


def product_us(name: str, m: int, n: int, k: int) -> float:
    """Return the microseconds of one of many products on one stream, from events around them."""
    a, b = (torch.rand(*shape, device="cuda").sub(0.25).to(getattr(torch, name)) for shape in ((m, k), (k, n)))
    out = torch.empty(m, n, device="cuda", dtype=a.dtype)
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
    if torch is not None:
        torch.backends.cuda.matmul.allow_tf32 = False
    print(torch.__version__ if torch is not None and torch.cuda.is_available() else "", flush=True)
    for line in sys.stdin:
        name, *sizes = line.split()
        m, n, k = map(int, sizes * (3 // len(sizes)))
        print(product_us(name, m, n, k), flush=True)


if __name__ == "__main__":
    main()
