"""What streaming chunks through a kernel takes: ours, calls one after the other, and PyTorch with three streams.

The kernel is saxpy: two arrays go to the device for each that comes back. Beside it is what the bus gives one way, in the same
run: one long write and read. ``--timeline`` draws what host and device did during a stream.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.peer_process import PeerProcess
from benchmarks.timeline import draw
from benchmarks.timing import Row, interleave, parser, print_rows, time_call
from vyre_driver import Driver
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from vyre_driver.runtime.kernel import Kernel

_ALPHA = 2.0
_RING = 5  # a stream has up to four chunks ahead of the result that it gives
_ONE_WAY_BYTES = 1 << 30
_DRAWN = 8  # chunks


class Arrays:
    """The arrays of one way to stream: the same few again and again."""

    def __init__(self, make: Callable[[int], NDArray[np.float32]], count: int) -> None:
        """Make them, and write to each."""
        self.x, self.y, self.out = ([make(count) for _ in range(_RING)] for _ in range(3))
        for ring in (self.x, self.y, self.out):
            for number, one in enumerate(ring):
                one[:] = number
        self.count = count

    def chunks(self, chunks: int) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Yield so many pairs of x and y."""
        return itertools.islice(zip(itertools.cycle(self.x), itertools.cycle(self.y), strict=True), chunks)

    def check(self) -> None:
        """Check what a stream has left in the last results."""
        for number, one in enumerate(self.out):
            assert (one == _ALPHA * number + number).all()  # noqa: S101 -- a benchmark of wrong results is none


def streamed(driver: Driver, kernel: Kernel, arrays: Arrays, chunks: int, *, fresh: bool = False) -> None:
    out = None if fresh else itertools.cycle(arrays.out)
    for _ in driver.stream(kernel, arrays.chunks(chunks), out=out, alpha=_ALPHA, count=arrays.count):
        pass


def called(kernel: Kernel, arrays: Arrays, chunks: int) -> None:
    for (x, y), out in zip(arrays.chunks(chunks), itertools.cycle(arrays.out), strict=False):
        kernel(x, y, alpha=_ALPHA, count=arrays.count, out=out)


def contenders(driver: Driver, kernel: Kernel, kinds: dict[str, Arrays], chunks: int) -> dict[str, Callable[[], float]]:
    """Return what is timed, by name: microseconds for all chunks."""

    def timed(call: Callable[[], Any]) -> Callable[[], float]:
        return lambda: time_call(call, 1)

    found = {f"ours, {name}": timed(lambda one=one: streamed(driver, kernel, one, chunks)) for name, one in kinds.items()}
    found["ours, pageable, new results"] = timed(lambda: streamed(driver, kernel, kinds["pageable"], chunks, fresh=True))
    found |= {f"calls, {name}": timed(lambda one=one: called(kernel, one, chunks)) for name, one in kinds.items()}
    return found


def one_way(driver: Driver, byte_len: int) -> dict[str, Callable[[], float]]:
    """Return long copies in one direction, by name."""
    buffer = driver.empty(byte_len // 4, np.float32)
    arrays = {"pageable": np.ones(byte_len // 4, np.float32), "pinned": driver.pinned(byte_len // 4, np.float32)}
    found: dict[str, Callable[[], float]] = {}
    for name, one in arrays.items():
        found[f"write, {name}"] = lambda one=one: time_call(lambda: buffer.write(one), 3)  # type: ignore[misc]
        found[f"read, {name}"] = lambda one=one: time_call(lambda: buffer.read(out=one), 3)  # type: ignore[misc]
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--gib", type=float, default=32, help="bytes that go to the device in all, in GiB (default 32)")
    options.add_argument("--chunk-mib", type=int, default=64, help="bytes of each array of a chunk, in MiB (default 64)")
    options.add_argument("--timeline", type=Path, help="an SVG file: what host and device did with the pieces of eight chunks")
    given = options.parse_args()
    chunk_bytes = given.chunk_mib << 20
    chunks = max(_RING, int(given.gib * (1 << 30)) // (2 * chunk_bytes))
    facts: dict[str, Any] = {"rounds": given.rounds, "processors": os.cpu_count(), "chunks": chunks}
    facts |= {"chunk_bytes": chunk_bytes, "to_device_bytes": 2 * chunks * chunk_bytes}
    rows: list[Row] = []
    with Driver(given.device, allow_software=True) as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        count = chunk_bytes // 4
        kinds = {
            "pinned": Arrays(lambda n: driver.pinned(n, np.float32), count),
            "pageable": Arrays(lambda n: np.empty(n, np.float32), count),
        }
        byte_len = min(_ONE_WAY_BYTES, driver.device.limits.max_storage_buffer_range)
        what = f"saxpy of {chunks} chunks, and {byte_len} B one way"
        # In one round, for streams are compared with what the bus gives one way: both meet the same drift of the machine.
        rows += interleave(what, contenders(driver, kernel, kinds, chunks) | one_way(driver, byte_len), given.rounds)
        # After ours, which were slower in three runs beside a PyTorch that only waited than in one without.
        torch = PeerProcess([sys.executable, str(Path(__file__).with_name("streams_torch.py"))])
        facts["torch"] = torch.read() or "absent"
        lines = torch.contenders("torch", [f"{memory} {chunk_bytes} {chunks}" for memory in ("pinned", "pageable")])
        rows += interleave(what, lines, given.rounds)
        torch.close()
        for one in kinds.values():
            one.check()
        if given.timeline is not None:
            for name, one in kinds.items():
                streamed(driver, kernel, one, _DRAWN)
                times = driver.context.device.movers._idle[-1].times()  # noqa: SLF001 -- nothing else tells
                draw(
                    given.timeline.with_stem(f"{given.timeline.stem}-{name}"),
                    f"saxpy, {_DRAWN} {name} chunks of 2 x {given.chunk_mib} MiB",
                    [one for one in times if one[0] > times[-1][0] - _DRAWN],
                )
        facts = {**driver.report(), **facts}
    print_rows(rows, facts, as_json=given.json)


if __name__ == "__main__":
    main()
