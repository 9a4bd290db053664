"""PyTorch's side of benchmarks.dispatch: a name on stdin, a median in microseconds on stdout."""

from __future__ import annotations

import statistics
import sys
import time

import torch


def median_us(call: object, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter_ns()
        call()  # type: ignore[operator]
        times.append(time.perf_counter_ns() - began)
    return statistics.median(times) / 1000


def main() -> None:
    repeats = int(sys.argv[1])
    x = torch.ones(64, device="cuda")
    y = torch.ones(64, device="cuda")
    host = torch.ones(64)

    def resident() -> None:
        y.add_(x)
        torch.cuda.synchronize()

    def round_trip() -> None:
        up = host.cuda()
        (up + x).cpu()

    def chain() -> None:
        for _ in range(100):
            y.add_(x)
        torch.cuda.synchronize()

    print(torch.__version__, flush=True)
    for line in sys.stdin:
        what = line.strip()
        if what == "resident":
            print(median_us(resident, repeats), flush=True)
        elif what == "round_trip":
            print(median_us(round_trip, repeats), flush=True)
        else:
            print(median_us(chain, max(repeats // 10, 5)) / 100, flush=True)


if __name__ == "__main__":
    main()
