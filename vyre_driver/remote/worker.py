"""The background thread that speaks to one store for this process: nothing that a caller does waits for the network here.

It is a daemon: a process that ends waits for what it still has to send, for 1 s at most, and for nothing else. A forked child
has neither thread nor connection, and makes its own when it first asks.
"""

from __future__ import annotations

import atexit
import logging
import os
import random
import threading
import time
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeVar

from vyre_driver.process.clock import SYSTEM, Clock
from vyre_driver.process.threads import start_all
from vyre_driver.remote.envelope import KEEP_S, MAX_VALUE_BYTES
from vyre_driver.remote.link import Link
from vyre_driver.remote.store import Store, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.remote.breaker import Breaker


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


KEPT_S = 30.0
MOST_ABSENT = 4096


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
            if len(self._since) > MOST_ABSENT:
                self._since.pop(next(iter(self._since)))

    def drop(self, name: str) -> None:
        """Forget it: it was put."""
        with self._changing:
            self._since.pop(name, None)


MOST_ENTRIES, MOST_BYTES = 32, 64 << 20
MOST_NAMES = 256
SPREAD_S = 2.0  # machines that have compiled the same at the same moment come one after the other
REST_S = 300.0  # after the store was full


@dataclass(frozen=True, slots=True)
class Upload:
    """``send`` gives a store what waits and returns whether it had not been there; ``note`` counts what becomes of it."""

    send: Callable[[Store], bool] = field(compare=False)
    byte_len: int
    note: Callable[[str], None] = field(compare=False)
    due: float = 0.0


class Uploads:
    """At most 32 values or 64 MiB, and 256 names. Added to by any thread, taken from by one; each step is one of a list."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, spread: Callable[[], float] = random.random) -> None:
        """Have nothing to send."""
        self._clock, self._spread = clock, spread
        self._waiting: list[Upload] = []
        self._names: dict[str, None] = {}
        self._rests_until = 0.0
        self.is_hurried = False
        """Whether what is not due is sent all the same: the process ends."""

    def add(self, send: Callable[[Store], bool], byte_len: int, note: Callable[[str], None], *, at_once: bool = False) -> bool:
        """Have so many bytes sent within the next 2 s, or ``at_once``; returns whether there was room."""
        waiting = self._waiting
        if len(waiting) >= MOST_ENTRIES or sum(one.byte_len for one in list(waiting)) + byte_len > MOST_BYTES:
            return False
        waiting.append(Upload(send, byte_len, note, self._clock() + (0.0 if at_once else SPREAD_S * self._spread())))
        return True

    def touch(self, name: str) -> None:
        """Have a name's use told with the next 256; more are forgotten."""
        if len(self._names) < MOST_NAMES:
            self._names[name] = None

    def next_due(self) -> float | None:
        """Return in how many seconds something is due; None when nothing waits."""
        waiting = list(self._waiting)
        if not waiting:
            return None
        now = self._clock()
        soonest = min(one.due for one in waiting)
        return 0.0 if self.is_hurried else max(0.0, max(soonest, self._rests_until) - now)

    def take(self) -> Upload | None:
        """Return a value that is due, which no longer waits."""
        if self.next_due() != 0.0:
            return None
        soonest = min(list(self._waiting), key=lambda one: one.due)
        self._waiting.remove(soonest)
        return soonest

    def put_back(self, upload: Upload, after_s: float) -> None:
        """Have a value wait on that could not be sent now."""
        self._waiting.append(replace(upload, due=self._clock() + after_s))

    def rest(self) -> None:
        """Send nothing for five minutes: the store is full."""
        self._rests_until = self._clock() + REST_S

    def take_names(self) -> list[str]:
        """Return the names that were used, which are forgotten."""
        names, self._names = self._names, {}
        return list(names)


_LOG = logging.getLogger("vyre_driver.remote")
_Answer = TypeVar("_Answer")
MOST_FETCHES = 64
MOST_AT_ONCE = 8  # in one round trip, which costs a server as much as what it reads of ten short entries
IDLE_S = 10.0
LEAVING_S = 1.0
_AGAIN_S = 5.0  # when what could not be sent is tried again
_workers: list[StoreWorker] = []


class Question(Protocol):
    """What somebody wants of a store, and what is to happen with the answer, on the background thread.

    A context manager within which it is asked; it gives whether it has to be.
    """

    names: Sequence[str] = ()
    """What ``ask`` fetches, where that may be fetched together with what others want; empty where it may not."""

    def __enter__(self) -> bool:
        """Begin; returns whether it is still to be asked."""
        return True

    def __exit__(self, *raised: object) -> None:
        """End."""
        del raised

    def ask(self, store: Store) -> Sequence[bytes | None]:
        """Return the values, at most ``MAX_VALUE_BYTES`` and a byte of each."""

    def answered(self, values: Sequence[bytes | None]) -> bool | None:
        """Use the values; returns whether they were refused, None where there were none to judge."""

    def failed(self, outcome: str) -> None:
        """Go on without: ``open``, ``no_answer`` or ``failed``."""


class StoreWorker:
    """One store, its breaker, and what is to be asked of it. All but what begins with ``_`` may be called by any thread."""

    def __init__(
        self, open_store: Callable[[], Store], breaker: Breaker, *, address: str, may_write: bool, clock: Clock = SYSTEM
    ) -> None:
        """Start no thread yet; ``open_store`` is called by it, and raises a VyreError where this process can never ask.

        ``address`` is what the store is called in messages, without secrets; all who ask wait by ``clock``.
        """
        self.clock = clock
        self._open_store, self.breaker, self.address = open_store, breaker, address
        self.may_write = may_write
        self.bytes_read = self.bytes_written = 0
        self.spent_s = 0.0
        self.is_unusable = False
        self.problem = ""  # why it is unusable
        """Whether this process cannot ask the store whatever its state, for want of a package or a valid setting."""
        self.begin()
        if not _workers:
            atexit.register(_leave)
        _workers.append(self)

    def begin(self) -> None:
        """Have neither thread nor connection nor anything to ask, as at first; in a forked child too."""
        self.absent, self.uploads = AbsentNames(self.clock.now), Uploads(self.clock.now)
        self._questions: deque[Question] = deque()
        self._alone: deque[Question] = deque()  # of values that are too long to be fetched with others
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._ended: SimpleQueue[None] = SimpleQueue()
        self._serving = threading.Lock()  # held by the thread
        self._is_sending = self._is_left = False
        self._idle_since = self.clock.now()
        self._link = Link(self._open_store)

    def is_open(self) -> bool:
        """Whether the store is to be left alone."""
        return self.is_unusable or self.breaker.is_open()

    def ask(self, question: Question) -> bool:
        """Have a question asked; returns whether there was room for it, and a thread to ask it."""
        if len(self._questions) >= MOST_FETCHES:
            return False
        self._questions.append(question)
        if self.wake():
            return True
        with suppress(ValueError):  # a thread that another has started meanwhile has it
            self._questions.remove(question)
        return False

    def wake(self) -> bool:
        """Have the thread look at what there is to do; returns False where there is none and none can be started."""
        self._wakes.put(None)
        if not self._serving.locked():
            try:
                start_all([threading.Thread(target=self._serve, name="vyre_driver store", daemon=True)])
            except RuntimeError:  # the system gives none, or Python is ending: the caller goes on without
                return False
        return True

    def leave(self, within_s: float) -> None:
        """Send what waits to be sent, and what is being sent, for so many seconds at most.

        What is still under way then is given up, and the last tenth of the time is for counting it: a thread may
        not log while Python ends.
        """
        self.uploads.is_hurried = True
        if not self._serving.locked() or not (self._is_sending or self.uploads.next_due() is not None):
            return
        self._ended = SimpleQueue()
        self._wakes.put(None)
        try:
            self._ended.get(timeout=0.9 * within_s)
        except Empty:
            self._is_left = True
            self._link.close()
            with suppress(Empty):
                self._ended.get(timeout=0.1 * within_s)

    def _serve(self) -> None:
        """Serve for as long as the process lives; where another thread serves already, do nothing."""
        serving, wakes = self._serving, self._wakes
        if not serving.acquire(blocking=False):
            return
        self._prepare()
        while True:
            rest_s = self._serve_all()
            with suppress(Empty):
                wakes.get(timeout=rest_s)

    def _serve_all(self) -> float | None:
        """Do all that there is to do now; returns in how many seconds there is more, None if not before it is woken."""
        try:
            while self._serve_one():
                self._idle_since = self.clock.now()
        except Exception:  # noqa: BLE001 -- one answer that cannot be used must not end all others
            _LOG.exception("a shared cache's answer could not be used")
            return 0.0
        due_s = self.uploads.next_due()
        if self.uploads.is_hurried and due_s is None:
            self._ended.put(None)
        idle_s = IDLE_S - (self.clock.now() - self._idle_since)
        if idle_s > 0:
            return idle_s if due_s is None else min(idle_s, due_s)
        self._link.close()
        return due_s

    def _prepare(self) -> None:
        """Import what reaches the store, now: Python imports little while it ends, when there may be something to send."""
        try:
            self._link.open()
            if self.address.startswith("file:"):  # where there is no folder nothing is found, which would pass for misses
                self._link.do(lambda store: store.ping())
        except StoreFailure as error:
            self.breaker.failed(error.kind)
        except Exception as error:  # noqa: BLE001 -- a package may raise anything
            self.is_unusable, self.problem = True, str(error)
            _LOG.warning("the shared cache is not used by this process: %s", error)

    def _serve_one(self) -> bool:
        """Do the next thing; returns whether there was one."""
        if self._alone or self._questions:
            self._fetch([self._alone.popleft()] if self._alone else self._next_questions())
            return True
        self._is_sending = True  # before it is taken: a caller that leaves sees it wait, or be sent
        try:
            upload = self.uploads.take()
            if upload is not None:
                self._put(upload)
                return True
        finally:
            self._is_sending = False
        return self._touch()

    def _next_questions(self) -> list[Question]:
        """Take the next question, and those behind it that may be asked together with it."""
        waiting = self._questions
        found = [waiting.popleft()]
        while found[0].names and len(found) < MOST_AT_ONCE and waiting and waiting[0].names:
            found.append(waiting.popleft())
        return found

    def _fetch(self, questions: list[Question]) -> None:
        """Ask in one round trip, and give each question its answer, or why there is none."""
        outcome = "open" if self.is_open() else "failed"
        waiting = deque(questions)
        with ExitStack() as held:
            try:
                wanted = [one for one in questions if held.enter_context(one)]
                waiting = deque(wanted)
                if wanted and outcome != "open":
                    for values in self._do(partial(_ask_all, wanted), MAX_VALUE_BYTES):
                        self._give(waiting[0], values)
                        waiting.popleft()
            except StoreFailure as error:
                outcome = "no_answer" if error.kind == "timed_out" else "failed"
                self.breaker.failed(error.kind)
            finally:
                for one in waiting:
                    one.failed(outcome)

    def _give(self, question: Question, values: Sequence[bytes | None] | None) -> None:
        """Give an answer; where a value of it was too long to come with those of others, ask for it by itself."""
        if values is None:
            self._alone.append(question)
            return
        self.bytes_read += sum(len(value) for value in values if value)
        was_refused = question.answered(values)
        if was_refused is not None:
            self.breaker.judged(is_refused=was_refused)

    def _put(self, upload: Upload) -> None:
        """Send what waits, unless it is there."""
        if self._is_left or self.is_open():
            if self.uploads.is_hurried:
                upload.note("remote_put_shed")
            else:
                self.uploads.put_back(upload, _AGAIN_S)
            return
        try:
            is_new = self._do(upload.send, upload.byte_len)
            outcome = "remote_put" if is_new else "remote_put_known"
            self.bytes_written += upload.byte_len if is_new else 0
        except StoreFailure as error:
            outcome = "remote_put_failed"
            if error.kind == "denied":
                self.may_write = False
                _LOG.warning("the shared cache is only read from now on: %s. Fix: give its user the right to write.", error)
            elif error.kind == "full":
                self.uploads.rest()
                outcome = "remote_full"
            elif not self._is_left:  # else the store has done nothing wrong
                self.breaker.failed(error.kind)
        upload.note(outcome)

    def _touch(self) -> bool:
        names = [] if self.is_unusable else self.uploads.take_names()
        if not names or self.is_open():
            return False
        try:
            self._do(lambda store: store.touch(names, KEEP_S))
        except StoreFailure as error:
            if error.kind != "denied":  # a user who only reads may not say what is used
                self.breaker.failed(error.kind)
        return True

    def _do(self, what: Callable[[Store], _Answer], size: int = 0) -> _Answer:
        """Return what an operation gives; a store that was left alone has to answer a ping first."""
        began = self.clock.now()
        try:
            if self.breaker.begin_trial():
                self._link.do(lambda store: store.ping())
            answer = self._link.do(what, size)
        finally:
            self.spent_s += self.clock.now() - began
        self.breaker.answered()
        return answer


def _ask_all(questions: Sequence[Question], store: Store) -> list[Sequence[bytes | None] | None]:
    """Return what a store has of each question, in one round trip; None where a value is too long to share it with others.

    Together they are no longer than one value may be.
    """
    if len(questions) == 1:
        return [questions[0].ask(store)]
    limit = MAX_VALUE_BYTES // len(questions)
    values = iter(store.fetch([name for one in questions for name in one.names], limit))
    found = [list(islice(values, len(one.names))) for one in questions]
    return [None if any(value is not None and len(value) > limit for value in one) else one for one in found]


def _leave() -> None:
    """Let the workers of this process send what they have, at its end: for 1 s in all."""
    until = time.monotonic() + LEAVING_S
    for worker in _workers:
        worker.leave(max(0.0, until - time.monotonic()))


def _forked() -> None:
    for worker in _workers:
        worker.begin()


os.register_at_fork(after_in_child=_forked)
