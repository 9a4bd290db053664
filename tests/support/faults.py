"""A proxy before a server that does harm to its answers: delays, drips, flips a bit, cuts off, or is silent.

And to what is sent to it, of which it keeps the rest back.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to the answers of a connection; by default nothing.

    Each answer is ``delay_s`` seconds late. After ``after`` bytes the rest is cut off or not said, has a bit flipped, or comes
    as a byte each ``drip_s`` seconds. Of all that a connection sends no more than ``passes`` bytes go on to the server.
    """

    after: int = 0
    cut: bool = False
    silent: bool = False
    flip: bool = False
    drip_s: float = 0.0
    delay_s: float = 0.0
    passes: int | None = None

    @property
    def is_harm(self) -> bool:
        return self.cut or self.silent or self.flip or self.drip_s > 0


class FaultProxy:
    """Listens on ``socket_path``; ``fault`` may be changed at any time, and counts from then on."""

    def __init__(self, socket_path: Path, server_path: Path) -> None:
        self.socket_path, self._server_path = socket_path, server_path
        self.fault = Fault()
        self.connections = self.kept_back = 0
        self._closed = threading.Event()
        self.url = f"unix:{socket_path}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(socket_path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
            server.connect(str(self._server_path))
            pump = threading.Thread(target=self._requests, args=(client, server), daemon=True)
            pump.start()
            self._answers(client, server)
            client.shutdown(socket.SHUT_RDWR)
            pump.join()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        passed = 0
        try:
            while data := client.recv(1 << 16):
                limit = self.fault.passes
                part = data if limit is None else data[: max(0, limit - passed)]
                server.sendall(part)
                passed += len(part)
                self.kept_back += len(data) - len(part)
            server.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        seen, passed = self.fault, 0
        while data := server.recv(1 << 16):
            fault = self.fault
            if fault is not seen:
                seen, passed = fault, 0
            rest = data[max(0, fault.after - passed) :] if fault.is_harm else b""
            if self._closed.wait(fault.delay_s):
                return
            client.sendall(data[: len(data) - len(rest)])
            passed += len(data)
            if rest and fault.silent:
                self._closed.wait()
            if rest and (fault.cut or fault.silent):
                return
            if rest and fault.flip and passed - len(rest) == fault.after:
                rest = bytes([rest[0] ^ 1]) + rest[1:]
            for part in (rest[at : at + 1] for at in range(len(rest))) if fault.drip_s else (rest,):
                client.sendall(part)
                if self._closed.wait(fault.drip_s):
                    return
