"""Names that a store was asked for and did not have, remembered for half a minute in this process.

Never on disk: what was not there an hour ago may have been put since, and nothing would tell.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

KEPT_S = 30.0
MOST_NAMES = 4096


class AbsentNames:
    """At most 4,096 names, each for 30 s; the oldest give way. ``clock`` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Know of nothing."""
        self._clock = clock
        self._since: dict[str, float] = {}
        self._changing = threading.Lock()  # the thread that asks adds, others drop

    def __contains__(self, name: str) -> bool:
        """Whether it was found absent in the last half minute."""
        since = self._since.get(name)
        return since is not None and self._clock() - since < KEPT_S

    def add(self, name: str) -> None:
        """Remember that it was absent just now."""
        with self._changing:
            self._since.pop(name, None)
            self._since[name] = self._clock()
            if len(self._since) > MOST_NAMES:
                self._since.pop(next(iter(self._since)))

    def drop(self, name: str) -> None:
        """Forget it: it was put."""
        with self._changing:
            self._since.pop(name, None)
