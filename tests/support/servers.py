"""Real redis-servers for the tests: on a unix socket and on loopback, with users and TLS; and what stops and freezes them."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(__file__).resolve().parents[2] / ".venv/bin/redis-server"
STARTS_WITHIN_S = 20.0


def free_port() -> int:
    """Return a port of loopback that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class RedisServer:
    """A redis-server that keeps nothing on disk, on ``socket_path`` and on ``port`` of loopback (``tls_port`` with ``tls``)."""

    def __init__(self, place: Path, *, tls: bool = False) -> None:
        self.place = place
        self.socket_path = place / "redis.sock"  # at most 107 bytes, which pytest's own folders pass
        self.port, self.tls_port = free_port(), free_port() if tls else 0
        self.certificate = place / "server.crt"
        self._process: subprocess.Popen[bytes] | None = None
        if tls:
            make_certificate(place)
        self.start()

    @property
    def url(self) -> str:
        return f"unix:{self.socket_path}"

    @property
    def loopback_url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, empty, and return when it answers; nothing happens while it runs."""
        if self._process is not None:
            return
        options = {"bind": "127.0.0.1", "port": self.port, "unixsocket": self.socket_path, "dir": self.place, "save": ""}
        if self.tls_port:
            files = {"cert": "server.crt", "key": "server.key", "ca-cert": "server.crt"}
            options |= {f"tls-{name}-file": self.place / file for name, file in files.items()}
            options |= {"tls-port": self.tls_port, "tls-auth-clients": "no"}
        arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
        with (self.place / "log").open("wb") as log:
            self._process = subprocess.Popen([PROGRAM, *arguments], stdout=log, stderr=log)
        until = time.monotonic() + STARTS_WITHIN_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"redis-server did not start: {(self.place / 'log').read_text('utf-8')[-2000:]}")
            time.sleep(0.005)

    def _answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(STARTS_WITHIN_S)
                client.connect(str(self.socket_path))
                client.sendall(b"PING\r\n")
                return client.recv(7) == b"+PONG\r\n"
        except OSError:
            return False

    def stop(self) -> None:
        """Kill it; what it had is gone."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
            self.socket_path.unlink(missing_ok=True)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Have it accept connections (the kernel does) and say nothing within the block."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def client(self, **options: Any) -> Any:  # noqa: ANN401 -- redis-py's
        """Return a client of redis-py, who is an administrator unless options say otherwise; close it."""
        import redis

        return redis.Redis(unix_socket_path=str(self.socket_path), socket_timeout=STARTS_WITHIN_S, **options)

    def do(self, *command: object) -> Any:  # noqa: ANN401 -- what the server says
        """Return what the server answers to a command of an administrator."""
        with self.client() as client:
            return client.execute_command(*command)

    def reset(self) -> None:
        """Make it as it was: running, empty, with no users, no bound of memory and no pause."""
        self.start()
        for command in ("FLUSHALL", "CONFIG SET maxmemory 0", "CLIENT UNPAUSE", "ACL SETUSER default on nopass ~* &* +@all"):
            self.do(*command.split())
        for user in self.do("ACL", "USERS"):
            if user != b"default":
                self.do("ACL", "DELUSER", user)


@contextmanager
def running_server(*, tls: bool = False) -> Iterator[RedisServer]:
    """Have a server run within the block, in a folder of its own with a short name."""
    place = Path(tempfile.mkdtemp(prefix="vyre-redis-"))
    server = None
    try:
        server = RedisServer(place, tls=tls)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(place, ignore_errors=True)


def make_certificate(place: Path) -> None:
    """Write server.key and server.crt, a certificate of 127.0.0.1 and localhost that signs itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.timezone.utc)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - dt.timedelta(days=1))
    builder = builder.not_valid_after(now + dt.timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    pem = serialization.Encoding.PEM
    (place / "server.crt").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(pem))
    kind, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (place / "server.key").write_bytes(key.private_bytes(pem, kind, none))
