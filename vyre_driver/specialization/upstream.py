"""Upstream's keys of specialization, bit for bit; they select nothing alone.

No path of the driver takes what is here but that the name of a tuning record is made of a ``SpecCacheKey``: it stands for the
vyre tools that share these keys.

Source: spec item 2.1.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blake3 import blake3

from vyre_driver import _fast
from vyre_driver.checks import U32_MAX, U64_MAX
from vyre_driver.identity import key_fields

if TYPE_CHECKING:
    from vyre_driver.ir.program import Program
    from vyre_driver.specialization.values import SpecMap

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
        put(self, "shader_hash", key_fields.whole(self.shader_hash, U64_MAX, "shader_hash"))
        put(self, "binding_sig", key_fields.whole(self.binding_sig, U64_MAX, "binding_sig"))
        put(self, "workgroup_size", key_fields.workgroup(self.workgroup_size, "workgroup_size"))
        put(self, "spec_hash", key_fields.whole(self.spec_hash, U64_MAX, "spec_hash"))

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
    spec_hash = key_fields.whole(spec_hash, U64_MAX, "spec_hash")
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
        key_fields.encoded(spec_hash, "spec_hash"), key_fields.encoded(backend_fingerprint, "backend_fingerprint")
        key_fields.whole(cache_version, U32_MAX, "cache_version")
        raise
    return _fast.hex_text(blake3(head + spec + _ARTIFACT_BACKEND.pack(b"\0backend\0", len(backend)) + backend).digest())
