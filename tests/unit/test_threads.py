"""Conditions that an interrupt leaves right, and threads that it leaves started or not."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import Future, as_completed, wait
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from vyre_driver.process._lock import Condition
from vyre_driver.process.threads import start_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import RunChild

WAITS_S = 60.0


def future() -> Future[int]:
    made: Future[int] = Future()
    made._condition = Condition()  # type: ignore[assignment] # noqa: SLF001 -- as the pool does
    return made


def is_free(condition: Condition) -> bool:
    """Whether another thread can have the lock."""
    found: list[bool] = []
    other = threading.Thread(target=lambda: found.append(condition.acquire(blocking=False) and not condition.release()))
    other.start()
    other.join()
    return found[0]


def test_a_condition_is_waited_for_until_it_is_notified_or_the_time_is_over() -> None:
    condition, said = Condition(), ["nothing"]

    def say() -> None:
        with condition:
            said[0] = "something"
            condition.notify_all()

    with condition, condition:
        assert (condition.wait(0.001), condition.wait(0), condition.wait(-1)) == (False, False, False)
        speaker = threading.Thread(target=say)
        speaker.start()
        while said[0] == "nothing":
            assert condition.wait(WAITS_S)
        assert not is_free(condition)
    speaker.join()
    assert (said, is_free(condition)) == (["something"], True)


def test_all_who_wait_are_notified() -> None:
    condition, ready = Condition(), threading.Semaphore(0)
    notified: list[bool] = []

    def wait_too() -> None:
        with condition:
            ready.release()
            notified.append(condition.wait(WAITS_S))

    waiting = [threading.Thread(target=wait_too) for _ in range(8)]
    start_all(waiting)
    for _ in waiting:
        assert ready.acquire(timeout=WAITS_S)
    with condition:
        condition.notify_all()
    for one in waiting:
        one.join()
    assert notified == [True] * 8


def test_who_does_not_hold_the_lock_cannot_wait() -> None:
    condition = Condition()
    with pytest.raises(RuntimeError, match="this thread does not hold the lock"):
        condition.wait(0)
    assert is_free(condition)


@pytest.fixture
def interrupted() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("interrupted")
def test_an_interrupted_wait_for_a_future_leaves_it_to_who_completes_it() -> None:
    waited = future()
    with pytest.raises(KeyboardInterrupt):
        waited.result(WAITS_S)
    signal.setitimer(signal.ITIMER_REAL, 0)
    worker = threading.Thread(target=waited.set_result, args=(7,))
    worker.start()
    worker.join(WAITS_S)
    assert (worker.is_alive(), waited.result(0)) == (False, 7)


def test_futures_are_waited_for_in_all_of_pythons_ways() -> None:
    made = [future() for _ in range(3)]
    workers = [threading.Thread(target=one.set_result, args=(at,)) for at, one in enumerate(made)]
    start_all(workers)
    assert sorted(one.result() for one in as_completed(made, WAITS_S)) == [0, 1, 2]
    assert (wait(made, WAITS_S).not_done, [one.result() for one in made]) == (set(), [0, 1, 2])


def test_threads_that_cannot_be_started_are_told_of_and_those_before_run() -> None:
    ran = threading.Event()
    first, again = threading.Thread(target=ran.set), threading.Thread(target=ran.set)
    again.start()
    again.join()
    ran.clear()
    with pytest.raises(RuntimeError, match="threads can only be started once"):
        start_all([first, again])
    assert ran.wait(WAITS_S)


@pytest.mark.usefixtures("interrupted")
def test_a_start_that_is_interrupted_starts_the_threads_all_the_same() -> None:
    may_start, ended = threading.Lock(), threading.Event()

    class Slow(threading.Thread):
        def start(self) -> None:
            with may_start:
                super().start()

    with may_start, suppress(KeyboardInterrupt):
        start_all([Slow(target=ended.set)])
        pytest.fail("it was not interrupted")
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert (ended.wait(WAITS_S), len([one for one in threading.enumerate() if isinstance(one, Slow)]) < 2) == (True, True)


def test_a_wait_that_has_no_memory_ends_with_the_lock_held(run_python: RunChild) -> None:
    """The lock goes back and forth without an allocation, so that none of them can fail halfway."""
    pytest.importorskip("_testcapi")
    code = """
import _testcapi
from vyre_driver.process._lock import Condition
condition, failed = Condition(), 0
for at in range(40):
    condition.acquire(), condition.acquire()
    try:
        _testcapi.set_nomemory(at, at + 1)
        condition.wait(0.001)
    except MemoryError:
        failed += 1
    finally:
        _testcapi.remove_mem_hooks()
    condition.release(), condition.release()
print(failed > 0)
"""
    done = run_python("-c", code)
    assert (done.stdout, done.stderr) == ("True\n", "")
