"""What the workers of a fleet give each other: compiled code, and tuning records.

Compiled once a fleet: a worker takes what those have that called a kernel before it, and gives it to those that come after it.
Tuning records are short, and lie with the scheduler. What comes from there is kept beside a worker's own records, never among
them (``autotune.taken.toml``), and can cost speed at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
import time
from collections import Counter
from concurrent.futures import TimeoutError as WaitTimeoutError
from typing import TYPE_CHECKING, Any

from distributed.utils import sync

from vyre_driver.autotune.store.records import PATIENCE_S, TuningRecords
from vyre_driver.autotune.store.text import AutotuneText, format_text, parse
from vyre_driver.cache.bundle import export_bundle, import_bundle
from vyre_driver.distributed.scheduling import CALLERS, MEASURED, RECORDS
from vyre_driver.errors import VyreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from distributed import Worker

    from vyre_driver.autotune.store.record import AutotuneKey, AutotuneRecord
    from vyre_driver.driver import Driver

    Take = Callable[[AutotuneKey, AutotuneRecord], bool]

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


_ASKS_EVERY_S = 1.0


class FleetRecords:
    """What a worker's ``TuningRecords`` asks and tells, beside the store that machines share. Safe for threads."""

    def __init__(self, worker: Worker) -> None:
        """Ask nothing yet."""
        self._worker = worker
        self._asked: dict[AutotuneKey, float] = {}

    def ask(self, key: AutotuneKey, take: Take, patience_s: float) -> None:
        """Have the fleet's records of a kernel given to ``take``, unless that was within the last second."""
        now = time.monotonic()
        if now - self._asked.get(key, -_ASKS_EVERY_S) < _ASKS_EVERY_S:
            return
        self._asked[key] = now
        answer = asyncio.run_coroutine_threadsafe(self._ask(key, take), self._worker.loop.asyncio_loop)
        if patience_s > 0:
            with contextlib.suppress(WaitTimeoutError, OSError, ValueError):
                answer.result(patience_s)

    def tell(self, key: AutotuneKey, record: AutotuneRecord) -> None:
        """Give the fleet a record that was measured here."""
        if record.identity:
            text = format_text(AutotuneText({(key, record.identity): record}))
            message = {"op": MEASURED, "name": list(_name(key)), "identity": record.identity, "text": text}
            self._worker.loop.add_callback(self._worker.batched_send, message)

    def exchange(self, key: AutotuneKey, records: TuningRecords) -> None:
        """Give the fleet what was measured here of a kernel before, and take what the fleet knows, before its first call."""
        for record in records.own(key):
            self.tell(key, record)
        self.ask(key, records.take, PATIENCE_S)

    async def _ask(self, key: AutotuneKey, take: Take) -> None:
        found: list[str] = await getattr(self._worker.scheduler, RECORDS)(name=list(_name(key)))
        for text in found:
            for (other, _), record in parse(text).records.items():
                if other == key:
                    await asyncio.to_thread(take, key, record)


def _name(key: AutotuneKey) -> tuple[str, str]:
    return key.key_hex, key.adapter_id
