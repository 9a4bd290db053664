"""When two pipelines are the same: the strong cache key, and every digest that goes into it.

A key is BLAKE3 over a domain tag and a manifest (identity/manifest.py), the list of every input that changes the compiled code.
docs/keys.md says of each field why it is in, and what is deliberately out. Upstream's own identities stand beside it, kept bit
for bit because other vyre tools share them; they select nothing alone.

Source: upstream's PipelineCacheKey and PipelineFeatureFlags (fields and bits; spec items 3.1 to 3.4); the manifest is ours
(docs/cache-format.md).
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from vyre_driver import _fast
from vyre_driver.checks import U32_MAX, U64_MAX, key_digest, key_integer, key_text, key_workgroup
from vyre_driver.errors import InvalidKey
from vyre_driver.identity.manifest import FieldValue, decode_manifest, encode_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vyre_driver.binding.plan import BindingPlan
    from vyre_driver.ir.program import Program
    from vyre_driver.specialization.resolve import Specialization
    from vyre_driver.specialization.values import SpecMap
    from vyre_driver.target.config import DispatchConfig
    from vyre_driver.vulkan.devices import PhysicalDevice

CURRENT_PIPELINE_CACHE_KEY_VERSION = 1
"""Upstream's version of its key's fields."""

MANIFEST_VERSION = 2
"""Ours, of the manifest's fields: a change of them must miss."""
TUNING_VERSION = 1
"""The same of a tuning identity."""

_KEY_DOMAIN = b"vyre-driver pipeline key\0"
_TUNING_DOMAIN = b"vyre-driver tuning\0"
_LAYOUT_DOMAIN = b"vyre-driver binding layout\0"
_UPSTREAM_FIELDS = (
    "key version",
    "shader",
    "binding layout",
    "push constant bytes",
    "workgroup x",
    "workgroup y",
    "workgroup z",
    "feature flags",
    "backend",
)
_POINTER_BYTES = struct.calcsize("P")


class PipelineFeatureFlags(enum.IntFlag):
    """Capabilities that a compiled pipeline relies on; the bits are upstream's."""

    EMPTY = 0
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
    """The identity of one compiled pipeline: upstream's fields, the manifest of them and of all else, and its 32-byte digest.

    Keys are equal when everything is; for keys made by ``new`` that is when their digests are.
    """

    version: int
    shader_hash: bytes
    bind_group_layout_hash: bytes
    push_constant_size: int
    workgroup_size: tuple[int, int, int]
    feature_flags: PipelineFeatureFlags
    backend_id: str
    manifest: bytes
    digest: bytes

    def __post_init__(self) -> None:
        """Check upstream's fields.

        Raises
        ------
        InvalidKey
            If one is of the wrong type, size or range.
        """
        put = object.__setattr__
        put(self, "version", key_integer(self.version, U32_MAX, "version"))
        put(self, "shader_hash", key_digest(self.shader_hash, "shader_hash"))
        put(self, "bind_group_layout_hash", key_digest(self.bind_group_layout_hash, "bind_group_layout_hash"))
        put(self, "push_constant_size", key_integer(self.push_constant_size, U32_MAX, "push_constant_size"))
        put(self, "workgroup_size", key_workgroup(self.workgroup_size, "workgroup_size"))
        put(self, "feature_flags", PipelineFeatureFlags(key_integer(self.feature_flags, U32_MAX, "feature_flags")))
        _text(self.backend_id, "backend_id")

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
        specs: SpecMap | None = None,
        config: DispatchConfig | None = None,
        emitter_version: int = 0,
        emitter_options: Mapping[str, FieldValue] | None = None,
        enabled_features: Iterable[str] = (),
    ) -> PipelineCacheKey:
        """Build the key of a pipeline; the hashes are 32 bytes, ``push_constant_size`` is bytes, the workgroup invocations.

        Parameters
        ----------
        specialization
            Every constant of the SPIR-V module, defaults included.
        device
            Gives driver and model, never the unit: equal devices share entries.
        specs
            The typed values a program is emitted with; None is as an empty map.
        config
            The dispatch policy; None is as the default. A ulp budget of 0 is as None: both mean strict.
        emitter_version, emitter_options
            The emitter's version, from 1 on, and its options; 0 and none for a finished module.
        enabled_features
            Features that were switched on when the device was made; order and repetition do not count.

        Raises
        ------
        InvalidKey
            If a part is of the wrong type, size or range.
        """
        seed = (shader_hash, bind_group_layout_hash, push_constant_size, workgroup_size, feature_flags, backend_id)
        key = cls(CURRENT_PIPELINE_CACHE_KEY_VERSION, *seed, b"", b"")
        manifest = encode_manifest(
            [
                ("manifest version", MANIFEST_VERSION),
                *key.upstream_fields(),
                ("backend flavour", _text(backend_flavour, "backend_flavour")),
                *emitter_fields(emitter_version, emitter_options or {}),
                *policy_fields(config),
                *((f"enabled feature {_text(name, 'enabled_features')}", 1) for name in sorted(set(enabled_features))),
                *specialization_fields(specialization),
                *(() if specs is None else spec_map_fields(specs)),
                *device_fields(device),
            ]
        )
        return replace(key, manifest=manifest, digest=manifest_digest(manifest))

    @classmethod
    def from_manifest(cls, manifest: bytes) -> PipelineCacheKey:
        """Return the key whose manifest this is; what it says is checked as ``new`` checks it.

        Raises
        ------
        InvalidKey
            If the bytes are not a manifest of a pipeline.
        """
        try:
            said = dict(decode_manifest(manifest))
            fields: list[Any] = [said[name] for name in _UPSTREAM_FIELDS]
        except (ValueError, KeyError) as error:
            raise InvalidKey(
                f"the {len(manifest)} bytes are not a manifest of a pipeline: {error}",
                fix="give the manifest of a PipelineCacheKey",
            ) from error
        version, shader, layout, push_bytes, x, y, z, flags, backend = fields
        return cls(version, shader, layout, push_bytes, (x, y, z), flags, backend, manifest, manifest_digest(manifest))

    def upstream_fields(self) -> list[tuple[str, FieldValue]]:
        """Return the manifest fields of what upstream's key has."""
        sizes = self.push_constant_size, *self.workgroup_size
        values = self.version, self.shader_hash, self.bind_group_layout_hash, *sizes, int(self.feature_flags), self.backend_id
        return list(zip(_UPSTREAM_FIELDS, values, strict=True))

    @property
    def hex(self) -> str:
        """The digest as 64 lower-case hex digits."""
        return _fast.hex_text(self.digest)


def manifest_digest(manifest: bytes) -> bytes:
    """Return the 32-byte digest that names the pipeline of a manifest, whatever is in it."""
    return blake3(_KEY_DOMAIN + manifest).digest()


def _text(value: str, field: str) -> str:
    key_text(value, field)
    return value


def emitter_fields(version: int, options: Mapping[str, FieldValue]) -> list[tuple[str, FieldValue]]:
    """Return the manifest fields of what made SPIR-V of a program: its version (u32), and its options by name.

    Raises
    ------
    InvalidKey
        If the version is not a u32, a name is not a str, or a value is not a u64, text or bytes.
    """
    fields: list[tuple[str, FieldValue]] = [("emitter version", key_integer(version, U32_MAX, "emitter_version"))]
    for name, value in sorted(options.items()):
        what = f"emitter option {_text(name, 'emitter_options')}"
        if isinstance(value, str):
            _text(value, what)
        elif not isinstance(value, bytes):
            key_integer(value, U64_MAX, what)
        fields.append((what, value))
    return fields


def policy_fields(config: DispatchConfig | None) -> list[tuple[str, FieldValue]]:
    """Return the manifest fields of a dispatch policy: the ulp budget (0: strict) and the workgroup override (empty: none).

    A subgroup size is a field only where one is asked for: other keys are as they were before there was such a field.
    """
    budget, override = (None, None) if config is None else (config.ulp_budget, config.workgroup_override)
    size = None if config is None else config.subgroup_size
    return [
        ("ulp budget", budget or 0),
        ("workgroup override", "" if override is None else "{}x{}x{}".format(*override)),
        *(() if size is None else (("subgroup size", size),)),
    ]


def specialization_fields(specialization: Specialization) -> list[tuple[str, FieldValue]]:
    """Return the manifest fields of the specialization constants: id, name, type and bits of each."""
    return [
        (f"constant {constant.spec_id} {constant.name}", f"{constant.type_name}:{constant.bits:#010x}")
        for constant in specialization.constants
    ]


def spec_map_fields(specs: SpecMap) -> list[tuple[str, FieldValue]]:
    """Return the manifest fields of typed values: name, type and bits of each, of a data type its whole encoding."""
    return [
        (
            f"spec {name}",
            f"{one.type_name}:{one.bits:#010x}" if one.data_type is None else f"dtype:{one.data_type.encoded.hex()}",
        )
        for name, one in specs
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


def tuning_identity(  # noqa: PLR0913 -- one parameter for each thing that a choice depends on
    code: bytes, constants: Iterable[str], fixed: SpecMap, device: PhysicalDevice, *, ulp_budget: int = 0, size: str = ""
) -> str:
    """Return the identity of what a tuning record holds for, as 64 hex digits (docs/autotune-format.md).

    Parameters
    ----------
    code
        The 32-byte digest of the program or of the kernel's modules.
    constants
        The names of the specialization constants that are tuned, in the order of their axes.
    fixed
        The values that the caller gave.
    size
        The class of problem sizes, empty for any.

    Raises
    ------
    InvalidKey
        If a part is of the wrong type or size.
    """
    manifest = encode_manifest(
        [
            ("tuning version", TUNING_VERSION),
            ("code", key_digest(code, "code")),
            *((f"tuned constant {place} {_text(name, 'constants')}", 1) for place, name in enumerate(constants)),
            *spec_map_fields(fixed),
            ("ulp budget", key_integer(ulp_budget, U32_MAX, "ulp_budget")),
            ("size", _text(size, "size")),
            *device_fields(device),
        ]
    )
    return _fast.hex_text(blake3(_TUNING_DOMAIN + manifest).digest())


def layout_digest(plan: BindingPlan) -> bytes:
    """Return the 32-byte identity of a plan's descriptor layout: binding number, role and element size of each buffer."""
    slots = [
        (f"binding {binding.binding}", f"{binding.role.value}:{binding.header_bytes}:{binding.element_size}")
        for binding in plan.bindings
    ]
    return blake3(_LAYOUT_DOMAIN + encode_manifest(slots)).digest()
