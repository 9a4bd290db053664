"""Parts of buffers moved and bound, for the validation layer to watch: each needs or overwrites what the one before wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from kernels import SHIFT, STEP, glsl

from vyre_driver import Driver
from vyre_driver.errors import DispatchTimeout
from vyre_driver.kompute import memory as memory_module
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.memory import TensorBuffer
from vyre_driver.kompute.pipeline import BoundPipeline
from vyre_driver.kompute.recording import record
from vyre_driver.kompute.views import Pieces
from vyre_driver.lowering.source import PipelineSource

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEVER = Deadline(None, "the device")
WORDS = 256
PUSH = (3, 1)


def words_of(memory: TensorBuffer) -> NDArray[np.uint32]:
    return memory.read_range(0, memory.byte_len, NEVER).view(np.uint32)


def step_of(driver: Driver, memory: TensorBuffer, ranges: tuple[tuple[int, int], ...] | None = None) -> BoundPipeline:
    source = PipelineSource(glsl(STEP).runnable.code, (), 4 * len(PUSH))
    return BoundPipeline(driver.context.device, source, Pieces((memory,), ranges), (WORDS // 64, 1, 1))


def parts_of_buffers() -> None:
    """Writes, copies, fills and reads that overlap, between dispatches nobody has waited for."""
    with Driver() as driver:
        a, b = (TensorBuffer(driver.context.device, 4 * WORDS, 4) for _ in range(2))
        expected = np.zeros(WORDS, np.uint32)
        step = record(driver.context.device, [[step_of(driver, a).dispatch(PUSH)]], a)
        a.fill_range(0, 4 * WORDS, b"\0", NEVER)
        for turn in range(4):
            step.submit()
            b.copy_range(a, 4, 8, 4 * WORDS - 8, NEVER)
            step.submit()
            a.copy_range(b, 8, 16, 4 * WORDS - 16, NEVER)
            a.fill_range(64, 64, b"\7\0\0\0", NEVER)
            a.fill_range(3, 12, b"abc", NEVER)
            step.submit()
            a.write_range(101, np.full(3, turn, np.uint8), NEVER)
            first = 3 * expected + 1
            expected = 3 * first + 1
            expected[4:] = first[1:-3]
            expected[16:32] = 7
            expected.view(np.uint8)[3:15] = np.frombuffer(b"abc" * 4, np.uint8)
            expected = 3 * expected + 1
            expected.view(np.uint8)[101:104] = turn
            np.testing.assert_array_equal(words_of(a), expected)
        for move in (lambda end: a.copy_range(b, 0, 0, 8, end), lambda end: a.write_range(1, np.ones(2, np.uint8), end)):
            step.submit()
            try:
                move(Deadline(0, "the device"))
            except DispatchTimeout:
                continue
        a.write_range(0, expected, NEVER)
        np.testing.assert_array_equal(words_of(a), expected)


def parts_that_are_bound() -> None:
    """Parts at offsets that can be bound, and parts of their own that are copied out and in around the dispatch."""
    with Driver() as driver:
        least = max(driver.device.limits.min_storage_buffer_offset_alignment, 64)  # parts of 40 bytes keep apart
        a, part = TensorBuffer(driver.context.device, 4 * WORDS, 4), TensorBuffer(driver.context.device, 100, 4)
        values = np.arange(WORDS, dtype=np.uint32)
        a.write_range(0, values, NEVER)
        here, there = a.handle, part.handle
        outer: list[Any] = [step_of(driver, a, ((offset, 40),)).dispatch(PUSH) for offset in (0, least, 2 * least)]
        copied = (step_of(driver, part).dispatch(PUSH), [(here, 12, there, 0, 100)], [(there, 0, here, 12, 100)])
        record(driver.context.device, [outer[:1], [copied], outer[1:], [copied, copied]], (a, part)).run(NEVER)
        for first, count in ((0, 10), (3, 25), (least // 4, 10), (least // 2, 10), (3, 25), (3, 25)):
            values[first : first + count] = 3 * values[first : first + count] + 1
        np.testing.assert_array_equal(words_of(a), values)


def pinned_arrays() -> None:
    """Copies between pinned arrays and buffers, and a driver that goes before its pinned arrays."""
    with Driver() as driver:
        source, target = (driver.pinned(150_000, np.float32) for _ in range(2))
        source[:] = np.arange(source.size)
        buffer = driver.buffer(source)
        buffer[3:].read(out=target[3:])
        np.testing.assert_array_equal(target[3:], source[3:])
        kernel = driver.compile(glsl(STEP))
        words = source.view(np.uint32)
        found = kernel(words, out=target.view(np.uint32), factor=PUSH[0], summand=PUSH[1])
        np.testing.assert_array_equal(found, 3 * words + 1)
        driver.pinned(3, np.float32)
    target[:] = 0


def streams() -> None:
    """Uploads, dispatches and read-backs beside each other: of arrays, pinned, staged and in areas, and of a buffer."""
    with Driver() as driver:
        kernel, shift = driver.compile(glsl(STEP)), driver.compile(glsl(SHIFT))
        push: Any = {"factor": PUSH[0], "summand": PUSH[1]}
        for length, long_bytes in ((WORDS, 1 << 25), (700_001, 1 << 20)):
            memory_module.LONG_BYTES = long_bytes
            chunks = [driver.pinned(length, np.uint32) if number % 3 else np.zeros(length, np.uint32) for number in range(9)]
            for number, chunk in enumerate(chunks):
                chunk[:] = number
            for number, one in enumerate(driver.stream(kernel, chunks, out=chunks, **push)):
                np.testing.assert_array_equal(one, np.full(length, PUSH[0] * number + PUSH[1], np.uint32))
            constant = driver.buffer(np.arange(length + 1, dtype=np.uint32))[1:]  # which is copied before each dispatch
            for one in driver.stream(shift, [{"from": constant, "out_shapes": {"to": length}} for _ in chunks]):
                np.testing.assert_array_equal(one, 3 * np.roll(np.arange(1, length + 1, dtype=np.uint32), -67) + 1)
        total = driver.zeros(WORDS + 1, "u4")
        assert len(list(driver.stream(kernel, [{} for _ in range(9)], values=total[1:], **push))) == 9
        np.testing.assert_array_equal(total.read(), [0] + [sum(3**number for number in range(9))] * WORDS)
