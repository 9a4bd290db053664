"""Streams in which calls of Vulkan fail, or that Ctrl-C ends; test_device_stream_losses.py runs this in processes of its own.

Usage: streaming.py failures KIND CALLS RESULT... | streaming.py interrupts KIND TURNS

KIND is what the device is taken for: ``cpu``, whose memory is the host's, or ``discrete``. CALLS says which calls of a function
of Vulkan fail, one in each stream: ``each`` of the first twenty, or ``some`` of them. Prints as JSON what was found wrong, and
how often a stream was ended.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import random
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from kernels import STEP, glsl

from vyre_driver import Driver, Kernel, VyreError
from vyre_driver import driver as driver_module
from vyre_driver.kompute import memory as memory_module
from vyre_driver.vulkan.devices import DeviceType
from vyre_driver.vulkan.layer import _layer
from vyre_driver.vulkan.selection import select_device

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from vyre_driver.runtime.stream import Stream
    from vyre_driver.vulkan.devices import PhysicalDevice

CHUNKS = 12
# The numbers of the calls that fail. Those with which a stream starts are the first.
CALLS = {"each": range(1, 21), "some": (1, 2, 3, 5, 13)}
LENGTHS = (1000, 60_000)  # the longer ones travel through areas
STEPS = {"factor": 2, "summand": 1}


def take_for(kind: str) -> None:
    """Open devices as ones of a kind, and let arrays of 200 kB be long."""

    def select(*arguments: object, **options: bool) -> PhysicalDevice:
        return dataclasses.replace(select_device(*arguments, **options), device_type=DeviceType[kind.upper()])  # type: ignore[arg-type]

    driver_module.select_device = select  # type: ignore[attr-defined] # whose own it is
    memory_module.LONG_BYTES = 200_000


def chunks(length: int) -> list[NDArray[np.uint32]]:
    return [np.full(length, number, np.uint32) for number in range(CHUNKS)]


def complaints(stream: Stream) -> tuple[list[str], VyreError | None]:
    """What is wrong with the results up to the error that ends a stream, and that error."""
    found: list[bool] = []
    try:
        for number, one in enumerate(stream):
            found.append(bool((one == 2 * number + 1).all()))
    except VyreError as error:
        told = error.context.get("chunk")
        wrong = [] if all(found) else [f"results {found}"]
        wrong += [] if told == len(found) == stream.finished else [f"chunk {told} of {len(found)}, {stream.finished}"]
        return wrong, error
    return ([] if found == [True] * CHUNKS else [f"results {found}"]), None


def fail(call: str, nth: int, result: int) -> tuple[list[str], str | None]:
    """What is wrong where the ``nth`` call fails with a result, and the error that it led to."""
    wrong: list[str] = []
    ended = None
    with Driver() as driver:
        kernel = driver.compile(glsl(STEP))
        for length in LENGTHS:
            stream = driver.stream(kernel, chunks(length), **STEPS)
            _layer.inject(call, nth, result)
            found, error = complaints(stream)
            _layer.inject(call, 0, 0)
            wrong += found
            stream.close()
            if error is not None:
                ended = type(error).__name__
            del stream, error
            if driver.context.device.is_lost:
                break
            again, error = complaints(driver.stream(kernel, chunks(length), **STEPS))
            wrong += [f"again: {one}" for one in [*again, *([] if error is None else [repr(error)])]]
            del error
        del kernel
        gc.collect()
        live = driver.context.device.layer.counters()["memory_live_bytes"]  # type: ignore[union-attr] # there is the layer
        wrong += [f"{live} bytes are held"] if live else []
    return [f"{call} {nth} {result}: {one}" for one in wrong], ended


def failures(calls: Iterable[int], results: list[int]) -> dict[str, Any]:
    wrong: list[str] = []
    errors: dict[str, int] = {}
    for call in _layer.CALLS[1:]:
        for result in results:
            for nth in calls:
                found, error = fail(call, nth, result)
                wrong += found
                if error is None:
                    break
                errors[error] = errors.get(error, 0) + 1
    return {"wrong": wrong, "errors": errors}


def interrupt(driver: Driver, kernel: Kernel, pinned: list[NDArray[np.uint32]], after_s: float) -> tuple[list[str], bool]:
    """End a stream by SIGINT; returns what is wrong with what it gave, and whether it came to its end before."""
    given = 0
    wrong = []
    stream = driver.stream(kernel, pinned or chunks(LENGTHS[1]), out=pinned or None, **STEPS)
    for number, one in enumerate(pinned):
        one[:] = number
    try:
        signal.setitimer(signal.ITIMER_REAL, after_s)
        for number, one in enumerate(stream):
            wrong += [] if (one == 2 * number + 1).all() else [f"result {number}"]
            given += 1
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
    stream.close()
    for one in pinned:  # nothing is at them any more
        one[:] = 7
    wrong += [] if stream.finished - given in {0, 1} else [f"{given} of {stream.finished} were given"]
    last = [np.asarray(one) for one in driver.stream(kernel, [np.full(5, 7, np.uint32)] * 2, **STEPS)]
    wrong += [] if [one.tolist() for one in last] == [[15] * 5] * 2 else ["the next stream"]
    wrong += [] if all((one == 7).all() for one in pinned) else ["a pinned array was written after close()"]
    return wrong, given == CHUNKS


def one_stream_s(driver: Driver, kernel: Kernel) -> float:
    began = time.perf_counter()
    list(driver.stream(kernel, chunks(LENGTHS[1]), **STEPS))
    return time.perf_counter() - began


def interrupts(turns: int) -> dict[str, Any]:
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    drawn = random.Random(1)  # noqa: S311 -- moments
    wrong: list[str] = []
    ended = 0
    with Driver() as driver:
        kernel = driver.compile(glsl(STEP))
        longest = min(one_stream_s(driver, kernel) for _ in range(4))  # not the first, which compiles
        pinned = [driver.pinned(LENGTHS[1], np.uint32) for _ in range(CHUNKS)]
        for turn in range(turns):
            found, was_over = interrupt(driver, kernel, pinned if turn % 2 else [], 1e-4 + longest * drawn.random())
            wrong += found
            ended += not was_over
    return {"wrong": wrong, "ended early": ended}


if __name__ == "__main__":
    what, kind, *given = sys.argv[1:]
    take_for(kind)
    if what == "failures":
        found = failures(CALLS[given[0]], [int(result) for result in given[1:]])
    else:
        found = interrupts(int(given[0]))
    json.dump(found, sys.stdout)
