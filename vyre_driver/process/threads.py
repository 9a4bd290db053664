"""Threads of ours, started so that Ctrl-C finds each of them started or never to be."""

from __future__ import annotations

import _thread
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from threading import Thread


def start_all(threads: Iterable[Thread]) -> None:
    """Start threads and return when they run; interrupted, they run all the same.

    ``Thread.start`` keeps lists and waits with locks, which an interrupt would leave halfway. Python interrupts no thread but
    the main one: this has another one call it.

    Raises
    ------
    RuntimeError
        If the system gives no thread; those before it run.
    """
    ended: SimpleQueue[BaseException | None] = SimpleQueue()
    _thread.start_new_thread(_start, (tuple(threads), ended))
    failure = ended.get()
    if failure is not None:
        raise failure


def _start(threads: tuple[Thread, ...], ended: SimpleQueue[BaseException | None]) -> None:
    try:
        for thread in threads:
            thread.start()
    except BaseException as error:  # noqa: BLE001 -- the waiting thread raises it
        ended.put(error)
    else:
        ended.put(None)
