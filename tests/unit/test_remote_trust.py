"""Trust files and signing keys: what is read, and what is refused."""

from __future__ import annotations

import base64
import os
import resource
import stat
import sys
from typing import TYPE_CHECKING

import pytest
from literals import refusal
from signing import BUILDER, STRANGER, key_file, signer_of, trust_file, trusting

from vyre_driver.errors import BackendUnavailable, FileUnusable, InvalidSetting
from vyre_driver.remote import trust
from vyre_driver.remote.trust import (
    Trust,
    make_key,
    read_signer,
    signer_of_settings,
    trust_line,
    trust_of_settings,
)

if TYPE_CHECKING:
    from pathlib import Path

LINE = trust_line("builder-1", BUILDER)
FIX = "write lines NAME BASE64-KEY [from=2026-01-31] [until=2026-12-31], as vyre-driver cache keygen prints them"
NO_STRONG_KEY = "has a public key that is no point of the curve, or one by which anybody can sign"
NO_STRONG_KEYS = [
    "02" + "00" * 31,  # no point
    "ee" + "ff" * 30 + "7f",  # y = 1, not reduced
    "01" + "00" * 31,  # of order 1, 2, 4 and 8
    "ec" + "ff" * 30 + "7f",
    "00" * 32,
    "00" * 31 + "80",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
]
NO_BOUND = "which is neither from=DATE nor until=DATE"


def test_a_trust_file_names_keys_one_a_line_beside_remarks(tmp_path: Path) -> None:
    found = trusting(
        tmp_path / "trust", "# the builders", "", LINE, f"  {trust_line('b.2@ci', STRANGER)}  from=2026-01-01 # soon"
    )
    assert [(one.name, one.public) for one in found.keys.values()] == [
        ("builder-1", BUILDER.public_key),
        ("b.2@ci", STRANGER.public_key),
    ]
    assert trusting(tmp_path / "none", "# nobody").keys == {}


def test_a_remark_ends_with_its_line_and_at_nothing_else(tmp_path: Path) -> None:
    hidden = "".join(f"# a remark{end}{LINE}\n" for end in "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
    assert trusting(tmp_path / "trust", hidden).keys == {}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("builder-1", "has no public key of 32 bytes in Base64 behind the name"),
        ("builder-1 AAAA", "has no public key of 32 bytes in Base64 behind the name"),
        (LINE[:-1] + "!", "has no public key of 32 bytes in Base64 behind the name"),
        ("-- " + LINE, "does not begin with a name of letters, digits and ._@-"),
        ("x" * 65 + LINE.removeprefix("builder-1"), "does not begin with a name of letters, digits and ._@-"),
        (f"{LINE} until=2026-02-30", f"has 'until=2026-02-30', {NO_BOUND}"),
        (f"{LINE} until=26-2-3", f"has 'until=26-2-3', {NO_BOUND}"),
        (f"{LINE} before=2026-02-03", f"has 'before=2026-02-03', {NO_BOUND}"),
        (f"{LINE} until=2026-01-01 until=2030-01-01", "has until= more than once"),
        (f"{LINE} from=2026-01-01 until=2027-01-01 from=2025-01-01", "has from= more than once"),
        (f"{LINE} from=2027-01-01 until=2026-12-31", "has from=2027-01-01, which is after until=2026-12-31"),
        (f"{LINE} forever", f"has 'forever', {NO_BOUND}"),
        (LINE.replace("builder-1", "builder-2"), "has a key that stands above"),
        *((f"weak {base64.b64encode(bytes.fromhex(one)).decode()}", NO_STRONG_KEY) for one in NO_STRONG_KEYS),
        ("\udcff\udcfe", "does not begin with a name of letters, digits and ._@-"),
    ],
)
def test_a_line_of_another_kind_is_refused_with_its_number(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "trust"
    path.write_bytes(f"{LINE}\n{line}\n".encode("utf-8", "surrogateescape"))
    message = f"VYRE_CACHE_TRUST_FILE names {str(path)!r}: line 2 {problem}. Fix: {FIX}."
    assert refusal(lambda: Trust.read(path)) == (InvalidSetting, 2401, message)


def test_a_trust_file_may_be_read_by_all_and_changed_by_its_owner_alone(tmp_path: Path) -> None:
    path = trust_file(tmp_path / "trust")
    path.chmod(0o644)
    assert len(Trust.read(path).keys) == 1
    for mode in (0o664, 0o646):
        path.chmod(mode)
        assert f"others may change it (mode {mode:o})" in refusal(lambda: Trust.read(path))[2]
    assert "it cannot be read (No such file or directory)" in refusal(lambda: Trust.read(tmp_path / "none"))[2]


def test_a_key_that_does_not_fit_on_the_disk_is_no_key_and_leaves_no_file(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30, before[1]))
    try:
        told = refusal(lambda: make_key(tmp_path / "key"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    fix = "name a file that is not there yet, in a directory of yours on a disk with room"
    assert told == (FileUnusable, 2202, f"cannot write {tmp_path / 'key'} (File too large). Fix: {fix}.")
    assert not (tmp_path / "key").exists()


def test_a_key_that_was_made_is_read_back_and_lies_in_a_new_file_of_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "key"
    made = make_key(path)
    again = read_signer(path)
    assert (again.key_id, again.public_key, stat.S_IMODE(path.stat().st_mode)) == (made.key_id, made.public_key, 0o600)
    assert made.key_id != make_key(tmp_path / "other").key_id
    before = path.read_bytes()
    assert refusal(lambda: make_key(path))[:2] == (FileUnusable, 2202)
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["", "\n", "vyre-ed25519-private ", "vyre-ed25519-private AAAA", "not a key", "\udcff" * 40])
def test_a_file_that_holds_no_key_is_refused_and_not_quoted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    path.chmod(0o600)
    kind, code, message = refusal(lambda: read_signer(path))
    assert (kind, code, "AAAA" in message) == (InvalidSetting, 2401, False)


def test_a_signing_key_that_others_may_read_or_that_lies_in_the_cache_is_refused(tmp_path: Path) -> None:
    path = key_file(tmp_path / "key")
    assert read_signer(path, tmp_path / "cache").key_id == signer_of(1).key_id
    assert "it lies in the cache itself" in refusal(lambda: read_signer(path, tmp_path))[2]
    path.chmod(0o604)
    assert "others may read or change it (mode 604)" in refusal(lambda: read_signer(path))[2]
    os.mkfifo(tmp_path / "fifo")
    assert "is not a regular file" in refusal(lambda: read_signer(tmp_path / "fifo"))[2]


def test_the_settings_name_whom_to_trust_and_what_to_sign_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (trust_of_settings(), signer_of_settings(None)) == (Trust({}), None)
    monkeypatch.setenv("VYRE_CACHE_TRUST_FILE", str(trust_file(tmp_path / "trust")))
    monkeypatch.setenv("VYRE_CACHE_SIGN_KEY_FILE", str(key_file(tmp_path / "key")))
    signer = signer_of_settings(None)
    assert signer is not None
    assert (signer.key_id, list(trust_of_settings().keys)) == (BUILDER.key_id, [BUILDER.key_id])


def test_without_cryptography_keys_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    trust._verifier.cache_clear()  # noqa: SLF001 -- of the tests before, which had the package
    path = trust_file(tmp_path / "trust")
    kind, code, message = refusal(lambda: Trust.read(path))
    assert (kind, code) == (BackendUnavailable, 2004)
    assert message.endswith("Fix: pip install 'vyre-driver[remote]'.")
