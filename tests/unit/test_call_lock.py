"""Locks for the length of a call."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest
from literals import refusal

from vyre_driver.errors import DispatchFailed
from vyre_driver.process.call_lock import call_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import RunChild


def in_a_thread(call: Callable[[], object]) -> object:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def refused(call: Callable[[], object]) -> type[BaseException] | None:
    try:
        call()
    except RuntimeError as error:
        return type(error)
    return None


def test_the_thread_that_holds_a_lock_is_refused_and_another_waits() -> None:
    lock = call_lock("the thing")
    with lock:
        kind, code, message = refusal(lock.acquire)
        assert (kind, code) == (DispatchFailed, 1005)
        assert message.startswith("the thing was called in the middle of another call of it on the same thread")
        assert (lock.acquire(blocking=False), in_a_thread(lambda: lock.acquire(timeout=0.01))) == (False, False)
        assert in_a_thread(lambda: lock.acquire(blocking=False)) is False
    assert in_a_thread(lambda: lock.acquire(timeout=5)) is True


def test_only_the_thread_that_holds_a_lock_lets_it_go() -> None:
    lock = call_lock("the thing")
    with pytest.raises(RuntimeError, match="does not hold"):
        lock.release()
    with lock:
        kind = in_a_thread(lambda: refused(lock.release))
    assert kind is RuntimeError


def test_threads_that_count_under_a_lock_miss_nothing() -> None:
    lock, counted = call_lock("the thing"), [0]

    def count() -> None:
        for _ in range(2000):
            with lock:
                before = counted[0]
                counted[0] = before + 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert counted == [8000]


def test_a_wait_for_a_lock_ends_with_what_a_signal_handler_raises() -> None:
    lock, holds, ends = call_lock("the thing"), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            holds.set()
            ends.wait()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait()
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            lock.acquire()
    finally:
        signal.signal(signal.SIGALRM, before)
        ends.set()
        thread.join()
    with lock:
        assert lock.acquire(blocking=False) is False


def test_a_handler_that_returns_does_not_end_the_wait_early() -> None:
    lock, holds, heard = call_lock("the thing"), threading.Event(), []

    def hold() -> None:
        with lock:
            holds.set()
            while not heard:
                threading.Event().wait(0.01)

    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait()
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append("alarm"))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        assert lock.acquire(timeout=20)
    finally:
        signal.signal(signal.SIGALRM, before)
        thread.join()
    assert heard == ["alarm"]


FORKED = """
import os, threading
from vyre_driver.process.call_lock import call_lock

taken, ended = threading.Event(), threading.Event()
others, own = call_lock("another thread's"), call_lock("its own")

def hold():
    with others:
        taken.set()
        ended.wait()

thread = threading.Thread(target=hold)
thread.start()
taken.wait()
with own:
    child = os.fork()
    if child == 0:
        taken = []
        with others:
            again = threading.Thread(target=lambda: taken.extend([own.acquire(timeout=0.1), others.acquire(blocking=False)]))
            again.start()
            again.join()
        os._exit(0 if taken == [False, False] and not own.acquire(blocking=False) else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
ended.set()
thread.join()
print(status, others.acquire(timeout=5), own.acquire(timeout=5))
"""


def test_a_forked_child_finds_free_what_another_thread_held_and_held_what_it_holds_itself(run_python: RunChild) -> None:
    done = run_python("-W", "ignore::DeprecationWarning", "-c", FORKED)
    assert (done.status, done.stdout, done.stderr) == (0, "0 True True\n", "")
