"""The other side of benchmarks.lang: saxpy of 64 elements in Triton, CuPy and PyTorch, as far as they are installed.

The first line on stdout says what there is; each line on stdin names a case, ``what/peer``, and is answered with microseconds.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 64
_RAW = """extern "C" __global__ void saxpy(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}"""

Calls = dict[str, "Callable[[], object]"]


def median_us(call: Callable[[], object], repeats: int, end: Callable[[], object]) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - began)
    end()
    return statistics.median(times) / 1000


def torch_calls() -> tuple[str, Calls]:
    torch = importlib.import_module("torch")
    x, y = torch.ones(COUNT, device="cuda"), torch.ones(COUNT, device="cuda")
    host_x, host_y = torch.ones(COUNT), torch.ones(COUNT)
    wait = torch.cuda.synchronize
    return torch.__version__, {
        "launch": lambda: y.add_(x, alpha=2.0),
        "launch and wait": lambda: (y.add_(x, alpha=2.0), wait()),
        "host arrays": lambda: host_y.cuda().add_(host_x.cuda(), alpha=2.0).cpu(),
        "end": wait,
    }


def triton_calls() -> tuple[str, Calls]:
    torch, triton = importlib.import_module("torch"), importlib.import_module("triton")
    saxpy = importlib.import_module("lang_triton").saxpy  # beside this script
    x, y = torch.ones(COUNT, device="cuda"), torch.ones(COUNT, device="cuda")
    wait = torch.cuda.synchronize
    return triton.__version__, {
        "launch": lambda: saxpy[(1,)](x, y, 2.0, COUNT, BLOCK=64),
        "launch and wait": lambda: (saxpy[(1,)](x, y, 2.0, COUNT, BLOCK=64), wait()),
        "end": wait,
    }


def cupy_raw_calls() -> tuple[str, Calls]:
    cupy = importlib.import_module("cupy")
    kernel = cupy.RawKernel(_RAW, "saxpy")
    x, y = cupy.ones(COUNT, cupy.float32), cupy.ones(COUNT, cupy.float32)
    return cupy.__version__, _cupy(cupy, lambda a, b: kernel((1,), (64,), (a, b, cupy.float32(2.0), COUNT)), x, y)


def cupy_jit_calls() -> tuple[str, Calls]:
    cupy, jit = importlib.import_module("cupy"), importlib.import_module("cupyx.jit")

    @jit.rawkernel()
    def saxpy(x: Any, y: Any, a: Any, n: Any) -> None:
        i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        if i < n:
            y[i] = a * x[i] + y[i]

    x, y = cupy.ones(COUNT, cupy.float32), cupy.ones(COUNT, cupy.float32)
    return cupy.__version__, _cupy(cupy, lambda a, b: saxpy((1,), (64,), (a, b, cupy.float32(2.0), COUNT)), x, y)


def _cupy(cupy: Any, run: Callable[[Any, Any], object], x: Any, y: Any) -> Calls:
    host_x, host_y = x.get(), y.get()
    wait = cupy.cuda.Device().synchronize

    def round_trip() -> Any:
        here, there = cupy.asarray(host_x), cupy.asarray(host_y)
        run(here, there)
        return there.get()

    return {"launch": lambda: run(x, y), "launch and wait": lambda: (run(x, y), wait()), "host arrays": round_trip, "end": wait}


def main() -> None:
    repeats = int(sys.argv[1])
    made: dict[str, Calls] = {}
    versions, left_out = {}, {}
    for name, make in {
        "torch": torch_calls,
        "triton": triton_calls,
        "CuPy RawKernel": cupy_raw_calls,
        "CuPy jit": cupy_jit_calls,
    }.items():
        try:
            versions[name], calls = make()
            for call in calls.values():
                call()  # compiles
            made[name] = calls
        except Exception as error:  # noqa: BLE001 -- whatever a peer lacks here, it is left out, and said
            left_out[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            versions.pop(name, None)
    whats = ("launch", "launch and wait", "host arrays")
    cases = {what: [name for name, calls in made.items() if what in calls] for what in whats if made}
    print(json.dumps({"versions": versions, "left_out": left_out, "cases": cases}), flush=True)
    for line in sys.stdin:
        what, _, name = line.strip().partition("/")
        print(median_us(made[name][what], repeats, made[name]["end"]), flush=True)


if __name__ == "__main__":
    main()
