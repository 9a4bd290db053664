"""Waiting for a message by polling: short, by one thread, and not where it does not pay."""

from __future__ import annotations

import os
import select
import threading
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from vyre_driver.isolated import polling
from vyre_driver.isolated.packets import pair
from vyre_driver.isolated.polling import Polling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.isolated.packets import End


@pytest.fixture
def ends() -> Iterator[tuple[End, End]]:
    here, there = pair()
    with here, there:
        yield here, there


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


class Watched:
    """A connection's polling, and by number the waits that polled."""

    def __init__(self, end: End) -> None:
        self.polling, self.polled, self._poll = Polling(end), list[int](), select.poll()
        self._poll.register(end, select.POLLIN)
        self._number = 0
        if self.polling.poll is not None:
            self.polling.poll = self._counted  # type: ignore[assignment]

    def wait(self, count: int) -> list[int]:
        """Wait so many times, and return which of these polled, from 0 on."""
        self.polled.clear()
        for self._number in range(count):
            self.polling.wait()
        return self.polled.copy()

    def _counted(self, timeout: int) -> object:
        if self.polled[-1:] != [self._number]:
            self.polled.append(self._number)
        return self._poll.poll(timeout)


@pytest.mark.usefixtures("many_cores")
def test_a_wait_ends_with_a_message_and_without_one(ends: tuple[End, End]) -> None:
    here, there = ends
    watched = Watched(here)
    assert watched.wait(1) == [0]
    there.send(b"message")
    assert watched.wait(3) == [1, 2]  # one wait was in vain
    assert here.recv(10) == b"message"


@pytest.mark.usefixtures("many_cores")
def test_waits_in_vain_grow_rare_and_those_that_pay_bring_them_back(
    ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "LONGEST_NS", 0)
    here, there = ends
    watched = Watched(here)
    assert watched.wait(40) == [0, 2, 6, 14, 30]
    assert [after - before for before, after in pairwise(watched.wait(10_000)[-4:])] == [1024] * 3
    there.send(b"message")
    steps = [after - before for before, after in pairwise(watched.wait(4_000))]
    assert (steps[:10], set(steps[10:])) == ([512, 256, 128, 64, 32, 16, 8, 4, 2, 1], {1})


@pytest.mark.usefixtures("many_cores")
def test_one_thread_polls_at_a_time(ends: tuple[End, End]) -> None:
    watched = Watched(ends[0])
    found: list[list[int]] = []
    thread = threading.Thread(target=lambda: found.append(watched.wait(3)))
    with polling.one_thread:  # as a thread does that polls
        thread.start()
        thread.join()
    assert (found, watched.wait(1)) == ([[]], [0])


def test_on_a_single_core_nobody_polls(ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert Watched(ends[0]).wait(2_000) == []
