"""``vyre-driver tune push`` and ``pull``: records to a shared store and back, the better measured of two."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from literals import DEVICE
from signing import BUILDER, STRANGER, key_file, trust_file

from vyre_driver.autotune import AutotuneKey, AutotuneRecord, AutotuneStore
from vyre_driver.autotune.store.text import AutotuneText, format_text
from vyre_driver.cli import cache_entries, main
from vyre_driver.identity import device_fields
from vyre_driver.remote.addresses import open_store
from vyre_driver.remote.envelope import signed_record
from vyre_driver.remote.names import device_name, tuning_name

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

KEY = AutotuneKey("11" * 16, "vulkan-10de-2330")
DRIVER = f"{DEVICE.driver_name} {DEVICE.driver_info}".strip()
SMALL = AutotuneRecord(
    (256, 1, 1), 2, (1, 0, 0), "2026-11-21", "ab" * 32, 40, 228_638, 1_795_000_000, "saxpy", DEVICE.name, DRIVER, "4096"
)
LARGE = replace(SMALL, identity="ac" * 32, median_ns=1_814_900, unroll=4, size="1048576")
NAME = device_name(device_fields(DEVICE))
STORED_AS = tuning_name(NAME, KEY)


def data(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["tune", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def saved(path: Path, *records: AutotuneRecord) -> str:
    store = AutotuneStore()
    for one in records:
        store.put(KEY, one)
    store.save_if_dirty(path)
    return str(path)


def records(path: Path) -> list[AutotuneRecord]:
    return list(AutotuneStore.load(path).records().values())


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache_entries, "physical_devices", lambda: [DEVICE])
    (tmp_path / "shared").mkdir()
    monkeypatch.setenv("VYRE_CACHE_REMOTE", f"file:{tmp_path}/shared")
    monkeypatch.setenv("VYRE_CACHE_SIGN_KEY_FILE", str(key_file(tmp_path / "key")))
    monkeypatch.setenv("VYRE_CACHE_TRUST_FILE", str(trust_file(tmp_path / "trust")))
    return tmp_path / "shared"


def test_records_that_are_pushed_are_pulled_elsewhere(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere, suggestion = replace(SMALL, identity="ad" * 32, device="another"), replace(SMALL, identity="")
    here = saved(tmp_path / "here.toml", SMALL, LARGE, elsewhere, suggestion)
    told = {"schema": 1, "store": f"file:{shared}"}
    assert data(capsys, "--file", here, "push") == (0, {**told, "stored": 2, "known": 0, "left_out": 2})
    assert data(capsys, "--file", here, "push") == (0, {**told, "stored": 0, "known": 2, "left_out": 2})
    cold = str(tmp_path / "cold.toml")
    taken = {**told, "file": cold, "taken": 2, "refused": {}, "signers": {"builder-1": 2}}
    assert data(capsys, "--file", cold, "pull") == (0, taken)
    assert records(tmp_path / "cold.toml") == [SMALL, LARGE]
    assert data(capsys, "--file", cold, "pull")[1]["taken"] == 0


def test_the_better_measured_of_two_stays_on_both_sides(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shared.is_dir()
    better = replace(SMALL, samples=400, unroll=8)
    data(capsys, "--file", saved(tmp_path / "a.toml", SMALL), "push")
    assert data(capsys, "--file", saved(tmp_path / "b.toml", better), "push")[1]["stored"] == 1
    assert data(capsys, "--file", str(tmp_path / "a.toml"), "push")[1]["known"] == 1
    assert data(capsys, "--file", str(tmp_path / "a.toml"), "pull")[1]["taken"] == 1
    best = replace(better, samples=800)
    saved(tmp_path / "c.toml", best)
    assert data(capsys, "--file", str(tmp_path / "c.toml"), "pull")[1]["taken"] == 0
    assert (records(tmp_path / "a.toml"), records(tmp_path / "c.toml")) == ([better], [best])


def text(*given: AutotuneRecord, key: AutotuneKey = KEY) -> bytes:
    return format_text(AutotuneText({(key, one.identity): one for one in given})).encode()


HOSTILE = {
    "UNTRUSTED": [b"unsigned", text(SMALL), signed_record(text(SMALL), STRANGER), signed_record(text(SMALL), BUILDER)[:-1]],
    "CORRUPT": [signed_record(one, BUILDER) for one in (b"", b"[[", text(), text(SMALL, LARGE), b"\xff", b"schema = 'x'")],
    "FOREIGN_KEY": [
        signed_record(text(LARGE), BUILDER),  # under the name of another size
        signed_record(text(SMALL, key=AutotuneKey("22" * 16, KEY.adapter_id)), BUILDER),
    ],
}


@pytest.mark.parametrize(
    ("reason", "value"),
    [
        pytest.param(reason, one, id=f"{reason} {number}")
        for reason, of_it in HOSTILE.items()
        for number, one in enumerate(of_it)
    ],
)
def test_a_hostile_record_is_refused_and_the_others_are_taken(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], reason: str, value: bytes
) -> None:
    store = open_store(f"file:{shared}")
    store.put_field(STORED_AS, SMALL.identity, value, 60)
    store.put_field(STORED_AS, LARGE.identity, signed_record(text(LARGE), BUILDER), 60)
    status, told = data(capsys, "--file", str(tmp_path / "cold.toml"), "pull")
    assert (status, told["taken"], told["refused"]) == (1, 1, {reason: 1})
    assert records(tmp_path / "cold.toml") == [LARGE]
    assert data(capsys, "--file", saved(tmp_path / "here.toml", SMALL), "push")[1]["stored"] == 1  # in its place


def test_without_a_key_or_anybody_to_trust_nothing_is_pushed_or_pulled(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "here.toml", SMALL)
    monkeypatch.delenv("VYRE_CACHE_SIGN_KEY_FILE")
    monkeypatch.delenv("VYRE_CACHE_TRUST_FILE")
    for action, says in (("push", "there is no key to sign with."), ("pull", "nobody is trusted, so nothing would be taken.")):
        assert main(["tune", "--file", path, action]) == 2
        assert capsys.readouterr().err.startswith(f"vyre-driver: error 2501: {says} Fix: set VYRE_CACHE_")
    assert list(shared.iterdir()) == []
