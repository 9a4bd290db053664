"""Programs of examples/gallery between buffers that are on the device already: kernels and batches, bound once and run again.

Left out are programs whose ``compute`` works on the host in between, and a sort in place, which would sort what is sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.lang_kernels import gallery_module
from vyre_driver.lang import cdiv, default_driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver import Driver

_F32, _I32 = np.float32, np.int32
Run = tuple["Callable[[], object]", tuple[Any, ...]]  # and the buffers that have the results after the first run


def resident(name: str, data: tuple[Any, ...]) -> Run | None:
    """Return what runs a program on data that is on the device, and waits, and the buffers that it writes."""
    if name not in _RESIDENT:
        return None
    driver = default_driver()
    there = [driver.buffer(one) if isinstance(one, np.ndarray) else one for one in data]
    return _RESIDENT[name](gallery_module(name), driver, *there)


def _saxpy(module: Any, _: Any, x: Any, y: Any, a: float) -> Run:
    return module.saxpy.bind(x, y, a).run, (y,)


def _mandelbrot(module: Any, driver: Any, side: int, left: float, top: float, step: float) -> Run:
    turns = driver.empty((side, side), _I32)
    return module.turns_to_leave.over(side, side).bind(turns, left, top, step, module.LIMIT).run, (turns,)


def _matmul(module: Any, driver: Any, a: Any, b: Any) -> Run:
    c = driver.empty((a.shape[0], b.shape[1]), _F32)
    return module.matmul.bind(a, b, c).run, (c,)


def _black_scholes(module: Any, driver: Any, spot: Any, strike: Any, years: Any) -> Run:
    call, put = driver.empty(spot.shape, _F32), driver.empty(spot.shape, _F32)
    return module.prices.bind(spot, strike, years, call, put, module.RATE, module.VOLATILITY).run, (call, put)


def _histogram(module: Any, driver: Any, values: Any) -> Run:
    counts = driver.buffer(np.zeros(module.BINS, np.uint32))
    counting = module.histogram.groups(cdiv(len(values), module.BINS * module.EACH)).bind(values, counts)
    return lambda: (counts.fill(0), counting.run()), (counts,)


def _conv2d(module: Any, driver: Any, source: Any, weights: Any) -> Run:
    found = driver.empty(source.shape, _F32)
    return module.convolve.over(*source.shape).bind(source, weights, found).run, (found,)


def _sobel(module: Any, driver: Any, picture: Any) -> Run:
    strength = driver.empty(picture.shape, _F32)
    return module.edges.bind(picture, strength).run, (strength,)


def _spmv(module: Any, driver: Any, values: Any, columns: Any, starts: Any, x: Any) -> Run:
    y = driver.empty(len(x), _F32)
    return module.product.over(len(x)).bind(values, columns, starts, x, y).run, (y,)


def _monte_carlo(module: Any, driver: Any, invocations: int) -> Run:
    sums = driver.empty(invocations, _F32)
    return module.sum_payoffs.over(invocations).bind(sums, module.EACH // 4).run, (sums,)


def _there_and_back(kernel: Any, driver: Any, now: Any, times: int, *numbers: float) -> Run:
    """Return a batch of a kernel that writes one of two buffers from the other, in turn."""
    then = driver.empty(now.shape, now.dtype)
    return _batch(driver, times // 2, kernel.bind(now, then, *numbers), kernel.bind(then, now, *numbers)), (now,)


def _heat(module: Any, driver: Any, plate: Any) -> Run:
    return _there_and_back(module.warm, driver, plate, module.STEPS, module.RATE)


def _life(module: Any, driver: Any, cells: Any) -> Run:
    return _there_and_back(module.generation, driver, cells, module.GENERATIONS)


def _nbody(module: Any, driver: Any, places: Any, speeds: Any) -> Run:
    faster = module.accelerate.bind(places, speeds, module.STEP / len(places))
    return _batch(driver, module.STEPS, faster, module.move.bind(places, speeds, module.STEP)), (places,)


def _kmeans(module: Any, driver: Any, points: Any, centres: Any) -> Run:
    labels = driver.empty(len(points), _I32)
    averaging = module.average.groups(len(centres)).bind(points, labels, centres)
    return _batch(driver, module.ROUNDS, module.assign.bind(points, centres, labels), averaging), (labels, centres)


def _batch(driver: Driver, times: int, *bound: Any) -> Callable[[], object]:
    batch = driver.batch()
    for _ in range(times):
        for one in bound:
            batch.add(one)
    return batch.run


_RESIDENT: dict[str, Callable[..., Run]] = {
    "saxpy": _saxpy,
    "mandelbrot": _mandelbrot,
    "matmul": _matmul,
    "black_scholes": _black_scholes,
    "histogram": _histogram,
    "conv2d": _conv2d,
    "sobel": _sobel,
    "spmv": _spmv,
    "monte_carlo": _monte_carlo,
    "heat": _heat,
    "life": _life,
    "nbody": _nbody,
    "kmeans": _kmeans,
}
