"""Draw benchmarks/results beside the figures of other packages: ``python -m benchmarks.plot FOLDER`` writes an SVG each.

``dispatch.svg`` is the README's picture too, in docs/images. The documentation's page on performance shows them all
(``make docs``). Each chart names the results that it is drawn from, and has no figure of another run.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.charts import Line, dots, lines

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).parent / "results"
Medians = dict[str, dict[str, float]]  # what, contender: microseconds


class Chart(NamedTuple):
    """A chart: its file's name, the results that it shows, what it says, and how it is drawn."""

    name: str
    results: str
    about: str
    draw: Callable[[Medians], str]

    def svg(self) -> str:
        """Return the picture."""
        return self.draw(medians(self.results))


def medians(results: str) -> Medians:
    """Return the medians of a file of results."""
    found: Medians = {}
    for row in json.loads((RESULTS / f"{results}.json").read_text("utf-8"))["rows"]:
        found.setdefault(row["what"], {})[row["contender"]] = row["median_us"]
    return found


def chosen(found: Medians, whats: dict[str, str], contenders: dict[str, str], *, scale: float = 1.0) -> Medians:
    """Return the rows and contenders that a chart shows, by the names that it gives them."""
    return {
        shown: {contenders[name]: value / scale for name, value in found[what].items() if name in contenders}
        for what, shown in whats.items()
    }


def _dispatch(found: Medians) -> str:
    whats = {
        "resident dispatch": "dispatch, buffers resident",
        "256 B up, dispatch, 256 B down": "256 B up, dispatch, 256 B down",
        "100 dependent, each": "one of 100 dependent dispatches",
        "buffers seen before bound, run": "bind known buffers, run",
        "new buffers bound, first run": "bind new buffers, run",
        "alloc, bind, run, read, free": "allocate, bind, run, read, free",
        "buffer create and free, 256 B": "make and free a buffer of 256 B",
    }
    contenders = {"ours": "vyre_driver", "ours from C": "vyre_driver from C", "torch": "PyTorch", "kp": "kompute alone"}
    return dots("What a dispatch takes", "µs", chosen(found, whats, {**contenders, "bare C": "bare Vulkan in C"}))


def _calls(found: Medians) -> str:
    peers = {"torch": "PyTorch", "triton": "Triton", "CuPy RawKernel": "CuPy", "CuPy jit": "CuPy jit"}
    rows = {
        "numpy arrays in and out": {"vyre_driver": found["numpy call"]["kernel"], **_renamed(found["host arrays"], peers)},
        "arrays on the device, with the wait": {
            "vyre_driver": found["buffer call"]["kernel"],
            **_renamed(found["launch and wait"], peers),
        },
    }
    return dots("A call of a Python kernel: saxpy of 64 elements", "µs", rows)


def _renamed(row: dict[str, float], names: dict[str, str]) -> dict[str, float]:
    return {shown: row[name] for name, shown in names.items() if name in row}


def _compiling(found: Medians) -> str:
    off, on = found["driver's cache off"], found["driver's cache on"]
    rows = {
        "the first process": {"kompute alone": off["kp, first"], "vyre_driver": off["ours, first"]},
        "every later process": {"kompute alone": off["kp, again"], "vyre_driver": off["ours, again"]},
        "later, with NVIDIA's own cache": {"kompute alone": on["kp, again"], "vyre_driver": on["ours, again"]},
    }
    seconds = {what: {name: value / 1e6 for name, value in row.items()} for what, row in rows.items()}
    return dots("A shader that takes long to compile", "s until it has run", seconds)


def _gallery(found: Medians, *, suffix: str, title: str) -> str:
    names = {"device": "vyre_driver", "cupy": "CuPy", "triton": "Triton", "taichi": "Taichi", "wgpu": "wgpu-py"}
    names |= {"numba": "numba", "numpy": "numpy"}
    contenders = {f"{name}{suffix}" if name not in {"numba", "numpy"} else name: shown for name, shown in names.items()}
    if suffix:
        del contenders["numba"], contenders["numpy"]
    whats = {what: what.replace("_", " ") for what in sorted(found) if f"device{suffix}" in found[what]}
    return dots(title, "ms", chosen(found, whats, contenders, scale=1000))


def _streaming(found: Medians) -> str:
    whats = {
        "saxpy 268435456": "saxpy, 2^28 elements",
        "reduce_sum 268435456": "sum, 2^28",
        "inclusive_scan 268435456": "running sums, 2^28",
        "histogram 268435456x256": "histogram of 256 bins, 2^28",
        "transpose 16384x16384": "transpose, 16,384 squared",
        "softmax 32768x4096": "softmax, 32,768 x 4,096",
    }
    contenders = {"tuned": "vyre_driver", "torch": "PyTorch"}
    return dots("Included kernels that stream through memory", "ms", chosen(found, whats, contenders, scale=1000))


def _products(found: Medians, *, prefix: str, title: str) -> str:
    sizes = (1024, 2048, 4096, 8192)
    rows = {size: found[f"{prefix}{size}x{size}x{size}"] for size in sizes}
    given = [
        Line(shown, [(size, 2 * size**3 / row[name] / 1e6) for size, row in rows.items()])
        for name, shown in (("untuned", "vyre_driver"), ("torch", "PyTorch"))
    ]
    return lines(title, "TFLOP/s", given, {float(size): f"{size:,}" for size in sizes})


def _transfers(found: Medians, *, way: str, title: str) -> str:
    shown = {"ours, out=" if way != "write" else "ours": "vyre_driver", "ours, pinned": "vyre_driver, pinned"}
    shown |= {f"torch: {way} pageable": "PyTorch", f"torch: {way} pinned": "PyTorch, pinned"}
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in shown.values()}
    for what, row in found.items():
        if what.startswith(f"{way}, "):
            byte_len = int(what.split()[1])
            for name, value in row.items():
                contender = next(
                    (label for start, label in shown.items() if name == start or name.startswith(f"{start} {byte_len}")), None
                )
                if contender is not None:
                    points[contender].append((byte_len, byte_len / value / 1e3))
    labels = {2.0**12: "4 KiB", 2.0**16: "64 KiB", 2.0**20: "1 MiB", 2.0**24: "16 MiB", 2.0**30: "1 GiB"}
    return lines(title, "GB/s", [Line(name, found) for name, found in points.items()], labels)


CHARTS = (
    Chart(
        "dispatch",
        "2026-11-24-h200-dispatch-busy",
        "One dispatch of 64 elements and what belongs to it. kompute alone is the same library without the layer below it.",
        _dispatch,
    ),
    Chart("calls", "2026-11-23-h200-lang", "A kernel that does next to nothing, so that the call itself is seen.", _calls),
    Chart(
        "compiling",
        "2026-11-21-h200-pipeline",
        "A shader that NVIDIA's compiler works on for 9 seconds, in one process after the other.",
        _compiling,
    ),
    Chart(
        "gallery",
        "2026-11-27-h200-gallery",
        "The programs of the gallery, from arrays of numpy to arrays of numpy. numba runs on the host's 16 cores, numpy on 1. "
        "Triton, Taichi and wgpu-py are there where a program was written for them.",
        lambda found: _gallery(found, suffix="", title="The gallery, host to host"),
    ),
    Chart(
        "gallery-resident",
        "2026-11-27-h200-gallery",
        "The same programs with inputs and results left on the device, where a program can be written so.",
        lambda found: _gallery(found, suffix=", resident", title="The gallery, arrays resident"),
    ),
    Chart("streaming", "2026-11-21-h200-kernels", "Device time of the included kernels, tuned.", _streaming),
    Chart(
        "float32",
        "2026-11-24-h200-float32",
        "Products of square float32 matrices, without tuning; PyTorch's is cuBLAS.",
        lambda found: _products(found, prefix="", title="float32 matrix products"),
    ),
    Chart(
        "tensor-cores",
        "2026-11-24-h200-tensor-cores",
        "Products of square float16 matrices on tensor cores, without tuning. Why they have less than half of cuBLAS's speed: "
        "[tensor-cores.md](../tensor-cores.md#what-limits-them).",
        lambda found: _products(found, prefix="float16, 1x", title="float16 matrix products"),
    ),
    Chart(
        "write",
        "2026-11-27-h200-transfers",
        "Arrays of the host written to a buffer of the device.",
        lambda found: _transfers(found, way="write", title="Host to device"),
    ),
    Chart(
        "read",
        "2026-11-27-h200-transfers",
        "A buffer read into an array of the host that is there already.",
        lambda found: _transfers(found, way="read", title="Device to host"),
    ),
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    folder = options.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for chart in CHARTS:
        (folder / f"{chart.name}.svg").write_text(chart.svg(), "utf-8")


if __name__ == "__main__":
    main()
