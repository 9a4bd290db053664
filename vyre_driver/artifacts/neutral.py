"""Artifacts that no target has compiled yet (upstream's "VMK0", schema 4): nodes with programs, and the values between them.

What the compiler planned (fusion, barriers, materializations) is checked to be there and not obeyed: the programs of the
nodes, one after the other, give the same results.

Which output replaces which retained value is told by the dependencies of the kind "retained": each goes to the node that makes
the successor, whose number is its value, and comes from the prior value, or from the node that makes that one.

Which buffer of a program is which value an artifact does not say. Inputs and outputs are matched apart, and a buffer takes a
value of its type and count only. Where several values fit a buffer, two things have to agree: upstream names a buffer as its
value, and lists the values of a node in the order of its bindings.
Source: upstream 0.7, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from vyre_driver.artifacts.documents import Document, Frame, data_type, program_of
from vyre_driver.artifacts.parts import Lifetime
from vyre_driver.artifacts.schedule import Made, Runnable, Schedule, Taken, Value, WiredNode, external_buffers, schedule_of
from vyre_driver.checks import U64_MAX
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.buffers import BufferAccess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Check: TypeAlias = Callable[[Document, object, str], object]
    Fields: TypeAlias = Mapping[str, Check]
    from collections.abc import Mapping

    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.ir.program import Program


_SUCCESSORS = frozenset({Lifetime.RETAINED, Lifetime.OUTPUT})


def with_priors(
    document: Document,
    dependencies: Sequence[dict[str, Any]],
    nodes: Sequence[ArtifactNode],
    resources: Sequence[Resource],
) -> tuple[ArtifactNode, ...]:
    """Return the nodes with the values that their outputs replace, from dependencies whose form is checked.

    Raises
    ------
    InvalidContainer
        If a dependency contradicts the nodes, or does not tell the value that is replaced.
    """
    makers = {number: place for place, node in enumerate(nodes) for number in node.outputs}
    known = _Retained(makers, nodes, resources)
    priors: list[dict[int, int]] = [{} for _ in nodes]  # by the successor
    for at, dependency in enumerate(dependencies):
        if dependency["kind"] != "retained":
            continue
        number, place = dependency["value"], dependency["to"].get("node")
        if number is None or place is None or makers.get(number) != place or number in priors[place]:
            document.refuse(f"dependencies[{at}] does not go to the node that makes its value, or another does as well")
        fitting = known.fitting(dependency["from"], place, number)
        if len(fitting) != 1:
            document.refuse(f"dependencies[{at}] fits {len(fitting)} retained values that node {place} takes, not one")
        priors[place][number] = fitting[0]
    return tuple([node._replace(priors=tuple(pairs.items())) for node, pairs in zip(nodes, priors, strict=True)])


class _Retained:
    """The retained values that each node takes, by what a successor has to have of them; found once for each node."""

    def __init__(self, makers: dict[int, int], nodes: Sequence[ArtifactNode], resources: Sequence[Resource]) -> None:
        self._makers, self._nodes, self._resources = makers, nodes, resources
        self._taken: dict[int, dict[tuple[object, ...], list[int]]] = {}

    def fitting(self, source: dict[str, int], place: int, successor: int) -> list[int]:
        """Return the values from ``source`` that a node takes and that ``successor`` can replace."""
        if place not in self._taken:
            self._taken[place] = self._by_kind(place)
        after = self._resources[successor]
        kind = (after.element, after.element_count, after.access)
        return self._taken[place].get((*source.items(), *kind), []) if after.lifetime in _SUCCESSORS else []

    def _by_kind(self, place: int) -> dict[tuple[object, ...], list[int]]:
        kinds: dict[tuple[object, ...], list[int]] = {}
        for number in self._nodes[place].inputs:
            prior = self._resources[number]
            if prior.lifetime is Lifetime.RETAINED:
                source = ("node", self._makers[number]) if number in self._makers else ("value", number)
                kinds.setdefault((source, prior.element, prior.element_count, prior.access), []).append(number)
        return kinds


_U32 = Document.number
_U64: Check = partial(Document.number, limit=U64_MAX)
_NUMBERS = Document.numbers
_DIGEST: Check = partial(Document.octets, length=32)


def _one_of(*names: str) -> Check:
    return partial(Document.choice, members=dict.fromkeys(names))


def check_record(document: Document, value: object, where: str, fields: Fields) -> None:
    """Check that a value is an object of these fields; raises InvalidContainer."""
    for (name, check), member in zip(fields.items(), document.members(value, where, *fields), strict=True):
        check(document, member, f"{where}.{name}")


def _each(check: Check, document: Document, value: object, where: str) -> None:
    for place, item in enumerate(document.items(value, where)):
        check(document, item, f"{where}[{place}]")


def _record_of(fields: Fields) -> Check:
    return lambda document, value, where: check_record(document, value, where, fields)


def _list_of(fields: Fields) -> Check:
    return partial(_each, _record_of(fields))


def _endpoint(document: Document, value: object, where: str) -> None:
    """Check one end of a dependency: a node or a value."""
    kind = "value" if isinstance(value, dict) and "value" in value else "node"
    check_record(document, value, where, {kind: _U32})


def _optional_number(document: Document, value: object, where: str) -> None:
    if value is not None:
        document.number(value, where)


def _anything(document: Document, value: object, where: str) -> None:
    """Accept the reason of a rejected fusion, which nothing here reads."""


DEPENDENCIES: Check = _list_of(
    {"from": _endpoint, "to": _endpoint, "kind": _one_of("data", "retained", "materialization"), "value": _optional_number}
)
SELECTED_PLAN: Check = _record_of(
    {
        "fusion": _list_of({"id": _U32, "members": _NUMBERS, "stage": _U32, "legality": partial(_each, _DIGEST)}),
        "barriers": _list_of({"before_stage": _U32, "after_stage": _U32, "dependencies": _NUMBERS}),
        "materializations": _list_of(
            {"value": _U32, "producer": _U32, "stage": _U32, "reason": _one_of("cross_group_use", "output", "retained")}
        ),
        "candidates_explored": _U32,
        "search_budget": _record_of(
            {
                "max_candidates": _U32,
                "max_cpu_work": _U64,
                "max_target_compilations": _U32,
                "max_measurements": _U32,
                "max_elapsed_ns": _U64,
            }
        ),
        "search_work": _record_of(
            {
                "candidates_explored": _U32,
                "cpu_work": _U64,
                "target_compilations": _U32,
                "measurements": _U32,
                "elapsed_ns": _U64,
            }
        ),
        "selection_cost": _record_of({"semantic_work": _U64, "launches": _U64, "materializations": _U64, "total": _U64}),
        "pruned_fusions": _list_of({"from": _U32, "to": _U32, "value": _U32, "reason": _anything}),
    }
)
RESOURCE_ENVELOPE: Check = _record_of({"total_bytes": _U64, "peak_live_bytes": _U64})
PROVENANCE: Check = _record_of({"source_graph": _DIGEST, "request": _DIGEST, "compiler_version": Document.text})


RUN_THE_GRAPH = "run the graph (VGR0) that it was compiled from"

_READ_ONLY = frozenset({BufferAccess.READ_ONLY, BufferAccess.UNIFORM})
_SHOWN = 4  # of the values that fit, in a message


def matched_buffers(node: ArtifactNode, resources: Sequence[Resource]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the number of the value of each buffer that a node takes, and of each that it makes.

    What a node makes in place of a retained value is in both, with the value that it takes and the one that it makes.

    Raises
    ------
    InvalidProgram
        If a buffer fits several values, or none.
    UnsupportedFeature
        As ``external_buffers``.
    """
    declared = {buffer.name: buffer for buffer in node.program.buffers}
    buffers = sorted([declared[name] for name in external_buffers(node.program, node.name)], key=lambda each: each.binding)
    is_in_place = len(node.inputs) + len(node.outputs) - len(buffers) == len(node.priors)
    in_place = dict(node.priors) if is_in_place else {}
    outputs = [number for number in node.outputs if number not in in_place]
    read, written = _by_role(buffers, len(node.inputs), {resources[number].name for number in outputs})
    if (len(read), len(written)) != (len(node.inputs), len(outputs)):
        raise InvalidProgram(
            f"node {node.name!r} takes {len(node.inputs)} values and makes {len(outputs)}, and its program has "
            f"{len(read)} buffers to read and {len(written)} outputs",
            fix=RUN_THE_GRAPH,
        )
    names = {resources[successor].name: prior for successor, prior in in_place.items()}
    taken = _Matching(node, resources, node.inputs, names).matched(read)
    made = _Matching(node, resources, outputs, {}).matched(written)
    buffer_of = {number: name for name, number in taken.items()}
    for successor, prior in in_place.items():
        name = buffer_of[prior]
        if declared[name].access is not BufferAccess.READ_WRITE:
            raise InvalidProgram(
                f"node {node.name!r} replaces value {resources[prior].name!r} in place, and its buffer {name!r} is "
                f"{declared[name].access.name}",
                fix=RUN_THE_GRAPH,
            )
        made[name] = successor
    return taken, made


def _by_role(buffers: Sequence[BufferDecl], inputs: int, made: set[str]) -> tuple[list[BufferDecl], list[BufferDecl]]:
    """Return the buffers that a node takes, and those that become the values with the names ``made``.

    One that is read and written, and no declared output, becomes one where values would have no buffer otherwise. Without
    values to make, all are taken.
    """
    if not made:
        return list(buffers), []
    writable = [buffer for buffer in buffers if buffer.access not in _READ_ONLY]
    written = [buffer for buffer in writable if _is_output(buffer)]
    if len(written) < len(made):
        are_inputs_complete = len(buffers) - len(writable) == inputs
        written = [buffer for buffer in writable if _is_output(buffer) or are_inputs_complete or buffer.name in made]
    names = {buffer.name for buffer in written}
    return [buffer for buffer in buffers if buffer.name not in names], written


def _is_output(buffer: BufferDecl) -> bool:
    return buffer.is_output or buffer.access is BufferAccess.WRITE_ONLY


class _Matching:
    """The values of one role of a node; ``aliases`` are names of values besides their own."""

    def __init__(
        self, node: ArtifactNode, resources: Sequence[Resource], numbers: Sequence[int], aliases: Mapping[str, int]
    ) -> None:
        self._node, self._resources = node, resources
        self._places = {number: place for place, number in enumerate(numbers)}
        self._named = {**aliases, **{resources[number].name: number for number in numbers}}
        self._fitting: dict[tuple[DataType, int | None], list[int]] = {}  # by element and count, None for any
        for number in numbers:
            for count in (resources[number].element_count, None):
                self._fitting.setdefault((resources[number].element, count), []).append(number)

    def matched(self, buffers: Sequence[BufferDecl]) -> dict[str, int]:
        """Return the value of each buffer, which are in the order of their bindings."""
        last: dict[DataType, int] = {}  # the place of the value that a name gave to the buffer before
        matched: dict[int, str] = {}
        for buffer in buffers:
            fitting = self._fitting.get((buffer.element, buffer.count or None), [])
            number = fitting[0] if len(fitting) == 1 else self._by_name(buffer)
            if number is not None and len(fitting) > 1:
                place = self._places[number]
                number = number if place > last.get(buffer.element, -1) else None
                last[buffer.element] = place
            if number is None or number in matched:
                self._refuse(buffer, fitting)
            matched[number] = buffer.name
        return {name: number for number, name in matched.items()}

    def _by_name(self, buffer: BufferDecl) -> int | None:
        """Return the value with the name of a buffer, None if there is none that fits it."""
        number = self._named.get(buffer.name)
        if number is None:
            return None
        resource = self._resources[number]
        return number if resource.element == buffer.element and buffer.count in (0, resource.element_count) else None

    def _refuse(self, buffer: BufferDecl, fitting: Sequence[int]) -> NoReturn:
        shown = ", ".join(repr(self._resources[number].name) for number in fitting[:_SHOWN]) or "none"
        more = f" and {len(fitting) - _SHOWN} more" if len(fitting) > _SHOWN else ""
        raise InvalidProgram(
            f"an artifact does not name the buffers of its values, and buffer {buffer.name!r} of node {self._node.name!r} "
            f"fits {shown}{more} of them",
            fix=RUN_THE_GRAPH,
        )


FRAME = Frame(b"VMK0", 4, b"vyre-megakernel-artifact-v4", "an artifact (VMK0)")

_MEMBERS = (
    *("schema_version", "nodes", "dependencies", "selected_plan", "abi"),
    *("resources", "resource_envelope", "geometry", "provenance"),
)
_RESOURCE = ("value", "name", "element_count", "byte_count", "lifetime", "first_stage", "last_stage")
_UNUSED = {
    "dependencies": DEPENDENCIES,
    "selected_plan": SELECTED_PLAN,
    "resource_envelope": RESOURCE_ENVELOPE,
    "provenance": PROVENANCE,
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
