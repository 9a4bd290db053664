"""The thread that speaks to a store: what each failure of a real server comes to, and that nobody waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from asking import WAITS_S, Asked, ask, send, worker_of
from faults import Fault

from vyre_driver.cache import DiskPipelineCache
from vyre_driver.errors import BackendUnavailable
from vyre_driver.remote import link, worker
from vyre_driver.remote.breaker import Breaker
from vyre_driver.remote.envelope import MAX_VALUE_BYTES
from vyre_driver.remote.redis_store import RedisStore
from vyre_driver.remote.worker import MOST_FETCHES, StoreWorker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import RunChild
    from faults import FaultProxy
    from servers import RedisServer

    from vyre_driver.remote.store import Store

pytestmark = pytest.mark.redis

VALUE = bytes(range(256)) * 64
NAME = "vyre:e1:" + "0" * 32 + ":" + "ab" * 32


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def until(condition: object) -> None:
    """Wait until a function returns what is true."""
    end = time.monotonic() + WAITS_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.005)


def test_values_come_in_one_round_trip_and_absent_ones_are_none(redis_server: RedisServer, root: Path) -> None:
    redis_server.do("SET", NAME, VALUE)
    one = worker_of(redis_server.url, root)
    asked = ask(one, "vyre:d1:absent", NAME)
    assert (asked.outcome, asked.values) == ("answered", [None, VALUE])
    assert (one.bytes_read, one.is_open(), one.spent_s > 0) == (len(VALUE), False, True)


def queued(one: StoreWorker, questions: list[Asked]) -> None:
    """Ask questions that wait for the thread together."""
    one._questions.extend(questions)  # noqa: SLF001 -- as while the thread is at another
    one.wake()


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many names are fetched in each round trip."""
    counts: list[int] = []
    fetch = RedisStore.fetch

    def noted(store: RedisStore, names: Sequence[str], limit: int) -> list[bytes | None]:
        counts.append(len(names))
        return fetch(store, names, limit)

    monkeypatch.setattr(RedisStore, "fetch", noted)
    return counts


def test_up_to_eight_questions_share_a_round_trip(redis_server: RedisServer, root: Path, fetched: list[int]) -> None:
    names = [f"{NAME[:-2]}{number:02}" for number in range(9)]
    for name in names:
        redis_server.do("SET", name, name.encode())
    asked = [Asked("vyre:d1:absent", name) for name in names]
    queued(worker_of(redis_server.url, root), asked)
    assert [one.end() for one in asked] == ["answered"] * 9
    assert ([one.values for one in asked], fetched) == ([[None, name.encode()] for name in names], [16, 2])


def test_what_is_too_long_to_share_a_round_trip_is_fetched_by_itself(
    redis_server: RedisServer, root: Path, fetched: list[int]
) -> None:
    long = bytes(MAX_VALUE_BYTES // 2 + 1)
    redis_server.do("SET", NAME, long)
    redis_server.do("SET", "vyre:d1:short", VALUE)
    asked = [Asked("vyre:d1:short"), Asked(NAME)]
    queued(worker_of(redis_server.url, root), asked)
    assert [one.end() for one in asked] == ["answered"] * 2
    assert ([one.values for one in asked], fetched) == ([[VALUE], [long]], [2, 1])


class Unusable(Asked):
    def answered(self, values: Sequence[bytes | None]) -> bool | None:
        super().answered(values)
        raise ValueError("its answer cannot be used")


def test_an_answer_that_cannot_be_used_leaves_no_question_of_its_round_trip_open(redis_server: RedisServer, root: Path) -> None:
    asked = [Asked(NAME), Unusable(NAME), Asked(NAME)]
    one = worker_of(redis_server.url, root)
    queued(one, asked)
    assert asked[2].end() == "failed"
    assert ([each.end() for each in asked], ask(one, NAME).outcome) == (["answered", "failed", "failed"], "answered")


def test_a_server_that_is_down_is_refused_at_once_and_left_alone(redis_server: RedisServer, root: Path) -> None:
    redis_server.stop()
    one = worker_of(redis_server.url, root)
    first, second = ask(one, NAME), ask(one, NAME)
    assert (first.outcome, second.outcome, one.breaker.reason) == ("failed", "open", "refused")


def test_a_server_that_comes_back_is_asked_again_after_a_ping(redis_server: RedisServer, root: Path) -> None:
    redis_server.stop()
    one = worker_of(redis_server.url, root)
    assert ask(one, NAME).outcome == "failed"
    redis_server.start()
    now = time.time()
    one.breaker._clock = lambda: now + 6  # noqa: SLF001 -- the first period is over
    assert ask(one, NAME).values == [None]
    assert (one.is_open(), list((root / "remote").iterdir())) == (False, [])


def test_a_silent_server_has_no_answer_and_is_left_alone_by_other_processes_too(redis_server: RedisServer, root: Path) -> None:
    one, other = (worker_of(redis_server.url, root, 0.25) for _ in range(2))
    with redis_server.frozen():
        assert ask(one, NAME).outcome == "no_answer"
    assert (one.breaker.reason, ask(other, NAME).outcome, other.breaker.reason) == ("timed_out", "open", "timed_out")


def test_a_server_that_drips_is_cut_off_by_the_watchdog(
    redis_server: RedisServer, proxy: FaultProxy, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "WHOLE_S", 0.1)
    monkeypatch.setattr(worker, "MAX_VALUE_BYTES", 1 << 19)
    redis_server.do("SET", NAME, VALUE)
    proxy.fault = Fault(after=10, drip_s=0.02)
    one = worker_of(proxy.url, root)
    assert [ask(one, NAME).outcome for _ in range(4)] == ["failed", "failed", "failed", "open"]
    assert one.breaker.reason == "late"


def test_an_answer_that_is_cut_off_fails_and_the_third_in_a_minute_opens_the_breaker(
    redis_server: RedisServer, proxy: FaultProxy, root: Path
) -> None:
    redis_server.do("SET", NAME, VALUE)
    proxy.fault = Fault(after=100, cut=True)
    one = worker_of(proxy.url, root)
    assert [ask(one, NAME).outcome for _ in range(4)] == ["failed", "failed", "failed", "open"]
    assert (one.breaker.reason, proxy.connections) == ("cut", 3)


def test_eight_refused_values_in_a_row_leave_it_alone_as_poisoned(redis_server: RedisServer, root: Path) -> None:
    redis_server.do("SET", NAME, VALUE)
    one = worker_of(redis_server.url, root)
    assert {ask(one, NAME, is_refused=True).outcome for _ in range(8)} == {"answered"}
    until(one.is_open)
    assert (ask(one, NAME).outcome, one.breaker.reason) == ("open", "poisoned")


def test_a_package_that_is_missing_is_told_once_and_keeps_this_process_from_asking(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def missing() -> Store:
        raise BackendUnavailable("the package redis cannot be imported", fix="pip install 'vyre-driver[remote]'")

    one = StoreWorker(missing, Breaker(DiskPipelineCache(root), "0" * 16), address="redis:", may_write=False)
    assert [ask(one, NAME).outcome for _ in range(2)] == ["open", "open"]
    said = "the package redis cannot be imported. Fix: pip install 'vyre-driver[remote]'."
    assert caplog.messages == [f"the shared cache is not used by this process: {said}"]
    assert not (root / "remote").exists()


def test_where_no_thread_is_to_be_had_nothing_is_asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_threads: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(worker, "start_all", none_left)
    one = worker_of("unix:/nowhere", root)
    assert [one.ask(Asked(NAME)) for _ in range(MOST_FETCHES + 1)] == [False] * (MOST_FETCHES + 1)


def test_where_no_thread_is_to_be_had_the_questions_of_others_stay(
    redis_server: RedisServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, first, second = worker_of(redis_server.url, root), Asked(NAME), Asked(NAME)
    starts = iter((None, RuntimeError("can't start new thread")))

    def slow_to_start_and_then_none(_threads: object) -> None:
        error = next(starts)
        if error is not None:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(worker, "start_all", slow_to_start_and_then_none)
        assert [one.ask(first), one.ask(second)] == [True, False]
    assert one.wake()
    assert (first.end(), second.outcome) == ("answered", "")


def test_of_a_huge_value_no_more_than_the_limit_comes(redis_server: RedisServer, root: Path) -> None:
    redis_server.do("SETRANGE", NAME, (100 << 20) - 1, b"\1")
    asked = ask(worker_of(redis_server.url, root), NAME)
    assert [len(value or b"") for value in asked.values] == [MAX_VALUE_BYTES + 1]


def test_a_wrong_password_leaves_it_alone_for_five_minutes(
    redis_server: RedisServer, root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("reader:wrong\n", "utf-8")
    secret.chmod(0o600)
    redis_server.do("ACL", "SETUSER", "reader", "on", ">right", "~vyre:*", "+getrange", "+ping")
    one = worker_of(redis_server.url, root, secret_file=secret)
    assert [ask(one, NAME).outcome for _ in range(2)] == ["failed", "open"]
    assert one.breaker.reason == "denied"
    assert [message for message in caplog.messages if "VYRE_CACHE_REMOTE_SECRET_FILE" in message] == [
        f"the shared cache is left alone for 300 s: denied. Fix: {DENIED}."
    ]
    secret.write_text("reader:right\n", "utf-8")
    assert ask(worker_of(redis_server.url, tmp_path / "elsewhere", secret_file=secret), NAME).values == [None]


DENIED = "check the user and password of VYRE_CACHE_REMOTE_SECRET_FILE, and what that user may do"


def sent(one: worker.StoreWorker, name: str, data: bytes) -> str:
    """Have a value sent, and return under what that was counted."""
    outcomes: list[str] = []
    one.uploads._spread = lambda: 0.0  # noqa: SLF001 -- at once
    assert send(one, name, data, outcomes.append)
    one.wake()
    until(lambda: outcomes)
    return outcomes[0]


def test_what_is_sent_is_kept_for_thirty_days_and_what_is_there_already_stays(redis_server: RedisServer, root: Path) -> None:
    one = worker_of(redis_server.url, root)
    assert [sent(one, NAME, VALUE), sent(one, NAME, b"another's")] == ["remote_put", "remote_put_known"]
    assert (redis_server.do("GET", NAME), one.bytes_written) == (VALUE, len(VALUE))
    assert 30 * 86_400 - 60 < redis_server.do("TTL", NAME) <= 30 * 86_400


def test_without_the_right_to_write_it_is_only_read(redis_server: RedisServer, root: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("reader:right\n", "utf-8")
    secret.chmod(0o600)
    redis_server.do("ACL", "SETUSER", "reader", "on", ">right", "~vyre:*", "+getrange", "+ping")
    one = worker_of(redis_server.url, root, secret_file=secret)
    assert (sent(one, NAME, VALUE), one.may_write) == ("remote_put_failed", False)
    assert (ask(one, NAME).values, one.is_open()) == ([None], False)


def test_a_full_server_is_read_and_gets_nothing_for_five_minutes(redis_server: RedisServer, root: Path) -> None:
    redis_server.do("SET", NAME, VALUE)
    redis_server.do("CONFIG", "SET", "maxmemory", "1")
    one = worker_of(redis_server.url, root)
    assert sent(one, "vyre:e1:other", VALUE) == "remote_full"
    assert (ask(one, NAME).values, one.is_open()) == ([VALUE], False)
    assert send(one, "vyre:e1:third", VALUE, lambda _what: None)
    assert 299 < (one.uploads.next_due() or 0) <= 300


def test_at_most_64_questions_wait_and_a_caller_never_does(redis_server: RedisServer, root: Path) -> None:
    one = worker_of(redis_server.url, root)
    busy = threading.Event()
    first = Asked(NAME)
    first.answered = lambda _values: busy.wait(WAITS_S) and None  # type: ignore[method-assign]
    assert one.ask(first)
    until(lambda: not one._questions)  # noqa: SLF001
    assert [one.ask(Asked(NAME)) for _ in range(MOST_FETCHES + 1)] == [True] * MOST_FETCHES + [False]
    busy.set()


def clients(redis_server: RedisServer) -> set[str]:
    """Return the ids of those that are connected, but for the administrator who asks."""
    with redis_server.client() as client:
        return {one["id"] for one in client.client_list() if one["cmd"] != "client|list"}


def test_the_connection_is_given_back_when_it_is_idle(
    redis_server: RedisServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "IDLE_S", 0.5)  # long enough to be seen
    one = worker_of(redis_server.url, root)
    before = clients(redis_server)
    assert ask(one, NAME).values == [None]
    until(lambda: len(clients(redis_server) - before) == 1)  # an earlier test's may be closing still
    (ours,) = clients(redis_server) - before
    until(lambda: ours not in clients(redis_server))
    assert ask(one, NAME).values == [None]


def test_a_forked_child_asks_over_a_connection_of_its_own(redis_server: RedisServer, root: Path) -> None:
    one = worker_of(redis_server.url, root)
    assert ask(one, NAME).values == [None]
    child = os.fork()
    if not child:
        os._exit(int(one._serving.locked() or ask(one, NAME).values != [None]))  # noqa: SLF001
    assert os.waitpid(child, 0)[1] == 0
    redis_server.do("SET", NAME, VALUE)
    assert ask(one, NAME).values == [VALUE]


LEAVING = """
import sys
from asking import ask, send, worker_of
one = worker_of(sys.argv[1], None)
print(len(ask(one, sys.argv[2]).values[0]))
send(one, "vyre:e1:left", b"behind", print if sys.argv[3:] else lambda outcome: None)
one.wake()
print("ends", flush=True)
"""
HERE = {"PYTHONPATH": str(Path(__file__).parent)}


def test_a_process_that_ends_sends_what_it_has_first(redis_server: RedisServer, run_python: RunChild) -> None:
    redis_server.do("SET", NAME, VALUE)
    done = run_python("-c", LEAVING, redis_server.url, NAME, "tell", env=HERE)
    assert (done.stdout, done.stderr) == ("16384\nends\nremote_put\n", "")
    assert redis_server.do("GET", "vyre:e1:left") == b"behind"


def test_a_process_that_ends_goes_on_to_end_where_the_server_says_nothing_more(
    redis_server: RedisServer, proxy: FaultProxy, run_python: RunChild
) -> None:
    redis_server.do("SET", NAME, VALUE)
    proxy.fault = Fault(after=len("$16384\r\n\r\n") + len(VALUE), drip_s=0.2)
    done = run_python("-c", LEAVING, proxy.url, NAME, env=HERE)
    assert (done.status, done.stdout, done.stderr) == (0, "16384\nends\n", "")


def test_what_is_being_sent_when_a_process_ends_is_waited_for(redis_server: RedisServer, proxy: FaultProxy, root: Path) -> None:
    proxy.fault = Fault(delay_s=0.1)
    one, outcomes = worker_of(proxy.url, root), list[str]()
    one.uploads._spread = lambda: 0.0  # noqa: SLF001 -- at once
    send(one, NAME, VALUE, outcomes.append)
    one.wake()
    until(lambda: one.uploads.next_due() is None)
    one.leave(WAITS_S)
    assert (outcomes, redis_server.do("GET", NAME)) == (["remote_put"], VALUE)


def test_what_cannot_be_sent_before_a_process_ends_is_given_up_and_counted_and_the_store_not_blamed(
    redis_server: RedisServer, proxy: FaultProxy, root: Path
) -> None:
    one, outcomes = worker_of(proxy.url, root), list[str]()
    assert ask(one, NAME).values == [None]
    proxy.fault = Fault(after=1, silent=True)
    for name in (NAME, "vyre:e1:later"):
        send(one, name, VALUE, outcomes.append)
    one.leave(0.2)
    until(lambda: len(outcomes) == 2)
    assert (outcomes, redis_server.do("DBSIZE")) == (["remote_put_failed", "remote_put_shed"], 0)
    assert list(one.breaker._faults) == []  # noqa: SLF001 -- of which the third in a minute would open it


SENDING = """
import sys, time
from asking import send, worker_of
one = worker_of(sys.argv[1], None)
one.uploads._spread = lambda: 0.0
send(one, sys.argv[2], bytes(1 << 22), lambda outcome: None)
one.wake()
time.sleep(60)
"""


def test_of_what_a_process_sends_that_is_killed_nothing_is_stored(
    redis_server: RedisServer, proxy: FaultProxy, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", HERE["PYTHONPATH"])
    proxy.fault = Fault(passes=1 << 20)
    with subprocess.Popen([sys.executable, "-c", SENDING, proxy.url, NAME]) as child:
        until(lambda: proxy.kept_back > 1 << 20)
        child.kill()
    assert redis_server.do("EXISTS", NAME) == 0
    assert sent(worker_of(redis_server.url, root), NAME, VALUE) == "remote_put"
    assert redis_server.do("GET", NAME) == VALUE
