"""Questions to a store, as the tests ask them."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from vyre_driver.cache import DiskPipelineCache
from vyre_driver.remote import worker
from vyre_driver.remote.addresses import open_store
from vyre_driver.remote.breaker import Breaker
from vyre_driver.remote.envelope import put_absent
from vyre_driver.remote.worker import StoreWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vyre_driver.remote.store import Store

WAITS_S = 20.0


class Asked(worker.Question):
    """One question, with the values that came, or why none did."""

    def __init__(self, *names: str, is_refused: bool | None = None) -> None:
        self.names = names
        self.is_refused = is_refused
        self.values: Sequence[bytes | None] = ()
        self.outcome = ""
        self._ended = threading.Event()

    def ask(self, store: Store) -> Sequence[bytes | None]:
        return store.fetch(self.names, worker.MAX_VALUE_BYTES)

    def answered(self, values: Sequence[bytes | None]) -> bool | None:
        self.values, self.outcome = values, "answered"
        self._ended.set()
        return self.is_refused

    def failed(self, outcome: str) -> None:
        self.outcome = outcome
        self._ended.set()

    def end(self) -> str:
        """Wait for the end, and return what became of it."""
        assert self._ended.wait(WAITS_S)
        return self.outcome


def worker_of(url: str, root: Path | None, timeout_s: float = 10.0, **options: object) -> StoreWorker:
    """Return a worker for a store, patient as a busy machine needs it, with a breaker whose periods are not spread."""
    breaker = Breaker(DiskPipelineCache(root), "0123456789abcdef", spread=lambda: 0.0)
    return StoreWorker(lambda: open_store(url, timeout_s=timeout_s, **options), breaker, address=url, may_write=True)  # type: ignore[arg-type]


def ask(one: StoreWorker, *names: str, is_refused: bool | None = None) -> Asked:
    """Ask, and return when there is an answer."""
    asked = Asked(*names, is_refused=is_refused)
    assert one.ask(asked)
    asked.end()
    return asked


def send(one: StoreWorker, name: str, data: bytes, note: Callable[[str], None]) -> bool:
    """Have a value sent; returns whether there was room."""
    return one.uploads.add(partial(put_absent, name, data), len(data), note)
