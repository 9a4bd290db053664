"""Programs of examples/gallery in WGSL (benchmarks/wgsl) by wgpu-py, as its examples of compute do.

Each takes what ``data`` of its program returns, with the arrays on the device, and makes its pipelines, bind groups and results
once. It returns what encodes and submits its work, which a command buffer of WebGPU allows only once, and its results.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import wgpu  # type: ignore[import-not-found] # where it is installed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SHADERS = Path(__file__).parent / "wgsl"
_STORAGE = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
_NO_FUSING = np.uint32(0)  # as saxpy.wgsl says


class Array(NamedTuple):
    """A buffer, which of itself has bytes, and the array that it holds."""

    buffer: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Step(NamedTuple):
    """One dispatch."""

    pipeline: Any
    bind_group: Any
    groups: tuple[int, ...]


Bound = tuple["Callable[[], object]", "tuple[Array, ...]"]


@functools.cache
def device() -> Any:
    """Return the device of the adapter that performs best, where there are several."""
    return wgpu.gpu.request_adapter_sync(power_preference="high-performance").request_device_sync()


def upload(array: np.ndarray) -> Array:
    return Array(device().create_buffer_with_data(data=array, usage=_STORAGE), array.shape, array.dtype)


def write(there: Array, array: np.ndarray) -> None:
    device().queue.write_buffer(there.buffer, 0, array)


def download(there: Array) -> np.ndarray:
    return np.frombuffer(device().queue.read_buffer(there.buffer), there.dtype).reshape(there.shape)


def wait() -> None:
    device()._poll_wait()  # noqa: SLF001 -- on_submitted_work_done_sync raises TypeError in wgpu 0.32


def _empty(*shape: int, dtype: type = np.float32) -> Array:
    form = np.dtype(dtype)
    return Array(device().create_buffer(size=int(np.prod(shape)) * form.itemsize, usage=_STORAGE), shape, form)


@functools.cache
def _pipeline(shader: str) -> Any:
    module = device().create_shader_module(code=(_SHADERS / f"{shader}.wgsl").read_text("utf-8"))
    return device().create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})


def _step(shader: str, arrays: Sequence[Array], groups: tuple[int, ...], *numbers: np.generic) -> Step:
    """Return a dispatch of a shader whose first binding is the numbers, where it has any."""
    buffers = [array.buffer for array in arrays]
    if numbers:
        packed = b"".join(number.tobytes() for number in numbers)
        buffers.insert(0, device().create_buffer_with_data(data=packed, usage=wgpu.BufferUsage.UNIFORM))
    pipeline = _pipeline(shader)
    entries = [{"binding": at, "resource": {"buffer": buffer}} for at, buffer in enumerate(buffers)]
    return Step(pipeline, device().create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries), groups)


def _submitted(steps: Sequence[Step], times: int = 1, cleared: Array | None = None) -> Callable[[], None]:
    """Return what submits the steps in turn so often; an array to clear is cleared first."""

    def submit() -> None:
        encoder = device().create_command_encoder()
        if cleared is not None:
            encoder.clear_buffer(cleared.buffer)
        compute = encoder.begin_compute_pass()
        for step in steps * times:
            compute.set_pipeline(step.pipeline)
            compute.set_bind_group(0, step.bind_group)
            compute.dispatch_workgroups(*step.groups)
        compute.end()
        device().queue.submit([encoder.finish()])

    return submit


def _across(count: int, width: int = 256) -> tuple[int, ...]:
    return (-(-count // width),)


def _over(rows: int, columns: int) -> tuple[int, ...]:
    return -(-columns // 16), -(-rows // 16)


def _size(array: Array) -> tuple[np.generic, ...]:
    return tuple(map(np.int32, array.shape))


def saxpy(x: Array, y: Array, a: float) -> Bound:
    return _submitted([_step("saxpy", (x, y), _across(*x.shape), np.float32(a), _NO_FUSING)]), (y,)


def mandelbrot(side: int, left: float, top: float, step: float) -> Bound:
    turns = _empty(side, side, dtype=np.int32)
    numbers = (*map(np.float32, (left, top, step)), np.int32(200), np.uint32(side), _NO_FUSING)
    return _submitted([_step("mandelbrot", (turns,), _over(side, side), *numbers)]), (turns,)


def matmul(a: Array, b: Array) -> Bound:
    c = _empty(a.shape[0], b.shape[1])
    return _submitted([_step("matmul", (a, b, c), _over(*c.shape), *_size(a), np.int32(b.shape[1]))]), (c,)


def black_scholes(spot: Array, strike: Array, years: Array) -> Bound:
    call, put = _empty(*spot.shape), _empty(*spot.shape)
    arrays = (spot, strike, years, call, put)
    return _submitted([_step("black_scholes", arrays, _across(*spot.shape), np.float32(0.02), np.float32(0.3))]), (call, put)


def reduction(x: Array) -> Bound:
    steps = []
    while x.shape[0] > 1:
        groups = _across(x.shape[0], 2048)
        sums = _empty(*groups)
        steps.append(_step("reduction", (x, sums), groups))
        x = sums
    return _submitted(steps), (x,)


def histogram(values: Array) -> Bound:
    counts = _empty(256, dtype=np.uint32)
    return _submitted([_step("histogram", (values, counts), _across(values.shape[0], 2048))], cleared=counts), (counts,)


def nbody(places: Array, speeds: Array) -> Bound:
    count = places.shape[0]
    accelerate = _step("accelerate", (places, speeds), _across(count, 32), np.float32(0.002 / count))
    move = _step("move", (places, speeds), _across(3 * count), np.float32(0.002))
    return _submitted([accelerate, move], times=20), (places,)


def conv2d(source: Array, weights: Array) -> Bound:
    found = _empty(*source.shape)
    return _submitted([_step("conv2d", (source, weights, found), _over(*source.shape), *_size(source))]), (found,)


def sobel(picture: Array) -> Bound:
    strength = _empty(*picture.shape)
    return _submitted([_step("sobel", (picture, strength), _over(*picture.shape), *_size(picture))]), (strength,)


def heat(now: Array) -> Bound:
    then = _empty(*now.shape)
    numbers = (*_size(now), np.float32(0.2))
    there, back = (_step("heat", pair, _over(*now.shape), *numbers) for pair in ((now, then), (then, now)))
    return _submitted([there, back], times=50), (now,)


def spmv(values: Array, columns: Array, starts: Array, x: Array) -> Bound:
    y = _empty(*x.shape)
    return _submitted([_step("spmv", (values, columns, starts, x, y), _across(*x.shape))]), (y,)


def kmeans(points: Array, centres: Array) -> Bound:
    labels = _empty(points.shape[0], dtype=np.int32)
    assign = _step("assign", (points, centres, labels), _across(points.shape[0]))
    average = _step("average", (points, labels, centres), (centres.shape[0],))
    return _submitted([assign, average], times=10), (labels, centres)


def monte_carlo(invocations: int) -> Bound:
    sums = _empty(invocations)
    return _submitted([_step("monte_carlo", (sums,), _across(invocations, 128), np.uint32(16))]), (sums,)


def scan(values: Array) -> Bound:
    steps, sums = _running_sums(values)
    return _submitted(steps), (sums,)


def _running_sums(values: Array) -> tuple[list[Step], Array]:
    groups = _across(*values.shape)
    sums, totals = _empty(*values.shape, dtype=np.uint32), _empty(*groups, dtype=np.uint32)
    step = _step("scan", (values, sums, totals), groups)
    if groups == (1,):
        return [step], sums
    of_totals, found = _running_sums(totals)
    return [step, *of_totals, _step("add_totals", (sums, found), groups)], sums


PROGRAMS: dict[str, Callable[..., Bound]] = {
    "saxpy": saxpy,
    "mandelbrot": mandelbrot,
    "matmul": matmul,
    "black_scholes": black_scholes,
    "reduction": reduction,
    "nbody": nbody,
    "histogram": histogram,
    "conv2d": conv2d,
    "sobel": sobel,
    "heat": heat,
    "spmv": spmv,
    "kmeans": kmeans,
    "monte_carlo": monte_carlo,
    "scan": scan,
}
