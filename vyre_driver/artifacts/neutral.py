"""Artifacts that no target has compiled yet (upstream's "VMK0", schema 4): nodes with programs, and the values between them.

What the compiler planned (fusion, barriers, materializations) is checked to be there and not obeyed: the programs of the
nodes, one after the other, give the same results.
Source: upstream 0.7, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.artifacts import plan
from vyre_driver.artifacts.data_types import data_type
from vyre_driver.artifacts.documents import Document
from vyre_driver.artifacts.faults import program_of
from vyre_driver.artifacts.frames import Frame
from vyre_driver.artifacts.matching import matched_buffers
from vyre_driver.artifacts.parts import Lifetime
from vyre_driver.artifacts.retained import with_priors
from vyre_driver.artifacts.schedule import Runnable, Schedule, Value
from vyre_driver.artifacts.wiring import Made, Taken, WiredNode, schedule_of
from vyre_driver.checks import U64_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.ir.program import Program

FRAME = Frame(b"VMK0", 4, b"vyre-megakernel-artifact-v4", "an artifact (VMK0)")

_MEMBERS = (
    *("schema_version", "nodes", "dependencies", "selected_plan", "abi"),
    *("resources", "resource_envelope", "geometry", "provenance"),
)
_RESOURCE = ("value", "name", "element_count", "byte_count", "lifetime", "first_stage", "last_stage")
_UNUSED = {
    "dependencies": plan.DEPENDENCIES,
    "selected_plan": plan.SELECTED_PLAN,
    "resource_envelope": plan.RESOURCE_ENVELOPE,
    "provenance": plan.PROVENANCE,
}
_LIFETIMES = {lifetime.name.lower(): lifetime for lifetime in Lifetime}
_ACCESSES = {name: name for name in ("read_only", "write_only", "read_write", "uniform")}


class Resource(NamedTuple):
    """A value of an artifact, numbered by its place."""

    name: str
    element: DataType
    element_count: int
    byte_count: int
    lifetime: Lifetime
    access: str


class ArtifactNode(NamedTuple):
    """A node of an artifact: its program, and the numbers of the values that it takes and makes.

    ``priors`` are pairs: an output, and the retained value that it replaces.
    """

    name: str
    program: Program
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    priors: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class NeutralArtifact(Runnable):
    """An artifact, with the digest (32 bytes) that names it."""

    nodes: tuple[ArtifactNode, ...]
    resources: tuple[Resource, ...]
    compiler_version: str
    digest: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> NeutralArtifact:
        """Return the artifact in bytes that upstream wrote (VMK0, schema 4).

        Raises
        ------
        InvalidContainer
            If they are not one such artifact.
        """
        body, digest = FRAME.unwrap(data)
        document = Document(FRAME.what, FRAME.body_at)
        top = dict(zip(_MEMBERS, document.members(document.parse(body), "the artifact", *_MEMBERS), strict=True))
        if document.number(top["schema_version"], "schema_version") != FRAME.version:
            document.refuse(f"schema_version is not the {FRAME.version} of its frame")
        for name, check in _UNUSED.items():
            check(document, top[name], name)
        resource_abi, entries = document.members(top["abi"], "abi", "resources", "entries")
        resources = _resources(document, top["resources"], resource_abi)
        nodes = _nodes(document, top["nodes"], entries, len(resources))
        nodes = with_priors(document, top["dependencies"], nodes, resources)
        _check_geometry(document, top["geometry"], nodes)
        return cls(nodes, resources, top["provenance"]["compiler_version"], digest)

    def values(self) -> tuple[Value, ...]:
        """Return the values of its schedule: what no node makes is given."""
        made = {number for node in self.nodes for number in node.outputs}
        return tuple(
            Value(resource.name, resource.element, (resource.element_count,), resource.lifetime, number, number not in made)
            for number, resource in enumerate(self.resources)
        )

    def schedule(self) -> Schedule:
        """Return the programs of the nodes as steps; raises as ``Runnable.schedule``."""
        nodes = []
        for node in self.nodes:
            read, written = matched_buffers(node, self.resources)
            accesses = {number: self.resources[number].access for number in read.values()}
            taken = tuple([Taken(buffer, number, accesses[number] == "read_write") for buffer, number in read.items()])
            priors = dict(node.priors)
            made = tuple([Made(buffer, number, priors.get(number)) for buffer, number in written.items()])
            nodes.append(WiredNode(node.name, node.program, taken, made))
        return schedule_of(self.values(), nodes)


def _resources(document: Document, listed: object, abi: object) -> tuple[Resource, ...]:
    """Return the values of an artifact: those of the list, with what the ABI says of each."""
    known = document.items(abi, "abi.resources")
    resources: list[Resource] = []
    for place, item in enumerate(document.items(listed, "resources")):
        where = f"resources[{place}]"
        number, name, count, size, lifetime, first, last = document.members(item, where, *_RESOURCE)
        if place >= len(known):
            document.refuse(f"abi.resources has {len(known)} items, fewer than resources")
        slot, value, element, access = document.members(known[place], f"abi.{where}", "slot", "value", "dtype", "access")
        for what, actual in ((f"{where}.value", number), (f"abi.{where}.slot", slot), (f"abi.{where}.value", value)):
            if document.number(actual, what) != place:
                document.refuse(f"{what} is {actual}, not {place}")
        document.numbers([first, last], f"{where}.first_stage, last_stage")
        resource = Resource(
            document.text(name, f"{where}.name"),
            data_type(document, element, f"abi.{where}.dtype"),
            document.number(count, f"{where}.element_count", U64_MAX),
            document.number(size, f"{where}.byte_count", U64_MAX),
            document.choice(lifetime, f"{where}.lifetime", _LIFETIMES),
            document.choice(access, f"abi.{where}.access", _ACCESSES),
        )
        resources.append(resource)
    if len(known) != len(resources):
        document.refuse(f"abi.resources has {len(known)} items, more than resources")
    if len({resource.name for resource in resources}) != len(resources):
        document.refuse("two resources have one name")
    return tuple(resources)


def _nodes(document: Document, listed: object, entries: object, values: int) -> tuple[ArtifactNode, ...]:
    """Return the nodes, with what the entries of the ABI say of each."""
    items, known = document.items(listed, "nodes"), document.items(entries, "abi.entries")
    if len(items) != len(known):
        document.refuse(f"there are {len(items)} nodes and {len(known)} entries of the ABI")
    nodes = []
    for place, (item, entry) in enumerate(zip(items, known, strict=True)):
        number, name, wire = document.members(item, f"nodes[{place}]", "id", "name", "program")
        node, inputs, outputs = document.members(entry, f"abi.entries[{place}]", "node", "inputs", "outputs")
        for what, actual in ((f"nodes[{place}].id", number), (f"abi.entries[{place}].node", node)):
            if document.number(actual, what) != place:
                document.refuse(f"{what} is {actual}, not {place}")
        taken = document.numbers(inputs, f"abi.entries[{place}].inputs")
        made = document.numbers(outputs, f"abi.entries[{place}].outputs")
        where = f"nodes[{place}].program"
        program = program_of(document.octets(wire, where), document.what, where, document.offset)
        nodes.append(ArtifactNode(document.text(name, f"nodes[{place}].name"), program, taken, made))
    _check_order(document, nodes, values)
    return tuple(nodes)


def _check_order(document: Document, nodes: Sequence[ArtifactNode], values: int) -> None:
    """Check that each value is made once at most, and before a node takes it."""
    missing = {number for node in nodes for number in node.outputs}
    for place, node in enumerate(nodes):
        where = f"abi.entries[{place}]"
        for number in (*node.inputs, *node.outputs):
            if number >= values:
                document.refuse(f"{where} names value {number}, and there are {values}")
        for number in node.inputs:
            if number in missing:
                document.refuse(f"{where} takes value {number}, which no node before it makes")
        if len(set(node.inputs)) != len(node.inputs):
            document.refuse(f"{where} takes a value twice")
        for number in node.outputs:
            if number not in missing:
                document.refuse(f"{where} makes value {number}, which has been made before")
            missing.remove(number)


def _check_geometry(document: Document, listed: object, nodes: tuple[ArtifactNode, ...]) -> None:
    """Check that the workgroup that is written down for each node is that of its program."""
    items = document.items(listed, "geometry")
    if len(items) != len(nodes):
        document.refuse(f"geometry has {len(items)} items for {len(nodes)} nodes")
    for place, item in enumerate(items):
        node, size = document.members(item, f"geometry[{place}]", "node", "workgroup_size")
        workgroup = document.numbers(size, f"geometry[{place}].workgroup_size", 3)
        if document.number(node, f"geometry[{place}].node") != place or workgroup != nodes[place].program.workgroup_size:
            document.refuse(f"geometry[{place}] is not that of the program of node {place}")
