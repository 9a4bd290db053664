"""Upstream's identities of a device, a program, a dispatch policy and a specialization, bit for bit; they select nothing alone.

No path of the driver takes what is here but that ``cache/upstream.py`` names its blobs so, and that the name of a tuning record
is made of a ``SpecCacheKey``: it stands for the vyre tools that share these.

Source: spec items 2.1 and 3.1 to 3.3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blake3 import blake3

from vyre_driver import _fast
from vyre_driver.checks import U32_MAX, U64_MAX, key_digest, key_integer, key_text, key_workgroup

if TYPE_CHECKING:
    from vyre_driver.ir.program import Program
    from vyre_driver.specialization.values import SpecMap
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
        put(self, "vendor", key_integer(self.vendor, U32_MAX, "vendor"))
        put(self, "device", key_integer(self.device, U32_MAX, "device"))
        put(self, "driver_digest", key_digest(self.driver_digest, "driver_digest"))

    @classmethod
    def from_parts(cls, vendor: int, device: int, revision: str, extra: str) -> PipelineDeviceFingerprint:
        """Return the fingerprint of a driver described by two texts, such as its version and its name.

        Only a word between NULs separates the two, so that a revision which holds it can be told apart from no other pair.
        """
        driver = b"%b\0extra\0%b" % (key_text(revision, "revision"), key_text(extra, "extra"))
        return cls(vendor, device, blake3(b"vyre-pipeline-device-fingerprint-v1\0" + driver).digest())

    def cache_key(self, program_digest: bytes) -> bytes:
        """Return the 32 bytes that name a program's (32-byte digest) pipeline on this device in upstream's disk cache.

        Policy, feature flags, layout and constants are not in it: only their program and device must never select an entry.

        Raises
        ------
        InvalidKey
            If the digest has not 32 bytes.
        """
        program = key_digest(program_digest, "program_digest")
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


_ARTIFACT_DOMAIN = b"vyre-specialization-artifact-key-v1\0version\0"
_ARTIFACT_HEAD = struct.Struct("<44sI6sQ")
_ARTIFACT_BACKEND = struct.Struct("<9sQ")


@dataclass(frozen=True, slots=True)
class SpecCacheKey:
    """Upstream's key of a specialized pipeline: three u64 and the workgroup's three u32.

    Weak by design, kept for other vyre tools and for the tuning store they share; it selects no code.
    """

    shader_hash: int
    binding_sig: int
    workgroup_size: tuple[int, int, int]
    spec_hash: int

    def __post_init__(self) -> None:
        """Check every field; any sequence of three will do for the workgroup.

        Raises
        ------
        InvalidKey
            If a field is out of its range.
        """
        put = object.__setattr__
        put(self, "shader_hash", key_integer(self.shader_hash, U64_MAX, "shader_hash"))
        put(self, "binding_sig", key_integer(self.binding_sig, U64_MAX, "binding_sig"))
        put(self, "workgroup_size", key_workgroup(self.workgroup_size, "workgroup_size"))
        put(self, "spec_hash", key_integer(self.spec_hash, U64_MAX, "spec_hash"))

    @classmethod
    def new(cls, shader_hash: int, binding_sig: int, workgroup_size: tuple[int, int, int], specs: SpecMap) -> SpecCacheKey:
        """Return the key of a shader and binding layout (u64 each) at a workgroup size, specialized by ``specs``."""
        return cls(shader_hash, binding_sig, workgroup_size, specs.cache_hash())


def vsa_specialization_key(program: Program, spec_hash: int, version: int = 4) -> int:
    """Return upstream's 128-bit key: the first 64 bits of the program's fingerprint above the hash (u64) of its constants.

    Weak by design, kept for other vyre tools; it selects nothing alone. The fingerprint is that of wire format 4 (upstream's
    0.6) or 6 (its 0.7).

    Raises
    ------
    InvalidKey
        If the hash is no u64.
    InvalidProgram
        For another version.
    """
    spec_hash = key_integer(spec_hash, U64_MAX, "spec_hash")
    return int.from_bytes(program.fingerprint(version)[:8], "little") << 64 | spec_hash


def versioned_specialization_artifact_key(cache_version: int, spec_hash: str, backend_fingerprint: str) -> str:
    """Return upstream's name, 64 hex digits, of what a backend compiled ahead of time: every part with its length.

    Raises
    ------
    InvalidKey
        If the version is no u32, or a text has no UTF-8 form.
    """
    try:
        spec, backend = str.encode(spec_hash), str.encode(backend_fingerprint)
        head = _ARTIFACT_HEAD.pack(_ARTIFACT_DOMAIN, cache_version, b"\0spec\0", len(spec))
    except (TypeError, UnicodeEncodeError, struct.error):  # the checks say which part; made first, they would cost a fifth
        key_text(spec_hash, "spec_hash"), key_text(backend_fingerprint, "backend_fingerprint")
        key_integer(cache_version, U32_MAX, "cache_version")
        raise
    return _fast.hex_text(blake3(head + spec + _ARTIFACT_BACKEND.pack(b"\0backend\0", len(backend)) + backend).digest())
