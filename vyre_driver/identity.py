"""When two pipelines are the same: the strong cache key, and the readable manifest it is the digest of.

A key is BLAKE3 over a domain tag and a manifest. The manifest lists every input that changes the compiled code, each with a
length-prefixed name and value, so that no two inputs can run into each other; it is stored with the entry, so that a miss can
be explained. docs/keys.md says of each field why it is in, and what is deliberately out.

Source: upstream's PipelineCacheKey and PipelineFeatureFlags (fields and bits); the manifest is ours
(docs/cache-format.md).
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blake3 import blake3

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vyre_driver.binding import BindingPlan
    from vyre_driver.ir.program import Program
    from vyre_driver.specialization import Specialization
    from vyre_driver.vulkan.devices import PhysicalDevice

CURRENT_PIPELINE_CACHE_KEY_VERSION = 1

_KEY_DOMAIN = b"vyre-driver pipeline key\0"
_LAYOUT_DOMAIN = b"vyre-driver binding layout\0"
_POINTER_BYTES = struct.calcsize("P")

FieldValue = int | str | bytes


class PipelineFeatureFlags(enum.IntFlag):
    """Capabilities that a compiled pipeline relies on; the bits are upstream's."""

    SUBGROUP_OPS = 1 << 0
    F16 = 1 << 1
    BF16 = 1 << 2
    TENSOR_CORES = 1 << 3
    ASYNC_COMPUTE = 1 << 4
    PUSH_CONSTANTS = 1 << 5
    INDIRECT_DISPATCH = 1 << 6
    SPECULATIVE = 1 << 7
    PERSISTENT_THREAD = 1 << 8


@dataclass(frozen=True, slots=True)
class PipelineCacheKey:
    """The identity of one compiled pipeline: its manifest, and the 32-byte digest that names it."""

    manifest: bytes
    digest: bytes

    @classmethod
    def new(  # noqa: PLR0913 -- one parameter for each thing that changes the code; all but the seed's six by keyword
        cls,
        shader_hash: bytes,
        bind_group_layout_hash: bytes,
        push_constant_size: int,
        workgroup_size: tuple[int, int, int],
        feature_flags: PipelineFeatureFlags,
        backend_id: str,
        *,
        backend_flavour: str,
        specialization: Specialization,
        device: PhysicalDevice,
        enabled_features: Sequence[str] = (),
    ) -> PipelineCacheKey:
        """Build the key of a pipeline; ``shader_hash`` and ``bind_group_layout_hash`` are 32 bytes, sizes are bytes.

        ``device`` gives driver and model, never the unit: equal devices share entries.
        """
        fields: list[tuple[str, FieldValue]] = [
            ("key version", CURRENT_PIPELINE_CACHE_KEY_VERSION),
            ("shader", shader_hash),
            ("binding layout", bind_group_layout_hash),
            ("push constant bytes", push_constant_size),
            *((f"workgroup {axis}", size) for axis, size in zip("xyz", workgroup_size, strict=True)),
            ("feature flags", int(feature_flags)),
            ("enabled features", ",".join(sorted(enabled_features))),
            ("backend", backend_id),
            ("backend flavour", backend_flavour),
            *specialization_fields(specialization),
            *device_fields(device),
        ]
        manifest = encode_manifest(fields)
        return cls(manifest, blake3(_KEY_DOMAIN + manifest).digest())

    @property
    def hex(self) -> str:
        """The digest as 64 lower-case hex digits."""
        return self.digest.hex()


def specialization_fields(specialization: Specialization) -> list[tuple[str, FieldValue]]:
    """Return the manifest fields of the specialization constants: id, name, type and bits of each."""
    return [
        (f"constant {constant.spec_id} {constant.name}", f"{constant.type_name}:{constant.bits:#010x}")
        for constant in specialization.constants
    ]


def device_fields(device: PhysicalDevice) -> list[tuple[str, FieldValue]]:
    """Return the manifest fields of the device's model and driver.

    pipelineCacheUUID alone would not do: some drivers never change it. deviceUUID is left out: it names one unit.
    """
    return [
        ("vendorID", device.vendor_id),
        ("deviceID", device.device_id),
        ("driverID", device.driver_id),
        ("driverName", device.driver_name),
        ("driverInfo", device.driver_info),
        ("driverVersion", device.driver_version),
        ("apiVersion", device.api_version),
        ("driverUUID", device.driver_uuid),
        ("pipelineCacheUUID", device.pipeline_cache_uuid),
        ("pointer bytes", _POINTER_BYTES),
    ]


def shader_digest(code: bytes) -> bytes:
    """Return the 32-byte identity of a SPIR-V module in host byte order."""
    return blake3(code).digest()


def program_digest(program: Program) -> bytes:
    """Return the strong 32-byte identity of a program (docs/keys.md): every field that may change the code changes it."""
    return program.digest()


def normalized_program_cache_digest(program: Program) -> bytes:
    """Return upstream's program digest v2 (32 bytes), which leaves fields out: it selects nothing alone.

    Raises
    ------
    InvalidProgram
        1006 if the program has no encoding.
    """
    return program.normalized_cache_digest()


def program_vsa_fingerprint_words(program: Program) -> tuple[int, ...]:
    """Return upstream's program fingerprint as eight u32, little-endian."""
    return struct.unpack("<8I", program.fingerprint())


def layout_digest(plan: BindingPlan) -> bytes:
    """Return the 32-byte identity of a plan's descriptor layout: binding number, role and element size of each buffer."""
    slots = [
        (f"binding {binding.binding}", f"{binding.role.value}:{binding.header_bytes}:{binding.element_size}")
        for binding in plan.bindings
    ]
    return blake3(_LAYOUT_DOMAIN + encode_manifest(slots)).digest()


def encode_manifest(fields: Iterable[tuple[str, FieldValue]]) -> bytes:
    """Encode named fields, in the order given.

    Each field is: u32 name length, name in UTF-8, one byte of kind (``u`` whole number, ``s`` text, ``b`` bytes), u32 value
    length, value (a number as u64); all little-endian.
    """
    return b"".join(_encode_field(name, value) for name, value in fields)


def _encode_field(name: str, value: FieldValue) -> bytes:
    if isinstance(value, int):
        kind, payload = b"u", struct.pack("<Q", value)
    elif isinstance(value, str):
        kind, payload = b"s", value.encode()
    else:
        kind, payload = b"b", value
    encoded = name.encode()
    return struct.pack("<I", len(encoded)) + encoded + kind + struct.pack("<I", len(payload)) + payload


def decode_manifest(manifest: bytes) -> tuple[tuple[str, FieldValue], ...]:
    """Return the fields of a manifest, in order.

    Raises
    ------
    ValueError
        If the bytes are not a manifest.
    """
    fields = []
    at = 0
    try:
        while at < len(manifest):
            name, at = _take(manifest, at)
            kind = manifest[at : at + 1]
            payload, at = _take(manifest, at + 1)
            fields.append((name.decode(), _decode_value(kind, payload)))
    except struct.error as error:
        raise ValueError(f"the manifest ends inside a field, at byte {at}") from error
    return tuple(fields)


def _take(manifest: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from("<I", manifest, at)
    end = at + 4 + length
    if end > len(manifest):
        raise ValueError(f"a field of the manifest runs to byte {end} of {len(manifest)}")
    return manifest[at + 4 : end], end


def _decode_value(kind: bytes, payload: bytes) -> FieldValue:
    match kind:
        case b"u":
            return int(struct.unpack("<Q", payload)[0])
        case b"s":
            return payload.decode()
        case b"b":
            return payload
    raise ValueError(f"a field of the manifest has the unknown kind {kind!r}")
