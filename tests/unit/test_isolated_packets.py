"""Messages between an isolated driver and its process, whole or not at all."""

from __future__ import annotations

import os
import threading

import pytest

from vyre_driver.isolated.packets import pair, receive, send


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
