"""A store for somebody who waits for it, such as a command: no operation takes for ever, and no list is without an end."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from vyre_driver.remote.link import BYTES_A_SECOND, Link
from vyre_driver.remote.store import StoreFailure, Timed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vyre_driver.remote.store import Store

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
