"""Upstream's identities of a device, a program and a dispatch policy, bit for bit; they select nothing alone.

No path of the driver takes what is here but ``cache/upstream.py``: it stands for the vyre tools that share these digests.

Source: spec items 3.1 to 3.3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blake3 import blake3

from vyre_driver import _fast
from vyre_driver.checks import U32_MAX
from vyre_driver.identity import key_fields

if TYPE_CHECKING:
    from vyre_driver.ir.program import Program
    from vyre_driver.target.config import DispatchConfig

_CACHE_KEY = struct.Struct("<40s32s8sI8sI8s32s")


@dataclass(frozen=True, slots=True)
class PipelineDeviceFingerprint:
    """A device as upstream's disk cache describes it: PCI vendor and device id (u32) and 32 bytes that stand for the driver."""

    vendor: int
    device: int
    driver_digest: bytes

    def __post_init__(self) -> None:
        """Check every field.

        Raises
        ------
        InvalidKey
            If a number is not a u32, or the digest has not 32 bytes.
        """
        put = object.__setattr__
        put(self, "vendor", key_fields.whole(self.vendor, U32_MAX, "vendor"))
        put(self, "device", key_fields.whole(self.device, U32_MAX, "device"))
        put(self, "driver_digest", key_fields.digest(self.driver_digest, "driver_digest"))

    @classmethod
    def from_parts(cls, vendor: int, device: int, revision: str, extra: str) -> PipelineDeviceFingerprint:
        """Return the fingerprint of a driver described by two texts, such as its version and its name.

        Only a word between NULs separates the two, so that a revision which holds it can be told apart from no other pair.
        """
        driver = b"%b\0extra\0%b" % (key_fields.encoded(revision, "revision"), key_fields.encoded(extra, "extra"))
        return cls(vendor, device, blake3(b"vyre-pipeline-device-fingerprint-v1\0" + driver).digest())

    def cache_key(self, program_digest: bytes) -> bytes:
        """Return the 32 bytes that name a program's (32-byte digest) pipeline on this device in upstream's disk cache.

        Policy, feature flags, layout and constants are not in it: only their program and device must never select an entry.

        Raises
        ------
        InvalidKey
            If the digest has not 32 bytes.
        """
        program = key_fields.digest(program_digest, "program_digest")
        material = _CACHE_KEY.pack(
            b"vyre-disk-pipeline-cache-key-v1\0program\0",
            program,
            b"\0vendor\0",
            self.vendor,
            b"\0device\0",
            self.device,
            b"\0driver\0",
            self.driver_digest,
        )
        return blake3(material).digest()


def dispatch_policy_cache_string(config: DispatchConfig) -> str:
    """Return upstream's text of a policy, ``ulp=Some(1):wg=Some([64, 1, 1])``, with ``None`` for what is not set."""
    budget, workgroup = config.ulp_budget, config.workgroup_override
    ulp = "None" if budget is None else f"Some({budget})"
    return f"ulp={ulp}:wg={'None' if workgroup is None else f'Some({list(workgroup)})'}"


def dispatch_policy_digest(config: DispatchConfig) -> bytes:
    """Return upstream's 32-byte digest of a policy: the ulp budget and the workgroup override, and no other field.

    A budget of 0 means what None means and has another digest; the pipeline key takes both for the same.
    """
    budget, workgroup = config.ulp_budget, config.workgroup_override
    ulp = b"\0\0" if budget is None else bytes([1, budget])
    size = b"\0" if workgroup is None else b"\1" + struct.pack("<3I", *workgroup)
    return blake3(b"ulp\0" + ulp + b"\0wg\0" + size).digest()


def normalized_program_cache_digest(program: Program, version: int = 2) -> bytes:
    """Return upstream's program digest v2 or v3 (32 bytes), which leaves fields out: it selects nothing alone.

    v2 is that of upstream's 0.4 to 0.6, v3 that of its 0.7 and 0.8.

    Raises
    ------
    InvalidProgram
        If the program has no encoding; for another version.
    """
    return program.normalized_cache_digest(version)


def program_vsa_fingerprint_words(program: Program, version: int = 4) -> tuple[int, ...]:
    """Return upstream's program fingerprint of wire format 4 (its 0.6) or 6 (its 0.7) as eight u32, little-endian.

    Raises
    ------
    InvalidProgram
        For another version.
    """
    return struct.unpack("<8I", program.fingerprint(version))


def hex_encode(data: object) -> str:
    """Return the bytes of anything with the buffer protocol as lower-case hex digits, two a byte, in C order.

    Only what is not contiguous is copied first.

    Raises
    ------
    TypeError
        If the value has no buffer.
    """
    view = memoryview(data)  # type: ignore[arg-type]
    return _fast.hex_text(view if view.c_contiguous else view.tobytes())
