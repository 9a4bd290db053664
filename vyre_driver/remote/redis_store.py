"""A Redis or Valkey server as a store, through one connection: commands go out, bounded answers come in.

The client is as much of one as a store needs: no pool, no second try, nothing to import but the standard library (decision 52).
Of what a server says nothing is believed: no answer is longer than was asked for, no array deeper than one in another, and a
number is digits.

Source: the Redis serialization protocol, version 2 (RESP2); the commands of Redis 7 (GETRANGE, SET, SCAN, EXPIRE, TOUCH, TIME,
HLEN, HGETALL, MEMORY USAGE).
"""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from vyre_driver.remote.store import MOST_FIELDS, MOST_FIELDS_BYTES, FailureKind, StoreFailure, too_many_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


Answer: TypeAlias = "bytes | int | list[Answer] | Refusal | None"

CONNECT_S = 0.1
_READ_BYTES = 65536
_LONGEST_LINE = 64 << 10
_DEEPEST = 2  # an array in an array
_MOST_ELEMENTS = 64 << 10  # of all arrays of an answer together: each takes more room here than it does on the way
_GREETING_BYTES = 64 << 10
_BYTES_A_SECOND = 8 << 20  # the slowest network on which a value is still sent
_MOST_DIGITS = 19


class ProtocolError(Exception):
    """What came is no answer, or longer than was asked for."""


class HandshakeFailed(OSError):
    """A server that was connected to has not begun TLS."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error that is a server's answer to a command, such as ``WRONGTYPE Operation against a key ...``."""

    text: str

    @property
    def code(self) -> str:
        """Its first word."""
        return self.text.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is: the ``path`` of a socket, or ``host`` and ``port``, under TLS where it ``has_tls``."""

    path: str = ""
    host: str = ""
    port: int = 0
    has_tls: bool = False
    authority: str | None = None
    """A file of the certificates that vouch for the server; None: those of the system."""

    def connected(self, timeout_s: float) -> socket.socket:
        """Return a socket that is connected, not yet under TLS."""
        if not self.path:
            return socket.create_connection((self._host(), self.port), timeout_s)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(timeout_s)
            made.connect(self.path)
        except BaseException:
            made.close()
            raise
        return made

    def _host(self) -> Any:  # noqa: ANN401 -- bytes too, which typeshed does not know
        """Return the host, as bytes if it is ASCII: for text Python imports its encoding of international names, 1 to 2 ms."""
        return self.host.encode() if self.host.isascii() else self.host

    def secured(self, made: socket.socket) -> socket.socket:
        """Return the socket under TLS, its server's certificate and name verified; itself where there is none.

        Raises HandshakeFailed, or ssl.SSLCertVerificationError.
        """
        if not self.has_tls:
            return made
        import ssl

        try:
            return ssl.create_default_context(cafile=self.authority).wrap_socket(made, server_hostname=self.host)
        except ssl.SSLCertVerificationError:
            raise
        except OSError as error:  # a server that does not speak TLS may also wait for the rest of what it takes for a command
            raise HandshakeFailed(f"there is no connection under TLS ({error})") from error


class Connection:
    """Used by one thread, but for ``shut``. It is made by the first question, and anew by the one after it has ended.

    ``greeting`` are the commands that come first on it; a Refusal of one ends it, and is the answer to every question.
    """

    def __init__(self, place: Place, timeout_s: float, greeting: Sequence[Sequence[object]] = ()) -> None:
        """Connect to nothing yet; ``timeout_s`` is how long the beginning of an answer, or of what follows of it, may take."""
        self._place, self._timeout_s, self._greeting = place, timeout_s, greeting
        self._socket: socket.socket | None = None
        self._ends: socket.socket | None = None  # a second descriptor, there before any handshake
        self._lock = threading.Lock()
        self._buffer = b""
        self._left = self._elements_left = 0
        self._is_shut = False

    @property
    def is_open(self) -> bool:
        """Whether there is one just now."""
        return self._socket is not None

    def ask(self, commands: Sequence[Sequence[object]], *, most: int, sent: int = 0) -> list[Answer]:
        """Return the answer to each command, of ``most`` bytes together; ``sent`` is how many bytes of values go out.

        Raises
        ------
        OSError
            If there is no connection, or it ends within an answer; TimeoutError where nothing came in time.
        ProtocolError
            If what comes is no answer.
        """
        self._is_shut = False
        try:
            refusal = self._open()
            return [refusal] * len(commands) if refusal is not None else self._asked(commands, most, sent)
        except BaseException:
            self._close()  # what still comes would be taken for the answer to the next question
            raise

    def shut(self) -> None:
        """End it; callable from another thread, where it ends what waits."""
        with self._lock:
            self._is_shut = True
            if self._ends is not None:
                with suppress(OSError):  # it has ended already
                    self._ends.shutdown(socket.SHUT_RDWR)

    def _open(self) -> Refusal | None:
        """Connect and greet where that is to be done; returns what the server refuses of the greeting."""
        if self._socket is not None and not self._has_ended(self._socket):
            return None
        self._close()
        made = self._place.connected(min(CONNECT_S, self._timeout_s))
        with self._lock:
            self._socket, self._ends = made, made.dup()
            if self._is_shut:  # while the name of a host was looked up, or it was connected to
                raise TimeoutError("it took too long to connect")
        made.settimeout(self._timeout_s)
        self._socket = self._place.secured(made)
        answers = self._asked(self._greeting, _GREETING_BYTES, 0) if self._greeting else []
        refusal = next((one for one in answers if isinstance(one, Refusal)), None)
        if refusal is not None:
            self._close()
        return refusal

    def _has_ended(self, made: socket.socket) -> bool:
        """Whether it was ended while nothing was asked: by ``shut``, or by a server that was started anew."""
        ended = select.poll()
        ended.register(made, select.POLLRDHUP)
        return bool(ended.poll(0))

    def _close(self) -> None:
        with self._lock:
            for one in (self._socket, self._ends):
                if one is not None:
                    one.close()
            self._socket = self._ends = None
        self._buffer = b""

    def __del__(self) -> None:
        """Close it."""
        self._close()

    def _asked(self, commands: Sequence[Sequence[object]], most: int, sent: int) -> list[Answer]:
        assert self._socket is not None  # noqa: S101 -- it is open
        self._socket.settimeout(self._timeout_s + sent / _BYTES_A_SECOND)
        self._socket.sendall(b"".join(encoded(one) for one in commands))
        self._left, self._elements_left = most, _MOST_ELEMENTS
        return [self._answer(_DEEPEST) for _ in commands]

    def _answer(self, depth: int) -> Answer:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return Refusal("".join(one if one.isprintable() else "?" for one in rest.decode("utf-8", "replace")))
        number = _number(rest)
        if kind == b":":
            return number
        if kind not in {b"$", b"*"} or number < -1 or number > self._left + len(self._buffer):
            raise ProtocolError(f"an answer begins with {line[:20]!r}")
        if number == -1:
            return None
        if kind == b"$":
            return self._bytes(number)
        if not depth:
            raise ProtocolError("arrays lie in arrays")
        self._elements_left -= number
        if self._elements_left < 0:
            raise ProtocolError("an answer has more elements than anybody asks for")
        return [self._answer(depth - 1) for _ in range(number)]

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            if len(self._buffer) > _LONGEST_LINE:
                raise ProtocolError("a line does not end")
            self._buffer += self._received(min(_READ_BYTES, self._left + 1))
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _bytes(self, count: int) -> bytes:
        data = bytearray(count + 2)
        filled = min(len(self._buffer), count + 2)
        data[:filled], self._buffer = self._buffer[:filled], self._buffer[filled:]
        with memoryview(data) as view:
            while filled < count + 2:
                filled += self._received_into(view[filled:])
        if data[count:] != b"\r\n":
            raise ProtocolError("a value does not end where it has to")
        del data[count:]
        return bytes(data)

    def _received(self, most: int) -> bytes:
        data = bytearray(most)
        return bytes(data[: self._received_into(memoryview(data))])

    def _received_into(self, view: memoryview) -> int:
        assert self._socket is not None  # noqa: S101 -- it is open
        count = self._socket.recv_into(view)
        if not count:
            raise ConnectionResetError("the server has ended the connection within an answer")
        self._left -= count
        if self._left < 0:
            raise ProtocolError("the answer is longer than was asked for")
        return count


def encoded(command: Sequence[object]) -> bytes:
    """Return a command as it is sent: texts, numbers and bytes."""
    parts = [b"*%d\r\n" % len(command)]
    for one in command:
        data = one if isinstance(one, bytes) else str(one).encode()
        parts += (b"$%d\r\n" % len(data), data, b"\r\n")
    return b"".join(parts)


def _number(text: bytes) -> int:
    digits = text.removeprefix(b"-")
    if not digits.isdigit() or len(digits) > _MOST_DIGITS:
        raise ProtocolError(f"{text[:20]!r} stands for a number")
    return int(text)


_SCANNED = 1000
_GLOB = {ord(character): f"\\{character}" for character in "*?[]\\^-"}
_MOST_BYTES, _MOST_LISTED = 1 << 20, 16 << 20
_AROUND_A_VALUE = 1 << 10  # an error may stand in its place
_KINDS: dict[str, FailureKind] = {
    "NOAUTH": "denied",
    "WRONGPASS": "denied",
    "NOPERM": "denied",
    "READONLY": "denied",
    "OOM": "full",
    "MISCONF": "full",
}


class RedisStore:
    """A store behind one connection; ``close`` may be called by another thread, every other method by one at a time."""

    def __init__(
        self, address: str, timeout_s: float, place: Place, *, database: int = 0, secret: Sequence[str] | None = None
    ) -> None:
        """Remember where it is.

        Parameters
        ----------
        address
            What it is called in messages, without secrets.
        timeout_s
            How long the beginning of an answer, or of what follows of it, is waited for, in seconds.
        secret
            User and password; no user is the server's default one. None: it asks for none.
        """
        self.address = address
        self._login = None if secret is None else ("AUTH", *(one for one in secret if one))
        greeting = [*([] if self._login is None else [self._login]), *([("SELECT", database)] if database else [])]
        self._connection = Connection(place, timeout_s, greeting)

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
        count, size = self._number(count), self._number(size)
        if count > MOST_FIELDS or size > MOST_FIELDS_BYTES:
            raise too_many_fields(self.address, f"{count} fields of {size} bytes")
        flat = self._list(self._one("HGETALL", name, most=MOST_FIELDS_BYTES + _MOST_BYTES)) if count else []
        found = zip(flat[::2], flat[1::2], strict=False)
        return {field.decode("ascii", "replace"): value for field, value in found if len(value) <= limit}

    def put_field(self, name: str, field: str, data: bytes, keep_s: int) -> None:
        """Store a field: see ``Store``."""
        for answer in self._ask([("HSET", name, field, data), ("EXPIRE", name, keep_s)], sent=len(data)):
            self._checked(answer)

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names: see ``Store``."""
        listed: set[str] = set()
        cursor = b"0"
        while True:
            pattern = f"{prefix.translate(_GLOB)}*"
            answer = self._one("SCAN", cursor, "MATCH", pattern, "COUNT", _SCANNED, most=_MOST_LISTED)
            if not isinstance(answer, list) or len(answer) != 2 or not isinstance(answer[0], bytes):
                raise self._no_answer()
            cursor, found = answer[0], self._list(answer[1])
            for name in (one.decode("ascii", "replace") for one in found):
                if name not in listed:
                    listed.add(name)
                    yield name
            if cursor == b"0":
                return

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
        answer = self._list(self._one("TIME"))
        if len(answer) != 2 or not all(one.isdigit() for one in answer):
            raise self._no_answer()
        return int(answer[0]) + int(answer[1]) / 1e6

    def close(self) -> None:
        """End the connection: see ``Store``."""
        self._connection.shut()

    def _one(self, *command: object, sent: int = 0, most: int = _MOST_BYTES) -> Answer:
        return self._checked(self._ask([command], sent=sent, most=most)[0])

    def _ask(self, commands: Sequence[tuple[object, ...]], *, sent: int = 0, most: int = _MOST_BYTES) -> list[Answer]:
        """Return what the server says to each command, of ``most`` bytes together: a value, or the error that is its answer."""
        was_open = self._connection.is_open
        try:
            return self._connection.ask(commands, most=most, sent=sent)
        except ProtocolError as error:
            raise StoreFailure("cut", f"{self.address} does not answer as Redis does: {error}") from error
        except OSError as error:
            raise StoreFailure(_kind(error, was_open=was_open), f"{self.address}: {str(error)[:300]}") from error

    def _value(self, answer: Answer) -> bytes:
        """Return a value; what is there and is none, such as a hash, counts as an empty one."""
        if _is_of_another_type(answer):
            return b""
        value = self._checked(answer)
        return value if isinstance(value, bytes) else b""

    def _number(self, answer: Answer) -> int:
        """Return a number; nothing counts as 0."""
        number = self._checked(answer)
        if not isinstance(number, (int, type(None))):
            raise self._no_answer()
        return number or 0

    def _list(self, answer: Answer) -> list[bytes]:
        """Return a list of texts, and nothing else that may lie in it."""
        if not isinstance(answer, list):
            raise self._no_answer()
        return [one for one in answer if isinstance(one, bytes)]

    def _checked(self, answer: Answer) -> Answer:
        if not isinstance(answer, Refusal):
            return answer
        kind = _KINDS.get(answer.code, "other")
        if self._login is not None and "AUTH" in answer.text.upper() and kind == "other":
            kind = "denied"
        raise StoreFailure(kind, f"{self.address}: {self._without_secret(answer.text)[:300]}")

    def _without_secret(self, text: str) -> str:
        """Return what a server says without the password: one that does not know AUTH repeats what it was given."""
        return text if self._login is None else text.replace(self._login[-1], "***")

    def _no_answer(self) -> StoreFailure:
        return StoreFailure("cut", f"{self.address} does not answer as Redis does")


def _is_of_another_type(answer: Answer) -> bool:
    return isinstance(answer, Refusal) and answer.code == "WRONGTYPE"


def _kind(error: OSError, *, was_open: bool) -> FailureKind:
    """Return what sort of failure an error of the connection is."""
    if isinstance(error, TimeoutError):
        return "timed_out"
    if isinstance(error, HandshakeFailed):
        return "tls"
    if type(error).__name__ == "SSLCertVerificationError":  # whose module is imported under TLS alone
        return "denied"
    return "cut" if was_open or isinstance(error, ConnectionResetError) else "refused"
