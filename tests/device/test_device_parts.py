"""Parts of buffers: read, written, copied and filled, wherever the buffers lie, in order with all other work."""

from __future__ import annotations

import gc
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import Spin

from vyre_driver import Driver
from vyre_driver.errors import DeviceLost, DeviceOutOfMemory, DispatchTimeout
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.memory import TensorBuffer
from vyre_driver.kompute.unfinished import drop_ended
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("_nothing_fails_any_more")]

NEVER = Deadline(None, "the device")
SIZE = 1003  # no whole words
PLACES = ["shared with the host", "writable by the host", "out of the host's reach"]
LONG = 300_007  # more than what a fill takes from the host at once


def made(driver: Driver, byte_len: int = SIZE) -> TensorBuffer:
    memory = TensorBuffer(driver.context.device, byte_len, 1)
    memory.fill_range(0, byte_len, b"\0", NEVER)
    return memory


def held(memory: TensorBuffer) -> NDArray[np.uint8]:
    return memory.read_range(0, memory.byte_len, NEVER)


def part(chosen: random.Random, size: int, multiple: int = 1) -> tuple[int, int]:
    """A random offset, and a length that fits behind it."""
    offset = chosen.randrange(size)
    return offset, chosen.randrange((size - offset) // multiple + 1) * multiple


def test_parts_move_as_numpy_says(place: tuple[Driver, bool, bool]) -> None:
    """Two buffers and their twins in numpy; ends that lie within words, parts of no bytes."""
    chosen = random.Random(21)  # noqa: S311 -- a fixed one
    buffers = [made(place[0]), made(place[0])]
    twins = [np.zeros(SIZE, np.uint8) for _ in range(2)]
    for _ in range(300):
        here, there = chosen.choice([(0, 1), (1, 0)])
        how = chosen.randrange(4)
        pattern = chosen.randbytes(chosen.randrange(1, 17))
        offset, byte_len = part(chosen, SIZE, len(pattern) if how == 0 else 1)
        at = slice(offset, offset + byte_len)
        if how == 0:
            buffers[here].fill_range(offset, byte_len, pattern, NEVER)
            twins[here][at] = np.tile(np.frombuffer(pattern, np.uint8), byte_len // len(pattern))
        elif how == 1:
            given = np.frombuffer(chosen.randbytes(byte_len), np.uint8)
            buffers[here].write_range(offset, given, NEVER)
            twins[here][at] = given
        elif how == 2:
            source = chosen.randrange(SIZE - byte_len + 1)
            buffers[here].copy_range(buffers[there], source, offset, byte_len, NEVER)
            twins[here][at] = twins[there][source : source + byte_len]
        else:
            np.testing.assert_array_equal(buffers[here].read_range(offset, byte_len, NEVER), twins[here][at], strict=True)
    for memory, twin in zip(buffers, twins, strict=True):
        np.testing.assert_array_equal(held(memory), twin, strict=True)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 8, 12, 16])
@pytest.mark.parametrize("offset", [0, 1])
def test_a_long_fill_repeats_its_pattern(place: tuple[Driver, bool, bool], length: int, offset: int) -> None:
    memory, pattern = made(place[0], LONG), bytes(range(1, length + 1))
    times = (LONG - 7) // length
    memory.fill_range(offset, times * length, pattern, NEVER)
    behind = LONG - offset - times * length
    assert held(memory).tobytes() == bytes(offset) + pattern * times + bytes(behind)


@pytest.mark.parametrize(("pattern", "byte_len"), [(b"", 0), (b"\1" * 17, 17), (b"abc", 4)])
def test_a_pattern_that_does_not_fill_the_bytes_is_refused(driver: Driver, pattern: bytes, byte_len: int) -> None:
    with pytest.raises(ValueError, match=f"a pattern of {len(pattern)} bytes does not fill {byte_len} bytes"):
        made(driver).fill_range(0, byte_len, pattern, NEVER)


def test_a_part_is_read_into_the_array_that_is_given(place: tuple[Driver, bool, bool]) -> None:
    memory = made(place[0])
    memory.write_range(500, np.arange(7, dtype=np.float32), NEVER)
    out = np.zeros(40, np.uint8)
    assert memory.read_range(500, 28, NEVER, out[4:32]).base is out
    assert out[4:32].view(np.float32).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert out[:4].tolist() + out[32:].tolist() == [0] * 12


def test_a_part_is_copied_within_one_buffer(place: tuple[Driver, bool, bool]) -> None:
    memory = made(place[0])
    memory.write_range(0, np.arange(100, dtype=np.uint8), NEVER)
    memory.copy_range(memory, 0, 100, 100, NEVER)
    assert memory.read_range(50, 100, NEVER).tolist() == [*range(50, 100), *range(50)]


def test_bytes_copied_onto_themselves_are_refused(opened: Driver) -> None:
    memory = made(opened)
    with pytest.raises(ValueError, match="region 0 is copied onto itself"):
        memory.copy_range(memory, 0, 99, 100, NEVER)


@pytest.fixture
def spin(place: tuple[Driver, bool, bool]) -> Spin:
    """Work that outlasts a wait of the host, under the layer."""
    return Spin(place[0], 0.2)


def moves(driver: Driver, spin: Spin) -> dict[str, Callable[[Deadline], object]]:
    """Each way to move a part of the buffer that the spinning work counts in."""
    counter = spin.ended.memory
    other = made(driver, 4)
    return {
        "read": lambda deadline: counter.read_range(0, 4, deadline),
        "write": lambda deadline: counter.write_range(0, np.zeros(4, np.uint8), deadline),
        "copy": lambda deadline: counter.copy_range(other, 0, 0, 4, deadline),
        "fill": lambda deadline: counter.fill_range(0, 4, b"\0", deadline),
        "fill by doubling": lambda deadline: counter.fill_range(0, 3, b"\0\0\0", deadline),
    }


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_parts_take_effect_after_what_was_submitted_before(place: tuple[Driver, bool, bool], spin: Spin) -> None:
    counter = spin.ended.memory
    for how, move in moves(place[0], spin).items():
        running = spin.bound.submit()
        is_pending = not running.done()
        found = move(NEVER)
        assert (is_pending, running.done()) == (True, True), how
        if how == "read":
            assert np.asarray(found).view(np.uint32).tolist() == [spin.groups]
        assert counter.read_range(0, 3, NEVER).any() == (how == "read"), how


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_what_is_submitted_later_sees_what_was_moved(spin: Spin) -> None:
    counter = spin.ended.memory
    counter.write_range(0, np.array([7], np.uint32), NEVER)
    spin.bound.run()
    assert counter.read_range(0, 4, NEVER).view(np.uint32).tolist() == [spin.groups + 7]


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_after_a_time_out_the_next_move_is_right(place: tuple[Driver, bool, bool], spin: Spin) -> None:
    counter = spin.ended.memory
    for how, move in moves(place[0], spin).items():
        running = spin.bound.submit()
        with pytest.raises(DispatchTimeout, match=r"did not end in 0\.01 s"):
            move(Deadline(0.01, "the device"))
        assert not running.done(), how
        counter.write_range(0, np.array([9], np.uint32), NEVER)
        assert running.done(), how
        assert counter.read_range(0, 4, NEVER).view(np.uint32).tolist() == [9]


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_after_ctrl_c_the_next_move_is_right(place: tuple[Driver, bool, bool], spin: Spin) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for how, move in moves(place[0], spin).items():
            running = spin.bound.submit()
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(KeyboardInterrupt):
                move(NEVER)
            assert not running.done(), how
            spin.ended.memory.write_range(0, np.array([9], np.uint32), NEVER)
            assert spin.ended.memory.read_range(0, 4, NEVER).view(np.uint32).tolist() == [9]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_buffers_that_are_dropped_with_a_copy_running_go_when_it_has_ended(
    place: tuple[Driver, bool, bool], spin: Spin
) -> None:
    driver = place[0]
    layer: Any = driver.context.device.layer
    gc.collect()
    live = layer.counters()["memory_live_bytes"]
    running = spin.bound.submit()
    source, target = made_later(driver), made_later(driver)
    with pytest.raises(DispatchTimeout):
        target.copy_range(source, 0, 0, SIZE, Deadline(0, "the device"))
    is_pending = not running.done()
    del source, target
    gc.collect()
    running.result()
    layer.wait_for_submitted()
    drop_ended()  # on a busy machine the drop has not waited for all of it
    counters = layer.counters()
    assert (is_pending, counters["memory_live_bytes"], counters["work_pending"]) == (True, live, 0)


def made_later(driver: Driver) -> TensorBuffer:
    """A buffer that nothing has been written to: that would wait."""
    return TensorBuffer(driver.context.device, SIZE, 1)


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_driver_may_be_closed_with_a_copy_running(place: tuple[Driver, bool, bool], spin: Spin) -> None:
    driver = place[0]
    running = spin.bound.submit()
    memory = made_later(driver)
    with pytest.raises(DispatchTimeout):
        memory.copy_range(made_later(driver), 0, 0, SIZE, Deadline(0, "the device"))
    assert not running.done()
    driver.close()
    layer: Any = driver.context.device.layer
    assert (memory._transfers.are_pending, layer.is_alive) == (True, False)  # noqa: SLF001
    del memory


@pytest.mark.parametrize(("call", "result", "error"), [("submit", -2, DeviceOutOfMemory), ("wait", -4, DeviceLost)])
def test_what_fails_is_raised(opened: Driver, call: str, result: int, error: type[Exception]) -> None:
    first, second = made(opened), made(opened)
    _layer.inject(call, 1, result)
    with pytest.raises(error):
        first.copy_range(second, 0, 0, 9, NEVER)
    assert opened.context.device.is_lost == (error is DeviceLost)
    if error is DeviceOutOfMemory:
        first.copy_range(second, 0, 0, 9, NEVER)


def test_a_lost_device_is_named_with_its_generation_at_the_call_that_failed_and_after(opened: Driver) -> None:
    device, (first, second) = opened.context.device, (made(opened), made(opened))
    _layer.inject("wait", 1, -4)
    told = []
    for _ in range(2):
        with pytest.raises(DeviceLost) as lost:
            first.copy_range(second, 0, 0, 9, NEVER)
        told.append((lost.value.stable_id, lost.value.context))
    named = {"backend": "kompute", "device": device.physical.name, "generation": device.generation}
    assert told == [
        (1008, named | {"message": "wait failed with VkResult -4"}),
        (1008, named | {"message": "it was lost before"}),
    ]


def test_each_device_has_a_generation_of_its_own(opened: Driver) -> None:
    with Driver() as later:
        assert later.context.device.generation > opened.context.device.generation > 0


def test_a_lost_device_takes_no_transfer(opened: Driver) -> None:
    layer: Any = opened.context.device.layer
    memory = made(opened)
    transfer = _layer.Transfer(layer, [(None, 5, memory.handle, 0, 8)])
    _layer.inject("submit", 1, -4)
    assert [transfer.submit(), transfer.submit()] == [_layer.Failure("submit", -4, 0)] * 2
    assert (transfer.is_pending, layer.counters()["work_pending"]) == (False, 0)


def test_a_transfer_can_be_submitted_again_and_not_while_it_runs(opened: Driver) -> None:
    spin = Spin(opened, 0.2)
    layer: Any = opened.context.device.layer
    memory, counter = made(opened), spin.ended.memory
    copy = _layer.Transfer(layer, [(counter.handle, 0, memory.handle, 1, 4)], (memory, counter))
    for turn in (1, 2):
        spin.bound.submit()
        assert copy.submit() is None
        with pytest.raises(RuntimeError, match="again once it has ended"):
            copy.submit()
        assert (copy.is_pending, copy.wait(0)) == (True, 2)
        assert (copy.wait(), copy.is_pending, copy.wait()) == (0, False, 0)
        found = memory.read_range(1, 4, NEVER)
        assert found.copy().view(np.uint32).tolist() == [turn * spin.groups]


def test_all_that_was_submitted_includes_transfers(opened: Driver) -> None:
    spin = Spin(opened, 0.2)
    layer: Any = opened.context.device.layer
    memory = made(opened)
    running = spin.bound.submit()
    copy = _layer.Transfer(layer, [(spin.ended.memory.handle, 0, memory.handle, 0, 4)], (memory, spin))
    copy.submit()
    assert layer.counters()["work_pending"] == 2
    assert layer.wait_for_submitted(1_000_000) == _layer.Failure("wait", 2, 0)
    assert layer.wait_for_submitted() is None
    assert (copy.wait(0), running.done()) == (0, True)


NO_TARGET, NO_SOURCE = (f"is {way} a buffer that the device does not have" for way in ("written to", "copied from"))
# With 1 and 2 for two buffers of 1,004 bytes.
REFUSED = {
    "no buffer to write": ((1, 0, 0, 0, 4), NO_TARGET),
    "an unknown buffer to write": ((1, 0, 12345, 0, 4), NO_TARGET),
    "an unknown buffer to read": ((12345, 0, 2, 0, 4), NO_SOURCE),
    "no bytes": ((1, 0, 2, 0, 0), "has 0 bytes"),
    "too long to write": ((1, 0, 2, 1, 1004), "ends past the buffer that is written"),
    "behind the end to write": ((1, 0, 2, 1005, 1), "ends past the buffer that is written"),
    "an offset that wraps": ((1, 0, 2, 2**64 - 4, 8), "ends past the buffer that is written"),
    "a length that wraps": ((1, 0, 2, 8, 2**64 - 4), "ends past the buffer that is written"),
    "too long to read": ((1, 1, 2, 0, 1004), "ends past the buffer that is copied from"),
    "onto itself": ((1, 0, 1, 3, 4), "is copied onto itself"),
    "backwards onto itself": ((1, 3, 1, 0, 4), "is copied onto itself"),
    "a fill from within a word": ((None, 0, 2, 2, 4), "is a fill that begins or ends within a 32-bit word"),
    "a fill to within a word": ((None, 0, 2, 0, 6), "is a fill that begins or ends within a 32-bit word"),
    "a fill past the end": ((None, 0, 2, 1000, 8), "ends past the buffer that is written"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_region_that_does_not_fit_is_refused(opened: Driver, what: str) -> None:
    buffers = made(opened), made(opened)
    handles: dict[Any, int] = {number: memory.handle for number, memory in enumerate(buffers, start=1)}
    (source, offset, target, *rest), said = REFUSED[what]
    right = (handles[1], 0, handles[2], 0, 4)
    layer: Any = opened.context.device.layer
    with pytest.raises(ValueError, match=rf"^region 1 {said}$"):
        _layer.Transfer(layer, [right, (handles.get(source, source), offset, handles.get(target, target), *rest)])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("region", "error"),
    [
        ((0, 0, 1, 0, 4), ValueError),
        ((-1, 0, 1, 0, 4), OverflowError),
        ((None, 2**32, 1, 0, 4), OverflowError),
        ((1, 0, 1, 2**64, 4), OverflowError),
        ((1, 0, 1, 0), ValueError),
        ((1, 0, "1", 0, 4), TypeError),
        (5, TypeError),
    ],
)
def test_what_is_no_region_is_refused(opened: Driver, region: Any, error: type[Exception]) -> None:  # noqa: ANN401 -- whatever
    layer: Any = opened.context.device.layer
    with pytest.raises(error):
        _layer.Transfer(layer, [region])


def test_a_buffer_that_is_gone_is_refused(opened: Driver) -> None:
    layer: Any = opened.context.device.layer
    kept, gone = made(opened), made(opened)
    region = (kept.handle, 0, gone.handle, 0, 4)
    del gone
    with pytest.raises(ValueError, match="is written to a buffer that the device does not have"):
        _layer.Transfer(layer, [region])
    opened.close()
    with pytest.raises(ValueError, match="is for a device that is closed"):
        _layer.Transfer(layer, [region])


def test_more_transfers_run_at_once_than_are_kept_for_the_next_ones(opened: Driver) -> None:
    layer: Any = opened.context.device.layer
    memory = made(opened)
    many = [_layer.Transfer(layer, [(None, turn, memory.handle, 4 * turn, 4)], memory) for turn in range(60)]
    assert [one.submit() for one in many] == [None] * 60
    assert [one.wait() for one in many] == [0] * 60
    assert held(memory)[:240].view(np.uint32).tolist() == list(range(60))
    del many
    nothing = _layer.Transfer(layer, [], None)
    assert [(nothing.submit(), nothing.is_pending, nothing.wait(), nothing.is_pending) for _ in range(2)] == [
        (None, True, 0, False)
    ] * 2


def test_threads_move_parts_of_buffers_of_their_own_side_by_side(place: tuple[Driver, bool, bool]) -> None:
    def move(number: int) -> bool:
        one, other = made(place[0]), made(place[0])
        given = np.full(101, number, np.uint8)
        for turn in range(50):
            one.write_range(turn, given, NEVER)
            other.copy_range(one, turn, 5, 101, NEVER)
            one.fill_range(turn, 6, bytes((turn, number, 7)), NEVER)
            if not np.array_equal(other.read_range(5, 101, NEVER), given):
                return False
        return one.read_range(49, 6, NEVER).tolist() == [49, number, 7] * 2

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(move, range(1, 9))) == [True] * 8


def test_buffers_have_handles(place: tuple[Driver, bool, bool]) -> None:
    assert made(place[0]).handle > 0
