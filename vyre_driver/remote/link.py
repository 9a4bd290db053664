"""The one connection that this process has to a store: opened when it is needed, given back when it is not, never late."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from vyre_driver.remote.store import StoreFailure
from vyre_driver.remote.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.remote.store import Store

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
