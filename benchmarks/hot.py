"""The loops of every dispatch and every lookup: from Python, as plain Python (tests/support/twins.py), and through the C table.

python -m benchmarks.hot [--json]; what is called ``seed`` was measured once: upstream's code, compiled by rustc 1.95 -O.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import tempfile
import time
import timeit
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))  # the twins

import counters_twin
import twins

import vyre_driver
from benchmarks.timing import Row, interleave, parser, print_rows
from vyre_driver import _fast
from vyre_driver.autotune import AutotuneKey
from vyre_driver.binding import BindingPlan, BindingSetFingerprint
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.identity import PipelineDeviceFingerprint
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.program import Program
from vyre_driver.specialization import SpecCacheKey, SpecMap, SpecValue, versioned_specialization_artifact_key
from vyre_driver.telemetry.events import Events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SEED_NS = {
    "hash of a map of 16": 355,
    "autotune key": 479,
    "artifact key": 345,
    "path of a key": 556,
    "plan of 2 buffers": 175,
    "plan of 8 buffers": 395,
    "plan of 16 buffers": 706,
    "inputs of 2 buffers": 10,
    "inputs of 8 buffers": 41,
    "inputs of 16 buffers": 85,
    "layout fingerprint of 8 buffers": 32,
}


class CTable:
    """hot_c.c as a library, on the table that the installed extension exports; absent without a C compiler."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        library = Path(self._folder.name, "hot_c.so")
        compiler = shutil.which("cc") or shutil.which("gcc")
        source = Path(__file__).with_name("hot_c.c")
        command = [str(compiler), "-O2", "-std=gnu11", "-shared", "-fPIC", "-I", vyre_driver.get_include(), str(source)]
        self.is_there = compiler is not None and not subprocess.call([*command, "-o", str(library)])
        if self.is_there:
            self._library = ctypes.CDLL(str(library))
            pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
            pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            self._table = ctypes.c_void_p(pointer_of(vars(_fast)["_C_API"], b"vyre_driver._fast._C_API"))

    def time(self, name: str, *sizes: int, calls: int = 20_000, on_table: bool = True) -> float:
        """Return the microseconds of a call of ``time_NAME``."""
        function = getattr(self._library, f"time_{name}")
        function.restype = ctypes.c_double
        arguments = [self._table] * on_table + [ctypes.c_size_t(size) for size in sizes]
        return float(function(*arguments, ctypes.c_uint64(calls))) / 1000


def loop(call: Callable[[], object], number: int) -> Callable[[], float]:
    """Return a measurement: microseconds a call over ``number`` of them, the loop's own 20 ns included."""
    timer = timeit.Timer(call)
    return lambda: min(timer.repeat(3, number)) / number * 1e6


def spec_map(count: int) -> SpecMap:
    return SpecMap({f"CONSTANT_{place:02}": SpecValue.u32(place * 3) for place in range(count)})


def program(count: int) -> Program:
    """A program of ``count`` buffers, all but the last read."""
    inputs = [BufferDecl.read(f"in{place}", place, DataType.F32).with_count(1024) for place in range(count - 1)]
    return Program.wrapped([*inputs, BufferDecl.read_write("out", count - 1, DataType.F32).with_count(1024)], (64, 1, 1), [])


def telling(number: int) -> dict[str, Callable[[], float]]:
    """What a bound kernel's run pays to be told of, its two looks at the clock included, while nobody listens."""
    dispatches, twin = Events().dispatches("ab" * 32, ("a kernel",)), counters_twin.Counters(5)

    def ours() -> None:
        dispatches.ran(dispatches.now())

    def plainly() -> None:
        began = time.perf_counter_ns()
        twin.add(3, time.perf_counter_ns() - began, "ab" * 32, 1, "")

    return {"ours": loop(ours, number), "twin": loop(plainly, number)}


def cases(table: CTable, number: int) -> dict[str, Mapping[str, Callable[[], float]]]:
    """Return every row's contenders."""
    constants = spec_map(16)
    rows = [(name.encode(), value.cache_hash()) for name, value in constants]
    key = SpecCacheKey.new(1, 2, (64, 1, 1), constants)
    fingerprint = PipelineDeviceFingerprint.from_parts(0x10DE, 0x2330, "580.159.04", "")
    cache, digest, kibibyte = DiskPipelineCache("/nowhere"), bytes(range(32)), bytes(1024)
    plain = max(1, number // 100)
    found: dict[str, dict[str, Callable[[], float]]] = {
        "hash of a map of 16": {
            "ours": loop(constants.cache_hash, number),
            "twin": loop(lambda: twins.spec_map_hash(rows), plain),
        },
        "autotune key": {"ours": loop(lambda: AutotuneKey.new(key, "adapter"), number)},
        "fold of an autotune key": {
            "ours": loop(lambda: _fast.autotune_key_hex(1, 2, (64, 1, 1), 3), number),
            "twin": loop(lambda: twins.autotune_key_hex(1, 2, (64, 1, 1), 3), number),
        },
        "hex of 1 KiB": {
            "ours": loop(lambda: _fast.hex_text(kibibyte), number),
            "twin": loop(lambda: twins.hex_text(kibibyte), plain),
        },
        "artifact key": {
            "ours": loop(lambda: versioned_specialization_artifact_key(1, "0123456789abcdef", "driver 1.2"), number)
        },
        "path of a key": {"ours": loop(lambda: cache.path_for(digest, fingerprint), number)},
    }
    for count in (2, 8, 16):
        made = program(count)
        plan = BindingPlan.build(made)
        arrays = [np.zeros(1024, np.float32) for _ in range(count)]
        declared = [twins.Declared(4, place, 1024, 0, 0, 0, is_output=False, pipeline_live_out=False) for place in range(count)]
        measured = [twins.Measured(4, 0, 0, 4096, place) for place in range(count)]
        found[f"plan of {count} buffers"] = {
            "ours": loop(partial(BindingPlan.build, made), plain),
            "twin": loop(partial(twins.build_plan, declared, ()), plain),
        }
        found[f"inputs of {count} buffers"] = {
            "ours": loop(partial(plan.validate_inputs, arrays), number),
            "twin": loop(partial(twins.validate_lengths, measured, [4096] * count), plain),
        }
        if table.is_there:
            found[f"plan of {count} buffers"]["C"] = partial(table.time, "plan_build", count)
            found[f"inputs of {count} buffers"]["C"] = partial(table.time, "validate_lengths", count)
    found["layout fingerprint of 8 buffers"] = {
        "ours": loop(partial(BindingSetFingerprint.from_plan, BindingPlan.build(program(8))), plain)
    }
    found["telling of a replay"] = telling(number)
    if table.is_there:
        found["hash of a map of 16"]["C"] = partial(table.time, "spec_map_hash", 16)
        found["hash of a map of 16"]["plain C"] = partial(table.time, "plain_hash", 16, on_table=False)
        found["autotune key"]["C"] = partial(table.time, "autotune_key")
    return dict(found)


def main() -> None:
    """Run every case."""
    options = parser(__doc__).parse_args()
    table = CTable()
    rows: list[Row] = []
    for what, contenders in cases(table, 100 * options.repeats).items():
        rows += interleave(what, contenders, options.rounds)
        if what in SEED_NS:
            rows.append(Row(what, "seed", *[SEED_NS[what] / 1000] * 3))
    facts: dict[str, Any] = {"C table": table.is_there}
    print_rows(rows, facts, as_json=options.json)


if __name__ == "__main__":
    main()
