"""The commands of a shared store against a real server that denies, is full, or holds anything at all."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from literals import DEVICE, native_blob
from signing import BUILDER, key_file, pipeline, trust_file

from vyre_driver import cli
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import PipelineEntry
from vyre_driver.cli import cache_entries, cache_remote
from vyre_driver.identity import device_fields
from vyre_driver.remote.envelope import sealed_entry
from vyre_driver.remote.names import device_name, entry_name

if TYPE_CHECKING:
    from pathlib import Path

    from servers import RedisServer

pytestmark = pytest.mark.redis
KEY = pipeline(1)
NAME = device_name(device_fields(DEVICE))
ENTRY = PipelineEntry(KEY.manifest, b"spirv" * 4, native_blob())


@pytest.fixture
def builder(redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskPipelineCache:
    """The cache of the settings, with an entry; the store is the server, asked as the user `vyre`, who may only read."""
    for module in (cache_entries, cache_remote):
        monkeypatch.setattr(module, "physical_devices", lambda: [DEVICE])
    redis_server.do("ACL", "SETUSER", "vyre", "on", ">password", "~vyre:*", "+@read", "+ping", "+scan")
    (tmp_path / "secret").write_text("vyre:password\n")
    (tmp_path / "secret").chmod(0o600)
    for variable, value in {
        "REMOTE": redis_server.url,
        "REMOTE_SECRET_FILE": tmp_path / "secret",
        "SIGN_KEY_FILE": key_file(tmp_path / "key"),
        "TRUST_FILE": trust_file(tmp_path / "trust"),
        "DIR": tmp_path / "cache",
    }.items():
        monkeypatch.setenv(f"VYRE_CACHE_{variable}", str(value))
    cache = DiskPipelineCache(tmp_path / "cache")
    cache.put(KEY, ENTRY)
    return cache


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = cli.main(["cache", *arguments])
    return status, capsys.readouterr().err


def test_a_push_without_the_right_to_write_or_without_room_is_told_with_what_to_do(
    builder: DiskPipelineCache, redis_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert builder.usage().entries == 1
    status, says = told(capsys, "push")
    assert (status, says.split(". Fix: ")[1]) == (
        2,
        "correct the user, password or certificate (VYRE_CACHE_REMOTE_SECRET_FILE), or give that user the right.\n",
    )
    assert cli.main(["cache", "remote", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["may_write"] is False
    redis_server.do("ACL", "SETUSER", "vyre", "+@write")
    redis_server.do("CONFIG", "SET", "maxmemory", 1)
    status, says = told(capsys, "push")
    assert (status, says.split(". Fix: ")[1]) == (
        2,
        "give the store more room, or let it forget what was not used (docs/fleet.md).\n",
    )
    redis_server.do("CONFIG", "SET", "maxmemory", 0)
    assert told(capsys, "push") == (0, "")
    redis_server.do("ACL", "SETUSER", "vyre", "resetpass", ">other")
    status, says = told(capsys, "pull")
    assert (status, says.startswith("vyre-driver: error 2215: unix:"), "vyre:password" in says) == (2, True, False)


def test_anything_that_a_server_holds_is_refused_without_being_read_to_its_end(
    builder: DiskPipelineCache, redis_server: RedisServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [entry_name(NAME, bytes([number]) * 32) for number in range(6)]
    assert builder.usage().entries == 1
    redis_server.do("SETRANGE", names[0], 100 << 20, b"x")
    for number in range(12):  # together more than the process may hold
        redis_server.do("SETRANGE", entry_name(NAME, bytes([100 + number]) * 32), (16 << 20) - 1, b"x")
    redis_server.do("HSET", names[1], "field", b"value")
    redis_server.do("SET", names[2], sealed_entry(KEY.digest, ENTRY, BUILDER))  # of another key
    redis_server.do("SET", names[3], b"")
    redis_server.do("SET", names[4], sealed_entry(bytes([4]) * 32, ENTRY, BUILDER))  # signed by a builder that was broken into
    redis_server.do("SET", f"vyre:e1:{NAME}:no-key", b"")
    redis_server.do("SET", entry_name(NAME, KEY.digest), sealed_entry(KEY.digest, ENTRY, BUILDER))
    tracemalloc.start()
    assert cli.main(["cache", "--dir", str(tmp_path / "cold"), "pull", "--json"]) == 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    report = json.loads(capsys.readouterr().out)
    assert (report["taken"], report["refused"]) == (1, {"FOREIGN_KEY": 2, "TOO_LARGE": 1, "TRUNCATED": 1, "UNTRUSTED": 12})
    assert peak < 80 << 20
