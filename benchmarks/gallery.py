"""The table of examples/gallery: each program at a size, equal to numpy, its time beside numpy's and those of installed peers.

"device" is the program as it stands, from numpy arrays to numpy arrays, "numpy" its reference. "numba" is the kernel's own
function, compiled by numba for all cores: of those programs whose kernel is one function over indices that numba takes too.
"cupy" and "triton" on CUDA, and "taichi" and "wgpu" on Vulkan, do the same from numpy arrays to numpy arrays, each in a process
of its own, and are held to the same results. "resident" is the part between arrays that stay on the device, with a wait at the
end.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.gallery_resident import resident
from benchmarks.lang_kernels import PROGRAMS, gallery_module
from benchmarks.timing import Row, interleave, parser, print_rows, time_call
from vyre_driver.lang import default_driver, rsqrt

if TYPE_CHECKING:
    import argparse
    import types
    from collections.abc import Callable

_PEERS = ("cupy", "triton", "taichi", "wgpu")  # of gallery_peers

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


class Peer:
    """``gallery_peers.py`` in a process of its own: one program by one peer, and a figure for each request."""

    def __init__(self, name: str, program: str, folder: Path, repeats: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gallery_peers", name, program, str(folder), str(repeats)],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._results = folder / f"{name}.npz"
        self.found: dict[str, str] = json.loads(self._read() or '{"why": "its process ended without a word"}')

    def results(self) -> tuple[Any, ...]:
        """Return the arrays that it computed."""
        with np.load(self._results) as saved:
            return tuple(saved[key] for key in saved)

    def measure(self, what: str) -> float:
        """Return the microseconds of "host" or "resident"; NaN where it failed, and has said why on stderr."""
        with contextlib.suppress(BrokenPipeError):
            print(what, file=self._process.stdin, flush=True)
        return float(self._read() or math.nan)

    def _read(self) -> str:
        return self._process.stdout.readline().strip() if self._process.stdout else ""

    def close(self) -> None:
        """End it, and wait for that."""
        self._process.communicate()


def verdict(module: types.ModuleType, size: int, found: tuple[Any, ...]) -> str:
    """Return "right" where results are within what the program asks of its own, else what is wrong."""
    compute = module.compute
    module.compute = lambda *_: found if len(found) > 1 else found[0]  # type: ignore[attr-defined] # as the program has it
    try:
        module.run(size)
    except (AssertionError, ValueError) as error:
        return "wrong: " + " ".join(str(error).split())[:200]
    finally:
        module.compute = compute  # type: ignore[attr-defined] # the same
    return "right"


def peer_calls(program: str, size: int, peers: dict[str, Peer]) -> tuple[dict[str, Callable[[], float]], dict[str, str]]:
    """Return what measures each peer that is right, and for each peer what it is or why it is left out."""
    timed: dict[str, Callable[[], float]] = {}
    facts: dict[str, str] = {}
    for name, peer in peers.items():
        if "why" in peer.found:
            facts[name] = f"left out: {peer.found['why']}"
            continue
        said = verdict(gallery_module(program), size, peer.results())
        facts[name] = f"{peer.found['version']}, {said}"
        if said == "right":
            timed[name] = lambda peer=peer: peer.measure("host")  # type: ignore[misc] # defaults
            timed[f"{name}, resident"] = lambda peer=peer: peer.measure("resident")  # type: ignore[misc] # the same
    return timed, facts


def own_calls(name: str, size: int, data: tuple[Any, ...], facts: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return the program, the part of it between buffers, numpy and numba; facts get what is left out of these, and why."""
    module = gallery_module(name)
    contenders: dict[str, Callable[[], object]] = {"device": lambda: module.compute(*data)}
    there = resident(name, data)
    if there is not None:
        call, written = there
        call()
        said = verdict(module, size, tuple(one.read() for one in written))
        if said == "right":
            contenders["device, resident"] = call
        else:
            facts["device, resident"] = said
    contenders["numpy"] = lambda: module.expected(*data)
    try:
        numba = numba_call(name, data)
        if numba is not None:
            numba()  # compiles
            contenders["numba"] = numba
    except Exception as error:  # noqa: BLE001 -- what numba does not take is left out, and said
        facts["numba"] = f"{type(error).__name__}: {error}".splitlines()[0]
    return contenders


def program_rows(name: str, given: argparse.Namespace) -> tuple[list[Row], dict[str, Any]]:
    """Run one program, which holds it against numpy, and time it in turn with its peers."""
    module = gallery_module(name)
    size = max(module.SIZE >> given.shrink, 64)
    try:
        module.run(size)
    except AssertionError as error:
        return [], {"size": size, "right": False, "why": str(error).strip().splitlines()[0]}
    data = module.data(size)
    facts: dict[str, Any] = {"size": size, "right": True}
    own = own_calls(name, size, data, facts)
    timed = {one: lambda call=call: time_call(call, given.repeats) for one, call in own.items()}
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as ends:
        folder = Path(place)
        np.savez(folder / "data.npz", *data)
        peers = {one: Peer(one, name, folder, given.repeats) for one in given.peer or _PEERS}
        for peer in peers.values():
            ends.callback(peer.close)
        more, said = peer_calls(name, size, peers)
        rows = interleave(name, {**timed, **more}, given.rounds)
    facts |= said | {f"{row.contender}, ms": round(row.median_us / 1000, 3) for row in rows}
    return rows, facts


def main() -> None:
    """Run every program, or those that are named."""
    options = parser(__doc__)
    options.set_defaults(repeats=3)
    options.add_argument("--shrink", type=int, default=0, help="halve each program's size so often (default 0)")
    options.add_argument("--only", action="append", choices=PROGRAMS, help="a program; again for more")
    options.add_argument("--peer", action="append", choices=_PEERS, help="measure this peer; again for more (default: all)")
    given = options.parse_args()
    if given.device:
        os.environ["VYRE_DEVICE"] = given.device  # which the driver of calls that say none is opened by
    rows: list[Row] = []
    table: dict[str, Any] = {}
    for name in given.only or PROGRAMS:
        more, table[name] = program_rows(name, given)
        rows += more
        print(name, table[name], file=sys.stderr, flush=True)
    facts = {**default_driver().report(), "rounds": given.rounds, "repeats": given.repeats, "programs": table}
    print_rows(rows, facts, as_json=given.json)
    if not all(one["right"] for one in table.values()):
        raise SystemExit("not every program is right")


if __name__ == "__main__":
    main()
