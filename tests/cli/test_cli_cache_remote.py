"""``vyre-driver cache`` with a store that machines share: a builder fills it, others take from it, and failures say why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from blake3 import blake3
from literals import DEVICE, native_blob
from signing import BUILDER, STRANGER, key_file, pipeline, trust_file

from vyre_driver import cli
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import PipelineEntry
from vyre_driver.cli import cache_entries, cache_remote
from vyre_driver.identity import device_fields
from vyre_driver.remote.addresses import open_store
from vyre_driver.remote.envelope import sealed_entry, signed_tombstone
from vyre_driver.remote.names import device_name, entry_name, tombstone_name
from vyre_driver.remote.tier import breaker_of
from vyre_driver.remote.trust import trust_line

if TYPE_CHECKING:
    from typing import Any

    from conftest import RunChild

ONE, TWO, CODE_ONLY = pipeline(1), pipeline(2), pipeline(3)
NAME = device_name(device_fields(DEVICE))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.main(["cache", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def data(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    status, out, err = run(capsys, *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shared folder, which the settings name, on a machine with one device that signs as builder-1 and trusts it."""
    for module in (cache_entries, cache_remote):
        monkeypatch.setattr(module, "physical_devices", lambda: [DEVICE])
    folder = tmp_path / "shared"
    folder.mkdir()
    monkeypatch.setenv("VYRE_CACHE_REMOTE", f"file:{folder}")
    monkeypatch.setenv("VYRE_CACHE_SIGN_KEY_FILE", str(key_file(tmp_path / "key")))
    monkeypatch.setenv("VYRE_CACHE_TRUST_FILE", str(trust_file(tmp_path / "trust")))
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "builder"))
    return folder


@pytest.fixture
def builder(shared: Path, tmp_path: Path) -> DiskPipelineCache:
    """The cache of the settings: two compiled entries, one that was imported and one without compiled code."""
    assert shared.is_dir()
    cache = DiskPipelineCache(tmp_path / "builder")
    for key in (ONE, TWO):
        cache.put(key, PipelineEntry(key.manifest, b"spirv" * 4, native_blob()))
    cache.put(CODE_ONLY, PipelineEntry(CODE_ONLY.manifest, b"spirv" * 4))
    foreign = pipeline(4)
    cache.put(foreign, PipelineEntry(foreign.manifest, b"spirv" * 4, native_blob(), imported=True))
    return cache


def test_what_a_builder_pushes_a_machine_with_an_empty_cache_pulls_and_is_told_who_signed_it(
    builder: DiskPipelineCache, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"file:{shared}"
    assert run(capsys, "push") == (
        0,
        f"2 entries stored in {store}, 0 known already\n1 left out: imported\n1 left out: without compiled code\n",
        "",
    )
    assert data(capsys, "push", ONE.hex[:8])["known"] == 1
    cold = str(tmp_path / "cold")
    assert run(capsys, "--dir", cold, "pull") == (
        0,
        f"2 entries taken from {store} (signed by builder-1: 2), 0 known already\n",
        "",
    )
    found = DiskPipelineCache(cold).get(ONE).entry
    assert found == replace(builder.get(ONE).entry, imported=True)  # type: ignore[type-var]
    assert data(capsys, "--dir", cold, "pull") == {
        "schema": 1, "store": store, "taken": 0, "known": 2, "refused": {}, "signers": {},
    }  # fmt: skip
    assert data(capsys, "--dir", cold, "push")["left_out"] == {"imported": 2}


def test_remote_tells_what_the_store_is_and_has(
    builder: DiskPipelineCache, shared: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert builder.usage().entries == 4
    run(capsys, "push")
    told = data(capsys, "remote")
    assert told.pop("round_trip_s") > 0
    assert told == {
        "schema": 1, "store": f"file:{shared}", "may_write": True, "trusted": ["builder-1"], "signs": True, "left_alone": None,
        "devices": [{"device": DEVICE.name, "entries": 2}],
    }  # fmt: skip
    monkeypatch.delenv("VYRE_CACHE_TRUST_FILE")
    monkeypatch.delenv("VYRE_CACHE_SIGN_KEY_FILE")
    lines = run(capsys, "remote")[1].splitlines()
    assert lines[1:] == [
        "taken: nothing, since nobody is trusted",
        "there is no key to sign with",
        f"2 entries for {DEVICE.name}",
    ]
    assert lines[0].endswith("and this user may write")


def test_push_and_remote_say_that_a_driver_gives_no_compiled_code_to_share(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = DiskPipelineCache(tmp_path / "builder")
    cache.put(CODE_ONLY, PipelineEntry(CODE_ONLY.manifest, b"spirv" * 4))
    line = (
        "there is no compiled code to share: the Vulkan driver here gives none, as Mesa's CPU driver, so entries hold SPIR-V "
        "alone"
    )
    store = f"file:{shared}"
    pushed = f"0 entries stored in {store}, 0 known already\n1 left out: without compiled code\n{line}\n"
    assert run(capsys, "push") == (0, pushed, "")
    assert run(capsys, "remote")[1].splitlines()[-1] == line


def test_remote_tells_that_drivers_leave_the_store_alone(
    builder: DiskPipelineCache, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    breaker_of(builder, f"file:{shared}").failed("timed_out")
    assert "drivers on this machine leave it alone for now: timed out" in run(capsys, "remote")[1].splitlines()
    assert data(capsys, "remote")["left_alone"] == "timed out"


def test_why_tells_what_the_store_has_under_a_key(
    builder: DiskPipelineCache, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "push", ONE.hex)
    told = data(capsys, "why", ONE.hex[:10], "--remote")
    assert told.pop("signed_at") > 1_780_000_000
    size = told.pop("bytes")
    assert told == {
        "schema": 1, "key": ONE.hex, "store": f"file:{shared}", "verdict": "HIT", "signer": "builder-1", "deadly": False,
    }  # fmt: skip
    assert size == (shared / f"vyre/e1/{NAME}/{ONE.hex[:2]}/{ONE.hex}").stat().st_size
    assert run(capsys, "why", TWO.hex, "--remote")[1] == f"{TWO.hex[:12]} in file:{shared}: no entry\n"
    entry = builder.get(TWO).entry
    assert entry is not None
    store = open_store(f"file:{shared}")
    store.put_new(entry_name(NAME, TWO.digest), sealed_entry(TWO.digest, entry, STRANGER), 60)
    assert run(capsys, "why", TWO.hex, "--remote")[1].startswith(
        f"{TWO.hex[:12]} in file:{shared}: somebody else could have written the entry, "
    )
    stone = signed_tombstone(ONE.digest, blake3(native_blob()).digest(), BUILDER)
    store.put_new(tombstone_name(NAME, ONE.digest), stone, 60)
    builder.clear()
    assert data(capsys, "why", ONE.hex, "--remote")["deadly"] is True


def test_why_says_what_to_do_with_an_entry_under_an_hmac(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = Path(__file__).parents[1] / "golden" / "envelope_v1_hmac.bin"
    open_store(f"file:{shared}").put_new(entry_name(NAME, ONE.digest), golden.read_bytes(), 60)
    told = run(capsys, "why", ONE.hex, "--remote")[1]
    assert told == (
        f"{ONE.hex[:12]} in file:{shared}: the entry has another format version, {golden.stat().st_size} bytes, signed with an "
        "HMAC, which 0.2 took. Fix: remove it from the store, and push it again with a key that vyre-driver cache keygen has "
        "made (VYRE_CACHE_SIGN_KEY_FILE).\n"
    )


def test_pull_refuses_what_is_not_trusted_deadly_or_under_another_name_with_status_1(
    builder: DiskPipelineCache, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = builder.get(ONE).entry
    assert entry is not None
    store = open_store(f"file:{shared}")
    good = sealed_entry(ONE.digest, entry, BUILDER)
    store.put_new(entry_name(NAME, ONE.digest), good, 60)
    store.put_new(tombstone_name(NAME, ONE.digest), signed_tombstone(ONE.digest, blake3(entry.native).digest(), BUILDER), 60)
    store.put_new(entry_name(NAME, TWO.digest), good, 60)  # replayed under another key's name
    store.put_new(entry_name(NAME, bytes(32)), sealed_entry(ONE.digest, entry, STRANGER), 60)
    store.put_new(entry_name(NAME, b"\1" * 32), bytes(17 << 20), 60)
    store.put_new(entry_name(NAME, b"\2" * 32), good[:-1], 60)
    status, out, err = run(capsys, "--dir", str(tmp_path / "cold"), "pull")
    assert (status, out) == (1, f"0 entries taken from file:{shared}, 0 known already\n")
    assert err.splitlines() == [
        "1 refused: DEADLY", "1 refused: FOREIGN_KEY", "1 refused: TOO_LARGE", "1 refused: TRUNCATED", "1 refused: UNTRUSTED",
    ]  # fmt: skip
    assert DiskPipelineCache(tmp_path / "cold").usage().entries == 0


def test_an_entry_for_another_device_is_pulled_only_where_any_device_is_asked_for(
    builder: DiskPipelineCache,
    shared: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert builder.usage().entries == 4
    run(capsys, "push")
    assert shared.is_dir()
    for module in (cache_entries, cache_remote):
        monkeypatch.setattr(module, "physical_devices", lambda: [replace(DEVICE, driver_info="another")])
    cold = str(tmp_path / "cold")
    assert data(capsys, "--dir", cold, "pull")["taken"] == 0
    assert data(capsys, "--dir", cold, "pull", "--any-device")["taken"] == 2


def test_clear_imported_leaves_what_was_compiled_here(builder: DiskPipelineCache, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "clear", "--imported") == (0, "1 file removed\n", "")
    assert sorted(one.key for one in builder.entries()) == sorted(key.hex for key in (ONE, TWO, CODE_ONLY))


def test_a_signed_bundle_is_taken_where_its_signer_is_trusted(
    builder: DiskPipelineCache, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert builder.usage().entries == 4
    bundle, cold = str(tmp_path / "signed.bundle"), str(tmp_path / "cold")
    status, out, _ = run(capsys, "export", bundle, "--sign")
    assert (status, out.startswith("3 entries, "), out.endswith(f" kB, signed: {bundle}\n")) == (0, True, True)
    assert data(capsys, "--dir", cold, "import", bundle)["imported"] == 3
    monkeypatch.setenv("VYRE_CACHE_TRUST_FILE", str(trust_file(tmp_path / "others", trust_line("other", STRANGER))))
    assert run(capsys, "--dir", f"{cold}2", "import", bundle) == (
        1,
        "0 entries taken, 0 known already, 0 for devices that are not here\n",
        "3 refused: UNTRUSTED\n",
    )
    monkeypatch.delenv("VYRE_CACHE_TRUST_FILE")
    assert run(capsys, "--dir", f"{cold}3", "import", bundle) == (
        2,
        "",
        (
            "vyre-driver: error 2206: nothing vouches for the bundle: its entries are signed, and nobody is trusted here. Fix: "
            "set VYRE_CACHE_TRUST_FILE to a file with the signer's line, or trust it (--trust) if you made it.\n"
        ),
    )
    assert data(capsys, "--dir", f"{cold}4", "import", bundle, "--trust")["imported"] == 3


def test_keygen_prints_the_line_of_the_trust_file(
    builder: DiskPipelineCache, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert builder.usage().entries == 4
    place = tmp_path / "ci.key"
    status, line, err = run(capsys, "keygen", str(place))
    assert (status, line.split()[0], err) == (0, "ci", "")
    monkeypatch.setenv("VYRE_CACHE_SIGN_KEY_FILE", str(place))
    run(capsys, "push")
    monkeypatch.setenv("VYRE_CACHE_TRUST_FILE", str(trust_file(tmp_path / "others", line)))
    assert data(capsys, "--dir", str(tmp_path / "cold"), "pull")["signers"] == {"ci": 2}
    assert run(capsys, "keygen", str(place))[0] == 2
    assert data(capsys, "keygen", str(tmp_path / "b.key"), "--name", "builder-2")["name"] == "builder-2"
    assert run(capsys, "keygen", str(tmp_path / "c.key"), "--name", "no spaces")[2] == (
        "vyre-driver: error 2501: 'no spaces' cannot be a signer's name. Fix: give --name 1 to 64 letters, digits and ._@-, a "
        "letter or digit first.\n"
    )
    assert not (tmp_path / "c.key").exists()


SIGNED_WITH = "set VYRE_CACHE_SIGN_KEY_FILE to a key that vyre-driver cache keygen FILE has made"
TRUSTED_BY = "set VYRE_CACHE_TRUST_FILE to a file of the signers' public keys (docs/fleet.md)"
GONE = "file:/nowhere/at/all"
REFUSED = [
    ("VYRE_CACHE_REMOTE", None, "remote", "2501: no store is named. Fix: set VYRE_CACHE_REMOTE to its URL (docs/fleet.md)."),
    (
        *("VYRE_CACHE_REMOTE_MODE", "off", "push"),
        "2501: the store is switched off by VYRE_CACHE_REMOTE_MODE. Fix: set it to read or write.",
    ),
    ("VYRE_CACHE_SIGN_KEY_FILE", None, "push", f"2501: there is no key to sign with. Fix: {SIGNED_WITH}."),
    ("VYRE_CACHE_TRUST_FILE", None, "pull", f"2501: nobody is trusted, so nothing would be taken. Fix: {TRUSTED_BY}."),
    (
        *("VYRE_CACHE_REMOTE", GONE, "remote"),
        f"2215: {GONE}: No such file or directory. Fix: start the store, or correct VYRE_CACHE_REMOTE.",
    ),
]


@pytest.mark.parametrize(("variable", "value", "action", "says"), REFUSED)
def test_what_is_missing_is_told_in_one_line(  # noqa: PLR0913 -- a row, and where it is asked
    builder: DiskPipelineCache,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str | None,
    action: str,
    says: str,
) -> None:
    assert builder.usage().entries == 4
    monkeypatch.delenv(variable) if value is None else monkeypatch.setenv(variable, value)
    assert run(capsys, action) == (2, "", f"vyre-driver: error {says}\n")


def test_without_a_store_no_module_of_it_is_imported(run_python: RunChild) -> None:
    code = (
        "import sys\nfrom vyre_driver import cli\ncli.main(['cache', 'info'])\ncli.main(['tune', 'list'])\n"
        "print([name for name in sys.modules if name.startswith(('vyre_driver.remote', 'redis', 'obstore', 'cryptography'))])"
    )
    assert run_python("-c", code).stdout.splitlines()[-1] == "[]"
