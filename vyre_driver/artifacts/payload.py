"""Code for one target beside an artifact (upstream's "VTP0", schema 3), and what runs that of the target "spv".

That is a bundle of SPIR-V modules (schema 2), a digest and JSON behind it, which is held against its artifact.

Source: upstream 0.7, section 2.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from blake3 import blake3

from vyre_driver.artifacts.documents import Document, Frame, program_of, refuse
from vyre_driver.artifacts.parts import Lifetime
from vyre_driver.artifacts.schedule import Runnable, Schedule, Step
from vyre_driver.checks import U64_MAX
from vyre_driver.errors import InvalidProgram, UnsupportedFeature
from vyre_driver.spirv.module import SpirvModule

if TYPE_CHECKING:
    from vyre_driver.artifacts.neutral import NeutralArtifact


SCHEMA = 2

_WHAT = "a bundle of modules"
_DIGEST_BYTES = 32
_MODULE = ("group", "stage", "nodes", "program", "descriptor", "entry_point", "bytes")


class Module(NamedTuple):
    """One module: the nodes that it stands for, its place in the order, its entry point, and its SPIR-V."""

    group: int
    stage: int
    nodes: tuple[int, ...]
    entry_point: str
    code: bytes

    def spirv(self) -> SpirvModule:
        """Return the module to compile; raises InvalidModule if its bytes are not SPIR-V."""
        return SpirvModule.from_bytes(self.code, name=f"group {self.group}", entry=self.entry_point)


def read_modules(data: bytes) -> tuple[Module, ...]:
    """Return the modules of a bundle in the order in which they run.

    Raises
    ------
    InvalidContainer
        If the bytes are not one such bundle.
    """
    body = data[_DIGEST_BYTES:]
    if len(data) < _DIGEST_BYTES:
        refuse(_WHAT, f"it has {len(data)} bytes, fewer than its digest of {_DIGEST_BYTES}")
    if blake3(body).digest() != data[:_DIGEST_BYTES]:
        refuse(_WHAT, "its digest is that of another document")
    document = Document(_WHAT, _DIGEST_BYTES)
    # A descriptor may have fractions, which every language writes in its own way.
    value = document.parse(body, is_canonical=False)
    schema, listed = document.members(value, "the bundle", "schema_version", "modules")
    if document.number(schema, "schema_version") != SCHEMA:
        document.refuse(f"it is of schema {schema}, and this reads {SCHEMA}")
    items = document.items(listed, "modules")
    modules = tuple([_module(document, item, f"modules[{place}]") for place, item in enumerate(items)])
    order = [(module.stage, module.group) for module in modules]
    if order != sorted(set(order)):
        document.refuse("its modules are not in the order of stage and group")
    return modules


def _module(document: Document, item: object, where: str) -> Module:
    group, stage, nodes, program, descriptor, entry_point, code = document.members(item, where, *_MODULE)
    document_program = document.octets(program, f"{where}.program")
    program_of(document_program, _WHAT, f"{where}.program", document.offset)
    if not isinstance(descriptor, dict):
        document.refuse(f"{where}.descriptor is not an object")
    numbers = document.numbers(nodes, f"{where}.nodes")
    if not numbers:
        document.refuse(f"{where} stands for no node")
    return Module(
        document.number(group, f"{where}.group"),
        document.number(stage, f"{where}.stage"),
        numbers,
        document.text(entry_point, f"{where}.entry_point"),
        document.octets(code, f"{where}.bytes"),
    )


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


_RESULTS = frozenset({Lifetime.OUTPUT, Lifetime.RETAINED})


@dataclass(frozen=True, slots=True)
class SpirvArtifact(Runnable):
    """The SPIR-V modules of an envelope, which run one after the other on the values of its artifact.

    ``subgroup_size`` is what they demand of the device; 0 demands nothing.
    """

    artifact: NeutralArtifact
    entries: tuple[TargetEntry, ...]
    modules: tuple[Module, ...]
    subgroup_size: int = 0

    @classmethod
    def of(cls, artifact: NeutralArtifact, payload: TargetPayload) -> SpirvArtifact:
        """Return the code of a payload; raises as ``TargetPayload.modules``."""
        return cls(artifact, payload.entries, payload.modules(), payload.profile.subgroup_size)

    def schedule(self) -> Schedule:
        """Return the modules as steps, each on the grid of its entry; raises as ``Runnable.schedule``."""
        if any(node.priors for node in self.artifact.nodes):
            raise UnsupportedFeature(
                "the artifact replaces retained values, and its code for spv does not say in which memory",
                fix="run it without spirv(), by its programs",
            )
        self._check_nodes()
        return Schedule(self.artifact.values(), tuple([self._step(module) for module in self.modules]))

    def _check_nodes(self) -> None:
        """Check that each node is in one module, in an order in which each value is made before it is taken."""
        counts = Counter(node for module in self.modules for node in module.nodes)
        for node in sorted({*counts, *range(len(self.artifact.nodes))}):
            if node >= len(self.artifact.nodes):
                _refuse(f"a module stands for node {node}, and the artifact has {len(self.artifact.nodes)}")
            if counts[node] != 1:
                _refuse(f"node {node} is in {counts[node]} modules, and has to be in one")
        missing = {number for node in self.artifact.nodes for number in node.outputs}
        for module in self.modules:
            for place in sorted(module.nodes):
                node = self.artifact.nodes[place]
                late = missing.intersection(node.inputs)
                if late:
                    _refuse(f"module {module.group} takes {self._name(min(late))}, which a module after it makes")
                missing.difference_update(node.outputs)

    def _step(self, module: Module) -> Step:
        entry, code = self._entry(module), module.spirv()
        size = tuple([axis.value for axis in code.reflection.local_size])
        if size != entry.workgroup_size:
            _refuse(f"module {module.group} has a workgroup of {size}, and its entry says {entry.workgroup_size}")
        if entry.dynamic_shared_bytes:
            raise UnsupportedFeature(
                f"the entry of module {module.group} has {entry.dynamic_shared_bytes} bytes of dynamic shared memory, and "
                "SPIR-V has none",
                fix="run it without spirv(), by its programs",
            )
        bindings = self._bindings(module, entry, code)
        copied = [name for name, binding in bindings.items() if self._needs_copy(module, name, binding, code)]
        x, y, z = entry.grid_size
        buffers = {name: binding.resource for name, binding in bindings.items()}
        return Step(entry.name, code, buffers, (x, y, z), frozenset(copied), self.subgroup_size)

    def _entry(self, module: Module) -> TargetEntry:
        entries = [entry for entry in self.entries if entry.node in module.nodes]
        if len(entries) != 1:
            _refuse(f"{len(entries)} entries are of the nodes of module {module.group}, and there has to be one")
        return entries[0]

    def _bindings(self, module: Module, entry: TargetEntry, code: SpirvModule) -> dict[str, ResourceBinding]:
        """Return what is bound to each buffer of a module, which has to be what its nodes take or make."""
        bound = {binding.slot: binding for binding in entry.bindings if binding.group == 0}
        bindings = {}
        for buffer in code.reflection.buffers:
            if buffer.binding not in bound:
                where = f"buffer {buffer.name!r} at binding {buffer.binding}"
                _refuse(f"module {module.group} has {where}, where its entry has no value")
            bindings[buffer.name] = bound[buffer.binding]
        used = {binding.resource for binding in bindings.values()}
        if len(used) != len(bindings):
            _refuse(f"module {module.group} has one value at two bindings")
        nodes = [self.artifact.nodes[place] for place in module.nodes]
        made = {number for node in nodes for number in node.outputs}
        foreign = used - made - {number for node in nodes for number in node.inputs}
        if foreign:
            _refuse(f"module {module.group} is bound to {self._name(min(foreign))}, which its nodes neither take nor make")
        others = [node for place, node in enumerate(self.artifact.nodes) if place not in module.nodes]
        needed = {number for node in others for number in node.inputs}
        needed |= {number for number in made if self.artifact.resources[number].lifetime in _RESULTS}
        lost = made & needed - used
        if lost:
            _refuse(f"module {module.group} has no buffer for {self._name(min(lost))}, which its nodes make")
        return bindings

    def _needs_copy(self, module: Module, name: str, binding: ResourceBinding, code: SpirvModule) -> bool:
        """Return whether a module writes a copy of a value that it takes; refuses accesses that contradict its declarations."""
        is_writable = next(buffer.writable for buffer in code.reflection.buffers if buffer.name == name)
        if is_writable and binding.access == "read_only":
            _refuse(f"module {module.group} may write its buffer {name!r}, and its entry says read_only")
        if not is_writable or any(binding.resource in self.artifact.nodes[place].outputs for place in module.nodes):
            return False
        resource = self.artifact.resources[binding.resource]
        if resource.lifetime is Lifetime.RETAINED and resource.access == "read_write":
            return False
        if any(binding.resource in node.outputs for node in self.artifact.nodes) or resource.lifetime is Lifetime.RETAINED:
            _refuse(f"module {module.group} writes {self._name(binding.resource)}, which its nodes only take")
        return True

    def _name(self, number: int) -> str:
        return f"value {self.artifact.resources[number].name!r}"


def _refuse(problem: str) -> NoReturn:
    raise InvalidProgram(problem, fix="compile the artifact anew, or run it without spirv(), by its programs")
