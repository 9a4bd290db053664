"""Code for one target beside an artifact (upstream's "VTP0", schema 3).

Source: upstream 0.7, section 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from vyre_driver.artifacts.documents import Document
from vyre_driver.artifacts.frames import Frame
from vyre_driver.artifacts.modules import Module, read_modules
from vyre_driver.checks import U64_MAX
from vyre_driver.errors import UnsupportedFeature

FRAME = Frame(b"VTP0", 3, b"vyre-megakernel-target-payload-v3", "the code for a target (VTP0)")
SPIRV = ("spv", 1)
"""Identity and version of the format that runs here."""

_MAX_U16 = 0xFFFF
_MEMBERS = ("schema_version", "neutral_artifact", "format", "profile", "entries", "bytes")
_PROFILE = (
    *("identity", "generation", "max_workgroup_size"),
    *("max_invocations_per_workgroup", "max_dynamic_shared_bytes", "subgroup_size"),
)
_ENTRY = ("name", "node", "workgroup_size", "grid_size", "dynamic_shared_bytes", "resource_bindings")
_BINDING = ("resource", "group", "slot", "memory", "access")
_MEMORIES = {name: name for name in ("global", "shared", "constant")}
_ACCESSES = {name: name for name in ("read_only", "write_only", "read_write")}


class ResourceBinding(NamedTuple):
    """A descriptor of an entry point, by set (``group``) and binding (``slot``), and the number of its value."""

    resource: int
    group: int
    slot: int
    memory: str
    access: str


class TargetEntry(NamedTuple):
    """An entry point: the node that it stands for, its workgroup, its grid in workgroups, and its descriptors."""

    name: str
    node: int
    workgroup_size: tuple[int, ...]
    grid_size: tuple[int, ...]
    dynamic_shared_bytes: int
    bindings: tuple[ResourceBinding, ...]


class TargetProfile(NamedTuple):
    """The limits that the code was compiled for; a ``subgroup_size`` of 0 demands none."""

    identity: str
    generation: int
    max_workgroup_size: tuple[int, ...]
    max_invocations_per_workgroup: int
    max_dynamic_shared_bytes: int
    subgroup_size: int


@dataclass(frozen=True, slots=True)
class TargetPayload:
    """Code that a target compiler made of one artifact, which ``artifact_digest`` names; ``format`` is identity and version."""

    artifact_digest: bytes
    format: tuple[str, int]
    profile: TargetProfile
    entries: tuple[TargetEntry, ...]
    code: bytes
    digest: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> TargetPayload:
        """Return the code in bytes that upstream wrote (VTP0, schema 3).

        Raises
        ------
        InvalidContainer
            If they are not one such payload.
        """
        body, digest = FRAME.unwrap(data)
        document = Document(FRAME.what, FRAME.body_at)
        version, neutral, kind, profile, entries, code = document.members(document.parse(body), "the payload", *_MEMBERS)
        if document.number(version, "schema_version") != FRAME.version:
            document.refuse(f"schema_version is not the {FRAME.version} of its frame")
        identity, number = document.members(kind, "format", "identity", "version")
        code_format = document.text(identity, "format.identity"), document.number(number, "format.version", _MAX_U16)
        limits = _profile(document, profile)
        return cls(
            document.octets(neutral, "neutral_artifact", len(digest)),
            code_format,
            limits,
            _entries(document, entries, limits),
            document.octets(code, "bytes"),
            digest,
        )

    def modules(self) -> tuple[Module, ...]:
        """Return the modules in order, of a payload with SPIR-V.

        Raises
        ------
        UnsupportedFeature
            If it is of another format than "spv", version 1.
        InvalidContainer
            If its bytes are not a bundle of modules.
        """
        if self.format != SPIRV:
            raise UnsupportedFeature(
                f"the code is of format {self.format[0]} version {self.format[1]}, and {SPIRV[0]} version {SPIRV[1]} runs here",
                fix="compile the artifact for the target spv, or run its programs",
            )
        return read_modules(self.code)


def _profile(document: Document, value: object) -> TargetProfile:
    identity, generation, size, invocations, shared, subgroup = document.members(value, "profile", *_PROFILE)
    profile = TargetProfile(
        document.text(identity, "profile.identity"),
        document.number(generation, "profile.generation", U64_MAX),
        document.numbers(size, "profile.max_workgroup_size", 3),
        document.number(invocations, "profile.max_invocations_per_workgroup"),
        document.number(shared, "profile.max_dynamic_shared_bytes"),
        document.number(subgroup, "profile.subgroup_size"),
    )
    if not (profile.generation and all(profile.max_workgroup_size) and profile.max_invocations_per_workgroup):
        document.refuse("a generation or a limit of the profile is 0")
    if profile.subgroup_size & (profile.subgroup_size - 1):
        document.refuse(f"profile.subgroup_size is {profile.subgroup_size}, not a power of two")
    return profile


def _entries(document: Document, value: object, profile: TargetProfile) -> tuple[TargetEntry, ...]:
    items = document.items(value, "entries")
    entries = tuple([_entry(document, item, f"entries[{place}]") for place, item in enumerate(items)])
    if not entries:
        document.refuse("it has no entries")
    if len({entry.node for entry in entries}) != len(entries):
        document.refuse("two entries are of one node")
    for place, entry in enumerate(entries):
        sizes = zip(entry.workgroup_size, profile.max_workgroup_size, strict=True)
        invocations = math.prod(entry.workgroup_size)
        if not all((*entry.workgroup_size, *entry.grid_size)):
            document.refuse(f"entries[{place}] has a workgroup or a grid of 0")
        if any(size > limit for size, limit in sizes) or invocations > profile.max_invocations_per_workgroup:
            document.refuse(f"entries[{place}].workgroup_size is over the profile's limits")
        if entry.dynamic_shared_bytes > profile.max_dynamic_shared_bytes:
            document.refuse(f"entries[{place}].dynamic_shared_bytes is over the profile's limit")
        if len({(binding.group, binding.slot) for binding in entry.bindings}) != len(entry.bindings):
            document.refuse(f"entries[{place}] has two descriptors of one number")
    return entries


def _entry(document: Document, item: object, where: str) -> TargetEntry:
    name, node, workgroup, grid, shared, bindings = document.members(item, where, *_ENTRY)
    items = document.items(bindings, f"{where}.resource_bindings")
    return TargetEntry(
        document.text(name, f"{where}.name"),
        document.number(node, f"{where}.node"),
        document.numbers(workgroup, f"{where}.workgroup_size", 3),
        document.numbers(grid, f"{where}.grid_size", 3),
        document.number(shared, f"{where}.dynamic_shared_bytes"),
        tuple([_binding(document, binding, f"{where}.resource_bindings[{place}]") for place, binding in enumerate(items)]),
    )


def _binding(document: Document, item: object, where: str) -> ResourceBinding:
    resource, group, slot, memory, access = document.members(item, where, *_BINDING)
    return ResourceBinding(
        document.number(resource, f"{where}.resource"),
        document.number(group, f"{where}.group"),
        document.number(slot, f"{where}.slot"),
        document.choice(memory, f"{where}.memory", _MEMORIES),
        document.choice(access, f"{where}.access", _ACCESSES),
    )
