"""The one connection that a thread has to a store, and the deadlines that end what is late.

The time-outs of client libraries bound single reads: a server that sends a byte each tenth of a second keeps them waiting. So
each operation as a whole has a deadline, kept by a thread that ends the connection when it has passed.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from vyre_driver.process.threads import start_all
from vyre_driver.remote.store import Store, StoreFailure, Timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


_AGAIN_S = 0.02


class Watchdog:
    """Serves the one thread that asks a store. Its own thread starts with the first deadline, and sleeps between them."""

    def __init__(self) -> None:
        """Start no thread yet."""
        self._changed = threading.Condition()
        self._due: tuple[float, Callable[[], None]] | None = None
        self._looks_at: float | None = None  # when the thread looks next; None: when it is woken
        self._is_started = False
        self.is_overdue = False
        """Whether the latest operation was ended for being late."""

    @contextmanager
    def within(self, seconds: float, end: Callable[[], None]) -> Iterator[None]:
        """Call ``end`` on another thread if the block takes longer than so many seconds, and again until it has ended."""
        if not self._is_started:
            start_all([threading.Thread(target=self._watch, name="vyre_driver store deadlines", daemon=True)])
            self._is_started = True
        with self._changed:
            self.is_overdue = False
            self._due = time.monotonic() + seconds, end
            if self._looks_at is None or self._due[0] < self._looks_at:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._due = None

    def _watch(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                if self._due is not None and self._due[0] <= now:
                    # Again and again: between two questions there is no connection to end, and the next one makes another.
                    end, self.is_overdue = self._due[1], True
                    self._due = now + _AGAIN_S, end
                    end()
                self._looks_at = None if self._due is None else self._due[0]
                self._changed.wait(None if self._looks_at is None else self._looks_at - now)


_Answer = TypeVar("_Answer")
WHOLE_S = 1.0
BYTES_A_SECOND = 8 << 20


def longest_s(size: int) -> float:
    """Return how long an operation on so many bytes may take as a whole: 1 s, and 1 s more for each 8 MiB."""
    return WHOLE_S + size / BYTES_A_SECOND


class Link:
    """Used by one thread. ``open_store`` is called by it: it may have to import a client library."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        """Open nothing yet."""
        self._open_store = open_store
        self._store: Store | None = None
        self._watchdog = Watchdog()

    def open(self) -> None:
        """Have what reaches the store; nothing is connected to yet. Raises what ``open_store`` does."""
        if self._store is None:
            self._store = self._open_store()

    def do(self, what: Callable[[Store], _Answer], size: int = 0) -> _Answer:
        """Return what an operation on at most so many bytes gives.

        Raises
        ------
        StoreFailure
            If it fails; ``timed_out`` too where it was late as a whole.
        """
        self.open()
        store = self._store
        assert store is not None  # noqa: S101 -- it was opened
        try:
            with self._watchdog.within(longest_s(size), store.close):
                return what(store)
        except StoreFailure as error:
            if self._watchdog.is_overdue:
                raise StoreFailure("late", f"no whole answer in {longest_s(size):g} s") from error
            raise

    def close(self) -> None:
        """End the connection; the next operation makes a new one."""
        if self._store is not None:
            self._store.close()


MOST_NAMES = 1 << 20
_ALL_NAMES_S = 900
_NEXT_NAME_S = 30  # a server looks through what all its users have for the next of ours


class TimelyStore:
    """The operations of another store, each ended by its deadline (link.py): see ``Store``. Used by one thread."""

    def __init__(self, store: Store) -> None:
        """Ask nothing yet."""
        self.address = store.address
        self._link = Link(lambda: store)

    def fetch(self, names: Sequence[str], limit: int) -> list[bytes | None]:
        """Return the values."""
        return self._link.do(lambda store: store.fetch(names, limit), len(names) * (limit + 1))

    def put_new(self, name: str, data: bytes, keep_s: int) -> bool:
        """Store a value unless the name is taken."""
        return self._link.do(lambda store: store.put_new(name, data, keep_s), len(data))

    def claim(self, name: str, owner: bytes, for_s: float) -> bool:
        """Take a name for a while."""
        return self._link.do(lambda store: store.claim(name, owner, for_s))

    def fields(self, name: str, limit: int) -> dict[str, bytes]:
        """Return the fields below a name."""
        return self._link.do(lambda store: store.fields(name, limit), 2 * BYTES_A_SECOND)

    def put_field(self, name: str, field: str, data: bytes, keep_s: int) -> None:
        """Store a field below a name."""
        self._link.do(lambda store: store.put_field(name, field, data, keep_s), len(data))

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names.

        Raises
        ------
        StoreFailure
            ``late``, if the next name takes the store more than 30 s, or all of them more than 15 minutes, not counting what
            is done with them; ``other``, behind 1,048,576 names.
        """
        listed = self._link.do(lambda store: store.names(prefix))
        following = partial(next, listed, None)
        left_s: float = _ALL_NAMES_S
        for _ in range(MOST_NAMES):
            began_s = time.monotonic()
            name = self._link.do(lambda _store: following(), int(min(_NEXT_NAME_S, left_s) * BYTES_A_SECOND))
            left_s -= time.monotonic() - began_s
            if left_s <= 0:
                raise StoreFailure("late", f"{self.address} did not end its list in {_ALL_NAMES_S} s")
            if name is None:
                return
            yield name
        raise StoreFailure(
            "other", f"{self.address} has over {MOST_NAMES} names that begin with {prefix}, and no more are read"
        )

    def touch(self, names: Sequence[str], keep_s: int) -> None:
        """Say that these were used."""
        self._link.do(lambda store: store.touch(names, keep_s))

    def ping(self) -> None:
        """Return when the store has answered."""
        self._link.do(lambda store: store.ping())

    def time_s(self) -> float:
        """Return the store's time: see ``Timed``; raises StoreFailure where it has none."""

        def time_of(store: Store) -> float:
            if not isinstance(store, Timed):
                raise StoreFailure("other", f"{self.address} has no clock")
            return store.time_s()

        return self._link.do(time_of)

    def close(self) -> None:
        """End the connection."""
        self._link.close()
