"""Specialization constants: what the caller names becomes the 32-bit words that the pipeline is given.

Values are packed as raw bits, whatever their type: kompute takes one array of one type for all of them. Beside that, the keys
that other vyre tools make of specialization, kept bit for bit (spec item 2.1); they select nothing alone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blake3 import blake3

from vyre_driver import _fast
from vyre_driver.checks import U32_MAX, U64_MAX
from vyre_driver.errors import InvalidSpecialization, with_article
from vyre_driver.identity import key_fields
from vyre_driver.specialization.values import SpecMap, SpecValue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_driver.ir.program import Program
    from vyre_driver.spirv.contract import SpecConstant

_ARTIFACT_DOMAIN = b"vyre-specialization-artifact-key-v1\0version\0"
_ARTIFACT_HEAD = struct.Struct("<44sI6sQ")
_FORMATS = {"u32": "<I", "i32": "<i", "f32": "<f"}
_ARTIFACT_BACKEND = struct.Struct("<9sQ")


@dataclass(frozen=True, slots=True)
class SpecializedConstant:
    """One specialization constant with the value it is compiled with; ``type_name`` as in ``u32``."""

    name: str
    spec_id: int
    type_name: str
    bits: int

    @property
    def value(self) -> int | float | bool:
        """The value as a plain one."""
        if self.type_name == "bool":
            return bool(self.bits)
        found: int | float = struct.unpack(_FORMATS[self.type_name], struct.pack("<I", self.bits))[0]
        return found


@dataclass(frozen=True, slots=True)
class Specialization:
    """Every specialization constant of a module with its value, by SpecId."""

    constants: tuple[SpecializedConstant, ...]

    @property
    def words(self) -> tuple[int, ...]:
        """The bits by SpecId, from 0 to the highest; ids that the module does not use are 0, which Vulkan ignores."""
        bits = {constant.spec_id: constant.bits for constant in self.constants}
        return tuple(bits.get(spec_id, 0) for spec_id in range(max(bits, default=-1) + 1))


def specialize(declared: Sequence[SpecConstant], given: Mapping[str, object] | SpecMap) -> Specialization:
    """Give every declared constant its value: the caller's, else the shader's default.

    A value is a plain one that fits the declared type, or a ``SpecValue`` of just that type, which is taken by its bits.

    Raises
    ------
    InvalidSpecialization
        2102 if they are not given by name, a name is not declared, or a value does not fit its type.
    """
    values = named_values(given)
    names = [constant.name for constant in declared]
    unknown = sorted(set(values) - set(names), key=str)
    if unknown:
        known = f"it has {', '.join(names)}" if names else "it has none"
        raise InvalidSpecialization(
            f"the shader has no specialization constant {unknown[0]!r}; {known}",
            fix="give only constants that the shader declares",
            constant=unknown[0],
        )
    return Specialization(tuple(_specialize_one(constant, values) for constant in declared))


def named_values(given: object) -> dict[str, object]:
    """Return constants that are given by name as a dictionary.

    Raises
    ------
    InvalidSpecialization
        2102 if they are not given by name.
    """
    try:
        values: dict[str, object] = dict(given)  # type: ignore[call-overload] # or it raises
    except (TypeError, ValueError) as error:
        raise InvalidSpecialization(
            f"specialization constants came as {type(given).__name__}, and are given by name",
            fix="pass a dictionary from names to values",
        ) from error
    return values


def _specialize_one(constant: SpecConstant, given: Mapping[str, object]) -> SpecializedConstant:
    type_name = str(constant.scalar)
    bits = constant.default_bits
    if constant.name in given:
        try:
            bits = _bits(constant, given[constant.name])
        except (TypeError, OverflowError) as error:
            raise InvalidSpecialization(
                f"specialization constant {constant.name!r} is {with_article(type_name)}, and {error}",
                fix=f"give {with_article(type_name)}",
                constant=constant.name,
                value=given[constant.name],
            ) from error
    return SpecializedConstant(constant.name, constant.spec_id, type_name, bits)


def _bits(constant: SpecConstant, value: object) -> int:
    if not isinstance(value, SpecValue):
        return constant.scalar.encode(value)
    if value.type_name != str(constant.scalar):
        raise TypeError(f"{value!r} is {with_article(value.type_name)}")
    return value.bits


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
            2203 if a field is out of its range.
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


def vsa_specialization_key(program: Program, spec_hash: int) -> int:
    """Return upstream's 128-bit key: the first 64 bits of the program's fingerprint above the hash (u64) of its constants.

    Weak by design, kept for other vyre tools; it selects nothing alone.

    Raises
    ------
    InvalidKey
        2203 if the hash is no u64.
    """
    spec_hash = key_fields.whole(spec_hash, U64_MAX, "spec_hash")
    return int.from_bytes(program.fingerprint()[:8], "little") << 64 | spec_hash


def versioned_specialization_artifact_key(cache_version: int, spec_hash: str, backend_fingerprint: str) -> str:
    """Return upstream's name, 64 hex digits, of what a backend compiled ahead of time: every part with its length.

    Raises
    ------
    InvalidKey
        2203 if the version is no u32, or a text has no UTF-8 form.
    """
    try:
        spec, backend = str.encode(spec_hash), str.encode(backend_fingerprint)
        head = _ARTIFACT_HEAD.pack(_ARTIFACT_DOMAIN, cache_version, b"\0spec\0", len(spec))
    except (TypeError, UnicodeEncodeError, struct.error):  # the checks say which part; made first, they would cost a fifth
        key_fields.encoded(spec_hash, "spec_hash"), key_fields.encoded(backend_fingerprint, "backend_fingerprint")
        key_fields.whole(cache_version, U32_MAX, "cache_version")
        raise
    return _fast.hex_text(blake3(head + spec + _ARTIFACT_BACKEND.pack(b"\0backend\0", len(backend)) + backend).digest())
