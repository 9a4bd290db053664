"""A Redis or Valkey server as a store, through one connection of redis-py.

Its connection is used without its client, which tries again and keeps a pool: both would spend time that belongs to the
caller's compilation. The connection is made by the first call and again by the call after one that failed.

Source: the commands of Redis 7 (GETRANGE, SET, SCAN, EXPIRE, TOUCH, TIME, HLEN, HGETALL, MEMORY USAGE), RESP2.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry

from vyre_driver.remote.store import MOST_FIELDS, MOST_FIELDS_BYTES, StoreFailure, too_many_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vyre_driver.remote.store import FailureKind

CONNECT_S = 0.1
_READ_SIZE = 65536  # redis-py's own 32 KiB take four times as long for 1 MiB
_BYTES_A_SECOND = 8 << 20  # the slowest network on which a value is still sent
_SCANNED = 1000
_GLOB = {ord(character): f"\\{character}" for character in "*?[]\\^-"}
_FULL = ("OOM", "MISCONF")
_HANDSHAKE_BYTES = 64 << 10
_MOST_BYTES, _MOST_LISTED = 1 << 20, 16 << 20
_AROUND_A_VALUE = 1 << 10  # an error may stand in its place
# What redis-py makes of an answer that is none, such as arrays in arrays, or of a socket that is gone meanwhile.
_NO_ANSWER = (AttributeError, TypeError, ValueError, IndexError, RecursionError)


class _Bounded:
    """A socket that ends an answer after ``left`` bytes: redis-py keeps as many as a server likes to send."""

    def __init__(self, made: socket.socket) -> None:
        self._made, self.left = made, _HANDSHAKE_BYTES

    def recv(self, size: int) -> bytes:
        data = self._made.recv(size)
        self.left -= len(data)
        if self.left < 0:
            raise OSError(errno.EMSGSIZE, "the answer is longer than was asked for")
        return data

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- all else is the socket's
        return getattr(self._made, name)


class _Seen:
    """Keeps what ends a connection from another thread: a second descriptor of its socket, there before any handshake."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 -- redis-py's
        self.seen: socket.socket | None = None
        self.held = threading.Lock()
        super().__init__(**options)

    def _connect(self) -> Any:  # noqa: ANN401 -- a socket
        made: socket.socket = super()._connect()  # type: ignore[misc] # of redis-py's class
        with self.held:
            self.forget()
            self.seen = made.dup()
        return made

    def forget(self) -> None:
        if self.seen is not None:
            self.seen.close()
            self.seen = None

    def has_ended(self) -> bool:
        """Whether it was closed while nothing was asked: by us, or by a server that was started anew."""
        with self.held:
            if self.seen is None:
                return True
            ended = select.poll()
            ended.register(self.seen, select.POLLRDHUP)
            return bool(ended.poll(0))

    def shut(self) -> None:
        with self.held:
            if self.seen is not None:
                with suppress(OSError):  # it has ended already
                    self.seen.shutdown(socket.SHUT_RDWR)
                self.forget()

    def __del__(self) -> None:
        self.forget()
        super().__del__()  # type: ignore[misc] # of redis-py's class


class _Kept:
    """Bounds what comes out of a connection, behind TLS where there is any."""

    def _connect(self) -> Any:  # noqa: ANN401 -- a socket, bounded
        return _Bounded(super()._connect())  # type: ignore[misc] # of redis-py's class


class _Tcp(_Kept, _Seen, Connection):
    pass


class _Unix(_Kept, _Seen, UnixDomainSocketConnection):
    pass


class _TcpOfTls(_Seen, Connection):
    pass


class _Tls(_Kept, SSLConnection, _TcpOfTls):
    pass


class RedisStore:
    """A store behind one connection; ``close`` may be called by another thread, every other method by one at a time."""

    def __init__(self, address: str, timeout_s: float, **where: Any) -> None:  # noqa: ANN401 -- redis-py's
        """Remember where it is: ``path``, or ``host`` and ``port``, ``db``, ``username``, ``password``, ``ssl_`` options.

        Parameters
        ----------
        address
            What it is called in messages, without secrets.
        timeout_s
            How long the beginning of an answer, or of what follows of it, is waited for, in seconds.
        """
        self.address = address
        self._timeout_s = timeout_s
        kind: Any = _Unix if "path" in where else _Tls if "ssl_ca_certs" in where else _Tcp
        self._connection: Any = kind(
            **where,
            protocol=2,
            socket_timeout=timeout_s,
            socket_connect_timeout=min(CONNECT_S, timeout_s) if kind is not _Tls else timeout_s,
            socket_read_size=_READ_SIZE,
            retry=Retry(NoBackoff(), 0),
            driver_info=None,
        )

    def fetch(self, names: Sequence[str], limit: int) -> list[bytes | None]:
        """Return the values: see ``Store``."""
        most = len(names) * (limit + 1 + _AROUND_A_VALUE)
        answers = self._ask([("GETRANGE", name, 0, limit) for name in names], most=most)
        return [None if answer == b"" else self._value(answer) for answer in answers]

    def put_new(self, name: str, data: bytes, keep_s: int) -> bool:
        """Store a value unless the name is taken: see ``Store``."""
        return self._one("SET", name, data, "NX", "EX", keep_s, sent=len(data)) is not None

    def claim(self, name: str, owner: bytes, for_s: float) -> bool:
        """Take a name for a while: see ``Store``."""
        return self._one("SET", name, owner, "NX", "PX", max(1, round(for_s * 1000))) is not None

    def fields(self, name: str, limit: int) -> dict[str, bytes]:
        """Return the fields below a name: see ``Store``."""
        count, size = self._ask([("HLEN", name), ("MEMORY", "USAGE", name, "SAMPLES", 0)])
        if _is_of_another_type(count):
            return {}
        if self._checked(count) > MOST_FIELDS or (self._checked(size) or 0) > MOST_FIELDS_BYTES:
            raise too_many_fields(self.address, f"{count} fields of {size} bytes")
        flat = self._one("HGETALL", name, most=MOST_FIELDS_BYTES + _MOST_BYTES) if count else []
        found = zip(flat[::2], flat[1::2], strict=True)
        return {field.decode("ascii", "replace"): value for field, value in found if len(value) <= limit}

    def put_field(self, name: str, field: str, data: bytes, keep_s: int) -> None:
        """Store a field: see ``Store``."""
        for answer in self._ask([("HSET", name, field, data), ("EXPIRE", name, keep_s)], sent=len(data)):
            self._checked(answer)

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names: see ``Store``."""
        listed: set[str] = set()
        cursor: Any = b"0"
        while cursor is not None:
            cursor, found = self._one(
                "SCAN", cursor, "MATCH", f"{prefix.translate(_GLOB)}*", "COUNT", _SCANNED, most=_MOST_LISTED
            )
            for name in (one.decode("ascii", "replace") for one in found):
                if name not in listed:
                    listed.add(name)
                    yield name
            cursor = None if cursor == b"0" else cursor

    def touch(self, names: Sequence[str], keep_s: int) -> None:
        """Note the use, and put the end off where we may: see ``Store``."""
        if names:
            touched, *_ = self._ask([("TOUCH", *names), *(("EXPIRE", name, keep_s) for name in names)])
            self._checked(touched)

    def ping(self) -> None:
        """Return when it has answered."""
        self._one("PING")

    def time_s(self) -> float:
        """Return the server's time: see ``Timed``."""
        seconds, microseconds = self._one("TIME")
        return int(seconds) + int(microseconds) / 1e6

    def close(self) -> None:
        """End the connection: see ``Store``."""
        self._connection.shut()

    def _one(self, *command: object, sent: int = 0, most: int = _MOST_BYTES) -> Any:  # noqa: ANN401 -- what the server says
        return self._checked(self._ask([command], sent=sent, most=most)[0])

    def _ask(self, commands: Sequence[tuple[object, ...]], *, sent: int = 0, most: int = _MOST_BYTES) -> list[Any]:
        """Return what the server says to each command, of ``most`` bytes together: a value, or the error that is its answer."""
        connection = self._connection
        is_open = False
        try:
            if connection.has_ended():
                connection.disconnect()
            connection.connect()
            is_open = True
            connected = connection._sock  # noqa: SLF001 -- nothing else bounds sending
            connected.left = most
            connected.settimeout(self._timeout_s + sent / _BYTES_A_SECOND)
            connection.send_packed_command(connection.pack_commands(commands))
            answers = [self._answer() for _ in commands]
        except (redis.RedisError, OSError) as error:
            raise self._failure(error, is_open=is_open) from error
        except _NO_ANSWER as error:
            raise StoreFailure("cut", f"{self.address} does not answer as Redis does ({type(error).__name__})") from error
        finally:
            if not connection.is_connected:
                with connection.held:
                    connection.forget()
        return answers

    def _answer(self) -> Any:  # noqa: ANN401 -- a value, or an error
        try:
            return self._connection.read_response(disconnect_on_error=True)
        except redis.ResponseError as error:
            return error

    def _value(self, answer: Any) -> bytes:  # noqa: ANN401
        """Return a value; what is there and is none, such as a hash, counts as an empty one."""
        if _is_of_another_type(answer):
            return b""
        value = self._checked(answer)
        return value if isinstance(value, bytes) else b""

    def _checked(self, answer: Any) -> Any:  # noqa: ANN401
        if isinstance(answer, redis.RedisError):
            raise self._failure(answer, is_open=True) from answer
        return answer

    def _failure(self, error: Exception, *, is_open: bool) -> StoreFailure:
        kind = _kind(error)
        if kind == "cut" and not is_open:
            kind = "refused"
        return StoreFailure(kind, f"{self.address}: {str(error)[:300]}")


def _is_of_another_type(answer: object) -> bool:
    return isinstance(answer, redis.ResponseError) and str(answer).startswith("WRONGTYPE")


def _kind(error: BaseException) -> FailureKind:
    """Return what sort of failure an error of redis-py is."""
    cause: BaseException | None = error
    while cause is not None:  # redis-py makes one error of all that a handshake can end with
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "denied"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, (redis.AuthenticationError, redis.exceptions.AuthorizationError, redis.exceptions.NoPermissionError)):
        return "denied"
    if isinstance(error, redis.ReadOnlyError) or str(error).startswith("NOAUTH"):
        return "denied"
    if isinstance(error, (redis.TimeoutError, TimeoutError)):
        return "timed_out"
    if isinstance(error, redis.exceptions.OutOfMemoryError) or str(error).startswith(_FULL):
        return "full"
    if isinstance(error, redis.BusyLoadingError):
        return "other"
    return "cut" if isinstance(error, (redis.ConnectionError, OSError)) else "other"
