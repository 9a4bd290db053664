"""What memory of a device takes: ours, PyTorch's and CuPy's, each in a process of its own, which is asked in turn.

Buffers that are made and freed one after the other, buffers that are kept, random makes and frees, and arrays that are brought.
Of random ones the part of the reserved memory is told that no buffer has.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.peer_process import PeerProcess
from benchmarks.timing import Row, interleave, parser, print_rows

if TYPE_CHECKING:
    from collections.abc import Callable

_LENGTHS = (4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
_UPLOADS = (1 << 20, 16 << 20, 256 << 20)
_KEPT_BYTES = 4096
_LEAST, _MOST = 1 << 10, 64 << 20
_SEED = 51


class Maker(NamedTuple):
    """What makes memory: a buffer of so many bytes, one with an array's, and bytes that are reserved."""

    version: str
    make: Callable[[int], object]
    upload: Callable[[Any], object]
    reserved: Callable[[], int]


def ours() -> Maker:
    from vyre_driver import Driver, __version__

    driver = Driver(allow_software=True)
    return Maker(__version__, lambda byte_len: driver.empty(byte_len, np.uint8), driver.buffer, lambda: driver.memory.reserved)


def torchs() -> Maker:
    import torch

    torch.empty(1, device="cuda")
    return Maker(
        torch.__version__,
        lambda byte_len: torch.empty(byte_len, dtype=torch.uint8, device="cuda"),
        lambda array: (torch.from_numpy(array).cuda(), torch.cuda.synchronize())[0],
        torch.cuda.memory_reserved,
    )


def cupys() -> Maker:
    import cupy

    return Maker(
        cupy.__version__,
        lambda byte_len: cupy.empty(byte_len, cupy.uint8),
        lambda array: (cupy.asarray(array), cupy.cuda.Device().synchronize())[0],
        cupy.get_default_memory_pool().total_bytes,
    )


MAKERS = {"ours": ours, "torch": torchs, "cupy": cupys}


def timed(maker: Maker, what: str, byte_len: int, repeats: int) -> float:
    """Return the median microseconds of making a buffer, or of freeing it."""
    made, freed = [], []
    for _ in range(repeats + 1):
        began = time.perf_counter_ns()
        buffer = maker.make(byte_len)
        there = time.perf_counter_ns()
        del buffer
        freed.append(time.perf_counter_ns() - there)
        made.append(there - began)
    return statistics.median((made if what == "make" else freed)[1:]) / 1000


def uploaded(maker: Maker, byte_len: int, repeats: int) -> float:
    """Return the median microseconds of bringing an array to a buffer of its own."""
    array = np.ones(byte_len, np.uint8)
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter_ns()
        maker.upload(array)
        times.append(time.perf_counter_ns() - began)
    return statistics.median(times[1:]) / 1000


def kept(maker: Maker, byte_len: int, count: int) -> float:
    """Return the microseconds of each of many buffers that stay."""
    began = time.perf_counter_ns()
    buffers = [maker.make(byte_len) for _ in range(count)]
    return (time.perf_counter_ns() - began) / 1000 / len(buffers)


def at_random(maker: Maker, total: int, count: int) -> tuple[float, float]:
    """Return the microseconds of a make with the frees that it needs, and the mean of reserved over used bytes.

    Lengths are spread evenly by their logarithm; buffers go at random until the next one fits into ``total``.
    """
    draw = random.Random(_SEED)  # noqa: S311 -- not for secrets
    lengths = [int(math.exp(draw.uniform(math.log(_LEAST), math.log(_MOST)))) for _ in range(count)]
    buffers: list[tuple[int, object]] = []
    used, spent, ratios = 0, 0, []
    for number, length in enumerate(lengths):
        gone = []
        while used + length > total:
            at = draw.randrange(len(buffers))
            buffers[at], buffers[-1] = buffers[-1], buffers[at]
            gone.append(buffers.pop())
            used -= gone[-1][0]
        began = time.perf_counter_ns()
        gone.clear()
        buffers.append((length, maker.make(length)))
        spent += time.perf_counter_ns() - began
        used += length
        if number > count // 4 and number % 100 == 0:
            ratios.append(maker.reserved() / used)
    return spent / 1000 / count, statistics.mean(ratios)


def serve(name: str) -> None:
    """Answer each line with microseconds, below 0 for what cannot be done; the first line out is the version."""
    try:
        maker = MAKERS[name]()
        maker.make(1)
    except Exception as error:  # noqa: BLE001 -- whatever it lacks, it is not compared with
        print(flush=True)
        print(error, file=sys.stderr)
        maker = None
    else:
        print(maker.version, flush=True)
    ratio = -1.0
    for line in sys.stdin:
        what, byte_len, repeats = line.split()
        figure = -1.0
        if maker is not None and what == "ratio":
            figure = ratio
        elif maker is not None and what == "random":
            figure, ratio = at_random(maker, int(byte_len), int(repeats))
        elif maker is not None:
            figure = measured(maker, what, int(byte_len), int(repeats))
        print(figure, flush=True)


def measured(maker: Maker, what: str, byte_len: int, repeats: int) -> float:
    """Return the microseconds of one of the other measurements, -1 where the device has no buffer of that length."""
    try:
        if what in ("upload", "kept"):
            return (uploaded if what == "upload" else kept)(maker, byte_len, repeats)
        return timed(maker, what, byte_len, repeats)
    except Exception as error:  # noqa: BLE001 -- of three libraries
        print(error, file=sys.stderr)
        return -1.0


def asked(peers: dict[str, PeerProcess], line: str) -> dict[str, Callable[[], float]]:
    """Return a contender for each peer that can do it."""
    able = {name: peer for name, peer in peers.items() if peer.measure(line) >= 0}
    return {name: lambda peer=peer: peer.measure(line) for name, peer in able.items()}  # type: ignore[misc]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--serve", choices=MAKERS, help="be one of the processes that are asked")
    options.add_argument("--kept", type=int, default=100_000, help="buffers that are kept (default 100,000)")
    options.add_argument("--random", type=int, default=1_000_000, help="makes of random lengths (default a million)")
    options.add_argument("--total", type=int, default=32 << 30, help="bytes of random buffers at most (default 32 GiB)")
    given = options.parse_args()
    if given.serve:
        serve(given.serve)
        return
    started = {name: PeerProcess([sys.executable, "-m", "benchmarks.memory", "--serve", name]) for name in MAKERS}
    versions = {name: peer.read() for name, peer in started.items()}
    peers = {name: peer for name, peer in started.items() if versions[name]}
    rows: list[Row] = []
    for byte_len in _LENGTHS:
        for what in ("make", "free"):
            rows += interleave(f"{what}, {byte_len} B", asked(peers, f"{what} {byte_len} {given.repeats}"), given.rounds)
    for byte_len in _UPLOADS:
        repeats = max(3, min(given.repeats, (1 << 30) // byte_len))
        rows += interleave(f"upload, {byte_len} B", asked(peers, f"upload {byte_len} {repeats}"), given.rounds)
    for name, peer in peers.items():
        rows.append(once(f"{given.kept} of {_KEPT_BYTES} B kept", name, peer.measure(f"kept {_KEPT_BYTES} {given.kept}")))
        rows.append(once(f"{given.random} at random", name, peer.measure(f"random {given.total} {given.random}")))
        rows.append(once("reserved over used, a ratio", name, peer.measure("ratio 0 0")))
    for peer in started.values():
        peer.close()
    facts = {"versions": versions, "rounds": given.rounds, "total": given.total, "processors": os.cpu_count()}
    print_rows(rows, facts, as_json=given.json)


def once(what: str, name: str, figure: float) -> Row:
    return Row(what, name, figure, figure, figure)


if __name__ == "__main__":
    main()
