"""The table of examples/gallery: each program at a size, equal to numpy, its time beside numpy's and, where installed, numba's.

"device" is the program as it stands, from numpy arrays to numpy arrays, "numpy" its reference. "numba" is the kernel's own
function, compiled by numba for all cores: of those programs whose kernel is one function over indices that numba takes too.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.lang_kernels import PROGRAMS, gallery_module
from benchmarks.timing import Row, interleave, parser, print_rows, time_call
from vyre_driver.lang import default_driver, rsqrt

if TYPE_CHECKING:
    from collections.abc import Callable

# What the same kernel is called in numba's loops, and its arguments made of the program's data; outputs are made anew.
_NUMBA: dict[str, Callable[..., tuple[str, tuple[Any, ...], tuple[int, ...]]]] = {
    "saxpy": lambda x, y, a: ("saxpy", (x, y.copy(), np.float32(a)), x.shape),
    "mandelbrot": lambda side, left, top, step: (
        "turns_to_leave",
        (np.empty((side, side), np.int32), *map(np.float32, (left, top, step)), 200),
        (side, side),
    ),
    "black_scholes": lambda *options: (
        "prices",
        (*options, np.empty_like(options[0]), np.empty_like(options[0]), np.float32(0.02), np.float32(0.3)),
        options[0].shape,
    ),
    "conv2d": lambda source, weights: ("convolve", (source, weights, np.empty_like(source)), source.shape),
    "spmv": lambda values, columns, starts, x: ("product", (values, columns, starts, x, np.empty_like(x)), x.shape),
    "kmeans": lambda points, centres: ("assign", (points, centres, np.empty(len(points), np.int32)), (len(points),)),
    "heat": lambda plate: ("warm", (plate, np.empty_like(plate), np.float32(0.2)), plate.shape),
    "nbody": lambda places, speeds: ("accelerate", (places, speeds.copy(), np.float32(1e-6)), (len(places),)),
}
_STEPS = {"kmeans": 10, "heat": 100, "nbody": 20}  # calls of the kernel in a run of the program


def numba_call(name: str, data: tuple[Any, ...]) -> Callable[[], object] | None:
    """Return what runs a program's kernel under numba as often as the program does; None where it cannot."""
    try:
        numba = importlib.import_module("numba")
    except ImportError:
        return None
    if name not in _NUMBA:
        return None
    kernel_name, given, extent = _NUMBA[name](*data)
    module = gallery_module(name)
    function = _compiled(numba, getattr(module, kernel_name).function)
    loop = _loops(numba)[len(extent)]

    def call() -> None:
        for _ in range(_STEPS.get(name, 1)):
            loop(function, extent, given)

    return call


def _compiled(numba: Any, function: Any) -> Any:
    """Return a function for numba, with the functions that it calls."""
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        called = names.get(name)
        if called is rsqrt:
            names[name] = numba.njit(lambda x: np.float32(1) / math.sqrt(x))
        elif callable(called) and hasattr(called, "__code__"):
            names[name] = _compiled(numba, called)
    made = type(function)(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    return numba.njit(made)


def _loops(numba: Any) -> dict[int, Any]:
    """Return a parallel loop over one index and one over two; the slowest is spread over the cores."""

    def over_one(function: Any, extent: Any, given: Any) -> None:
        for i in numba.prange(extent[0]):
            function(i, *given)

    def over_two(function: Any, extent: Any, given: Any) -> None:
        for i in numba.prange(extent[0]):
            for j in range(extent[1]):
                function(i, j, *given)

    return {1: numba.njit(over_one, parallel=True), 2: numba.njit(over_two, parallel=True)}


def program_rows(name: str, shrink: int, rounds: int, repeats: int) -> tuple[list[Row], dict[str, Any]]:
    """Run one program, which holds it against numpy, and time it in turn with numpy and numba."""
    module = gallery_module(name)
    size = max(module.SIZE >> shrink, 64)
    try:
        module.run(size)
    except AssertionError as error:
        return [], {"size": size, "right": False, "why": str(error).strip().splitlines()[0]}
    data = module.data(size)
    contenders: dict[str, Callable[[], object]] = {
        "device": lambda: module.compute(*data),
        "numpy": lambda: module.expected(*data),
    }
    facts: dict[str, Any] = {"size": size, "right": True}
    try:
        call = numba_call(name, data)
        if call is not None:
            call()  # compiles
            contenders["numba"] = call
    except Exception as error:  # noqa: BLE001 -- what numba does not take is left out, and said
        facts["numba"] = f"{type(error).__name__}: {error}".splitlines()[0]
    timed = {one: lambda call=call: time_call(call, repeats) for one, call in contenders.items()}  # type: ignore[misc] # defaults
    rows = interleave(name, timed, rounds)
    facts |= {f"{row.contender}, ms": round(row.median_us / 1000, 3) for row in rows}
    return rows, facts


def main() -> None:
    """Run every program, or those that are named."""
    options = parser(__doc__)
    options.set_defaults(repeats=3)
    options.add_argument("--shrink", type=int, default=0, help="halve each program's size so often (default 0)")
    options.add_argument("--only", action="append", choices=PROGRAMS, help="a program; again for more")
    given = options.parse_args()
    if given.device:
        os.environ["VYRE_DEVICE"] = given.device  # which the driver of calls that say none is opened by
    rows: list[Row] = []
    table: dict[str, Any] = {}
    for name in given.only or PROGRAMS:
        more, table[name] = program_rows(name, given.shrink, given.rounds, given.repeats)
        rows += more
        print(name, table[name], file=sys.stderr, flush=True)
    facts = {**default_driver().report(), "rounds": given.rounds, "repeats": given.repeats, "programs": table}
    print_rows(rows, facts, as_json=given.json)
    if not all(one["right"] for one in table.values()):
        raise SystemExit("not every program is right")


if __name__ == "__main__":
    main()
