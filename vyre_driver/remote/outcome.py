"""One question to a store, and what came of it: asked by one thread, answered by the background thread, waited for by any."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from vyre_driver.process.clock import SYSTEM

if TYPE_CHECKING:
    from vyre_driver.identity.keys import PipelineCacheKey
    from vyre_driver.process.clock import Clock


class Answer:
    """An outcome that one thread gives and any thread may wait for."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        """Begin without one."""
        self._clock = clock
        self._changed = clock.condition()
        self.outcome = ""
        """Empty at first."""

    def finish(self, outcome: str) -> None:
        """Give it, once, to all who wait."""
        with self._changed:
            self.outcome = outcome
            self._changed.notify_all()

    def wait(self, patience_s: float) -> str:
        """Return the outcome; empty if there is none in so many seconds."""
        now = self._clock.now
        until = now() + patience_s
        with self._changed:
            while not self.outcome and (left := until - now()) > 0:
                self._changed.wait(left)
            return self.outcome


class Fetch(Answer):
    """A key that is looked for. ``code`` is our SPIR-V of it, which an entry must have; it is let go with the answer.

    The outcome is ``hit``, ``miss``, ``elsewhere`` (another process asks), ``refused_VERDICT``, or why it was not asked.
    """

    def __init__(self, key: PipelineCacheKey, code: bytes, clock: Clock = SYSTEM) -> None:
        """Begin without an answer."""
        super().__init__(clock)
        self.key, self.code = key, code
        self.began = clock.now()
        self.signer = ""
        self.is_taken = False
        self.taking = threading.Lock()
        """Held while the entry is put into the cache, and until ``is_taken`` and ``signer`` say so."""
        self.is_given_up = False
        """Whether the waiting thread has gone on without it."""

    def finish(self, outcome: str, signer: str = "") -> None:
        """Give the outcome, and who has signed what was taken."""
        self.signer, self.code = signer, b""
        super().finish(outcome)

    def wait(self, patience_s: float) -> str:
        """Return the outcome; empty if there is none in so many seconds, and it is given up then."""
        found = super().wait(patience_s)
        self.is_given_up = not found
        return found
