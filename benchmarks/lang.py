"""What kernels written as Python functions cost: the front end, a known kernel in a fresh process, and each warm call.

"front end" is the processor's time of decorating a function and translating it, "all the way" with validation and lowering.
"fresh process" is what a process does before its first result, after imports and the opening of the device, with the pipeline
cached; "program" there compiles the same program from its wire form, and so knows no Python function, and "second kernel" has
run another kernel before, and so imported what the first one imports late. "numpy call" and "buffer call" hand the arrays and
numbers of one saxpy to the kernel and, call by call in turn, to what it was compiled to: the difference is the front end's
part. Peers, where they are installed with a GPU, run the same saxpy in a process of their own.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.lang_child import CONTENDERS, WIRE
from benchmarks.lang_kernels import gallery_module
from benchmarks.peer_process import PeerProcess
from benchmarks.timing import Row, interleave, parser, print_rows
from vyre_driver import Driver
from vyre_driver.binding import BindingPlan
from vyre_driver.ir.validation.validate import validate
from vyre_driver.lang import kernel
from vyre_driver.lang.frontend import calls
from vyre_driver.lowering.emit.entry import emit
from vyre_driver.lowering.emit.target import LoweringTarget

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.lang import Kernel

_COUNT = 64
_CHAIN = 100
# Where it is, and what its decorator is given.
_FRONT_END: dict[str, tuple[str, str, dict[str, str]]] = {
    "saxpy": ("saxpy", "saxpy", {}),
    "n-body": ("nbody", "accelerate", {"signature": "(n,3)->(n,3)"}),
    "SHA-256": ("sha256", "sha256", {}),
}


def front_end(rounds: int) -> tuple[list[Row], dict[str, Any]]:
    """Return what decorating and translating take, anew each time, and the nodes of each program."""
    rows, facts = [], {}
    for what, (module, name, given) in _FRONT_END.items():
        made = getattr(gallery_module(module), name)
        program = made.program()
        plan, target = BindingPlan.build(program), LoweringTarget(frozenset({"shaderInt64"}), strict=False)

        def decorate(function: Any = made.function, given: dict[str, str] = given) -> Any:
            return kernel(**given)(function)

        def translate(decorate: Callable[[], Any] = decorate) -> Any:
            calls._sources.clear()  # noqa: SLF001 -- the functions that it calls are read anew
            return decorate().program()

        def all_the_way(translate: Callable[[], Any] = translate, plan: Any = plan, target: Any = target) -> None:
            found = translate()
            validate(found)
            emit(found, plan, (), target)

        contenders = {
            "decorate": lambda decorate=decorate: _cpu_us(decorate),
            "front end": lambda translate=translate: _cpu_us(translate),
            "all the way": lambda call=all_the_way: _cpu_us(call),
        }
        rows += interleave(what, contenders, rounds)  # type: ignore[arg-type] # lambdas with defaults
        facts[f"nodes of {what}"] = program.stats().node_count
    return rows, facts


def _cpu_us(call: Callable[[], object], least_s: float = 0.05) -> float:
    """Return the median microseconds of the processor's time that a call takes, over some calls."""
    times: list[float] = []
    until = time.perf_counter() + least_s
    while len(times) < 3 or time.perf_counter() < until:
        began = time.process_time_ns()
        call()
        times.append((time.process_time_ns() - began) / 1000)
    return statistics.median(times)


def fresh_processes(device: str | None, rounds: int) -> list[Row]:
    """Return what a fresh process spends on a kernel whose pipeline is in the cache."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as place:
        environment |= {"XDG_CACHE_HOME": place, "XDG_STATE_HOME": place}  # where nothing has been tuned
        environment.pop("VYRE_CACHE_DIR", None)
        (Path(place) / WIRE).write_bytes(gallery_module("saxpy").saxpy.program().to_wire())

        def measure(contender: str) -> float:
            command = [sys.executable, "-m", "benchmarks.lang_child", contender, place, device or ""]
            return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

        contenders = {one: lambda one=one: measure(one) for one in CONTENDERS}  # type: ignore[misc] # lambdas with defaults
        return interleave("fresh process, cached pipeline", contenders, rounds)


def warm_calls(driver: Driver, rounds: int, repeats: int) -> tuple[list[Row], dict[str, Any]]:
    """Return what warm calls take, and the front end's part of them."""
    saxpy: Kernel = gallery_module("saxpy").saxpy.on(driver)
    compiled = saxpy.compiled_for(driver)  # the same buffers: others may lie better or worse
    x, y = np.ones(_COUNT, np.float32), np.ones(_COUNT, np.float32)
    on_x, on_y = driver.buffer(x), driver.buffer(y)
    push, grid = {"a": 2.0}, {"workgroups": (1, 1, 1)}
    pairs: dict[str, dict[str, Callable[[], object]]] = {
        "numpy call": {
            "kernel": lambda: saxpy(x, y, 2.0),
            "compiled": lambda: compiled(x, y, push_constants=push, out=(y,), **grid),
        },
        "buffer call": {
            "kernel": lambda: saxpy(on_x, on_y, 2.0),
            "compiled": lambda: compiled(on_x, on_y, push_constants=push, **grid),
        },
    }
    rows, facts = [], {}
    for what, both in pairs.items():
        found, part = _alternating(what, both, rounds, repeats)
        rows += found
        facts[f"front end's part of a {what}, us"] = part
    bound = saxpy.bind(on_x, on_y, 2.0)
    batch = driver.batch()
    for _ in range(_CHAIN):
        batch.add(saxpy.bind(driver.empty(_COUNT, np.float32), driver.empty(_COUNT, np.float32), 2.0))
    few = max(repeats // 10, 5)
    rows += interleave(
        "resident",
        {
            "bound.run": lambda: _wall_us(bound.run, repeats),
            "in a batch": lambda: _wall_us(batch.run, few) / _CHAIN,
            "bind again": lambda: _wall_us(lambda: saxpy.bind(on_x, on_y, 2.0), repeats),
        },
        rounds,
    )
    return rows, facts


def _alternating(what: str, both: dict[str, Callable[[], object]], rounds: int, repeats: int) -> tuple[list[Row], float]:
    """Return rows of calls that take turns one by one, and the median of the first one's excess over the second."""
    (name, call), (other_name, other) = both.items()
    timer = time.perf_counter_ns
    excess: list[float] = []
    kept: dict[str, list[float]] = {name: [], other_name: []}
    for _ in range(rounds + 1):
        taken: dict[str, list[int]] = {name: [], other_name: []}
        for _ in range(repeats):
            for one, function in ((name, call), (other_name, other)):
                began = timer()
                function()
                taken[one].append(timer() - began)
        medians = {one: statistics.median(times) / 1000 for one, times in taken.items()}
        excess.append(medians[name] - medians[other_name])
        for one, figures in kept.items():
            figures.append(medians[one])
    rows = []
    for one, found in kept.items():
        ordered = sorted(found[1:])  # the first round warms up
        rows.append(Row(what, one, statistics.median(ordered), ordered[len(ordered) // 10], ordered[len(ordered) * 9 // 10]))
    return rows, statistics.median(excess[1:])


def _wall_us(call: Callable[[], object], number: int) -> float:
    return statistics.median(timeit.repeat(call, repeat=number, number=1)) * 1e6


def main() -> None:
    options = parser(__doc__)
    given = options.parse_args()
    rows, facts = front_end(given.rounds)
    rows += fresh_processes(given.device, given.rounds)
    script = Path(__file__).with_name("lang_peers.py")
    peers = PeerProcess([sys.executable, str(script), str(given.repeats)])
    peers_found: dict[str, Any] = json.loads(peers.read() or "{}")
    with Driver(given.device, allow_software=True) as driver:
        more, told = warm_calls(driver, given.rounds, given.repeats)
        rows += more
        facts = {**driver.report(), "repeats": given.repeats, "rounds": given.rounds, **facts, **told}
        for what, names in peers_found.get("cases", {}).items():
            rows += interleave(what, {one: lambda key=f"{what}/{one}": peers.measure(key) for one in names}, given.rounds)
    peers.close()
    facts["peers"] = peers_found.get("versions", {})
    facts["peers left out"] = peers_found.get("left_out", {})
    print_rows(rows, facts, as_json=given.json)


if __name__ == "__main__":
    main()
