"""PyTorch's side of benchmarks.streams: its version, or an empty line where it or CUDA is not there; then a time a line.

A line is ``pinned|pageable BYTES_OF_AN_ARRAY CHUNKS`` and is answered with the microseconds of all chunks, or -1.
"""

from __future__ import annotations

import functools
import sys
import time

try:
    import torch
except ImportError:
    torch = None

_RING = 5
_SLOTS = 3


@functools.cache
def tensors(memory: str, count: int) -> tuple[list[list[torch.Tensor]], list[list[torch.Tensor]]]:
    """Return tensors of the host and of the device, the same ones each time, as ours are.

    What is freed goes back to the machine while others are measured: on an H200's host that took 6 % of their rate.
    """
    host = [[torch.ones(count, pin_memory=memory == "pinned") for _ in range(_RING)] for _ in range(3)]
    return host, [[torch.empty(count, device="cuda") for _ in range(_SLOTS)] for _ in range(3)]


def stream_us(memory: str, count: int, chunks: int) -> float:
    """Return the microseconds of saxpy over chunks, on a stream each for uploads, kernels and results."""
    host, there = tensors(memory, count)
    up, run, down = (torch.cuda.Stream() for _ in range(3))
    uploaded, ran, read = ([torch.cuda.Event() for _ in range(_SLOTS)] for _ in range(3))
    torch.cuda.synchronize()
    began = time.perf_counter_ns()
    for chunk in range(chunks):
        slot, ring = chunk % _SLOTS, chunk % _RING
        x, y, out = (there[which][slot] for which in range(3))
        with torch.cuda.stream(up):
            up.wait_event(ran[slot])
            x.copy_(host[0][ring], non_blocking=True)
            y.copy_(host[1][ring], non_blocking=True)
            uploaded[slot].record(up)
        with torch.cuda.stream(run):
            run.wait_event(uploaded[slot])
            run.wait_event(read[slot])
            torch.add(y, x, alpha=2.0, out=out)
            ran[slot].record(run)
        with torch.cuda.stream(down):
            down.wait_event(ran[slot])
            host[2][ring].copy_(out, non_blocking=True)
            read[slot].record(down)
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - began) / 1000


def main() -> None:
    is_there = torch is not None and torch.cuda.is_available()
    print(torch.__version__ if is_there else "", flush=True)
    for line in sys.stdin:
        memory, byte_len, chunks = line.split()
        print(stream_us(memory, int(byte_len) // 4, int(chunks)) if is_there else -1, flush=True)


if __name__ == "__main__":
    main()
