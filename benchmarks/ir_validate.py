"""What validation costs: a program of 200 nodes, decoded and validated.

python -m benchmarks.ir_validate [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import TYPE_CHECKING

from vyre_driver.ir import validate
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import assign, barrier, buf_len, gid_x, if_, let, lid_x, load, loop, store, u32, var
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.program import Program
from vyre_driver.target.profile import DeviceProfile

if TYPE_CHECKING:
    from collections.abc import Callable

GROUPS = 22  # of nine nodes each
ROUNDS = 60


def program() -> Program:
    """A program of 200 nodes and about 900 expressions, with barriers, loops and branches."""
    x = BufferDecl.read("x", 0, DataType.U32)
    y = BufferDecl.read_write("y", 1, DataType.U32)
    shared = BufferDecl.workgroup("shared", 64, DataType.U32)
    i = var("i", DataType.U32)
    total = var("total", DataType.U32)
    nodes = [let(i, gid_x()), let(total, u32(0))]
    for place in range(GROUPS):
        value, k = var(f"value{place}", DataType.U32), var("k", DataType.U32)
        nodes += [
            let(value, load(x, i + place) * 3 + load(x, i)),
            if_(i < buf_len(y), [assign(total, total + value), store(y, i + place, total ^ value)], [assign(total, value)]),
            barrier(),
            loop(k, 0, 8, [store(shared, lid_x(), load(shared, (lid_x() + k) % 64) + total), assign(total, total & 0xFFFF)]),
        ]
    return Program.wrapped([x, y, shared], (64, 1, 1), nodes)


def median_us(work: Callable[[], object]) -> float:
    """The median of single runs, in microseconds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1000


def measure() -> dict[str, float]:
    """Medians in microseconds."""
    made = program()
    wire = made.to_wire()
    profile = DeviceProfile(
        max_workgroup_size=(1024, 1024, 64),
        max_invocations_per_workgroup=1024,
        has_shared_memory=True,
        max_shared_memory_bytes=1 << 15,
    )
    validate(made)
    return {
        "nodes": float(sum(node.node_count for node in made.entry)),
        "terms": float(sum(node.term_count for node in made.entry)),
        "decode": median_us(lambda: Program.from_wire(wire)),
        "validate": median_us(lambda: validate(made.with_rewritten_buffers(made.buffers))),
        "validate for a device": median_us(lambda: validate(made.with_rewritten_buffers(made.buffers), profile)),
        "decode and validate": median_us(lambda: validate(Program.from_wire(wire))),
        "validate again": median_us(lambda: validate(made)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    found = measure()
    if parser.parse_args().json:
        print(json.dumps(found))
        return
    print(f"{found.pop('nodes'):.0f} nodes, {found.pop('terms'):.0f} terms; goal: decode and validate in 5,000 us")
    for what, value in found.items():
        print(f"{what:24}{value:12.1f} us")


if __name__ == "__main__":
    main()
