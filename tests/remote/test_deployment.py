"""The users that docs/fleet.md gives a server can do what they are for, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_stores import DEVICE, NAME, kind_of

from vyre_driver.remote.addresses import open_store
from vyre_driver.remote.names import claim_name
from vyre_driver.remote.store import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers import RedisServer

    from vyre_driver.remote.store import Store

pytestmark = pytest.mark.redis
FLEET = Path(__file__).parents[2] / "docs" / "fleet.md"
CLAIM, RECORDS = claim_name(DEVICE, bytes(32)), f"vyre:t1:{DEVICE}:{'e' * 64}"


def user(server: RedisServer, name: str, tmp_path: Path) -> Store:
    """Make a user as the document says, and return the store as it sees it."""
    (rules,) = re.findall(rf"^    user {name} (.+)$", FLEET.read_text("utf-8"), re.MULTILINE)
    server.do("ACL", "SETUSER", name, *rules.split())
    (password,) = re.findall(r">(\S+)", rules)
    secret = tmp_path / name
    secret.write_text(f"{name}:{password}\n")
    secret.chmod(0o600)
    return open_store(f"{server.url}?db=1", secret_file=secret)


def is_allowed(call: Callable[[], object]) -> bool:
    try:
        call()
    except StoreFailure as failure:
        if failure.kind != "denied":
            raise
        return False
    return True


def reads(store: Store) -> list[Callable[[], object]]:
    return [
        store.ping,
        lambda: store.fetch([NAME], 10),
        lambda: store.fields(RECORDS, 10),
        lambda: list(store.names("vyre:e1:")),
        lambda: store.touch([NAME], 10),
        store.time_s,  # type: ignore[attr-defined] # of a server
    ]


def writes(store: Store) -> list[Callable[[], object]]:
    return [
        lambda: store.put_new(NAME, b"value", 10),
        lambda: store.claim(CLAIM, b"me", 10),
        lambda: store.put_field(RECORDS, "a" * 64, b"value", 10),
    ]


def test_the_reader_reads_and_writes_nothing_and_the_builder_does_both(redis_server: RedisServer, tmp_path: Path) -> None:
    reader, builder = (user(redis_server, name, tmp_path) for name in ("vyre-reader", "vyre-builder"))
    assert [is_allowed(one) for one in writes(builder) + reads(builder)] == [True] * 9
    assert [is_allowed(one) for one in reads(reader) + writes(reader)] == [True] * 6 + [False] * 3
    assert reader.fetch([NAME], 10) == [b"value"]


def test_neither_has_a_right_to_what_is_not_ours(redis_server: RedisServer, tmp_path: Path) -> None:
    builder = user(redis_server, "vyre-builder", tmp_path)
    assert kind_of(lambda: builder.put_new("session:1", b"", 10)) == "denied"
    assert kind_of(lambda: builder.fetch(["session:1"], 10)) == "denied"
    for command in ("FLUSHALL", "CONFIG GET dir", "KEYS *", "EVAL 1 0", "DEL vyre:e1:x"):
        dry = redis_server.do("ACL", "DRYRUN", "vyre-builder", *command.split())
        assert b"has no permissions" in dry, (command, dry)
