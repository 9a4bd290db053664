"""What every store does alike, and what each makes of harm: a real redis-server, with TLS and users, and a real folder."""

from __future__ import annotations

import functools
import http.server
import os
import socket
import threading
import time
import warnings
from typing import TYPE_CHECKING

import pytest
from faults import Fault

from vyre_driver.remote.addresses import open_store
from vyre_driver.remote.names import claim_name, entry_name, path_of
from vyre_driver.remote.store import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from faults import FaultProxy
    from servers import RedisServer

    from vyre_driver.remote.store import FailureKind, Store

DEVICE = "d" * 32
NAME, OTHER, NONE = (entry_name(DEVICE, bytes([number]) * 32) for number in range(3))


def kind_of(call: Callable[[], object]) -> FailureKind:
    with pytest.raises(StoreFailure) as failure:
        call()
    return failure.value.kind


def of_bucket(url: str, tmp_path: Path, name: str = "bucket/a/prefix", **options: float) -> Store:
    secret = tmp_path / "secret"
    secret.write_text("access:key\n")
    secret.chmod(0o600)
    return open_store(f"s3://{name}?region=us-east-1&endpoint={url}", secret_file=secret, **options)


@pytest.fixture(params=["unix", "redis", "rediss", "file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "file":
        return open_store(f"file:{tmp_path}")
    if request.param == "s3":
        return of_bucket(request.getfixturevalue("bucket"), tmp_path)
    server: RedisServer = request.getfixturevalue("redis_server")
    urls = {
        "unix": server.url,
        "redis": server.loopback_url,
        "rediss": f"rediss://127.0.0.1:{server.tls_port}/0?ca={server.certificate}",
    }
    return open_store(urls[request.param])


@pytest.mark.redis
def test_every_store_gives_back_what_was_put_first_and_no_more_than_the_limit_and_a_byte(store: Store) -> None:
    assert [store.put_new(NAME, b"first" * 20, 60), store.put_new(NAME, b"second", 60)] == [True, False]
    assert store.put_new(OTHER, b"\0\xff" * 100_000, 60)
    assert store.fetch([NAME, NONE, OTHER], 1 << 20) == [b"first" * 20, None, b"\0\xff" * 100_000]
    assert store.fetch([NAME, OTHER], 9) == [b"firstfirst", b"\0\xff" * 5]


@pytest.mark.redis
def test_every_store_lets_one_claim_a_name_until_its_time_has_passed(store: Store) -> None:
    claim = claim_name(DEVICE, bytes(32))
    assert [store.claim(claim, b"one", 0.3), store.claim(claim, b"two", 60)] == [True, False]
    time.sleep(0.32)
    assert [store.claim(claim, b"two", 60), store.claim(claim, b"one", 60)] == [True, False]


@pytest.mark.redis
def test_every_store_keeps_fields_below_a_name_the_last_of_two(store: Store) -> None:
    place = f"vyre:t1:{DEVICE}:{'e' * 64}"
    assert store.fields(place, 10) == {}
    for field, value in (("a" * 64, b"old"), ("a" * 64, b"new"), ("b" * 64, b"x" * 11)):
        store.put_field(place, field, value, 60)
    assert store.fields(place, 10) == {"a" * 64: b"new"}
    assert store.fields(place, 11) == {"a" * 64: b"new", "b" * 64: b"x" * 11}


@pytest.mark.redis
def test_every_store_lists_names_by_their_beginning(store: Store) -> None:
    foreign = entry_name("e" * 32, bytes(32))
    for name in (NAME, OTHER, foreign):
        store.put_new(name, b"", 60)
    store.claim(claim_name(DEVICE, bytes(32)), b"", 60)
    assert sorted(store.names(f"vyre:e1:{DEVICE}:")) == [NAME, OTHER]
    assert sorted(store.names("vyre:e1:")) == [NAME, OTHER, foreign]
    assert list(store.names("vyre:d1:")) == []


@pytest.mark.redis
def test_every_store_is_asked_again_after_it_was_closed(store: Store) -> None:
    store.ping()
    store.close()
    store.close()
    store.touch([NAME, OTHER], 60)
    assert store.fetch([NAME], 1) == [None]


@pytest.mark.redis
def test_a_value_of_another_type_counts_as_empty_and_a_hash_of_gigabytes_is_not_read(redis_server: RedisServer) -> None:
    store = open_store(redis_server.url)
    redis_server.do("HSET", NAME, "field", b"value")
    redis_server.do("SET", OTHER, b"text")
    assert (store.fetch([NAME, NONE], 10), store.fields(OTHER, 10)) == ([b"", None], {})
    redis_server.do("HSET", NONE, *(one for number in range(1025) for one in (number, b"")))
    assert kind_of(lambda: store.fields(NONE, 10)) == "other"
    redis_server.do("DEL", NONE)
    redis_server.do("HSET", NONE, "field", bytes(17 << 20))
    assert kind_of(lambda: store.fields(NONE, 10)) == "other"


@pytest.mark.redis
def test_a_value_is_kept_as_long_as_was_said_and_longer_when_it_is_used(redis_server: RedisServer) -> None:
    store = open_store(redis_server.url)
    store.put_new(NAME, b"", 100)
    first = redis_server.do("TTL", NAME)
    store.touch([NAME, NONE], 1000)
    assert (first, redis_server.do("TTL", NAME)) == (100, 1000)


@pytest.mark.redis
def test_each_failure_of_a_server_has_its_kind(redis_server: RedisServer, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("reader:wrong\n")
    secret.chmod(0o600)
    reader = open_store(redis_server.url, secret_file=secret)
    assert kind_of(reader.ping) == "denied"
    redis_server.do("ACL", "SETUSER", "reader", "on", ">wrong", "~vyre:*", "+@read", "+ping")
    assert kind_of(lambda: reader.put_new(NAME, b"", 1)) == "denied"
    reader.touch([NAME], 60)
    writer = open_store(redis_server.url)
    redis_server.do("CONFIG", "SET", "maxmemory", 1)
    assert kind_of(lambda: writer.put_new(NAME, b"1", 60)) == "full"
    assert writer.fetch([NAME], 1) == [None]
    with redis_server.frozen():
        assert kind_of(writer.ping) == "timed_out"
    untrusted = open_store(f"rediss://127.0.0.1:{redis_server.tls_port}")
    assert kind_of(untrusted.ping) == "denied"
    without_tls = open_store(f"rediss://127.0.0.1:{redis_server.port}")
    assert kind_of(without_tls.ping) == "tls"
    redis_server.stop()
    assert kind_of(writer.ping) == "refused"
    redis_server.start()
    writer.ping()


@pytest.mark.redis
def test_closing_from_another_thread_ends_what_waits(proxy: FaultProxy) -> None:
    store = open_store(f"unix:{proxy.socket_path}", timeout_s=20)
    store.put_new(NAME, bytes(1000), 60)
    proxy.fault = Fault(silent=True)
    store.close()
    watchdog = threading.Timer(0.1, store.close)
    watchdog.start()
    assert kind_of(lambda: store.fetch([NAME], 1000)) == "cut"
    watchdog.join()


def test_a_folder_that_is_not_there_is_full_or_may_not_be_written_has_its_kind(tmp_path: Path) -> None:
    assert kind_of(open_store(f"file:{tmp_path}/none").ping) == "refused"
    store = open_store(f"file:{tmp_path}")
    assert store.put_new(NAME, b"", 60)
    (tmp_path / "vyre" / "w1").write_text("a file where a folder belongs")
    assert kind_of(lambda: store.claim(claim_name(DEVICE, bytes(32)), b"", 1)) == "other"
    assert list(store.names("vyre:w1:")) == []


def test_links_fifos_and_folders_in_a_shared_folder_count_as_empty_and_strangers_names_are_not_listed(tmp_path: Path) -> None:
    store = open_store(f"file:{tmp_path}")
    for name in (NAME, OTHER, NONE):
        store.put_new(name, b"value", 60)
    paths = sorted(one for one in tmp_path.rglob("*") if one.is_file())
    for path in paths:
        path.unlink()
    secret = tmp_path / "secret"
    secret.write_text("not for you")
    paths[0].symlink_to(secret)
    os.mkfifo(paths[1])
    paths[2].mkdir()
    assert store.fetch([NAME, OTHER, NONE], 100) == [b"", b"", b""]
    (paths[0].parent / "stranger").write_text("")
    (paths[0].parent / ".tmp-left-behind").write_text("")
    assert sorted(store.names("vyre:e1:")) == [NAME, OTHER, NONE]


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_links_to_folders_below_a_shared_folder_are_not_followed(tmp_path: Path, depth: int) -> None:
    shared, private = tmp_path / "shared", tmp_path / "private"
    shared.mkdir()
    store = open_store(f"file:{shared}")
    store.put_new(NAME, b"value", 60)
    place = shared.joinpath(*path_of(NAME).split("/")[:depth])
    place.rename(private)
    place.symlink_to(private)
    before = sorted((one, one.stat().st_mtime_ns) for one in private.rglob("*"))
    store.touch([NAME], 60)
    assert (store.fetch([NAME], 100), list(store.names("vyre:e1:"))) == ([None], [])
    assert kind_of(lambda: store.put_new(NAME, b"other", 60)) == "other"
    assert kind_of(lambda: store.claim(NAME, b"me", 1)) == "other"
    assert sorted((one, one.stat().st_mtime_ns) for one in private.rglob("*")) == before


def test_each_failure_of_a_bucket_has_its_kind(bucket: str, tmp_path: Path) -> None:
    none = of_bucket(bucket, tmp_path, "none")
    asked = [none.ping, lambda: none.put_new(NAME, b"", 1), lambda: none.fetch([NAME], 1), lambda: list(none.names("vyre:e1:"))]
    assert [kind_of(one) for one in asked] == ["refused"] * 4
    away = of_bucket("http://127.0.0.1:1", tmp_path)
    assert [kind_of(away.ping), kind_of(lambda: away.put_new(NAME, b"", 1))] == ["refused"] * 2


ANSWERS: list[tuple[bytes, FailureKind]] = [
    (b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n", "denied"),
    (b"HTTP/1.1 507 Insufficient Storage\r\ncontent-length: 0\r\n\r\n", "full"),
    (b"HTTP/1.1 500 Internal\r\ncontent-length: 0\r\n\r\n", "other"),
    (b"", "cut"),
    (b"$-1\r\n", "cut"),
]


@pytest.mark.parametrize(("said", "kind"), ANSWERS)
def test_what_a_server_says_has_its_kind(tmp_path: Path, said: bytes, kind: FailureKind) -> None:
    pytest.importorskip("obstore", reason="obstore is for Python 3.11 and newer")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with listener.accept()[0] as client:
                client.recv(4096)
                client.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        store = of_bucket(f"http://127.0.0.1:{listener.getsockname()[1]}", tmp_path)
        assert kind_of(store.ping) == kind
        thread.join()


def test_a_forked_child_does_not_wait_for_the_threads_that_its_parent_had(bucket: str, tmp_path: Path) -> None:
    store = of_bucket(bucket, tmp_path)
    store.ping()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that a process with threads forks is what this is about
        child = os.fork()
    if child == 0:
        try:
            store.ping()
        except StoreFailure as failure:
            os._exit(0 if "forked" in str(failure) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_folder_that_a_web_server_shows_is_read_and_not_written(tmp_path: Path) -> None:
    object_store = pytest.importorskip("vyre_driver.remote.object_store", reason="obstore is for Python 3.11 and newer")
    open_store(f"file:{tmp_path}").put_new(NAME, b"value" * 10, 60)
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        place = f"http://127.0.0.1:{server.server_port}"
        web = object_store.ObjectStore("https://web", 1.0, kind="https", place=place, prefix="", config={}, headers={})
        assert web.fetch([NAME, OTHER], 100) == [b"value" * 10, None]
        assert kind_of(lambda: web.put_new(OTHER, b"", 1)) == "denied"
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass
