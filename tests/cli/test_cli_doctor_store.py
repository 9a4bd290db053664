"""The store that machines share, as vyre-driver doctor looks at it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from servers import running_server
from signing import trust_file

from vyre_driver.cli.doctor_package import check_store
from vyre_driver.cli.doctor_vulkan import State, check_variables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import RedisServer

pytestmark = pytest.mark.redis
YEAR_S = 365 * 86_400


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def named(redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RedisServer:
    monkeypatch.setenv("VYRE_CACHE_REMOTE", redis_server.url)
    monkeypatch.setenv("VYRE_CACHE_TRUST_FILE", str(trust_file(tmp_path / "trusted")))
    redis_server.reset()
    return redis_server


def test_without_a_store_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VYRE_CACHE_REMOTE", raising=False)
    found = check_store()
    assert (found.state, found.says) == (State.OK, "none is shared with other machines (VYRE_CACHE_REMOTE)")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host/1?db=1", "redis://host/1"),
        ("redis://user:hunter2@host", "(not shown: it is not valid, and may hold a password)"),
        ("redis://host?password=hunter2", "(not shown: it is not valid, and may hold a password)"),
    ],
)
def test_the_list_of_variables_has_no_password_of_a_store(monkeypatch: pytest.MonkeyPatch, url: str, shown: str) -> None:
    monkeypatch.setenv("VYRE_CACHE_REMOTE", url)
    found = check_variables()
    assert (found.facts["variables"]["VYRE_CACHE_REMOTE"], "hunter2" in str(found)) == (shown, False)


def test_a_store_that_answers_is_told_with_whose_entries_are_taken(named: RedisServer) -> None:
    found = check_store()
    assert (found.state, found.says.partition(" ms; ")[2]) == (
        State.OK,
        "taken is what builder-1 has signed, and nothing is signed here",
    )
    assert (found.facts["address"], abs(found.facts["clock_ahead_s"]) < 60) == (named.url, True)


def test_a_store_that_is_down_is_a_warning(named: RedisServer) -> None:
    named.stop()
    found = check_store()
    assert (found.state, found.facts, len(found.fixes)) == (State.WARNING, {"code": 2215}, 1)


def test_who_trusts_nobody_is_warned(named: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VYRE_CACHE_TRUST_FILE")
    found = check_store()
    assert found.says.endswith(" ms, and nothing is taken: nobody is trusted")
    assert (named.url in found.says, found.fixes) == (True, ("name a file of public keys by VYRE_CACHE_TRUST_FILE",))


@pytest.mark.parametrize(("years", "side"), [(1, "ahead of"), (-1, "behind")])
def test_a_clock_that_is_wrong_by_a_year_is_a_warning(
    named: RedisServer, monkeypatch: pytest.MonkeyPatch, years: int, side: str
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + years * YEAR_S)
    found = check_store()
    assert found.says.endswith(f"this machine's clock is 365 days {side} its own")
    assert (found.state, named.url in found.says) == (State.WARNING, True)


def test_a_user_who_may_not_ask_for_the_time_is_well_all_the_same(named: RedisServer) -> None:
    named.do("ACL", "SETUSER", "default", "-time")
    found = check_store()
    assert (found.state, found.facts["clock_ahead_s"]) == (State.OK, None)
