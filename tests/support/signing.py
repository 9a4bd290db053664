"""Keys, trust and signed entries that tests of shared caches start from."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric import ed25519
from literals import DEVICE, device_manifest, native_blob

from vyre_driver.cache.entry import PipelineEntry, encode_entry
from vyre_driver.identity import PipelineCacheKey, PipelineFeatureFlags
from vyre_driver.remote.trust import Signer, Trust, key_id, trust_line
from vyre_driver.specialization import Specialization

if TYPE_CHECKING:
    from pathlib import Path

KEY = bytes(range(32))
ENTRY = PipelineEntry(device_manifest(), b"SPIR-V words", native_blob())
ENTRY_BYTES = encode_entry(KEY, ENTRY, written_by="vyre-driver 0.1.0")
SIGNED_AT_S = 1_780_000_000  # 2026-05-28


def pipeline(number: int) -> PipelineCacheKey:
    """Return a key of the made-up device."""
    return PipelineCacheKey.new(
        bytes([number]) * 32,
        bytes(32),
        0,
        (64, 1, 1),
        PipelineFeatureFlags.EMPTY,
        "kompute",
        backend_flavour="kp",
        device=DEVICE,
        specialization=Specialization(()),
    )


def signer_of(seed: int) -> Signer:
    """Return the signer of a private key that is the same each time."""
    private = ed25519.Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
    return Signer(private, key_id(private.public_key().public_bytes_raw()))


BUILDER, STRANGER = signer_of(1), signer_of(2)


def trust_file(path: Path, *lines: str) -> Path:
    """Write a trust file; by default it trusts BUILDER as builder-1."""
    path.write_text("".join(f"{line}\n" for line in lines or (trust_line("builder-1", BUILDER),)))
    path.chmod(0o600)
    return path


def key_file(path: Path, seed: int = 1) -> Path:
    """Write the private key of ``signer_of(seed)``."""
    path.write_text(f"vyre-ed25519-private {base64.b64encode(bytes([seed]) * 32).decode()}\n")
    path.chmod(0o600)
    return path


def trusting(path: Path, *lines: str) -> Trust:
    """Return what a trust file with these lines says."""
    return Trust.read(trust_file(path, *lines))
