"""What an isolated driver and its process share: memory, and messages that come whole or not at all."""

from __future__ import annotations

import gc
import os
import select
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver.errors import DispatchFailed
from vyre_driver.isolated.arena import PAGE_BYTES, Arena, MappedArena, class_of, copy_array
from vyre_driver.isolated.packets import Polling, one_thread, pair, receive, send

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.isolated.packets import End


@pytest.fixture
def arena() -> Arena:
    return Arena()


def test_an_array_is_the_same_bytes_on_both_sides(arena: Arena) -> None:
    kinds = ["?", "u1", "i8", "f2", "f8", "c16", np.dtype([("a", "u1"), ("b", "f4")]), np.dtype("V3")]
    other = MappedArena(arena.descriptor)
    for dtype in map(np.dtype, kinds):
        lease = arena.lease(12 * dtype.itemsize)
        here = lease.array((3, 4), dtype)
        here.view(np.uint8)[...] = np.arange(here.nbytes, dtype=np.uint8).reshape(here.view(np.uint8).shape)
        there = other.array((lease.offset, (3, 4), dtype))
        assert (there.dtype, there.tobytes()) == (dtype, here.tobytes())


def test_a_place_is_given_again_when_the_last_array_on_it_has_gone(arena: Arena) -> None:
    first = arena.lease(100).array((25,), np.dtype("f4"))
    place, view = arena.place_of(first), first[3:7].reshape(2, 2)
    del first
    assert arena.lease(100).offset != place
    assert (arena.place_of(view), arena.given_bytes) == (12, PAGE_BYTES)
    del view
    assert arena.given_bytes == 0
    assert arena.lease(100).offset in {place, PAGE_BYTES}


def test_no_two_arrays_that_live_share_a_byte(arena: Arena) -> None:
    """Also where threads take and give back at once."""
    failures: list[int] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        kept: list[tuple[int, np.ndarray[tuple[int, ...], np.dtype[np.uint8]]]] = []
        for turn in range(400):
            size = int(random.integers(0, 5 * PAGE_BYTES))
            array = arena.lease(size).array((size,), np.dtype("u1"))
            array[...] = value = (seed * 31 + turn) % 251
            kept.append((value, array))
            if len(kept) > 5:
                value, oldest = kept.pop(int(random.integers(0, 5)))
                failures.extend([turn] if not (oldest == value).all() else [])

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    gc.collect()
    assert (failures, arena.given_bytes) == ([], 0)


def test_a_place_is_whole_pages_and_at_most_a_quarter_longer_than_what_lies_there() -> None:
    for nbytes in [0, 1, PAGE_BYTES, PAGE_BYTES + 1, 5 * PAGE_BYTES, 33 * PAGE_BYTES, (1 << 26) + 1, 10**9]:
        size = class_of(nbytes)
        assert size % PAGE_BYTES == 0
        assert nbytes <= size <= max(PAGE_BYTES, nbytes * 1.25 + PAGE_BYTES)
        assert class_of(size) == size


def test_long_places_that_nobody_uses_give_their_pages_back(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre_driver.isolated.arena._KEPT_BYTES", 3 << 20)
    arrays = [arena.lease(2 << 20).array((2 << 20,), np.dtype("u1")) for _ in range(3)]
    for one in arrays:
        one[...] = 7
    offsets = [one.offset for one in (array.base for array in arrays) if one is not None]  # type: ignore[attr-defined] # leases
    del arrays, one
    assert arena.given_bytes == 0
    found = [int(arena.array(offset, (2 << 20,), np.dtype("u1")).max()) for offset in offsets]
    assert sorted(found) == [0, 0, 7]


def test_arrays_of_others_have_no_place(arena: Arena) -> None:
    other = Arena()
    assert arena.place_of(np.zeros(4)) is None
    assert arena.place_of(other.lease(32).array((4,), np.dtype("f8"))) is None


def test_more_than_there_is_is_refused(arena: Arena) -> None:
    with pytest.raises(DispatchFailed, match=r"bytes are not left of its \d+\)\. Fix: let go of results, or raise the limits"):
        arena.lease(arena.size + 1)
    assert arena.lease(1).nbytes == 1


@pytest.mark.parametrize("dtype", ["?", "f4", "c16", "M8[s]", [("a", "u1"), ("b", "f4")], "V3"])
def test_an_array_is_copied_whole_however_long_it_is_and_wherever_it_lies(arena: Arena, dtype: Any) -> None:  # noqa: ANN401 -- a type
    kind = np.dtype(dtype)
    for count in (1, 1000, (1 << 22) // kind.itemsize):
        source = np.arange(2 * count * kind.itemsize, dtype=np.uint32).astype(np.uint8).view(kind).reshape(2, count)
        targets = [arena.lease(source.nbytes).array((2, count), kind), np.zeros((count, 2), kind).T]
        for target in targets:
            copy_array(target, source)
            assert target.tobytes() == source.tobytes()


@pytest.mark.parametrize("length", [0, 1, 65_536, 65_537, 1_000_003])
def test_a_message_of_any_length_arrives_whole_under_its_number(length: int) -> None:
    message = os.urandom(length)
    here, there = pair()
    with here, there:
        sender = threading.Thread(target=send, args=(here, 7, message))
        sender.start()
        assert receive(there) == (7, message)
        sender.join()


def test_what_was_broken_off_is_passed_over() -> None:
    """Two parts of a message whose third never came, and an answer that nobody waits for any more."""
    here, there = pair()
    with here, there:
        for part in (b"first", b"second"):
            here.send((5).to_bytes(8, "little") + b"\1" + part)
        send(here, 6, b"late")
        send(here, 8, b"wanted")
        assert receive(there, 8) == (8, b"wanted")
        here.send((9).to_bytes(8, "little") + b"\1" + b"broken")
        send(here, 10, b"whole")
        assert receive(there) == (10, b"whole")


def test_a_closed_end_is_told() -> None:
    here, there = pair()
    with there:
        here.close()
        with pytest.raises(EOFError):
            receive(there)


@pytest.fixture
def ends() -> Iterator[tuple[End, End]]:
    here, there = pair()
    with here, there:
        yield here, there


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


class Watched:
    """A connection's polling, and by number the waits that polled."""

    def __init__(self, end: End) -> None:
        self.polling, self.polled, self._poll = Polling(end), list[int](), select.poll()
        self._poll.register(end, select.POLLIN)
        self._number = 0
        if self.polling.poll is not None:
            self.polling.poll = self._counted  # type: ignore[assignment]

    def wait(self, count: int) -> list[int]:
        """Wait so many times, and return which of these polled, from 0 on."""
        self.polled.clear()
        for self._number in range(count):
            self.polling.wait()
        return self.polled.copy()

    def _counted(self, timeout: int) -> object:
        if self.polled[-1:] != [self._number]:
            self.polled.append(self._number)
        return self._poll.poll(timeout)


@pytest.mark.usefixtures("many_cores")
def test_a_wait_ends_with_a_message_and_without_one(ends: tuple[End, End]) -> None:
    here, there = ends
    watched = Watched(here)
    assert watched.wait(1) == [0]
    there.send(b"message")
    assert watched.wait(3) == [1, 2]  # one wait was in vain
    assert here.recv(10) == b"message"


@pytest.mark.usefixtures("many_cores")
def test_waits_in_vain_grow_rare_and_those_that_pay_bring_them_back(
    ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vyre_driver.isolated.packets.LONGEST_NS", 0)
    here, there = ends
    watched = Watched(here)
    assert watched.wait(40) == [0, 2, 6, 14, 30]
    assert [after - before for before, after in pairwise(watched.wait(10_000)[-4:])] == [1024] * 3
    there.send(b"message")
    steps = [after - before for before, after in pairwise(watched.wait(4_000))]
    assert (steps[:10], set(steps[10:])) == ([512, 256, 128, 64, 32, 16, 8, 4, 2, 1], {1})


@pytest.mark.usefixtures("many_cores")
def test_one_thread_polls_at_a_time(ends: tuple[End, End]) -> None:
    watched = Watched(ends[0])
    found: list[list[int]] = []
    thread = threading.Thread(target=lambda: found.append(watched.wait(3)))
    with one_thread:  # as a thread does that polls
        thread.start()
        thread.join()
    assert (found, watched.wait(1)) == ([[]], [0])


def test_on_a_single_core_nobody_polls(ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert Watched(ends[0]).wait(2_000) == []
