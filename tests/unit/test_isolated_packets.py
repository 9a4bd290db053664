"""Messages between an isolated driver and its process: whole or not at all, and polled for where that pays."""

from __future__ import annotations

import os
import select
import threading
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from vyre_driver.isolated.packets import Polling, one_thread, pair, receive, send

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.isolated.packets import End


@pytest.mark.parametrize("length", [0, 1, 65_536, 65_537, 1_000_003])
def test_a_message_of_any_length_arrives_whole_under_its_number(length: int) -> None:
    message = os.urandom(length)
    here, there = pair()
    with here, there:
        sender = threading.Thread(target=send, args=(here, 7, message))
        sender.start()
        assert receive(there) == (7, message)
        sender.join()


def test_what_was_broken_off_is_passed_over() -> None:
    """Two parts of a message whose third never came, and an answer that nobody waits for any more."""
    here, there = pair()
    with here, there:
        for part in (b"first", b"second"):
            here.send((5).to_bytes(8, "little") + b"\1" + part)
        send(here, 6, b"late")
        send(here, 8, b"wanted")
        assert receive(there, 8) == (8, b"wanted")
        here.send((9).to_bytes(8, "little") + b"\1" + b"broken")
        send(here, 10, b"whole")
        assert receive(there) == (10, b"whole")


def test_a_closed_end_is_told() -> None:
    here, there = pair()
    with there:
        here.close()
        with pytest.raises(EOFError):
            receive(there)


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
    monkeypatch.setattr("vyre_driver.isolated.packets.LONGEST_NS", 0)
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
    with one_thread:  # as a thread does that polls
        thread.start()
        thread.join()
    assert (found, watched.wait(1)) == ([[]], [0])


def test_on_a_single_core_nobody_polls(ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert Watched(ends[0]).wait(2_000) == []
