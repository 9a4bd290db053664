"""The memory that an isolated driver shares with its process: places are leased, come back, and differ."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from vyre_driver.errors import DispatchFailed
from vyre_driver.isolated.arena import PAGE_BYTES, Arena, MappedArena, class_of, copy_array


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
