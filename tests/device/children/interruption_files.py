"""Scenes of what is kept in files and tables: flights, markers, entries in memory, tuned kernels."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from interruption_world import Stage, World, check

from vyre_driver.autotune import AutotuneKey, AutotuneRecord, AutotuneStore
from vyre_driver.autotune.store import store as autotune_file
from vyre_driver.cache import DiskPipelineCache, PipelineEntry
from vyre_driver.cache.disk import MAX_MEMORY_BYTES, MemoryEntries
from vyre_driver.cache.flight import FlightLock, SingleFlight
from vyre_driver.cache.marker import MARKS, CrashMarkers
from vyre_driver.identity import PipelineCacheKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY = PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), 0, "", b"manifest", b"\xab" * 32)
DEVICE = b"\x01" * 32
BLOB = b"what the driver compiled"
LONG = 1_000_000  # bytes of SPIR-V that are waited for long
BIG = PipelineEntry(b"manifest", bytes(MAX_MEMORY_BYTES // 2), b"")
SMALL = PipelineEntry(b"manifest", b"code", b"")
WAITS_S = 10.0  # for who was interrupted as he locked: his lock goes a moment later
TUNED = AutotuneRecord((64, 1, 1), 4, (0, 0, 0), "2026-11-21", "", 0)


def elsewhere(call: Callable[[], object]) -> object:
    """Return what another thread gets from a call, which must not wait."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def has_at_once(cache: DiskPipelineCache, which: str) -> bool:
    """Whether who comes next has a flight's lock, among the threads and, by its file, among processes."""
    lock = FlightLock(cache, KEY, which)
    is_taken = lock.take()
    lock.release()
    return is_taken


def flown(world: World) -> Iterator[Stage]:
    """Compile what nobody else compiles just now, with a cache on disk and with one in memory."""
    caches = DiskPipelineCache(world.new_folder()), DiskPipelineCache(None)
    flights = [SingleFlight(cache, DEVICE) for cache in caches]

    def act() -> None:
        for one, cache in zip(flights, caches, strict=True):
            with one.acquire(KEY, LONG, lambda: None) as found:
                check(found is None)
                check(not has_at_once(cache, "first"), "two have one flight")

    def next_one() -> None:
        for cache in caches:
            check(elsewhere(lambda cache=cache: has_at_once(cache, "first")), "a flight stays taken")

    yield Stage(world.driver, act, next_one)


def flown_behind(world: World) -> Iterator[Stage]:
    """Wait for what another compiles, and compile it as well where that takes too long."""
    cache = DiskPipelineCache(world.new_folder())
    flights = SingleFlight(cache, DEVICE)
    other = FlightLock(cache, KEY, "first")
    check(other.take())

    def act() -> None:
        with flights.acquire(KEY, LONG, lambda: BLOB) as found:
            check(found == BLOB)
        with flights.acquire(KEY, 0, lambda: None) as found:
            check(found is None)
            check(not has_at_once(cache, "second"), "two have one flight")

    def next_one() -> None:
        free = [elsewhere(lambda which=which: has_at_once(cache, which)) for which in ("first", "second")]
        check(free == [False, True], f"the other's flight and the second one are free: {free}")

    yield Stage(world.driver, act, next_one)
    other.release()


def marked(world: World) -> Iterator[Stage]:
    """Give the driver a blob of somebody else's for the first time on this machine."""
    cache = DiskPipelineCache(world.new_folder())
    cache.put(KEY, SMALL)

    def forget() -> None:
        for path in (world.folder / f"cold {world.roots}" / MARKS).glob("*.good"):
            path.unlink()

    def act() -> None:
        forget()
        with CrashMarkers(cache).first_use(KEY, BLOB) as refused:
            check(refused == "", refused)
            check(CrashMarkers(cache).sweep() == {}, "the marker is not held")

    def next_one() -> None:
        check(CrashMarkers(cache).sweep() == {}, "nobody has died")

    yield Stage(world.driver, act, next_one)


def remembered(world: World) -> Iterator[Stage]:
    """Keep entries in memory, replace them, and let old ones go for new ones."""
    entries = MemoryEntries()

    def act() -> None:
        entries.put(b"big", BIG)
        entries.put(b"small", SMALL)
        entries.put(b"small", SMALL)
        check(entries.get(b"small") is SMALL)
        entries.put(b"also big", BIG)
        check(entries.get(b"big") is None)
        entries.drop(b"small")
        entries.clear()

    def counted() -> None:
        kept = sum(one.byte_len for one in entries._entries.values())  # noqa: SLF001
        check(entries._bytes == kept, f"{entries._bytes} bytes are counted of {kept}")  # noqa: SLF001

    yield Stage(world.driver, act, counted)


def saved(world: World) -> Iterator[Stage]:
    """Save what was tuned to a file that has something already, and read it."""
    path = world.new_folder() / "autotune.toml"
    mine, theirs = AutotuneKey("11" * 16, "gpu"), AutotuneKey("22" * 16, "gpu")
    others = AutotuneStore()
    others.put(theirs, TUNED)
    others.save_if_dirty(path)

    def act() -> None:
        store = AutotuneStore()
        store.put(mine, TUNED)
        store.save_if_dirty(path)
        check(AutotuneStore.load(path).records() == {(mine, ""): TUNED, (theirs, ""): TUNED})

    def next_one() -> None:
        with autotune_file.locked(path, WAITS_S):
            check(AutotuneStore.load(path).get(theirs) == TUNED)

    yield Stage(world.driver, act, next_one)


FILE_SCENES = (flown, flown_behind, marked, remembered, saved)
