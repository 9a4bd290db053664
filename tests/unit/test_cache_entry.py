"""The bytes of an entry, and the verdict on bytes that claim to be one."""

from __future__ import annotations

import struct
from importlib import metadata
from pathlib import Path

import pytest
from blake3 import blake3
from literals import device_manifest, native_blob

from vyre_driver.cache.entry import (
    FORMAT_VERSION,
    HEADER_BYTES,
    MAX_ENTRY_BYTES,
    WRITTEN_BY,
    DeviceIds,
    PipelineEntry,
    Verdict,
    claims_to_be_entry,
    decode_entry,
    encode_entry,
    native_fits,
    read_header,
)

ROOT = Path(__file__).parents[2]
KEY = bytes(range(32))
MANIFEST, BLOB = device_manifest(), native_blob()
ENTRY = PipelineEntry(MANIFEST, b"SPIR-V words", BLOB)
OUTDATED = ROOT / "tests" / "golden" / "entry_v1.bin"
GOLDEN = ROOT / "tests" / "golden" / "entry_v2.bin"
GOLDEN_ENTRY = PipelineEntry(MANIFEST, b"SPIR-V words", BLOB, imported=True)

# The header byte by byte: first byte, byte after the last, what stands there, and the verdict when one of its bits flips.
EITHER_LENGTH = {Verdict.TRUNCATED, Verdict.EXTENDED}
LAYOUT: list[tuple[int, int, bytes, set[Verdict]]] = [
    (0, 8, b"VYREPIPE", {Verdict.CORRUPT}),
    (8, 12, b"\x02\0\0\0", {Verdict.OUTDATED}),
    (12, 16, b"\xd8\0\0\0", {Verdict.CORRUPT}),
    (16, 48, bytes.fromhex("892ecdaccfa80ca0755529403917d4e37d79f66ba6c2f2523e4aba430a1b8a91"), {Verdict.CORRUPT}),
    (48, 80, KEY, {Verdict.CORRUPT}),
    (80, 84, b"\x01\0\0\0", {Verdict.CORRUPT, Verdict.TRUNCATED}),
    (84, 85, bytes([struct.calcsize("P")]), {Verdict.CORRUPT}),
    (85, 86, b"\x01", {Verdict.CORRUPT}),
    (86, 88, b"\0\0", {Verdict.CORRUPT}),
    (88, 92, b"\xde\x10\0\0", {Verdict.CORRUPT}),
    (92, 96, b"\x30\x23\0\0", {Verdict.CORRUPT}),
    (96, 112, bytes(range(32, 48)), {Verdict.CORRUPT}),
    (112, 128, bytes(range(16)), {Verdict.CORRUPT}),
    (128, 132, b"\x04\0\0\0", {Verdict.CORRUPT}),
    (132, 136, b"\0\0\x30\x22", {Verdict.CORRUPT}),
    (136, 168, blake3(b"545.29.06").digest(), {Verdict.CORRUPT}),
    (168, 192, b"vyre-driver 0.1.0\0\0\0\0\0\0\0", {Verdict.CORRUPT}),
    (192, 196, len(MANIFEST).to_bytes(4, "little"), EITHER_LENGTH),
    (196, 200, b"\0\0\0\0", {Verdict.CORRUPT}),
    (200, 208, b"\x0c\0\0\0\0\0\0\0", EITHER_LENGTH),
    (208, 216, b"\x28\0\0\0\0\0\0\0", EITHER_LENGTH),
]


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def sealed(data: bytes) -> bytes:
    """Give bytes laid out by hand the digest that is right for them."""
    return data[:16] + blake3(data[48:]).digest() + data[48:]


def changed(at: int, value: bytes, data: bytes = b"") -> bytes:
    """The golden entry with other bytes at a place, and a digest that is right for them."""
    found = data or GOLDEN.read_bytes()
    return sealed(found[:at] + value + found[at + len(value) :])


def test_an_entry_is_laid_out_byte_by_byte_as_its_table_says() -> None:
    data = encode_entry(KEY, GOLDEN_ENTRY, written_by="vyre-driver 0.1.0")
    assert [(start, end, data[start:end]) for start, end, _, _ in LAYOUT] == [one[:3] for one in LAYOUT]
    assert data[216:] == MANIFEST + b"SPIR-V words" + BLOB


def test_the_table_of_the_header_leaves_no_byte_out() -> None:
    assert [at for start, end, _, _ in LAYOUT for at in range(start, end)] == list(range(HEADER_BYTES))


def test_the_digest_is_of_everything_after_it() -> None:
    data = encode_entry(KEY, ENTRY)
    assert data[16:48] == blake3(data[48:]).digest()


def test_the_constants_of_the_format_are_these() -> None:
    assert (FORMAT_VERSION, HEADER_BYTES, MAX_ENTRY_BYTES) == (2, 216, 64 * 1024 * 1024)


def test_an_entry_says_which_release_wrote_it() -> None:
    assert f"vyre-driver {metadata.version('vyre-driver')}" == WRITTEN_BY


def test_the_golden_entry_of_version_2_is_read() -> None:
    """The file was written once, on the day of version 2, and is never written again:

    ``GOLDEN.write_bytes(encode_entry(KEY, GOLDEN_ENTRY, written_by="vyre-driver 0.1.0"))`` with the values above.
    """
    assert decode_entry(KEY, GOLDEN.read_bytes()) == (Verdict.HIT, GOLDEN_ENTRY)


def test_the_golden_entry_of_version_2_is_written_the_same() -> None:
    made = encode_entry(KEY, GOLDEN_ENTRY, written_by="vyre-driver 0.1.0")
    assert made == GOLDEN.read_bytes(), "the entry's format has changed: bump FORMAT_VERSION"


def test_the_golden_entry_of_version_1_is_outdated_though_shorter_than_a_header_of_today() -> None:
    data = OUTDATED.read_bytes()
    assert (len(data), decode_entry(KEY, data)) == (122, (Verdict.OUTDATED, None))


@pytest.mark.parametrize(
    "entry",
    [
        ENTRY,
        GOLDEN_ENTRY,
        PipelineEntry(b"", b""),
        PipelineEntry(b"m", b""),
        PipelineEntry(b"", b"s"),
        PipelineEntry(MANIFEST, b"", BLOB),
    ],
)
def test_an_entry_is_read_back_as_it_was_written(entry: PipelineEntry) -> None:
    assert decode_entry(KEY, encode_entry(KEY, entry)) == (Verdict.HIT, entry)


def test_the_bytes_of_an_entry_are_counted_before_it_is_encoded() -> None:
    assert ENTRY.byte_len == len(encode_entry(KEY, ENTRY)) == 216 + len(MANIFEST) + 12 + 40


def test_an_entry_cut_at_any_length_is_truncated() -> None:
    data = encode_entry(KEY, ENTRY)
    assert {decode_entry(KEY, data[:end]) for end in range(len(data))} == {(Verdict.TRUNCATED, None)}


@pytest.mark.parametrize("more", [b"\0", b"x", bytes(1000)])
def test_an_entry_with_bytes_appended_is_extended(more: bytes) -> None:
    assert decode_entry(KEY, encode_entry(KEY, ENTRY) + more) == (Verdict.EXTENDED, None)


@pytest.mark.parametrize(("start", "end", "_value", "verdicts"), LAYOUT, ids=[str(one[0]) for one in LAYOUT])
def test_a_bit_flipped_in_the_header_is_the_verdict_of_its_field(
    start: int, end: int, _value: bytes, verdicts: set[Verdict]
) -> None:
    data = encode_entry(KEY, ENTRY)
    found = {decode_entry(KEY, flipped(data, bit)) for bit in range(8 * start, 8 * end)}
    assert found == {(verdict, None) for verdict in verdicts}


def test_a_bit_flipped_after_the_header_is_corrupt() -> None:
    data = encode_entry(KEY, ENTRY)
    found = {decode_entry(KEY, flipped(data, bit)) for bit in range(8 * HEADER_BYTES, 8 * len(data))}
    assert found == {(Verdict.CORRUPT, None)}


VERDICTS = {
    "as it should be": (changed(0, b""), Verdict.HIT),
    "another magic": (changed(0, b"OTHERONE"), Verdict.CORRUPT),
    "an older version": (changed(8, b"\1"), Verdict.OUTDATED),
    "a newer version": (changed(8, b"\3"), Verdict.OUTDATED),
    "a header of another size": (changed(12, b"\xd9"), Verdict.CORRUPT),
    "another key": (changed(48, bytes(32)), Verdict.FOREIGN_KEY),
    "a flag that is not known": (changed(80, b"\4"), Verdict.OUTDATED),
    "pointers of 4 bytes": (changed(84, b"\4"), Verdict.FOREIGN_DEVICE),
    "words of the other byte order": (changed(85, b"\2"), Verdict.FOREIGN_DEVICE),
    "another vendor": (changed(88, b"\xdf"), Verdict.FOREIGN_DEVICE),
    "another device": (changed(92, b"\x31"), Verdict.FOREIGN_DEVICE),
    "another cache UUID": (changed(111, b"\0"), Verdict.FOREIGN_DEVICE),
    "a blob of another device": (
        encode_entry(KEY, PipelineEntry(MANIFEST, b"s", native_blob(device_id=1))),
        Verdict.FOREIGN_DEVICE,
    ),
    "a blob of another format": (encode_entry(KEY, PipelineEntry(MANIFEST, b"s", b"\x21" + BLOB[1:])), Verdict.FOREIGN_DEVICE),
    "a blob that is its header": (encode_entry(KEY, PipelineEntry(MANIFEST, b"s", BLOB[:32])), Verdict.FOREIGN_DEVICE),
    "a blob shorter than a header": (encode_entry(KEY, PipelineEntry(MANIFEST, b"s", BLOB[:31])), Verdict.FOREIGN_DEVICE),
    "a blob and no device": (encode_entry(KEY, PipelineEntry(b"", b"s", BLOB)), Verdict.FOREIGN_DEVICE),
    "lengths that wrap around": (changed(200, struct.pack("<QQ", 2**64 - 1, 53)), Verdict.TRUNCATED),
    "lengths of all ones": (changed(192, b"\xff" * 24), Verdict.TRUNCATED),
    "lengths exchanged, the digest as it was": (
        GOLDEN.read_bytes()[:200] + struct.pack("<QQ", 40, 12) + GOLDEN.read_bytes()[216:],
        Verdict.CORRUPT,
    ),
    "nothing": (b"", Verdict.TRUNCATED),
    "15 bytes of anything": (b"x" * 15, Verdict.TRUNCATED),
    "16 bytes of anything": (b"x" * 16, Verdict.CORRUPT),
    "216 zero bytes": (bytes(216), Verdict.CORRUPT),
}


@pytest.mark.parametrize("what", VERDICTS)
def test_an_entry_made_by_hand_gets_the_verdict_it_deserves(what: str) -> None:
    data, verdict = VERDICTS[what]
    assert decode_entry(KEY, data)[0] is verdict


@pytest.mark.parametrize("blob", [b"", BLOB])
def test_a_blob_fits_the_device_that_wrote_it_and_none_fits_any(blob: bytes) -> None:
    assert native_fits(blob, DeviceIds.of_manifest(MANIFEST)) is True


@pytest.mark.parametrize("change", [{"vendor_id": 1}, {"device_id": 1}, {"pipeline_cache_uuid": bytes(16)}])
def test_a_blob_of_another_device_does_not_fit(change: dict[str, object]) -> None:
    assert native_fits(native_blob(**change), DeviceIds.of_manifest(MANIFEST)) is False  # type: ignore[arg-type]


@pytest.mark.parametrize("manifest", [b"", b"manifest", MANIFEST[:-1], b"\xff" * 30])
def test_a_manifest_that_names_no_device_fits_no_blob(manifest: bytes) -> None:
    assert native_fits(BLOB, DeviceIds.of_manifest(manifest)) is False


def test_a_header_tells_what_an_entry_is_without_its_bytes() -> None:
    header = read_header(GOLDEN.read_bytes()[:HEADER_BYTES])
    assert header is not None
    assert (header.manifest_bytes, header.spirv_bytes, header.native_bytes) == (len(MANIFEST), 12, 40)
    assert (header.key_digest, header.imported, header.written_by) == (KEY, True, "vyre-driver 0.1.0")
    assert header.ids == DeviceIds.of_manifest(MANIFEST)


@pytest.mark.parametrize("data", [b"", GOLDEN.read_bytes()[:215], OUTDATED.read_bytes() + bytes(200), b"x" * 300])
def test_what_is_not_the_beginning_of_an_entry_has_no_header(data: bytes) -> None:
    assert read_header(data) is None


def test_one_flipped_byte_does_not_make_an_entry_a_raw_blob() -> None:
    data = GOLDEN.read_bytes()[:16]
    assert {claims_to_be_entry(flipped(data, bit)) for bit in range(128)} == {True}


@pytest.mark.parametrize("data", [b"", b"VYREPIP", bytes(16), b"any other bytes!", BLOB[:16]])
def test_other_bytes_do_not_claim_to_be_an_entry(data: bytes) -> None:
    assert claims_to_be_entry(data) is False
