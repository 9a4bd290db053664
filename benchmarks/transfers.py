"""What moving arrays between host and device takes: ours, PyTorch where it and CUDA are there, and bare Vulkan in C.

Sizes are in bytes; divide them by the microseconds for MB/s. Bare Vulkan is ``bare_transfers.c``: copies by the device from
memory of both kinds on both kinds of queue, and copies by threads of the host.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.peer_process import PeerProcess
from benchmarks.timing import Row, interleave, parser, print_rows, time_call
from vyre_driver import Driver, SpirvModule

if TYPE_CHECKING:
    from collections.abc import Callable

_SIZES = "4096,65536,1048576,16777216,67108864,268435456,1073741824,4294963200"
_LEAST_BARE = 1 << 20
_MOVED_A_ROUND = 1 << 30
_MOST_THREADS = 32
_INCREMENT = """#version 450
layout(local_size_x = 256) in;
layout(binding = 0) buffer X { uint x[]; };
void main() {
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 256u;
    if (i < x.length()) x[i] = x[i] + 1u;
}
"""
_GROUP = 256
_MOST_GROUPS = 65_535
_BY_DEVICE = [
    f"{way} {memory} {queue}"
    for way in ("write", "read")
    for memory in ("cached", "imported")
    for queue in ("compute", "transfer")
]
_BY_HOST = ("store", "gather", "scatter", "fresh", "touch")


def built_in_c(folder: str) -> Path | None:
    """Compile ``bare_transfers.c``; None without a compiler, or the headers of Vulkan."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    source, program = Path(__file__).with_name("bare_transfers.c"), Path(folder) / "bare_transfers"
    if compiler is None:
        return None
    command = [compiler, "-O2", str(source), "-o", str(program), "-lvulkan", "-lpthread"]
    return None if subprocess.call(command, stderr=subprocess.DEVNULL) else program


def ours(driver: Driver, module: SpirvModule, byte_len: int, repeats: int) -> dict[str, dict[str, Callable[[], float]]]:
    """Return what is measured of this driver, by what it is compared with."""
    array, target = (np.ones(byte_len // 4, np.uint32) for _ in range(2))
    pinned, pinned_target = driver.pinned(byte_len // 4, np.uint32), driver.pinned(byte_len // 4, np.uint32)
    buffer, kernel = driver.buffer(array), driver.compile(module)
    groups = -(-array.size // _GROUP)
    grid = (min(groups, _MOST_GROUPS), -(-groups // _MOST_GROUPS))

    def timed(call: Callable[[], object]) -> Callable[[], float]:
        return lambda: time_call(call, repeats)

    return {
        "write": {"ours": timed(lambda: buffer.write(array)), "ours, pinned": timed(lambda: buffer.write(pinned))},
        "read": {
            "ours": timed(buffer.read),
            "ours, out=": timed(lambda: buffer.read(out=target)),
            "ours, pinned": timed(lambda: buffer.read(out=pinned_target)),
        },
        "call": {
            "ours": timed(lambda: kernel(array, workgroups=grid)),
            "ours, out=": timed(lambda: kernel(array, workgroups=grid, out=target)),
            "ours, pinned": timed(lambda: kernel(pinned, workgroups=grid, out=pinned_target)),
        },
    }


def threads() -> list[int]:
    """Return 1, 2, 4, ... up to the processors that there are."""
    most = min(os.cpu_count() or 1, _MOST_THREADS)
    return [1 << power for power in range(most.bit_length()) if 1 << power <= most]


def rows_of(
    driver: Driver, module: SpirvModule, byte_len: int, rounds: int, peers: tuple[PeerProcess, Path | None]
) -> list[Row]:
    """Return the rows of one size."""
    torch, program = peers
    repeats = max(3, min(200, _MOVED_A_ROUND // byte_len // 4))
    rows: list[Row] = []
    for what, contenders in ours(driver, module, byte_len, repeats).items():
        others = [f"{way} {byte_len} {repeats}" for way in (f"{what} pageable", f"{what} pinned", f"{what} fresh")]
        rows += interleave(f"{what}, {byte_len} B", contenders | torch.contenders("torch", others), rounds)
    if program is not None and byte_len >= _LEAST_BARE:
        family = driver.device.compute_family
        bare = PeerProcess([str(program), str(driver.device.index), str(family.index if family else 0), str(byte_len)])
        lines = [*_BY_DEVICE, "both cached", "both imported", *(f"{way} {count}" for way in _BY_HOST for count in threads())]
        rows += interleave(f"bare C, {byte_len} B", bare.contenders("bare", lines), rounds)
        bare.close()
    return rows


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--no-bare", action="store_true", help="leave bare Vulkan out")
    options.add_argument("--sizes", default=_SIZES, help=f"bytes, with commas between (default {_SIZES})")
    given = options.parse_args()
    module = SpirvModule.from_glsl(_INCREMENT)
    torch = PeerProcess([sys.executable, str(Path(__file__).with_name("transfers_torch.py"))])
    facts = {"torch": torch.read() or "absent", "rounds": given.rounds, "processors": os.cpu_count()}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, Driver(given.device, allow_software=True) as driver:
        program = None if given.no_bare else built_in_c(folder)
        for byte_len in [
            one for one in map(int, given.sizes.split(",")) if one <= driver.device.limits.max_storage_buffer_range
        ]:
            rows += rows_of(driver, module, byte_len, given.rounds, (torch, program))
        facts = {**driver.report(), **facts}
    torch.close()
    print_rows(rows, facts, as_json=given.json)


if __name__ == "__main__":
    main()
