"""What the workers do in benchmarks/fleet.py: each makes its data where it is used, and returns what can be checked."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from distributed import as_completed

from vyre_driver import kernels
from vyre_driver.distributed import empty_pinned
from vyre_driver.lang import Index, Out, f32, kernel, u32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

COLUMNS = 4096
_IMPORTED = time.time()
_SPENT: dict[str, float] = {}
_COUNTING = threading.Lock()
_MADE = threading.local()  # a worker has two threads, and each has arrays of its own


def nothing(number: int) -> int:
    return number


def nothing_on(_: Any, number: int) -> int:
    return number


def saxpy_of_kept(driver: Any, elements: int, number: int) -> float:
    """Call saxpy on an array that lies on the host from an earlier call, and give back one number."""
    made = getattr(driver, "saxpy_of_benchmark", None)
    if made is None:
        made = driver.saxpy_of_benchmark = kernels.saxpy(driver), np.ones(elements, np.float32)
    saxpy, ones = made
    return float(saxpy(ones, ones, alpha=float(number))[-1])


def saxpy_of_made(driver: Any, elements: int, number: int) -> float:
    """Make an array, call saxpy on it, and give back one number."""
    saxpy = getattr(driver, "saxpy_of_benchmark_alone", None)
    if saxpy is None:
        saxpy = driver.saxpy_of_benchmark_alone = kernels.saxpy(driver)
    x = np.full(elements, (number + 1) / 2, np.float32)
    return float(saxpy(x, x, alpha=1.0)[-1])


def block(block_info: Any = None) -> np.ndarray[Any, Any]:
    """Make a block of rows in memory that is used again: 0, 1, 2, 3 and so on, and the block's number by 8 more."""
    at, shape = block_info[None]["chunk-location"], block_info[None]["chunk-shape"]
    with spent("memory"):
        made = empty_pinned(shape, np.float32)
    with spent("making"):
        made[...] = np.arange(shape[1], dtype=np.float32) % 4 + np.float32(at[0] % 8)
    return made


@contextlib.contextmanager
def spent(what: str) -> Iterator[None]:
    """Count the seconds of a part of a block."""
    began = time.perf_counter()
    try:
        yield
    finally:
        with _COUNTING:
            _SPENT[what] = _SPENT.get(what, 0.0) + time.perf_counter() - began


def taken() -> dict[str, float]:
    """Return this process's seconds by part, of all its threads, since this was asked last."""
    with _COUNTING:
        found = {what: round(seconds, 3) for what, seconds in _SPENT.items()}
        _SPENT.clear()
    return found


def sum_of_blocks(rows: list[int]) -> float:
    """Return what the sum of such blocks is."""
    return float(sum(count * COLUMNS * (1.5 + at % 8) for at, count in enumerate(rows)))


def sum_and_softmax(driver: Any) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Make a kernel: a block's sum, and the sum of its rows' softmax, which is the number of rows; the block is copied once."""
    softmax, total = kernels.softmax(driver), kernels.reduce_sum(driver)

    def call(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        with spent("copying"):
            here = driver.buffer(x)
        with spent("sum"):
            first = float(total(here.reshape(-1)).read())
        with spent("softmax"):
            soft = softmax(here)
        with spent("sum of softmax"):
            return np.array([first, float(total(soft.reshape(-1)).read())])

    return call


@kernel
def rows_of(i: Index, out: Out[f32], columns: u32, number: u32) -> None:
    out[i] = f32((i // columns + number) % 7)


@kernel
def columns_of(i: Index, out: Out[f32], columns: u32) -> None:
    out[i] = f32(i % columns % 5)


class Done(NamedTuple):
    """A product that was found right: its number, and who made it when, in seconds since 1970."""

    number: int
    process: int
    imported: float
    began: float
    ended: float


def product(driver: Any, size: int, number: int) -> Done:
    """Multiply two matrices that are made on the device; two rows of the product are compared."""
    began, kept = time.time(), _MADE.__dict__
    if kept.get("size") != size:
        kept["arrays"] = tuple(driver.empty((size, size), "f4") for _ in range(3))
        kept["rows"], kept["matmul"], kept["size"] = rows_of.on(driver), kernels.matmul(driver, dtype="float32"), size
        columns_of.on(driver)(kept["arrays"][1].reshape(-1), columns=size)
    a, b, c = kept["arrays"]
    kept["rows"](a.reshape(-1), columns=size, number=number)
    kept["matmul"](a, b, out=c)
    for row in (number % size, size - 1):
        expected = size * ((row + number) % 7) * (np.arange(size, dtype=np.float32) % 5)
        if not np.array_equal(c[row].read(), expected):
            raise AssertionError(f"row {row} of product {number} is wrong")
    return Done(number, os.getpid(), _IMPORTED, began, time.time())


def results(submit: Callable[[int], Any], numbers: Iterable[int], window: int, left: Callable[[], float]) -> Iterator[Any]:
    """Yield the results of work for each number as they come, so many under way; a future is let go with its result.

    What a client still holds is computed once more when the worker that has it dies. ``left`` gives the seconds that may pass.
    """
    waiting = iter(numbers)
    first = [submit(number) for number in itertools.islice(waiting, window)]
    under_way = as_completed(first, loop=first[0].client.loop, with_results=True, timeout=left())
    del first
    for _, result in under_way:
        yield result
        for number in itertools.islice(waiting, 1):
            under_way.add(submit(number))
