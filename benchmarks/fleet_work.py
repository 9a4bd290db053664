"""What the workers do in benchmarks/fleet.py: each makes its data where it is used, and returns what can be checked."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver import kernels
from vyre_driver.lang import Index, Out, f32, kernel, u32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

COLUMNS = 4096
_MADE = threading.local()  # a worker has two threads, and each has arrays of its own


def nothing(number: int) -> int:
    return number


def nothing_on(_: Any, number: int) -> int:
    return number


def saxpy_of(driver: Any, elements: int, number: int) -> float:
    """Call saxpy on arrays that lie on the host, and give back one number."""
    made = getattr(driver, "saxpy_of_benchmark", None)
    if made is None:
        made = driver.saxpy_of_benchmark = kernels.saxpy(driver), np.ones(elements, np.float32)
    saxpy, ones = made
    return float(saxpy(ones, ones, alpha=float(number))[-1])


def block(block_info: Any = None) -> np.ndarray[Any, Any]:
    """Make a block of rows: 0, 1, 2, 3 and so on, and the block's number by 8 more."""
    at, shape = block_info[None]["chunk-location"], block_info[None]["chunk-shape"]
    kept = _MADE.__dict__
    if kept.get("pattern", np.empty(0)).shape != shape:
        kept["pattern"] = np.broadcast_to(np.arange(shape[1]) % 4, shape).astype(np.float32)
    return np.asarray(kept["pattern"] + np.float32(at[0] % 8))


def sum_of_blocks(rows: list[int]) -> float:
    """Return what the sum of such blocks is."""
    return float(sum(count * COLUMNS * (1.5 + at % 8) for at, count in enumerate(rows)))


def sum_and_softmax(driver: Any) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Make a kernel: a block's sum, and the sum of its rows' softmax, which is the number of rows; the block is copied once."""
    softmax, total = kernels.softmax(driver), kernels.reduce_sum(driver)

    def call(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        here = driver.buffer(x)
        sums = total(here.reshape(-1)), total(softmax(here).reshape(-1))
        return np.array([float(one.read()) for one in sums])

    return call


@kernel
def rows_of(i: Index, out: Out[f32], columns: u32, number: u32) -> None:
    out[i] = f32((i // columns + number) % 7)


def product(driver: Any, size: int, number: int) -> int:
    """Multiply two matrices that are made on the device, and return the number if two rows of the product are right."""
    kept = _MADE.__dict__
    if kept.get("size") != size:
        b = np.broadcast_to(np.arange(size) % 5, (size, size)).astype(np.float32)
        kept["arrays"] = driver.empty((size, size), "f4"), driver.buffer(b), driver.empty((size, size), "f4")
        kept["rows"], kept["matmul"], kept["size"] = rows_of.on(driver), kernels.matmul(driver, dtype="float32"), size
    a, b, c = kept["arrays"]
    kept["rows"](a.reshape(-1), columns=size, number=number)
    kept["matmul"](a, b, out=c)
    for row in (number % size, size - 1):
        expected = size * ((row + number) % 7) * (np.arange(size, dtype=np.float32) % 5)
        if not np.array_equal(c[row].read(), expected):
            raise AssertionError(f"row {row} of product {number} is wrong")
    return number


def results(submit: Callable[[int], Any], numbers: Iterable[int], window: int, left: Callable[[], float]) -> Iterator[Any]:
    """Yield the results of work for each number, so many under way; a future is let go with its result.

    What a client still holds is computed once more when the worker that has it dies. ``left`` gives the seconds that may pass.
    """
    waiting, under_way = iter(numbers), deque[Any]()
    for number in waiting:
        under_way.append(submit(number))
        if len(under_way) >= window:
            yield under_way.popleft().result(left())
    while under_way:
        yield under_way.popleft().result(left())
