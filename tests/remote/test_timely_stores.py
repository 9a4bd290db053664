"""A store as commands ask it: every operation comes to an end, whatever the store does."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest
from faults import Fault

from vyre_driver.cli import cache_remote
from vyre_driver.errors import RemoteUnavailable
from vyre_driver.remote import link
from vyre_driver.remote.addresses import open_store
from vyre_driver.remote.link import TimelyStore
from vyre_driver.remote.names import claim_name, entry_name
from vyre_driver.remote.store import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from faults import FaultProxy
    from servers import RedisServer

DEVICE = "d" * 32
NAME, NONE = (entry_name(DEVICE, bytes([number]) * 32) for number in range(2))


def test_it_does_what_the_store_does(tmp_path: Path) -> None:
    store = TimelyStore(open_store(f"file:{tmp_path}"))
    store.ping()
    tuning = f"vyre:t1:{DEVICE}:{'e' * 64}"
    assert [store.put_new(NAME, b"value", 60), store.put_new(NAME, b"other", 60)] == [True, False]
    assert [store.claim(claim_name(DEVICE, bytes(32)), who, 60) for who in (b"one", b"two")] == [True, False]
    store.put_field(tuning, "a" * 64, b"field", 60)
    store.touch([NAME, NONE], 60)
    assert (store.fetch([NAME, NONE], 10), store.fields(tuning, 10)) == ([b"value", None], {"a" * 64: b"field"})
    assert (list(store.names("vyre:e1:")), list(store.names("vyre:d1:"))) == ([NAME], [])
    with pytest.raises(StoreFailure, match="has no clock"):
        store.time_s()
    store.close()
    assert store.address == f"file:{tmp_path}"


@pytest.mark.redis
def test_a_server_that_drips_ends_a_command(
    redis_server: RedisServer, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(redis_server.url).put_new(NAME, bytes(200), 60)
    monkeypatch.setenv("VYRE_CACHE_REMOTE", proxy.url)
    monkeypatch.setenv("VYRE_CACHE_REMOTE_TIMEOUT", "5")
    monkeypatch.setattr(link, "WHOLE_S", 0.3)
    proxy.fault = Fault(drip_s=0.1)
    with pytest.raises(RemoteUnavailable) as error, cache_remote.asked() as store:
        store.fetch([NAME], 200)
    assert (error.value.context["kind"], "no whole answer in 0.300024 s" in str(error.value)) == ("late", True)


def test_a_list_of_names_without_an_end_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "MOST_NAMES", 10)
    endless = open_store(f"file:{tmp_path}")
    monkeypatch.setattr(
        endless, "names", lambda _prefix: (entry_name(DEVICE, one.to_bytes(32, "big")) for one in itertools.count())
    )
    names = TimelyStore(endless).names("vyre:e1:")
    assert len(list(itertools.islice(names, 10))) == 10
    with pytest.raises(StoreFailure, match=r"has over 10 names that begin with vyre:e1:, and no more are read"):
        next(names)


def test_a_list_of_questions_without_names_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the deadline falls between two questions, so that there is no connection to end."""
    monkeypatch.setattr(link, "_NEXT_NAME_S", 0)
    monkeypatch.setattr(link, "WHOLE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                while connection.recv(65536):
                    connection.sendall(b"*2\r\n$1\r\n7\r\n*0\r\n")

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        url = f"redis://127.0.0.1:{server.getsockname()[1]}"
        for _ in range(4):
            with pytest.raises(StoreFailure, match=r"no whole answer in 0\.1 s"):
                list(TimelyStore(open_store(url)).names("vyre:e1:"))


def test_a_list_has_a_deadline_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_ALL_NAMES_S", 0.05)
    slow = open_store(f"file:{tmp_path}")

    def names(_prefix: str) -> Iterator[str]:
        while True:
            time.sleep(0.02)
            yield NAME

    monkeypatch.setattr(slow, "names", names)
    with pytest.raises(StoreFailure, match=r"did not end its list in 0\.05 s"):
        list(TimelyStore(slow).names("vyre:e1:"))
