"""A Redis or Valkey server as a store, through one connection (resp.py).

Source: the commands of Redis 7 (GETRANGE, SET, SCAN, EXPIRE, TOUCH, TIME, HLEN, HGETALL, MEMORY USAGE).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.remote.resp import Connection, HandshakeFailed, ProtocolError, Refusal
from vyre_driver.remote.store import MOST_FIELDS, MOST_FIELDS_BYTES, StoreFailure, too_many_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vyre_driver.remote.resp import Answer, Place
    from vyre_driver.remote.store import FailureKind

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
