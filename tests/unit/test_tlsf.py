"""Ranges of blocks, held to a model that knows each byte, by random sequences."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import vyre_driver

if TYPE_CHECKING:
    from collections.abc import Iterator

UNIT = 256
SOURCE = Path(vyre_driver.__file__).parent / "vulkan" / "layer" / "tlsf.c"


class Chunk(ctypes.Structure):
    """As tlsf.h has it."""


Chunk._fields_ = [
    ("offset", ctypes.c_uint64),
    ("bytes", ctypes.c_uint64),
    ("block", ctypes.c_void_p),
    ("before", ctypes.POINTER(Chunk)),
    ("after", ctypes.POINTER(Chunk)),
    ("next", ctypes.POINTER(Chunk)),
    ("previous", ctypes.POINTER(Chunk)),
    ("is_free", ctypes.c_bool),
]
ONE = ctypes.POINTER(Chunk)


class Ranges(ctypes.Structure):
    """As tlsf.h has it."""

    _fields_ = (
        ("unit", ctypes.c_uint64),
        ("rows", ctypes.c_uint64),
        ("lists", ctypes.c_uint32 * 64),
        ("chunks", (ctypes.c_void_p * 32) * 64),
        ("unused", ctypes.c_void_p),
    )


@pytest.fixture(scope="module")
def tlsf(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library = tmp_path_factory.mktemp("tlsf") / "tlsf.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", str(SOURCE), "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.vyre_tlsf_add.argtypes, loaded.vyre_tlsf_add.restype = (
        [ctypes.POINTER(Ranges), ctypes.c_uint64, ctypes.c_void_p],
        ONE,
    )
    loaded.vyre_tlsf_take.argtypes, loaded.vyre_tlsf_take.restype = [ctypes.POINTER(Ranges), ctypes.c_uint64], ONE
    loaded.vyre_tlsf_give.argtypes = loaded.vyre_tlsf_remove.argtypes = [ctypes.POINTER(Ranges), ONE]
    loaded.vyre_tlsf_longest.argtypes, loaded.vyre_tlsf_longest.restype = [ctypes.POINTER(Ranges)], ctypes.c_uint64
    loaded.vyre_tlsf_close.argtypes = [ctypes.POINTER(Ranges)]
    return loaded


def rounded(byte_len: int) -> int:
    return max(1, -(-byte_len // UNIT)) * UNIT


def chunks_of(first: ctypes._Pointer[Chunk]) -> Iterator[tuple[int, int, bool]]:
    """Yield offset, length and freedom of a block's chunks, from its begin to its end."""
    at = first
    while at:
        yield at.contents.offset, at.contents.bytes, at.contents.is_free
        at = at.contents.after


def check(firsts: dict[int, ctypes._Pointer[Chunk]], lengths: dict[int, int], taken: dict[int, dict[int, int]]) -> int:
    """Check each block against what is taken of it; return the longest free piece."""
    longest = 0
    for number, first in firsts.items():
        end, was_free = 0, False
        found = {}
        for offset, byte_len, is_free in chunks_of(first):
            assert (offset, was_free and is_free) == (end, False)
            end, was_free = offset + byte_len, is_free
            longest = max(longest, byte_len if is_free else 0)
            if not is_free:
                found[offset] = byte_len
        assert (end, found) == (lengths[number], taken[number])
    return longest


@pytest.mark.parametrize("seed", range(12))
def test_ranges_do_not_overlap_and_free_neighbours_are_one(tlsf: ctypes.CDLL, seed: int) -> None:
    """Takes and gives at random, of few and of many lengths; blocks come where nothing fits, and go when they are idle."""
    chance = random.Random(seed)  # noqa: S311 -- to be repeated
    ranges = Ranges(unit=UNIT)
    firsts: dict[int, ctypes._Pointer[Chunk]] = {}
    lengths: dict[int, int] = {}
    taken: dict[int, dict[int, int]] = {}
    held: list[tuple[int, ctypes._Pointer[Chunk]]] = []
    most = chance.choice([2_000, 70_000, 3_000_000])
    for step in range(1500):
        if held and chance.random() < (0.3 if step % 400 < 200 else 0.7):
            number, chunk = held.pop(chance.randrange(len(held)))
            del taken[number][chunk.contents.offset]
            tlsf.vyre_tlsf_give(ranges, chunk)
        else:
            wanted = int(most ** chance.random())
            chunk = tlsf.vyre_tlsf_take(ranges, wanted)
            if not chunk:
                assert check(firsts, lengths, taken) < rounded(wanted)
                number = step + 1
                firsts[number] = tlsf.vyre_tlsf_add(ranges, 4 * most + step, number)
                lengths[number], taken[number] = (4 * most + step) // UNIT * UNIT, {}
                chunk = tlsf.vyre_tlsf_take(ranges, wanted)
            number = chunk.contents.block
            assert chunk.contents.bytes == rounded(wanted)
            taken[number][chunk.contents.offset] = chunk.contents.bytes
            held.append((number, chunk))
        if step % 100 == 0:
            assert check(firsts, lengths, taken) == tlsf.vyre_tlsf_longest(ranges)
            idle = [number for number, first in firsts.items() if first.contents.is_free and not first.contents.after]
            for number in idle[:1]:
                tlsf.vyre_tlsf_remove(ranges, firsts.pop(number))
    for number, first in firsts.items():
        tlsf.vyre_tlsf_remove(ranges, first)
        del taken[number]
    assert (ranges.rows, tlsf.vyre_tlsf_longest(ranges)) == (0, 0)
    tlsf.vyre_tlsf_close(ranges)


def test_less_than_a_unit_is_no_block(tlsf: ctypes.CDLL) -> None:
    ranges = Ranges(unit=UNIT)
    assert not tlsf.vyre_tlsf_add(ranges, UNIT - 1, 1)
    assert not tlsf.vyre_tlsf_take(ranges, 1)
    assert not tlsf.vyre_tlsf_take(ranges, 2**64 - 1)


def test_many_lives_leave_little_memory_unused(tlsf: ctypes.CDLL) -> None:
    """Half a hundred thousand makes and frees of buffers of up to 1 MiB, with blocks as a device gets them."""
    chance = random.Random(7)  # noqa: S311 -- to be repeated
    ranges, held, used, peak, reserved = Ranges(unit=UNIT), [], 0, 0, 0
    for _ in range(50_000):
        if len(held) > 2000:
            one = held.pop(chance.randrange(len(held)))
            used -= one.contents.bytes
            tlsf.vyre_tlsf_give(ranges, one)
        wanted = chance.randrange(1, 1 << 20)
        chunk = tlsf.vyre_tlsf_take(ranges, wanted)
        if not chunk:
            block = max(1 << 23, reserved // 16)
            reserved += block
            tlsf.vyre_tlsf_add(ranges, block, None)
            chunk = tlsf.vyre_tlsf_take(ranges, wanted)
        held.append(chunk)
        used += chunk.contents.bytes
        peak = max(peak, used)
    assert reserved < 1.15 * peak
