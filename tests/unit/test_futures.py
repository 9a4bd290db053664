"""Futures of work under way as concurrent.futures and asyncio know them, and how long a wait for one may be."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import copy
import itertools
import logging
import pickle
import threading
import time
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, Future, InvalidStateError
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver.errors import DeviceLost, DispatchTimeout, ForkError, InvalidInput
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.poller import Poller
from vyre_driver.runtime.futures import DispatchFuture
from vyre_driver.telemetry.events import Events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.kompute.poller import Followed


NAME = "vyre_driver futures"
LOST = DeviceLost("the device was lost", fix="make a new Driver")
SOON_S = 30


class Work:
    """Stands for a Submission."""

    def __init__(self, poller: Poller) -> None:
        self.poller = poller
        self.over = threading.Event()
        self.outcome: tuple[BaseException | None] = (None,)
        self.fault: BaseException | None = None
        self.told: list[BaseException] = []
        events = Events()
        self.what, self.dispatches, self.timeline = "a test", events.dispatches("ab", ("a kernel",)), events.timeline
        self.future = DispatchFuture(self, 1, self)  # type: ignore[arg-type]

    def failed(self, error: BaseException, _: int = 0) -> None:
        self.told.append(error)

    def end(self, error: BaseException | None = None) -> None:
        self.outcome = (error,)
        self.over.set()

    def poll(self, _: int, wait_ns: int = 0) -> tuple[BaseException | None] | None:
        if self.fault is not None:
            raise self.fault
        return self.outcome if self.over.wait(wait_ns / 1e9) else None

    def ending(self, _: int, timeout: float | None = None) -> tuple[BaseException | None]:
        if not self.over.wait(timeout):
            raise DispatchTimeout("it did not end", fix="wait longer", timeout_s=timeout)
        return self.outcome

    def follow(self, number: int, followed: Followed) -> None:
        self.poller.follow(number, followed)

    def check_timeout(self, timeout: object) -> None:
        """Accept it."""


def works(count: int) -> list[Work]:
    poller = Poller()
    return [Work(poller) for _ in range(count)]


def pollers() -> int:
    return sum(thread.name == NAME for thread in threading.enumerate())


def comes_true(is_so: Callable[[], bool]) -> bool:
    until = time.monotonic() + SOON_S
    while not is_so() and time.monotonic() < until:
        time.sleep(0.001)
    return is_so()


@contextlib.contextmanager
def logged() -> Iterator[list[str]]:
    """What is logged of futures, by ours and Python's."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    loggers = [
        logging.getLogger(name) for name in ("vyre_driver.runtime.futures", "vyre_driver.kompute.poller", "concurrent.futures")
    ]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield found
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


def test_asking_needs_no_thread_and_no_audience() -> None:
    (work,) = works(1)
    future = work.future
    before = future.done(), future.running(), future.cancelled(), future.cancel(), repr(future)
    work.end()
    after = future.result(), future.exception(), future.done(), future.running(), future.cancel(), repr(future)
    assert before == (False, True, False, False, "<DispatchFuture of a test: pending>")
    assert after == (None, None, True, False, False, "<DispatchFuture of a test: finished>")
    assert (pollers(), "_audience" in vars(future), isinstance(future, Future)) == (0, False, True)


def test_a_failure_is_kept_raised_each_time_and_told_once() -> None:
    (work,) = works(1)
    work.end(LOST)
    raised = []
    for _ in range(3):
        try:
            work.future.result()
        except DeviceLost as error:
            raised.append(error)
    assert (raised, work.future.exception(), work.told) == ([LOST] * 3, LOST, [LOST])
    assert repr(work.future) == "<DispatchFuture of a test: failed DeviceLost>"


def test_wait_returns_as_each_of_its_conditions_says_and_the_thread_ends() -> None:
    made = works(3)
    first, second, third = (work.future for work in made)
    futures = [first, second, third]
    began = concurrent.futures.wait(futures, timeout=0)
    made[0].end()
    one = concurrent.futures.wait(futures, SOON_S, FIRST_COMPLETED)
    made[1].end(LOST)
    failed = concurrent.futures.wait(futures, SOON_S, FIRST_EXCEPTION)
    threads = pollers()
    made[2].end()
    every = concurrent.futures.wait(futures, SOON_S, ALL_COMPLETED)
    assert (began.done, one.done, failed.done, every.not_done) == (set(), {first}, {first, second}, set())
    assert (threads, comes_true(lambda: pollers() == 0)) == (1, True)


def test_what_has_ended_before_anybody_waits_is_done_at_once_and_starts_no_thread() -> None:
    made = works(3)
    for work in made:
        work.end()
    called: list[object] = []
    made[2].future.add_done_callback(called.append)
    waited = concurrent.futures.wait([work.future for work in made], timeout=0)
    assert (len(waited.done), called, pollers()) == (3, [made[2].future], 0)


def test_as_completed_yields_them_as_they_end_beside_others_of_pythons() -> None:
    made = works(20)
    plain: Future[int] = Future()
    threading.Timer(0.05, lambda: [work.end() for work in made]).start()  # type: ignore[func-returns-value]
    found: list[object] = []
    for future in concurrent.futures.as_completed([*[work.future for work in made], plain], SOON_S):
        found.append(future)
        if len(found) == len(made):
            plain.set_result(1)
    assert (set(found), found[-1], comes_true(lambda: pollers() == 0)) == (
        {*[work.future for work in made], plain},
        plain,
        True,
    )


def test_callbacks_are_called_once_in_order_and_one_that_raises_stops_nobody() -> None:
    made = works(2)
    called: list[object] = []

    def leave(_: object) -> None:
        raise SystemExit(3)

    made[0].future.add_done_callback(leave)
    made[0].future.add_done_callback(lambda _: called.append("first"))
    made[0].future.add_done_callback(lambda _: called.append("second"))
    made[1].future.add_done_callback(lambda future: called.append(future.result()))
    with logged() as messages:
        made[0].end()
        made[1].end()
        assert comes_true(lambda: len(called) == 3)
    made[1].future.add_done_callback(lambda _: called.append("late"))
    assert (called, len(messages)) == (["first", "second", None, "late"], 1)


def test_a_callback_may_submit_wait_and_add_callbacks() -> None:
    poller = Poller()
    work, ended = Work(poller), threading.Event()

    def go_on(_: object) -> None:
        another = Work(poller)
        another.end()
        another.future.result()
        third = Work(poller)
        third.future.add_done_callback(lambda _: ended.set())
        third.end()

    work.future.add_done_callback(go_on)
    work.end()
    assert (ended.wait(SOON_S), comes_true(lambda: pollers() == 0)) == (True, True)


def test_an_older_one_that_is_followed_later_is_told_first() -> None:
    older, younger = works(2)
    younger.future.add_done_callback(lambda _: None)
    told = threading.Event()
    older.future.add_done_callback(lambda _: told.set())
    older.end()
    assert (told.wait(SOON_S), younger.future.done()) == (True, False)
    younger.end()
    assert comes_true(lambda: pollers() == 0)


def test_what_is_asked_directly_while_it_is_followed_is_told_too() -> None:
    (work,) = works(1)
    told = threading.Event()
    work.future.add_done_callback(lambda _: told.set())
    threading.Timer(0.02, work.end).start()
    work.future.result(SOON_S)
    assert told.wait(SOON_S)


def test_threads_that_come_first_at_once_are_all_told() -> None:
    for _ in range(50):
        (work,) = works(1)
        together = threading.Barrier(9)
        called: list[int] = []

        def come(number: int, work: Work = work, together: threading.Barrier = together, called: list[int] = called) -> None:
            together.wait()
            work.future.add_done_callback(lambda _: called.append(number))

        threads = [threading.Thread(target=come, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        together.wait()
        work.end()
        for thread in threads:
            thread.join()
        assert comes_true(lambda called=called: len(called) == 8), called  # type: ignore[misc]
        assert sorted(called) == list(range(8))


def test_an_error_of_looking_ends_what_somebody_waits_for() -> None:
    (work,) = works(1)
    told = threading.Event()
    work.future.add_done_callback(lambda _: told.set())
    work.fault = MemoryError("no memory")
    assert (told.wait(SOON_S), work.future.exception(), work.told) == (True, work.fault, [work.fault])


def test_a_condition_that_an_interrupted_wait_kept_delays_nobody_for_ever() -> None:
    stuck, other = works(2)
    told, beside = threading.Event(), threading.Event()
    stuck.future.add_done_callback(lambda _: told.set())
    other.future.add_done_callback(lambda _: beside.set())
    stuck.future._condition.acquire()  # noqa: SLF001 -- as concurrent.futures.wait takes it
    stuck.end()
    other.end()
    assert (beside.wait(SOON_S), told.wait(SOON_S), comes_true(lambda: pollers() == 0)) == (True, True, True)


def test_a_waiter_that_raises_keeps_the_others_from_nothing() -> None:
    class Broken:
        @staticmethod
        def add_result(_: object) -> None:
            raise MemoryError

    first, second = works(2)
    told = threading.Event()
    first.future._waiters.append(Broken())  # noqa: SLF001 -- as concurrent.futures does
    second.future.add_done_callback(lambda _: told.set())
    with logged() as messages:
        first.end()
        second.end()
        assert (told.wait(SOON_S), first.future.done(), comes_true(lambda: pollers() == 0)) == (True, True, True)
    assert messages == ["a future could not be completed"]


def test_after_a_fork_it_has_failed_and_its_callbacks_are_the_parents() -> None:
    poller = Poller()
    work, called = Work(poller), [False]
    work.future.add_done_callback(lambda _: called.append(True))
    work.future._condition.acquire()  # noqa: SLF001 -- by a thread that did not come along
    work.end(ForkError("opened in another process", fix="open it after the fork"))
    poller.abandon()
    waited = concurrent.futures.wait([work.future], SOON_S)
    assert (len(waited.done), type(work.future.exception()), called, work.told) == (1, ForkError, [False], [])


def test_a_time_out_is_everybodys_time_out_error() -> None:
    (work,) = works(1)
    found = []
    for kind in (DispatchTimeout, TimeoutError, concurrent.futures.TimeoutError, asyncio.TimeoutError):
        try:
            work.future.result(0.001)
        except kind as error:
            sent = pickle.loads(pickle.dumps(error))  # noqa: S301 -- our own
            found += [(type(error).__name__, str(error), error.context), (type(sent).__name__, str(sent), sent.context)]  # type: ignore[attr-defined]
    assert found == [("DispatchTimeout", "it did not end. Fix: wait longer.", {"timeout_s": 0.001})] * 8
    assert (work.future.done(), work.told) == (False, [])


def test_it_is_copied_pickled_and_set_by_nobody() -> None:
    (work,) = works(1)
    refused: list[type[BaseException]] = []
    calls: list[Callable[[], Any]] = [
        lambda: copy.copy(work.future),
        lambda: copy.deepcopy(work.future),
        lambda: pickle.dumps(work.future),
        lambda: work.future.set_result(None),
        lambda: work.future.set_exception(LOST),
        work.future.set_running_or_notify_cancel,
    ]
    for call in calls:
        try:
            call()
        except (TypeError, InvalidStateError) as error:
            refused.append(type(error))
    assert refused == [TypeError] * 3 + [InvalidStateError] * 3


def test_hundreds_are_awaited_with_one_thread() -> None:
    made = works(400)

    async def wait() -> tuple[int, int, list[object]]:
        gathering = asyncio.gather(*[work.future for work in made], *[asyncio.wrap_future(work.future) for work in made])
        await asyncio.sleep(0.2)
        threads = pollers(), threading.active_count()
        for work in made:
            work.end()
        return (*threads, await asyncio.wait_for(gathering, SOON_S))

    assert comes_true(lambda: pollers() == 0)
    before = threading.active_count()
    one, count, results = asyncio.run(wait())
    assert (one, count - before, results, comes_true(lambda: pollers() == 0)) == (1, 1, [None] * 800, True)


def test_an_await_raises_what_the_work_failed_with_and_may_be_cancelled_and_timed_out() -> None:
    lost, left = works(2)

    async def wait() -> tuple[object, object, bool, object]:
        waiting = asyncio.ensure_future(lost.future)
        await asyncio.sleep(0.1)
        lost.end(LOST)
        (error,) = await asyncio.gather(waiting, return_exceptions=True)
        task = asyncio.ensure_future(left.future)
        await asyncio.sleep(0.1)
        task.cancel()
        (cancelled,) = await asyncio.gather(task, return_exceptions=True)
        timed_out = False
        try:
            await asyncio.wait_for(left.future, 0.1)
        except asyncio.TimeoutError:
            timed_out = True
        running = left.future.running()
        left.end()
        return error, type(cancelled), timed_out and running, await left.future

    assert asyncio.run(wait()) == (LOST, asyncio.CancelledError, True, None)


def test_a_loop_that_was_closed_meanwhile_stops_no_other() -> None:
    made = works(2)

    async def leave() -> None:
        left.append(asyncio.wrap_future(made[0].future))
        await asyncio.sleep(0.1)

    left: list[object] = []
    asyncio.run(leave())
    told = threading.Event()
    made[1].future.add_done_callback(lambda _: told.set())
    with logged():  # some Pythons log the closed loop
        made[0].end()
        made[1].end()
        assert (told.wait(SOON_S), comes_true(lambda: pollers() == 0)) == (True, True)


def test_awaits_that_are_cancelled_in_a_loop_leave_nothing() -> None:
    made = works(100)

    async def give_up() -> None:
        for work in made:
            task = asyncio.ensure_future(work.future)
            for _ in range(next(turns)):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    turns = itertools.cycle([0, 1, 2, 30])
    asyncio.run(give_up())
    for work in made:
        work.end()
    assert ([work.future.result() for work in made], comes_true(lambda: pollers() == 0)) == ([None] * 100, True)


@pytest.mark.parametrize("seconds", [None, 2**32, 10**400, 1e300, float("inf")], ids=lambda one: f"{one!s:.9}")
def test_none_and_more_than_136_years_have_no_end(seconds: float | None) -> None:
    assert Deadline(seconds, "a device").left_ns() is None


@pytest.mark.parametrize("seconds", [600, 600.0, np.float32(600), np.int64(600), Fraction(1200, 2)], ids=repr)
def test_real_numbers_of_any_type_are_seconds(seconds: float) -> None:
    left = Deadline(seconds, "a device").left_ns()
    assert left is not None
    assert 0 < left <= 600 * 10**9


@pytest.mark.parametrize(
    "seconds", [-1, -0.5, float("nan"), -(10**400), True, np.bool_(True), "1", 1j, (1,)], ids=lambda it: f"{it!r:.9}"
)
def test_anything_else_is_refused(seconds: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        Deadline(seconds, "a device")
    assert str(refused.value) == (
        f"timeout is {seconds!r}, which is not a number of seconds of at least 0. Fix: give seconds, or None to wait for ever."
    )
