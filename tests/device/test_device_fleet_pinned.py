"""Memory for blocks: pinned, and used again once nothing refers to a block any more."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import imported

from vyre_driver.kompute.pinned import part_of_pinned, pinned_pages

imported("distributed")
from vyre_driver.distributed import FleetPool, empty_pinned, from_npy  # noqa: E402 -- an extra
from vyre_driver.distributed import worker as worker_module  # noqa: E402
from vyre_driver.distributed.worker import PinnedBlocks  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from vyre_driver import Driver

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("ended_tracker")]
MIB = 1 << 20


def address(array: Any) -> int:  # noqa: ANN401 -- an array
    return int(array.ctypes.data)


def is_pinned(driver: Driver, array: Any) -> bool:  # noqa: ANN401 -- an array
    return part_of_pinned(driver.context.device, array) is not None


def two_after_each_other(driver: Driver) -> tuple[bool, bool]:
    """Work that makes a block, lets go of it, and makes another, until nothing else has taken the memory between."""
    for _ in range(10):
        first = empty_pinned((256, 1024), "f4")
        where = address(first)
        del first
        second = empty_pinned((1024, 128), "f8")
        if address(second) == where:
            break
    return is_pinned(driver, second), address(second) == where


def test_memory_of_a_block_is_used_again_when_its_last_view_has_gone(layered: Driver) -> None:
    blocks = PinnedBlocks(layered.context.device)
    first = blocks.empty((1024, 1024), np.float32)
    where, view = address(first), first[10:20].view(np.uint32)
    assert (is_pinned(layered, first), first.shape, first.dtype) == (True, (1024, 1024), np.dtype("f4"))
    del first
    second = blocks.empty((1024, 1024), np.float32)
    assert address(second) != where  # a view still lies in the first one's memory
    del view
    shorter = blocks.empty((1024, 512), np.float32)
    third = blocks.empty(2 * MIB, np.uint16)
    assert (address(third), address(shorter) != where) == (where, True)
    buffer = layered.buffer(np.full_like(third, 7))
    assert buffer.read(out=third).sum() == 7 * third.size


def test_no_more_than_four_blocks_are_kept_for_others(layered: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[int] = []

    def counted(device: Any, byte_len: int) -> Any:  # noqa: ANN401 -- as pinned_pages
        pinned.append(byte_len)
        return pinned_pages(device, byte_len)

    monkeypatch.setattr(worker_module, "pinned_pages", counted)
    blocks = PinnedBlocks(layered.context.device)
    made = [blocks.empty(MIB, np.uint8) for _ in range(6)]
    assert pinned == [MIB] * 6
    made.clear()
    made = [blocks.empty(MIB, np.uint8) for _ in range(6)]
    assert pinned == [MIB] * 8


def test_what_is_short_or_of_objects_or_far_from_a_driver_is_plain_memory(layered: Driver) -> None:
    blocks = PinnedBlocks(layered.context.device)
    found = [blocks.empty(MIB - 1, np.uint8), blocks.empty((2, MIB), object), empty_pinned((2, MIB), ">i2")]
    assert [(is_pinned(layered, one), one.nbytes) for one in found] == [
        (False, MIB - 1),
        (False, 16 * MIB),
        (False, 4 * MIB),
    ]


def test_a_type_that_is_an_array_gives_what_numpy_gives(layered: Driver) -> None:
    pairs = np.dtype((np.float32, (2,)))
    found, wanted = PinnedBlocks(layered.context.device).empty(MIB, pairs), np.empty(MIB, pairs)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)


def test_threads_never_get_the_same_memory(layered: Driver) -> None:
    blocks, wrong = PinnedBlocks(layered.context.device), []

    def work(number: int) -> None:
        for _ in range(200):
            one = blocks.empty(MIB, np.uint8)
            one[::4096] = number
            if (one[::4096] != number).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []


def test_blocks_that_workers_make_and_read_lie_in_pinned_memory(pool: FleetPool, tmp_path: Path) -> None:
    assert pool.submit(two_after_each_other).result() == (True, True)
    x = np.random.default_rng(5).random((700, 900)).astype(">f8")
    np.save(tmp_path / "x.npy", x)
    found = pool.client.compute(from_npy(tmp_path / "x.npy", chunks=(300, 900))).result()
    assert (found.dtype, found.tobytes()) == (x.dtype, x.tobytes())
