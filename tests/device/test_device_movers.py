"""Long arrays that are not pinned: threads and the device move them together, in pieces, through a little pinned memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import Spin

from vyre_driver import Driver, kernels
from vyre_driver.errors import DispatchTimeout
from vyre_driver.kompute import memory as memory_module
from vyre_driver.kompute import movers as movers_module
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.device

APART = ["writable by the host", "out of the host's reach"]
COUNT = 150_000
NEVER = Deadline(None, "the device")


@pytest.fixture
def spin(place: tuple[Driver, bool, bool]) -> Spin:
    """Work that outlasts a wait of the host."""
    return Spin(place[0], 0.2)


@pytest.fixture
def short_areas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of COUNT floats are long, and travel in ten pieces, through four areas of 64 KiB."""
    monkeypatch.setattr(memory_module, "LONG_BYTES", 300_000)
    monkeypatch.setattr(movers_module, "_AREA_BYTES", 4 << 16)


def turns(driver: Driver) -> int:
    """How many pieces went through movers of the driver."""
    return sum(len(mover.times()) for mover in driver.context.device.movers._idle)  # noqa: SLF001 -- nothing else tells


@pytest.mark.usefixtures("short_areas")
@pytest.mark.parametrize("place", APART, indirect=True)
def test_long_arrays_are_moved_in_pieces(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    data = np.random.default_rng(5).random(COUNT, np.float32)
    buffer = driver.buffer(data)
    assert turns(driver) == 10
    assert (buffer.read() == data).all()
    assert turns(driver) == 20
    assert (buffer[1:].read() == data[1:]).all()
    buffer[7:9] = np.array([2, 3], "f4")
    assert buffer[6:10].read().tolist() == [data[6], 2, 3, data[9]]
    saxpy = kernels.saxpy(driver)
    y = np.ones(COUNT, np.float32)
    assert (saxpy(data, y, alpha=1.0) == data + y).all()
    assert (saxpy(y, data, alpha=1.0, out=y) is y, (y == data + 1).all()) == (True, True)
    starts = [begun <= filled <= submitted <= ended <= emptied for _, begun, filled, submitted, ended, emptied in times(driver)]
    assert starts == [True] * len(starts)


def times(driver: Driver) -> list[tuple[int, int, int, int, int, int]]:
    return [one for mover in driver.context.device.movers._idle for one in mover.times()]  # noqa: SLF001 -- nothing else tells


@pytest.mark.usefixtures("short_areas")
@pytest.mark.parametrize("place", APART, indirect=True)
def test_strict_and_split_calls_take_long_arrays(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    kernel = driver.compile(shipped_module("saxpy"))
    x, y = np.arange(COUNT, dtype=np.float32), np.ones(COUNT, np.float32)
    for how in ({"strict": True}, {"split": True}):
        assert (kernel(x, y, alpha=2.0, count=COUNT, **how) == 2 * x + 1).all()
    assert kernel.trace.stages is not None


@pytest.mark.usefixtures("short_areas")
@pytest.mark.parametrize("place", APART, indirect=True)
def test_after_a_time_out_long_copies_find_their_areas_free_again(place: tuple[Driver, bool, bool], spin: Spin) -> None:
    driver = place[0]
    data, late = np.arange(COUNT, dtype=np.float32), np.full(COUNT, 7, np.float32)
    memory, other = driver.empty(COUNT, "f4").memory, driver.empty(COUNT, "f4")
    running = spin.bound.submit()
    for _ in range(2):
        with pytest.raises(DispatchTimeout):
            memory.write_range(0, late, Deadline(0, "the device"))
        with pytest.raises(DispatchTimeout):
            memory.read_range(0, 4 * COUNT, Deadline(0, "the device"))
    other.write(data)
    memory.write_range(0, data, NEVER)
    assert (running.done(), (other.read() == data).all()) == (True, True)
    assert (memory.read_range(0, 4 * COUNT, NEVER).view(np.float32) == data).all()


@pytest.mark.usefixtures("short_areas")
@pytest.mark.parametrize("place", APART, indirect=True)
def test_eight_threads_copy_long_arrays_at_once(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    arrays = [np.full(COUNT, number, np.float32) for number in range(8)]

    def there_and_back(array: NDArray[np.float32]) -> bool:
        buffer = driver.buffer(array)
        return all((buffer.read() == array).all() for _ in range(5))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(there_and_back, arrays)) == [True] * 8


class Ended:
    """An abandoned mover whose end two threads see at the same moment."""

    def __init__(self) -> None:
        """Let them meet once."""
        self._both = Barrier(2, timeout=60)

    def settle(self, timeout_ns: int | None = None) -> int:
        self._both.wait()
        return timeout_ns or 0

    def close(self) -> None:
        pass


def test_two_threads_that_make_buffers_may_both_find_an_abandoned_mover_ended(layered: Driver) -> None:
    movers: Any = layered.context.device.movers
    mover = Ended()
    with ThreadPoolExecutor(2) as pool:
        movers._abandoned.add(mover)  # noqa: SLF001 -- as abandon()
        made = list(pool.map(lambda number: layered.empty(number, "u4").shape, [3, 4]))
    assert (made, movers._abandoned) == ([(3,), (4,)], set())  # noqa: SLF001 -- nothing else tells
