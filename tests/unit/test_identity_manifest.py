"""What a key's manifest is, byte by byte, and what comes back of it."""

from __future__ import annotations

import pytest
from literals import refusal
from pipeline_keys import BUMP, INPUTS, key

from vyre_driver.errors import InvalidKey
from vyre_driver.identity import (
    CURRENT_PIPELINE_CACHE_KEY_VERSION,
    MANIFEST_VERSION,
    PipelineCacheKey,
    decode_manifest,
    encode_manifest,
)
from vyre_driver.identity import keys as identity

GOLDEN_FIELDS = (
    ("manifest version", 2),
    ("key version", 1),
    ("shader", bytes(range(32))),
    ("binding layout", bytes(range(32, 64))),
    ("push constant bytes", 8),
    ("workgroup x", 256),
    ("workgroup y", 1),
    ("workgroup z", 1),
    ("feature flags", 32),
    ("backend", "kompute"),
    ("backend flavour", "kp"),
    ("emitter version", 3),
    ("emitter option checks", "all"),
    ("emitter option salt", b"\1"),
    ("emitter option unroll", 4),
    ("ulp budget", 1),
    ("workgroup override", "256x1x1"),
    ("enabled feature shaderFloat64", 1),
    ("constant 0 count", "u32:0x00000100"),
    ("spec TILE", "u32:0x00000010"),
    ("vendorID", 0x10DE),
    ("deviceID", 0x2330),
    ("driverID", 4),
    ("driverName", "Example"),
    ("driverInfo", "545.29.06"),
    ("driverVersion", 0x2230_0000),
    ("apiVersion", 0x0040_30E6),
    ("driverUUID", bytes(range(16))),
    ("pipelineCacheUUID", bytes(range(32, 48))),
    ("pointer bytes", 8),
)
GOLDEN_DIGEST = "a877b41bb94b1db5351c168181b34e1eb0587a769bd29e663b63d3cf38b597c0"


@pytest.fixture
def _eight_byte_pointers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_POINTER_BYTES", 8)


@pytest.mark.usefixtures("_eight_byte_pointers")
def test_the_manifest_of_version_2_is_these_fields() -> None:
    assert decode_manifest(key().manifest) == GOLDEN_FIELDS, BUMP


@pytest.mark.usefixtures("_eight_byte_pointers")
def test_the_digest_of_version_2_is_this_one() -> None:
    assert (CURRENT_PIPELINE_CACHE_KEY_VERSION, MANIFEST_VERSION, key().hex) == (1, 2, GOLDEN_DIGEST), BUMP


def test_a_field_is_encoded_with_its_lengths_kind_and_value() -> None:
    assert encode_manifest([("n", 258), ("text", "ü"), ("b", b"\0\xff")]) == (
        b"\x01\0\0\0n" + b"u" + b"\x08\0\0\0" + b"\x02\x01\0\0\0\0\0\0"
        b"\x04\0\0\0text" + b"s" + b"\x02\0\0\0" + b"\xc3\xbc"
        b"\x01\0\0\0b" + b"b" + b"\x02\0\0\0" + b"\0\xff"
    )


def test_a_field_that_is_cut_off_is_no_manifest() -> None:
    with pytest.raises(ValueError, match=r"^a field of the manifest runs to byte 15 of 14$"):
        decode_manifest(encode_manifest([("n", b"data!")])[:-1])


def test_a_field_of_an_unknown_kind_is_no_manifest() -> None:
    with pytest.raises(ValueError, match=r"^a field of the manifest has the unknown kind b'x'$"):
        decode_manifest(encode_manifest([("n", b"")]).replace(b"nb", b"nx"))


def test_a_length_that_is_cut_off_is_no_manifest() -> None:
    with pytest.raises(ValueError, match=r"^the manifest ends inside a field, at byte 0$"):
        decode_manifest(b"\x01\0\0")


def test_a_key_comes_back_from_its_manifest() -> None:
    key = PipelineCacheKey.new(**INPUTS)
    assert PipelineCacheKey.from_manifest(key.manifest) == key


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"no manifest",
        encode_manifest([("key version", 1)]),
        encode_manifest([("key version", "1"), ("shader", bytes(32))]),
    ],
)
def test_bytes_that_are_no_pipelines_manifest_give_no_key(manifest: bytes) -> None:
    kind, code, message = refusal(lambda: PipelineCacheKey.from_manifest(manifest))
    assert (kind, code, f"the {len(manifest)} bytes are not a manifest of a pipeline" in message) == (InvalidKey, 2203, True)


def test_a_manifest_whose_fields_have_other_kinds_gives_no_key() -> None:
    fields = dict(decode_manifest(PipelineCacheKey.new(**INPUTS).manifest))
    for name in ("key version", "shader", "binding layout", "push constant bytes", "workgroup y", "feature flags", "backend"):
        changed = encode_manifest((fields | {name: 7 if name == "shader" else b"x"}).items())
        assert refusal(lambda changed=changed: PipelineCacheKey.from_manifest(changed))[:2] == (InvalidKey, 2203)
