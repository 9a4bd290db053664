"""Envelopes: the bytes, who is believed, and that nothing else is."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from blake3 import blake3
from literals import refusal
from signing import BUILDER, ENTRY, ENTRY_BYTES, KEY, SIGNED_AT_S, STRANGER, trusting

from vyre_driver.cache.entry import PipelineEntry, Verdict, decode_entry, encode_entry
from vyre_driver.errors import InvalidInput
from vyre_driver.remote import envelope
from vyre_driver.remote.envelope import opened, opened_record, opened_tombstone, signed, signed_record, signed_tombstone
from vyre_driver.remote.trust import Trust, trust_line

if TYPE_CHECKING:
    from vyre_driver.remote.trust import Signer

GOLDEN = Path(__file__).parents[1] / "golden"
BLOB_DIGEST = blake3(ENTRY.native).digest()
RECORD = b'key = "87000100010000000240632400000000"\n'
UNTRUSTED = (Verdict.UNTRUSTED, None, "")


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    return trusting(tmp_path / "trust")


def sealed(signer: Signer = BUILDER, data: bytes = ENTRY_BYTES) -> bytes:
    return signed(data, signer, now_s=SIGNED_AT_S)


MADE = {
    "envelope_v1_ed25519.bin": sealed(),
    "tombstone_v1.bin": signed_tombstone(KEY, BLOB_DIGEST, BUILDER, now_s=SIGNED_AT_S),
    "signed_record_v1.bin": signed_record(RECORD, BUILDER, now_s=SIGNED_AT_S),
}


@pytest.mark.parametrize("name", MADE)
def test_the_bytes_are_those_of_the_golden_files(name: str) -> None:
    assert MADE[name] == (GOLDEN / name).read_bytes()


def test_an_envelope_is_laid_out_as_its_table_says() -> None:
    data = sealed()
    assert (data[:8], data[8:12], data[12:16], data[16:24]) == (b"VYRESIGN", b"\1\0\0\0", b"\2\0\0\0", BUILDER.key_id)
    assert (int.from_bytes(data[24:32], "little"), data[96:]) == (SIGNED_AT_S, ENTRY_BYTES)
    message = b"vyre-driver entry signature 1\0" + data[:32] + ENTRY_BYTES[:80]
    assert data[32:96] == BUILDER.sign(message)
    assert BUILDER.key_id == blake3(BUILDER.public_key).digest()[:8]


def test_what_a_trusted_signer_signed_is_given_back_with_the_signers_name(trust: Trust) -> None:
    assert opened(sealed(), trust) == (Verdict.HIT, ENTRY_BYTES, "builder-1")
    assert opened_tombstone(KEY, MADE["tombstone_v1.bin"], trust) == (Verdict.HIT, BLOB_DIGEST, "builder-1")
    assert opened_record(MADE["signed_record_v1.bin"], trust) == (Verdict.HIT, RECORD, "builder-1")
    assert envelope.signed_at(sealed()) == SIGNED_AT_S


def test_an_entry_that_was_imported_is_never_signed() -> None:
    kind, code, message = refusal(lambda: envelope.sealed_entry(KEY, replace(ENTRY, imported=True), BUILDER))
    assert (kind, code) == (InvalidInput, 2201)
    assert message == (
        f"the entry {KEY.hex()} was imported, and only what was compiled here is signed. Fix: leave it out, or compile it here."
    )
    assert opened(envelope.sealed_entry(KEY, ENTRY, BUILDER), Trust({}))[0] is Verdict.UNTRUSTED


HOSTILE = {
    "unsigned": (ENTRY_BYTES, Verdict.UNTRUSTED),
    "of a stranger": (sealed(STRANGER), Verdict.UNTRUSTED),
    "nothing": (b"", Verdict.TRUNCATED),
    "the magic alone": (b"VYRESIGN", Verdict.TRUNCATED),
    "an envelope alone": (sealed()[:96], Verdict.TRUNCATED),
    "an envelope with a part of the header": (sealed()[:175], Verdict.TRUNCATED),
    "another program's value": (b"\x80\x04\x95 a pickle" * 100, Verdict.UNTRUSTED),
    "huge": (sealed() + bytes(16 << 20), Verdict.TOO_LARGE),
    "a later envelope": (sealed()[:8] + b"\2\0\0\0" + sealed()[12:], Verdict.OUTDATED),
    "of another scheme": (sealed()[:12] + b"\3\0\0\0" + sealed()[16:], Verdict.UNTRUSTED),
    "under an HMAC, as 0.2 made them": ((GOLDEN / "envelope_v1_hmac.bin").read_bytes(), Verdict.OUTDATED),
    "of another time": (sealed()[:24] + bytes(8) + sealed()[32:], Verdict.UNTRUSTED),
    "a tombstone": (MADE["tombstone_v1.bin"], Verdict.UNTRUSTED),
    "a later entry": (sealed(data=ENTRY_BYTES[:8] + b"\3" + ENTRY_BYTES[9:]), Verdict.OUTDATED),
    "imported by its signer": (sealed(data=encode_entry(KEY, replace(ENTRY, imported=True))), Verdict.UNTRUSTED),
    "sealed beside": (sealed(data=encode_entry(KEY, ENTRY, hmac_key=b"h" * 32)), Verdict.UNTRUSTED),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_value_is_not_taken_that_is(trust: Trust, what: str) -> None:
    data, verdict = HOSTILE[what]
    assert opened(data, trust) == (verdict, None, "")


def test_without_anybody_to_trust_nothing_is_taken() -> None:
    nobody = Trust.read(None)
    assert not nobody
    assert opened(sealed(), nobody) == UNTRUSTED


def test_a_signature_counts_only_within_the_keys_dates_by_the_time_in_the_envelope(tmp_path: Path) -> None:
    line = trust_line("builder-1", BUILDER)
    day_s = 86400
    first = 20602 * day_s  # 2026-05-29
    for bounds, at_s, taken in [
        ("from=2026-05-29", first - 1, False),
        ("from=2026-05-29", first, True),
        ("until=2026-05-29", first + day_s - 1, True),
        ("until=2026-05-29", first + day_s, False),
        ("from=2026-05-29 until=2026-05-29", first + 5, True),
        ("", 0, True),
    ]:
        data = signed(ENTRY_BYTES, BUILDER, now_s=at_s)
        assert (opened(data, trusting(tmp_path / "trust", f"{line} {bounds}"))[0] is Verdict.HIT) is taken, (bounds, at_s)


def test_a_tombstone_or_record_of_a_stranger_or_another_key_does_not_count(trust: Trust) -> None:
    stone, record = MADE["tombstone_v1.bin"], MADE["signed_record_v1.bin"]
    assert opened_tombstone(bytes(32), stone, trust) == (Verdict.FOREIGN_KEY, None, "")
    assert opened_tombstone(KEY, signed_tombstone(KEY, BLOB_DIGEST, STRANGER), trust) == UNTRUSTED
    assert opened_tombstone(KEY, stone[:-1], trust) == (Verdict.TRUNCATED, None, "")
    assert opened_tombstone(KEY, stone + b"x", trust) == (Verdict.TOO_LARGE, None, "")
    assert opened_tombstone(KEY, stone[:128] + bytes(32), trust) == UNTRUSTED
    assert opened_record(signed_record(RECORD, STRANGER), trust) == UNTRUSTED
    assert opened_record(record[:-1], trust) == UNTRUSTED
    assert opened_record(record + bytes(64 << 10), trust) == (Verdict.TOO_LARGE, None, "")
    assert opened_record(stone, trust) == UNTRUSTED


def test_of_ten_thousand_changed_envelopes_none_is_accepted(trust: Trust) -> None:
    """Every bit of what is signed flipped, then bits, ranges and splices of two good envelopes anywhere."""
    other_key = bytes(range(1, 33))
    second = signed(
        encode_entry(other_key, PipelineEntry(ENTRY.manifest, b"other words", ENTRY.native)), BUILDER, now_s=SIGNED_AT_S
    )
    again = signed(encode_entry(KEY, PipelineEntry(ENTRY.manifest, b"SPIR-V WORDS", ENTRY.native)), BUILDER, now_s=SIGNED_AT_S)
    good = [sealed(), again]
    accepted = {one: decode_entry(KEY, one[96:])[1] for one in good}
    assert None not in accepted.values()
    pool = [*good, second, ENTRY_BYTES]
    found = random.Random(25)  # noqa: S311 -- the same each time
    flipped = (flip(good[0], bit) for bit in range(176 * 8))
    changed = itertools.chain(flipped, iter(lambda: mutated(found, pool), None))
    tried: dict[Verdict, int] = {}
    count = 0
    while count < 10_000:
        data = next(changed)
        if data in accepted:
            continue
        count += 1
        verdict, entry_bytes, name = opened(data, trust)
        if entry_bytes is not None:
            verdict, entry = decode_entry(KEY, entry_bytes)
            assert entry is None, (verdict, data.hex(), name)
        tried[verdict] = tried.get(verdict, 0) + 1
    assert Verdict.HIT not in tried
    assert {Verdict.UNTRUSTED, Verdict.CORRUPT, Verdict.TRUNCATED, Verdict.EXTENDED, Verdict.FOREIGN_KEY} <= set(tried)


def flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def mutated(found: random.Random, pool: list[bytes]) -> bytes:
    """Return a value with one to three changes; one of other values may be all of it."""
    data = found.choice(pool)
    for _ in range(found.randint(1, 3)):
        start, end = sorted(found.choices(range(len(data) + 1), k=2))
        other = found.choice(pool)
        match found.randrange(6):
            case 0 if data:
                data = flip(data, found.randrange(len(data) * 8))
            case 1:
                data = data[:start] + data[end:]
            case 2:
                data = data[:end] + data[start:]
            case 3:
                data = data[:start] + other[start:]
            case 4:
                data = data[:start] + other[start:end] + data[end:]
            case _:
                data = data[:start] + found.randbytes(end - start) + data[end:]
    return data
