"""Compiled once a fleet: what a worker takes of those that called a kernel before it, and gives to those that come after it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from distributed.utils import sync

from vyre_driver.cache.bundle import export_bundle, import_bundle
from vyre_driver.distributed.scheduling import CALLERS
from vyre_driver.errors import VyreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from distributed import Worker

    from vyre_driver.driver import Driver

ENTRIES = "vyre_entries"
_PATIENCE_S = 60.0
_CONNECTS_WITHIN_S = 2.0
_LOOKS_EVERY_S = 0.02


class CompiledEntries:
    """The entries of a worker's cache, as far as others of the fleet want them, and what was taken of others.

    The scheduler keeps the order in which workers came to call a kernel; a worker asks only those before it, so that no two
    wait for each other.
    """

    def __init__(self, worker: Worker, driver: Driver, keys_of: Callable[[str], frozenset[str]]) -> None:
        """Answer others from now on; ``keys_of`` gives the keys of a kernel's pipelines in hex, none where it is not loaded."""
        self._worker, self._driver, self._keys_of = worker, driver, keys_of
        self._changing = threading.Lock()
        self._under_way: Counter[str] = Counter()
        self._ended: set[str] = set()
        self._asked: set[tuple[str, bool]] = set()
        worker.handlers[ENTRIES] = self._answer

    @contextlib.contextmanager
    def first_call(self, digest: str) -> Iterator[None]:
        """Have others wait, within, for the end of a kernel's first call here."""
        with self._changing:
            self._under_way[digest] += 1
        try:
            yield
        finally:
            with self._changing:
                self._under_way[digest] -= 1
                self._ended.add(digest)

    def take(self, digest: str, *, is_called: bool) -> None:
        """Put what others have compiled of a kernel into the cache, once before it is loaded, and once before it is called.

        Without an answer it is compiled here.
        """
        root = self._driver.cache.root
        if (digest, is_called) in self._asked or root is None:
            return
        self._asked.add((digest, is_called))
        place = f"{self._worker.address.rpartition(':')[0]} {root}"
        with contextlib.suppress(OSError, TimeoutError, asyncio.TimeoutError, VyreError):  # two classes before Python 3.11
            for data in sync(self._worker.loop, self._of_others, digest, place, is_called, callback_timeout=_PATIENCE_S):
                key = self._driver.cache.hmac_key
                import_bundle(self._driver.cache, io.BytesIO(data), trust=key is None)

    async def _of_others(self, digest: str, place: str, is_called: bool) -> list[bytes]:  # noqa: FBT001 -- by ``sync``
        """Return a bundle of the first that answers with one, in a list."""
        ask = getattr(self._worker.scheduler, CALLERS)
        with contextlib.suppress(OSError, ValueError):  # of a scheduler that no FleetPool has prepared
            addresses, waits = await ask(digest=digest, worker=self._worker.address, place=place, is_called=is_called)
            for address in addresses:
                with contextlib.suppress(OSError, TimeoutError, asyncio.TimeoutError):
                    data = await self._ask(address, digest, waits=waits)
                    if data:
                        return [data]
        return []

    async def _ask(self, address: str, digest: str, *, waits: bool) -> bytes | None:
        connections = self._worker.rpc
        comm = await asyncio.wait_for(connections.connect(address), _CONNECTS_WITHIN_S)  # Dask's own tries for 30 s
        connections.reuse(address, comm)
        found: bytes | None = await connections(address).vyre_entries(digest=digest, waits=waits)
        return found

    async def _answer(self, digest: str, *, waits: bool) -> bytes | None:
        """Answer another worker with a bundle of a kernel's entries; ``waits``: at the end of its first call here."""
        ends = time.monotonic() + (_PATIENCE_S - 1 if waits else 0)
        while self._under_way[digest] and digest not in self._ended and time.monotonic() < ends:  # noqa: ASYNC110 -- of threads
            await asyncio.sleep(_LOOKS_EVERY_S)
        keys = self._keys_of(digest)
        return await asyncio.to_thread(self._bundle, keys) if keys else None

    def _bundle(self, keys: frozenset[str]) -> bytes:
        target: Any = io.BytesIO()
        export_bundle(self._driver.cache, target, keys)
        return bytes(target.getvalue())
