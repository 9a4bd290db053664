"""When a store is left alone: after what failure, for how long, and for all processes of the machine.

The state that processes share is one file in the cache's root, ``remote/<16 hex of the store>.open``. Its time is until when
the store is left alone, its text how often in a row and why. The clocks are the system's: a time further ahead than the longest
period was not written by this clock, and counts as past.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.cache.files import OPEN_TO_READ, publish
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.cache.disk import DiskPipelineCache

_LOG = logging.getLogger("vyre_driver.remote")
FOLDER = "remote"
FIRST_S, LONGEST_S, SPREAD = 5.0, 300.0, 0.2
MOST_FAULTS, FAULTS_WITHIN_S = 3, 60.0
MOST_REFUSED = 8
_TRIAL_S = 2.0  # for which the others wait for what one of them finds out
_AT_ONCE = frozenset({"refused", "tls", "timed_out"})
_FIXES = {
    "denied": "check the user and password of VYRE_CACHE_REMOTE_SECRET_FILE, and what that user may do",
    "poisoned": "find out who writes there: VYRE_CACHE_TRUST_FILE names whose entries are taken",
}


class Breaker:
    """Whether a store may be asked. ``name`` is 16 hex digits of its address; ``clock`` gives seconds since 1970.

    ``spread`` gives a number from -1 to 1, so that machines that lost a store together do not come back together.
    """

    def __init__(
        self,
        cache: DiskPipelineCache,
        name: str,
        clock: Callable[[], float] = time.time,
        spread: Callable[[], float] = lambda: random.uniform(-1, 1),  # noqa: S311 -- no secret
    ) -> None:
        """Begin closed; the file is read when a store is to be asked."""
        self._cache, self._file = cache, f"{name}.open"
        self._clock, self._spread = clock, spread
        self._until = 0.0
        self._times = 0  # that it was opened in a row
        self._faults: deque[float] = deque(maxlen=MOST_FAULTS)
        self._refused = 0
        self._warned: set[str] = set()
        self.reason = ""
        """What it is, or was last, open for."""

    def is_open(self) -> bool:
        """Whether the store is to be left alone; reads the machine's file where this process knows of nothing."""
        now = self._clock()
        if now < self._until <= now + LONGEST_S * (1 + SPREAD):
            return True
        self._until, self._times, self.reason = self._read(now)
        return now < self._until

    def begin_trial(self) -> bool:
        """Whether a ``ping`` has to come before all else; if so, the other processes of the machine wait for its result."""
        if not self._times:
            return False
        self._write(self._clock() + _TRIAL_S)
        return True

    def failed(self, kind: str) -> bool:
        """Count a failure; returns whether it opened. ``denied`` opens for 300 s, ``full`` and what is unknown never."""
        if kind == "denied":
            self._open(kind, LONGEST_S)
        elif kind in _AT_ONCE or self._times:
            self._open(kind, min(LONGEST_S, FIRST_S * 2 ** min(self._times, 10)))
        elif kind != "full":
            now = self._clock()
            self._faults.append(now)
            if len(self._faults) < MOST_FAULTS or not 0 <= now - self._faults[0] <= FAULTS_WITHIN_S:
                return False
            self._faults.clear()
            self._open(kind, FIRST_S)
        else:
            return False
        return True

    def answered(self) -> None:
        """Close it: the store has answered."""
        if self._times:
            self._until, self._times, self.reason = 0.0, 0, ""
            directory = None if self._cache.readonly else self._cache.own_directory(FOLDER, create=False)
            if directory is not None:
                try:
                    (directory / self._file).unlink(missing_ok=True)
                except OSError as error:
                    self._cache.note("remote_state", error)

    def judged(self, *, is_refused: bool) -> bool:
        """Count an entry that was taken or refused; returns whether that opened it, for 300 s after eight refused in a row."""
        self._refused = self._refused + 1 if is_refused else 0
        if self._refused < MOST_REFUSED:
            return False
        self._refused = 0
        self._open("poisoned", LONGEST_S)
        return True

    def _open(self, kind: str, period_s: float) -> None:
        self._times += 1
        self.reason = kind
        self._until = self._clock() + period_s * (1 + SPREAD * self._spread())
        self._write(self._until)
        self._cache.note("remote_open")
        if kind not in self._warned:
            self._warned.add(kind)
            fix = _FIXES.get(kind, "check that VYRE_CACHE_REMOTE names it rightly and that it can be reached")
            _LOG.warning("the shared cache is left alone for %.0f s: %s. Fix: %s.", period_s, kind.replace("_", " "), fix)

    def _read(self, now: float) -> tuple[float, int, str]:
        """Return until when it is open, how often it was opened in a row, and why; 0, 0 and nothing where no file says so."""
        directory = self._cache.own_directory(FOLDER, create=False)
        if directory is None:
            return self._until, self._times, self.reason
        try:
            with Opened(directory / self._file, OPEN_TO_READ) as descriptor:
                until = os.fstat(descriptor).st_mtime
                times, _, reason = os.read(descriptor, 64).decode("ascii", "replace").partition(" ")
        except FileNotFoundError:
            return 0.0, 0, ""
        except OSError as error:
            self._cache.note("remote_state", error)
            return self._until, self._times, self.reason
        is_ours = until <= now + LONGEST_S * (1 + SPREAD)
        return until if is_ours else 0.0, int(times) if times.isdigit() else 1, reason

    def _write(self, until: float) -> None:
        """Tell the other processes; where that cannot be, each finds out for itself."""
        directory = self._cache.own_directory(FOLDER)
        if directory is None:
            return
        try:
            publish(str(directory), self._file, f"{self._times} {self.reason}".encode("ascii"), self._cache.file_mode)
            os.utime(Path(directory) / self._file, (until, until), follow_symlinks=False)
        except OSError as error:
            self._cache.note("remote_state", error)
