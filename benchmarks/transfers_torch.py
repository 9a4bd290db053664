"""PyTorch's side of benchmarks.transfers: its version, or an empty line where it or CUDA is not there; then a time a line.

A line is ``write|read|call pageable|pinned|fresh BYTES REPEATS`` and is answered with the median microseconds, or -1.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

try:
    import torch
except ImportError:
    torch = None


def median_us(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter_ns()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter_ns() - began)
    return statistics.median(times[1:]) / 1000


def call_of(what: str, memory: str, count: int) -> Callable[[], object] | None:
    """Return what is to be timed; None for what is not compared."""
    host, there = (
        torch.ones(count, dtype=torch.int32, pin_memory=memory == "pinned"),
        torch.ones(count, dtype=torch.int32).cuda(),
    )
    target = torch.empty(count, dtype=torch.int32, pin_memory=memory == "pinned")
    calls: dict[tuple[str, str], Callable[[], Any]] = {
        ("write", "pageable"): lambda: there.copy_(host),
        ("write", "pinned"): lambda: there.copy_(host, non_blocking=True),
        ("read", "fresh"): there.cpu,
        ("read", "pageable"): lambda: target.copy_(there),
        ("read", "pinned"): lambda: target.copy_(there, non_blocking=True),
        ("call", "fresh"): lambda: host.cuda().add_(1).cpu(),
        ("call", "pageable"): lambda: target.copy_(there.copy_(host).add_(1)),
        ("call", "pinned"): lambda: target.copy_(there.copy_(host, non_blocking=True).add_(1), non_blocking=True),
    }
    return calls.get((what, memory))


def main() -> None:
    is_there = torch is not None and torch.cuda.is_available()
    print(torch.__version__ if is_there else "", flush=True)
    for line in sys.stdin:
        what, memory, byte_len, repeats = line.split()
        call = call_of(what, memory, int(byte_len) // 4) if is_there else None
        print(-1 if call is None else median_us(call, int(repeats)), flush=True)


if __name__ == "__main__":
    main()
