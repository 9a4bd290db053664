"""What the tests' own server and proxy do."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from faults import Fault

if TYPE_CHECKING:
    from faults import FaultProxy

pytestmark = pytest.mark.redis


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        (Fault(), b"+PONG\r\n"),
        (Fault(delay_s=0.01), b"+PONG\r\n"),
        (Fault(after=2, drip_s=0.001), b"+PONG\r\n"),
        (Fault(after=2, flip=True), b"+PNNG\r\n"),
        (Fault(after=3, cut=True), b"+PO"),
        (Fault(silent=True), b""),
    ],
)
def test_the_proxy_does_the_harm_that_is_asked_for(proxy: FaultProxy, fault: Fault, answer: bytes) -> None:
    proxy.fault = fault
    said = b""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(0.2)
        client.connect(str(proxy.socket_path))
        client.sendall(b"PING\r\n")
        try:
            while len(said) < 7 and (more := client.recv(7)):
                said += more
        except TimeoutError:
            assert fault.silent
    assert said == answer
