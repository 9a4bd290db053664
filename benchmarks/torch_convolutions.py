"""PyTorch's side of benchmarks.convolutions: its version, or an empty line without CUDA; then a type and sizes a line."""

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


def convolution_us(name: str, sizes: list[int]) -> float:
    """Return the microseconds of one of many convolutions on one stream, from events around them."""
    batch, height, width, channels, n, down, across = sizes
    dtype, last = getattr(torch, name), torch.channels_last
    x = torch.rand(batch, channels, height, width, device="cuda").sub(0.25).to(dtype, memory_format=last)
    weight = torch.rand(n, channels, down, across, device="cuda").sub(0.25).to(dtype, memory_format=last)
    bias = torch.rand(n, device="cuda").to(dtype)
    run = lambda: torch.nn.functional.conv2d(x, weight, bias, padding=(down // 2, across // 2))  # noqa: E731
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
    is_there = torch is not None and torch.cuda.is_available()
    if is_there:
        torch.backends.cudnn.benchmark = True
    print(torch.__version__ if is_there else "", flush=True)
    for line in sys.stdin:
        name, *sizes = line.split()
        print(convolution_us(name, [int(one) for one in sizes]), flush=True)


if __name__ == "__main__":
    main()
