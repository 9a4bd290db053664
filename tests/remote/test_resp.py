"""What is made of a server's answers, one byte at a time and all at once, and of bytes that are no answers."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import redis
from redis._parsers import _RESP2Parser
from redis.exceptions import ResponseError

from vyre_driver.remote.redis_store import Connection, Place, ProtocolError, RedisStore, Refusal, encoded
from vyre_driver.remote.store import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vyre_driver.remote.redis_store import Answer

ANSWERS: dict[bytes, Answer] = {
    b"+OK\r\n": b"OK",
    b"+\r\n": b"",
    b"-WRONGTYPE of another kind\r\n": Refusal("WRONGTYPE of another kind"),
    b":0\r\n": 0,
    b":-12\r\n": -12,
    b"$-1\r\n": None,
    b"$0\r\n\r\n": b"",
    b"$4\r\na\r\nb\r\n": b"a\r\nb",
    b"*-1\r\n": None,
    b"*0\r\n": [],
    b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$-1\r\n": [b"0", [b"a", None]],
    b"*3\r\n:1\r\n-ERR no\r\n+yes\r\n": [1, Refusal("ERR no"), b"yes"],
}
HOSTILE = {
    b"HTTP/1.1 400 Bad Request\r\n\r\n": "stands for a number",
    b":\xff\r\n": "stands for a number",
    b"\r\n": "stands for a number",
    b"*1\r\n:no\r\n": "stands for a number",
    b"*1\r\n" * 10_000: "arrays lie in arrays",
    b"$" + b"9" * 5000 + b"\r\n": "stands for a number",
    b"+" + b"x" * (2 << 20): "a line does not end",
    b"hello\r\n": "an answer begins with b'hello'|b'ello' stands for a number",
    b"$3\r\nabcd\r\n": "a value does not end where it has to",
    b"$99999999999999999999\r\n": "stands for a number",
    b"$1_0\r\n0123456789\r\n": "stands for a number",
    b"$ 4\r\nabcd\r\n": "stands for a number",
    b":\r\n": "stands for a number",
    b"$-2\r\n": "an answer begins with",
    b"$2000000\r\n": "an answer begins with",
    b"*2000000\r\n": "an answer begins with",
    b"*1\r\n*1\r\n*1\r\n:1\r\n": "arrays lie in arrays",
    b"*70000\r\n" + b":1\r\n" * 8: "an answer has more elements than anybody asks for",
    b"+" + b"x" * 70_000: "a line does not end|the answer is longer than was asked for",
    b"%1\r\n+a\r\n+b\r\n": "an answer begins with",
}


class Server:
    """Says what it is given on each connection, in pieces, whatever it is asked, and then ends it or waits."""

    def __init__(self, path: Path) -> None:
        self.place = Place(path=str(path))
        self.says: Sequence[bytes] = ()
        self.heard = b""
        self.ends = True
        self.connections = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._kept: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                made, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self.heard += made.recv(1 << 16)
            with suppress(OSError):  # the client may have gone at the first bytes
                for piece in self.says:
                    made.sendall(piece)
            if self.ends:
                made.close()
            else:
                self._kept.append(made)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()  # it may be about to keep a connection
        self._listener.close()
        for one in self._kept:
            one.close()


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("s") / "s")
    yield made
    made.close()


def asked(server: Server, *pieces: bytes, count: int = 1, most: int = 1 << 17, timeout_s: float = 5) -> list[Answer]:
    server.says = pieces
    return Connection(server.place, timeout_s).ask([("PING",)] * count, most=most)


def test_each_kind_of_answer_is_what_it_stands_for(server: Server) -> None:
    assert asked(server, b"".join(ANSWERS), count=len(ANSWERS)) == list(ANSWERS.values())


def test_it_does_not_matter_where_an_answer_is_cut(server: Server) -> None:
    whole = b"".join(ANSWERS)
    for at in range(1, len(whole)):
        assert asked(server, whole[:at], whole[at:], count=len(ANSWERS)) == list(ANSWERS.values())


def test_an_answer_that_ends_early_is_a_connection_that_was_cut(server: Server) -> None:
    for whole in ANSWERS:
        for at in range(len(whole)):
            with pytest.raises(ConnectionResetError):
                asked(server, whole[:at])


@pytest.mark.parametrize("said", HOSTILE, ids=lambda said: repr(said[:30]))
def test_what_is_no_answer_is_refused_and_cuts_a_store_off(server: Server, said: bytes) -> None:
    server.ends = False
    with pytest.raises(ProtocolError, match=HOSTILE[said]):
        asked(server, said, timeout_s=1)
    with pytest.raises(StoreFailure) as failure:
        RedisStore("redis://host", 1, server.place).ping()
    assert failure.value.kind == "cut"


@pytest.mark.parametrize("more", [b"", b"+more\r\n" * 1000])
def test_an_answer_is_no_longer_than_was_asked_for(server: Server, more: bytes) -> None:
    said = b"$1000\r\n" + b"x" * 1000 + b"\r\n"
    assert asked(server, said, most=len(said)) == [b"x" * 1000]
    with pytest.raises(ProtocolError):
        asked(server, said + more, most=900)


def of_redis_py(said: bytes) -> Any:  # noqa: ANN401 -- whatever it makes of it
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(said)
        theirs.shutdown(socket.SHUT_WR)
        connection = redis.connection.UnixDomainSocketConnection(parser_class=_RESP2Parser, protocol=2)
        connection._sock = ours  # noqa: SLF001 -- its parser alone
        connection._parser.on_connect(connection)  # noqa: SLF001 -- its parser alone
        try:
            found = connection._parser.read_response()  # noqa: SLF001 -- its parser alone
        except ResponseError as error:
            found = error
        finally:
            connection._sock = None  # noqa: SLF001 -- its parser alone
        return found


def plain(answer: Any) -> Any:  # noqa: ANN401 -- of either
    """Return an answer with the errors in it as one mark: redis-py takes the code out of some texts."""
    if isinstance(answer, list):
        return [plain(one) for one in answer]
    return "refused" if isinstance(answer, (Refusal, ResponseError)) else answer


def drawn(draw: random.Random, depth: int = 2) -> bytes:
    kind = draw.choice("+-:$$$*" if depth else "+-:$$$")
    if kind == "*":
        parts = [drawn(draw, depth - 1) for _ in range(draw.randrange(4))]
        return b"*%d\r\n%s" % (len(parts), b"".join(parts))
    if kind == "$":
        data = draw.randbytes(draw.choice((0, 1, 2, 70)))
        return draw.choice((b"$-1\r\n", b"$%d\r\n%s\r\n" % (len(data), data)))
    return {"+": b"+some text\r\n", "-": b"-ERR some text\r\n", ":": b":%d\r\n" % draw.randrange(-99, 99)}[kind]


def test_random_answers_are_what_redis_py_makes_of_them(server: Server) -> None:
    draw = random.Random(7)  # noqa: S311 -- no secret
    said = [drawn(draw) for _ in range(300)]
    assert [plain(one) for one in asked(server, b"".join(said), count=300)] == [plain(of_redis_py(one)) for one in said]


def test_random_bytes_end_in_an_answer_or_one_of_three_errors(server: Server) -> None:
    draw = random.Random(8)  # noqa: S311 -- no secret
    for _ in range(300):
        said = bytearray(drawn(draw))
        for _ in range(draw.randrange(1, 4)):
            said[draw.randrange(len(said))] = draw.randrange(256)
        try:
            asked(server, bytes(said))
        except (ProtocolError, ConnectionResetError):
            continue


def test_after_a_failure_the_next_question_has_a_connection_of_its_own(server: Server) -> None:
    connection = Connection(server.place, 5)
    server.says = (b"+first\r\n?\r\n",)
    with pytest.raises(ProtocolError):
        connection.ask([("PING",)] * 2, most=100)
    assert not connection.is_open
    server.says = (b"+second\r\n",)
    assert connection.ask([("PING",)], most=100) == [b"second"]
    assert server.connections == 2


def test_a_server_that_refuses_the_greeting_refuses_every_question(server: Server) -> None:
    connection = Connection(server.place, 5, [("AUTH", "user", "wrong")])
    server.says = (b"-WRONGPASS no\r\n",)
    assert connection.ask([("PING",), ("TIME",)], most=100) == [Refusal("WRONGPASS no")] * 2
    assert (server.heard, connection.is_open) == (b"*3\r\n$4\r\nAUTH\r\n$4\r\nuser\r\n$5\r\nwrong\r\n", False)


def test_another_thread_ends_what_waits(server: Server) -> None:
    server.ends = False
    connection = Connection(server.place, 60)
    threading.Timer(0.05, connection.shut).start()
    with pytest.raises(ConnectionResetError):
        connection.ask([("PING",)], most=100)


def test_the_elements_of_all_arrays_of_an_answer_are_counted_together(server: Server) -> None:
    server.ends = False
    server.says = (b"*2\r\n*40000\r\n" + b":1\r\n" * 40_000, b"*40000\r\n" + b":1\r\n" * 40_000)
    with pytest.raises(ProtocolError, match="an answer has more elements than anybody asks for"):
        Connection(server.place, 5).ask([("PING",)], most=1 << 20)


class Late(Place):
    """A place to which connecting takes so long that the deadline passes meanwhile, as where no server of names answers."""

    def connected(self, timeout_s: float) -> socket.socket:
        made = super().connected(timeout_s)
        connections[0].shut()
        return made


connections: list[Connection] = []


def test_who_is_ended_while_connecting_asks_nothing_and_is_asked_again_later(server: Server) -> None:
    server.says = (b"+first\r\n",)
    connections[:] = [Connection(Late(path=server.place.path), 5)]
    with pytest.raises(TimeoutError, match="it took too long to connect"):
        connections[0].ask([("PING",)], most=100)
    assert not connections[0].is_open
    connections[0]._place = server.place  # noqa: SLF001
    assert connections[0].ask([("PING",)], most=100) == [b"first"]


def test_an_error_has_no_characters_that_steer_a_terminal_or_end_a_line_of_a_log(server: Server) -> None:
    server.says = (b"-ERR \x1b[2Jno\nFAKE \xff\r\n",)
    assert Connection(server.place, 5).ask([("PING",)], most=100) == [Refusal("ERR ?[2Jno?FAKE \N{REPLACEMENT CHARACTER}")]


@pytest.mark.parametrize("user", ["vyre", ""])
def test_a_server_that_repeats_the_password_makes_no_message_with_it(server: Server, user: str) -> None:
    server.says = (b"-ERR unknown command 'AUTH', with args beginning with: 'vyre' 'hunter2' \r\n",)
    with pytest.raises(StoreFailure) as error:
        RedisStore("redis://host", 5, server.place, secret=[user, "hunter2"]).ping()
    said = "redis://host: ERR unknown command 'AUTH', with args beginning with: 'vyre' '***' "
    assert (str(error.value), error.value.kind) == (said, "denied")


def test_commands_are_arrays_of_texts() -> None:
    assert (
        encoded(("SET", "name", b"\r\n\0", 12, 0.5))
        == b"*5\r\n$3\r\nSET\r\n$4\r\nname\r\n$3\r\n\r\n\0\r\n$2\r\n12\r\n$3\r\n0.5\r\n"
    )
