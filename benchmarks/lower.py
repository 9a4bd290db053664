"""What lowering a program costs by its size, and what its code is worth beside GLSL written by hand: same data, same grid.

The shaders are benchmarks/shaders/*.comp: compiled with glslangValidator, or the .spv files beside them where that is not
installed. A dispatch is timed as its share of a batch that is replayed on resident buffers.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.timing import Row, interleave, parser, print_rows, time_call
from vyre_driver import Driver, SpirvModule
from vyre_driver.binding import BindingPlan
from vyre_driver.ir import (
    BufferDecl,
    DataType,
    Program,
    assign,
    atomic,
    barrier,
    buf_len,
    cast,
    gid_x,
    if_,
    let,
    lid_x,
    load,
    loop,
    select,
    store,
    u32,
    var,
)
from vyre_driver.ir.operators import AtomicOp, MemoryOrdering
from vyre_driver.lowering.emit.entry import emit
from vyre_driver.lowering.emit.target import LoweringTarget
from vyre_driver.process.tools import GLSLANG, find_tool
from vyre_driver.target.config import DispatchConfig

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import matmul

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_SHADERS = Path(__file__).with_name("shaders")
_SIZES = (20, 100, 1_000, 10_000)
_BINS = 256
_BATCH_US = 20_000.0
_MOST_IN_A_BATCH = 1_000
U32, F32 = DataType.U32, DataType.F32


def sized(nodes: int) -> Program:
    """Return a program of so many nodes: lets of a sum of three terms, each followed by a guarded store."""
    words = BufferDecl.read("words", 0, U32)
    out = BufferDecl.read_write("out", 1, U32)
    i, last = gid_x(), load(words, gid_x())
    body: list[Any] = []
    for place in range((nodes - 2) // 3):
        value = var(f"value_{place}", U32)
        body.append(let(value, load(words, i + place) * (7 * place + 1) + (last >> place % 31)))
        body.append(if_(value < 3 * place + 1, [store(out, i, value ^ place)]))
        last = value
    return Program.wrapped([words, out], (64, 1, 1), [if_(i < buf_len(out), body)])


def lowering(rounds: int, repeats: int) -> tuple[list[Row], dict[str, object]]:
    """Take the CPU time of lowering by size, with what a straight line through the figures leaves over."""
    contenders: dict[str, Callable[[], float]] = {}
    counts = []
    target = LoweringTarget(frozenset({"shaderInt64"}))
    for nodes in _SIZES:
        program = sized(nodes)
        counts.append(program.stats().node_count)
        plan = BindingPlan.build(program)
        times = max(repeats * 20 // nodes, 1)

        def lower(program: Program = program, plan: BindingPlan = plan) -> None:
            emit(program, plan, (), target)

        contenders[f"{counts[-1]} nodes"] = lambda lower=lower, times=times: _cpu_us(lower, times)  # type: ignore[misc]
    rows = interleave("lower, CPU time", contenders, rounds)
    times_us = np.array([row.median_us for row in rows])
    slope, start = np.polyfit(counts, times_us, 1, w=1 / times_us)  # relative errors count alike
    left = np.abs(slope * np.array(counts) + start - times_us) / times_us
    fit = f"{start:.0f} us + {slope:.1f} us a node, off by {left.max():.0%} at most"
    return rows, {"lowering, bars": "20 nodes <= 2 ms, 1,000 <= 100 ms, linear", "lowering, fit": fit}


def _cpu_us(call: Callable[[], object], repeats: int) -> float:
    """Return the median microseconds of the processor a call takes: it waits for nothing, and other programs may be running."""
    times = []
    for _ in range(repeats):
        began = time.thread_time_ns()
        call()
        times.append(time.thread_time_ns() - began)
    return statistics.median(times) / 1000


class Case(NamedTuple):
    """One kernel twice: its buffers' arrays, its grid, and what the shader is told by push and specialization constants.

    ``fused`` is the program with an fma where ``program`` has a product and a sum, which is what ``precise`` GLSL has too.
    """

    shader: str
    program: Program
    arrays: tuple[NDArray[Any], ...]
    groups: tuple[int, int, int]
    push: dict[str, int] | None
    specs: dict[str, int] | None
    fused: Program | None = None


def cases(*, software: bool) -> list[Case]:
    """Return what is compared, smaller for a device that is a CPU."""
    count, few, n = (1 << 18, 1 << 12, 128) if software else (1 << 24, 1 << 22, 1024)
    rng = np.random.default_rng(1)
    x, y = rng.random((2, count), np.float32) / 1000
    values = rng.integers(0, 2**32, count, np.uint32)
    bins = np.zeros(_BINS, np.uint32)
    a, b = rng.random((2, n * n), np.float32)
    flat, square = (count // 256, 1, 1), (n // 16, n // 16, 1)
    return [
        Case("saxpy", saxpy(count), (x, y), flat, {"count": count}, None),
        Case("histogram", histogram(), (values, bins), flat, {"count": count}, None),
        Case("histogram_tiles", histogram_tiles(), (values[:few], bins), (few // 256, 1, 1), {"count": few}, None),
        Case(
            "matmul",
            matmul.matmul(n, fused=False),
            (a, b, np.zeros_like(a)),
            square,
            None,
            {"N": n},
            fused=matmul.matmul(n),
        ),
    ]


def saxpy(count: int) -> Program:
    """Return y = 2 x + y for arrays of one length, which the shader takes for granted too."""
    x, y = (BufferDecl.read("x", 0, F32).with_count(count), BufferDecl.read_write("y", 1, F32).with_count(count))
    i = gid_x()
    return Program.wrapped([x, y], (256, 1, 1), [if_(i < buf_len(y), [store(y, i, 2.0 * load(x, i) + load(y, i))])])


def histogram() -> Program:
    """Return the program with one atomic a value."""
    values, counts = BufferDecl.read("values", 0, U32), BufferDecl.read_write("counts", 1, U32).with_count(_BINS)
    i = gid_x()
    count = atomic(AtomicOp.ADD, counts, load(values, i) & 255, 1, ordering=MemoryOrdering.RELAXED)
    return Program.wrapped([values, counts], (256, 1, 1), [if_(i < buf_len(values), [let("before", count)])])


def histogram_tiles() -> Program:
    """Return the program whose invocations each count one bin of the workgroup's values, with one atomic at the end."""
    values, counts = BufferDecl.read("values", 0, U32), BufferDecl.read_write("counts", 1, U32).with_count(_BINS)
    tile = BufferDecl.workgroup("tile", 256, U32)
    i, own, found, k = gid_x(), lid_x(), var("found", U32), var("k", U32)
    add = atomic(AtomicOp.ADD, counts, own, found, ordering=MemoryOrdering.RELAXED)
    body = [
        store(tile, own, select(i < buf_len(values), load(values, i) & 255, u32(256))),
        barrier(),
        let(found, 0),
        loop(k, 0, 256, [assign(found, found + cast(U32, load(tile, k).eq(own)))]),
        if_(found.ne(0), [let("before", add)]),
    ]
    return Program.wrapped([values, counts, tile], (256, 1, 1), body)


def shader(name: str, *, precise: bool = False) -> SpirvModule:
    """Return a shader written by hand; ``precise`` rounds its products and sums apart, as programs do without an ulp budget."""
    source = _SHADERS / f"{name}.comp"
    if find_tool(GLSLANG):
        return SpirvModule.from_glsl(source, defines={"PRECISE": "1"} if precise else None)
    return SpirvModule.from_file(source.with_name(f"{name}_precise.spv" if precise else f"{name}.spv"))


def throughput(driver: Driver, rounds: int) -> tuple[list[Row], dict[str, object]]:
    """Time every case; the facts tell our time as a share of the shader's that rounds as we do."""
    rows: list[Row] = []
    facts: dict[str, object] = {"throughput, bar": "within 5 % of the shader written by hand"}
    for case in cases(software=driver.device.is_software):
        kernels = {
            "glsl": driver.compile(shader(case.shader), case.specs),
            "ours": driver.compile(case.program),
            "ours, ulp": driver.compile(case.fused or case.program, config=DispatchConfig(ulp_budget=4)),
        }
        if case.fused is not None:
            kernels["glsl, precise"] = driver.compile(shader(case.shader, precise=True), case.specs)
            kernels["ours, fma"] = driver.compile(case.fused)
        calls: dict[str, Callable[[], float]] = {}
        wanted: Any = None
        for name, kernel in kernels.items():
            push = case.push if name.startswith("glsl") else None
            buffers = [driver.buffer(array) for array in case.arrays]
            bound = kernel.bind(*buffers, workgroups=case.groups, push_constants=push)
            bound.run()
            found = buffers[-1].read()
            wanted = found if wanted is None else wanted
            if not np.allclose(found, wanted, rtol=1e-4):
                raise SystemExit(f"{case.shader}, {name}: the result is not the shader's")
            calls[name] = _replayed(driver, bound)
        made = interleave(case.shader, calls, rounds)
        times = {row.contender: row.median_us for row in made}
        strict = times.get("glsl, precise", times["glsl"])
        by_hand = {"ours": strict, "ours, ulp": times["glsl"]} | ({} if case.fused is None else {"ours, fma": strict})
        facts |= {f"{case.shader}, {name}": f"{times[name] / one - 1:+.1%}" for name, one in by_hand.items()}
        rows += made
    return rows, facts


def _replayed(driver: Driver, bound: Any) -> Callable[[], float]:
    bound.run()
    began = time.perf_counter_ns()
    bound.run()
    once_us = (time.perf_counter_ns() - began) / 1000
    times = min(max(int(_BATCH_US / once_us), 1), _MOST_IN_A_BATCH)
    batch = driver.batch()
    for _ in range(times):
        batch.add(bound)
    return lambda: statistics.median(time_call(batch.run, 1, times) for _ in range(3))


def main() -> None:
    """Run every case."""
    options = parser(__doc__).parse_args()
    rows, facts = lowering(options.rounds, options.repeats)
    with Driver(options.device, allow_software=True) as driver:
        more_rows, more_facts = throughput(driver, options.rounds)
        facts = {**driver.report(), **facts, **more_facts}
    print_rows(rows + more_rows, facts, as_json=options.json)


if __name__ == "__main__":
    main()
