"""The bytes of an entry, and the verdict on bytes that claim to be one."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from blake3 import blake3

from vyre_driver.cache.entry import (
    FORMAT_VERSION,
    HEADER_BYTES,
    MAX_ENTRY_BYTES,
    PipelineEntry,
    Verdict,
    decode_entry,
    encode_entry,
)

KEY = bytes(range(32))
ENTRY = PipelineEntry(b"manifest", b"SPIR-V words", b"native")
GOLDEN = Path(__file__).parent.parent / "golden" / "entry_v1.bin"

# What a byte of the header protects, and so the verdict when one of its bits flips: offset, size, verdicts.
HEADER = [
    (0, 8, {Verdict.CORRUPT}),
    (8, 4, {Verdict.OUTDATED}),
    (12, 4, {Verdict.TRUNCATED, Verdict.EXTENDED}),
    (16, 32, {Verdict.CORRUPT}),
    (48, 8, {Verdict.TRUNCATED, Verdict.EXTENDED}),
    (56, 8, {Verdict.TRUNCATED, Verdict.EXTENDED}),
    (64, 32, {Verdict.CORRUPT}),
]


def sealed(
    *, magic: bytes = b"VYREPIPE", version: int = 1, key: bytes = KEY, lengths: tuple[int, int, int] = (2, 3, 4), body: bytes
) -> bytes:
    """An entry laid out by hand, with a digest that is right for it."""
    fixed = magic + struct.pack("<II", version, lengths[0]) + key + struct.pack("<QQ", lengths[1], lengths[2])
    return fixed + blake3(fixed + body).digest() + body


LAYOUT = [
    (0, 8, b"VYREPIPE"),
    (8, 12, b"\x01\0\0\0"),
    (12, 16, b"\x08\0\0\0"),
    (16, 48, KEY),
    (48, 56, b"\x0c\0\0\0\0\0\0\0"),
    (56, 64, b"\x06\0\0\0\0\0\0\0"),
    (64, 96, bytes.fromhex("60fe1f8c6d8a3721d1f87cebe67df59c62009afdfa9753d2c928e5d28e2907ae")),
    (96, 104, b"manifest"),
    (104, 116, b"SPIR-V words"),
    (116, 122, b"native"),
]


def test_an_entry_is_laid_out_byte_by_byte_as_its_table_says() -> None:
    data = encode_entry(KEY, ENTRY)
    assert [(start, end, data[start:end]) for start, end, _ in LAYOUT] == LAYOUT
    assert (len(data), data[64:96]) == (122, blake3(data[:64] + data[96:]).digest())


def test_the_constants_of_the_format_are_these() -> None:
    assert (FORMAT_VERSION, HEADER_BYTES, MAX_ENTRY_BYTES) == (1, 96, 64 * 1024 * 1024)


def test_the_golden_entry_of_version_1_is_read() -> None:
    """The file was written once, on the day of version 1, and is never written again:

    ``GOLDEN.write_bytes(encode_entry(KEY, ENTRY))`` with the KEY and ENTRY above.
    """
    assert decode_entry(KEY, GOLDEN.read_bytes()) == (Verdict.HIT, ENTRY)


def test_the_golden_entry_of_version_1_is_written_the_same() -> None:
    assert encode_entry(KEY, ENTRY) == GOLDEN.read_bytes(), "the entry's format has changed: bump FORMAT_VERSION"


def test_the_golden_entry_is_the_one_described() -> None:
    assert GOLDEN.read_bytes() == sealed(lengths=(8, 12, 6), body=b"manifestSPIR-V wordsnative")


@pytest.mark.parametrize(
    "entry",
    [ENTRY, PipelineEntry(b"", b""), PipelineEntry(b"m", b""), PipelineEntry(b"", b"s"), PipelineEntry(b"", b"", b"n")],
)
def test_an_entry_is_read_back_as_it_was_written(entry: PipelineEntry) -> None:
    assert decode_entry(KEY, encode_entry(KEY, entry)) == (Verdict.HIT, entry)


def test_the_bytes_of_an_entry_are_counted_before_it_is_encoded() -> None:
    assert ENTRY.byte_len == len(encode_entry(KEY, ENTRY)) == 122


def test_an_entry_cut_at_any_length_is_truncated() -> None:
    data = encode_entry(KEY, ENTRY)
    assert {decode_entry(KEY, data[:end]) for end in range(len(data))} == {(Verdict.TRUNCATED, None)}


@pytest.mark.parametrize("more", [b"\0", b"x", bytes(1000)])
def test_an_entry_with_bytes_appended_is_extended(more: bytes) -> None:
    assert decode_entry(KEY, encode_entry(KEY, ENTRY) + more) == (Verdict.EXTENDED, None)


@pytest.mark.parametrize(("offset", "size", "verdicts"), HEADER)
def test_a_bit_flipped_in_the_header_is_the_verdict_of_its_field(offset: int, size: int, verdicts: set[Verdict]) -> None:
    found = set()
    for bit in range(8 * offset, 8 * (offset + size)):
        data = bytearray(encode_entry(KEY, ENTRY))
        data[bit // 8] ^= 1 << bit % 8
        found.add(decode_entry(KEY, bytes(data)))
    assert found == {(verdict, None) for verdict in verdicts}


def test_a_bit_flipped_after_the_header_is_corrupt() -> None:
    found = set()
    for bit in range(8 * HEADER_BYTES, 8 * ENTRY.byte_len):
        data = bytearray(encode_entry(KEY, ENTRY))
        data[bit // 8] ^= 1 << bit % 8
        found.add(decode_entry(KEY, bytes(data)))
    assert found == {(Verdict.CORRUPT, None)}


def test_the_table_of_the_header_leaves_no_byte_out() -> None:
    assert [at for offset, size, _ in HEADER for at in range(offset, offset + size)] == list(range(HEADER_BYTES))


BODY = b"aabbbcccc"
VERDICTS = {
    "as it should be": (sealed(body=BODY), Verdict.HIT),
    "another magic": (sealed(magic=b"OTHERONE", body=BODY), Verdict.CORRUPT),
    "an older version": (sealed(version=0, body=BODY), Verdict.OUTDATED),
    "a newer version": (sealed(version=2, body=BODY), Verdict.OUTDATED),
    "another key": (sealed(key=bytes(32), body=BODY), Verdict.FOREIGN_KEY),
    "a byte too few": (sealed(body=BODY[:-1]), Verdict.TRUNCATED),
    "a byte too many": (sealed(body=BODY + b"d"), Verdict.EXTENDED),
    "lengths that wrap around": (sealed(lengths=(2, 2**64 - 1, 8), body=BODY), Verdict.TRUNCATED),
    "lengths of all ones": (sealed(lengths=(2**32 - 1, 2**64 - 1, 2**64 - 1), body=BODY), Verdict.TRUNCATED),
    "a digest of the body alone": (
        sealed(body=BODY)[:64] + blake3(BODY).digest() + BODY,
        Verdict.CORRUPT,
    ),
    "lengths exchanged": (sealed(body=BODY)[:48] + struct.pack("<QQ", 4, 3) + sealed(body=BODY)[64:], Verdict.CORRUPT),
    "nothing": (b"", Verdict.TRUNCATED),
    "95 bytes of anything": (b"x" * 95, Verdict.TRUNCATED),
    "96 bytes of anything": (b"x" * 96, Verdict.CORRUPT),
    "96 zero bytes": (bytes(96), Verdict.CORRUPT),
}


@pytest.mark.parametrize("what", VERDICTS)
def test_an_entry_made_by_hand_gets_the_verdict_it_deserves(what: str) -> None:
    data, verdict = VERDICTS[what]
    assert decode_entry(KEY, data)[0] is verdict


def test_an_entry_is_split_at_the_lengths_it_states() -> None:
    assert decode_entry(KEY, sealed(body=BODY)) == (Verdict.HIT, PipelineEntry(b"aa", b"bbb", b"cccc"))
