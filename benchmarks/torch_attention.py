"""PyTorch's side of benchmarks.attention: its version, or an empty line without CUDA; then a type and sizes a line."""

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


def attention_us(name: str, heads: int, length: int, head: int, *, is_causal: bool) -> float:
    """Return the microseconds of one of many calls on one stream, from events around them."""
    q, k, v = (torch.randn(1, heads, length, head, device="cuda").to(getattr(torch, name)) for _ in range(3))
    run = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)  # noqa: E731
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
        name, heads, length, head, causal = line.split()
        print(attention_us(name, int(heads), int(length), int(head), is_causal=causal == "causal"), flush=True)


if __name__ == "__main__":
    main()
