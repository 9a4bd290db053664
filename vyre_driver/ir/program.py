"""A program: buffers, a workgroup size, and nodes. An immutable value, and its digests: upstream's, bit for bit, and our own.

Upstream's digests v2 and v3 and its fingerprints are kept for other vyre tools, and select nothing: they leave fields out
(docs/keys.md). The strong digest covers the whole program.

Source: spec items 1.4, 3.1 (digest v2) and 3.4 (fingerprint); upstream 0.7, section 1.3 (digest v3); the strong digest is ours.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from blake3 import blake3

from vyre_driver.checks import U32_MAX
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, MemoryKind, canonical_place, output_places
from vyre_driver.ir.canonical import canonical_nodes, wire_bytes, wire_bytes_of_format_4
from vyre_driver.ir.dtypes import wire_problem
from vyre_driver.ir.fields import brief, encoded_text, instance, refuse, whole
from vyre_driver.ir.nodes import Block, IndirectDispatch, Node, ProgramStats, Region, Return, measure, node_tuple
from vyre_driver.ir.terms import terms_within
from vyre_driver.ir.text import program_text
from vyre_driver.ir.wire import format as wire_format
from vyre_driver.ir.wire.reader import read_container
from vyre_driver.ir.wire.writer import canonical_container, hints_bytes, refuse_losses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


PROGRAM_DIGEST_VERSION = 1

_STRONG_DOMAIN = b"vyre-driver program\0"
_FALLBACK_DOMAIN = b"vyre-driver fingerprint of a program without wire form\0"
_THREE_U32, _TWO_U32, _U32 = struct.Struct("<III"), struct.Struct("<II"), struct.Struct("<I")


def strong_digest(program: Program) -> bytes:
    """Return the 32-byte identity of a program: every field of it changes it (docs/keys.md has the byte table).

    Only ``structurally_validated`` is left out, which says nothing about the program itself.
    """
    op = program.entry_op_id
    hasher = blake3(_STRONG_DOMAIN)
    hasher.update(
        b"".join(
            [
                _U32.pack(PROGRAM_DIGEST_VERSION),
                b"\0" if op is None else b"\1" + encoded_text(op, "the op id"),
                _THREE_U32.pack(*program.workgroup_size),
                bytes((program.non_composable_with_self,)),
                _U32.pack(len(program.buffers)),
                *map(_buffer_bytes, program.buffers),
                _U32.pack(len(program.entry)),
                *(_U32.pack(len(node.key)) + node.key for node in program.entry),
            ]
        )
    )
    return hasher.digest()


def _buffer_bytes(buffer: BufferDecl) -> bytes:
    byte_range, predicate = buffer.output_byte_range, buffer.shape_predicate
    return b"".join(
        [
            encoded_text(buffer.name, "the name of a buffer"),
            _TWO_U32.pack(buffer.binding, buffer.count),
            bytes((buffer.access.value, buffer.kind.value)),
            _U32.pack(len(buffer.element.encoded)),
            buffer.element.encoded,
            bytes((buffer.is_output, buffer.pipeline_live_out, buffer.bytes_extraction, buffer.linear_type.value)),
            b"\0" if byte_range is None else struct.pack("<BQQ", 1, *byte_range),
            hints_bytes(buffer.hints),
            b"\0" if predicate is None else b"\1" + predicate.encoded,
        ]
    )


def normalized_cache_digest_v2(program: Program) -> bytes:
    """Return the digest v2 (32 bytes) of upstream's 0.4 to 0.6.

    Raises
    ------
    InvalidProgram
        If a type has no encoding, or the nodes pass 2**26 bytes.
    """
    hasher = blake3(b"vyre-pipeline-cache-norm-v2\0wg\0")
    hasher.update(_THREE_U32.pack(*program.workgroup_size))
    hasher.update(b"\0op\0" + ("<anon>" if program.entry_op_id is None else program.entry_op_id).encode())
    hasher.update(b"\0v\0" + bytes((program.structurally_validated,)) + b"\0bufs\0")
    for buffer in program.buffers:
        _check_element(buffer)
        places = bytes((buffer.kind.value, buffer.access.value))
        hasher.update(buffer.name.encode() + b"\0" + places + buffer.element.encoded + b"\0")
    hasher.update(b"\0body\0" + _U32.pack(len(program.entry)) + wire_bytes_of_format_4(*program.entry))
    return hasher.digest()


def normalized_cache_digest_v3(program: Program) -> bytes:
    """Return the digest v3 (32 bytes) of upstream's 0.7 and 0.8: whether the program was validated is not in it.

    Raises
    ------
    InvalidProgram
        If a type has no encoding, or the nodes pass 2**26 bytes.
    """
    hasher = blake3(b"vyre-pipeline-cache-norm-v3\0wg\0")
    hasher.update(_THREE_U32.pack(*program.workgroup_size))
    hasher.update(b"\0op\0" + encoded_text(program.entry_op_id or "", "the op id") + b"\0bufs\0")
    for buffer in program.buffers:
        _check_element(buffer)
        in_workgroup = buffer.access is BufferAccess.WORKGROUP or buffer.kind in {MemoryKind.SHARED, MemoryKind.LOCAL}
        is_static = in_workgroup and buffer.kind is not MemoryKind.PERSISTENT
        hasher.update(encoded_text(buffer.name, "the name of a buffer"))
        hasher.update(bytes((buffer.kind.value, buffer.access.wire_tag)) + _U32.pack(buffer.binding))
        hasher.update(buffer.element.encoded + _U32.pack(buffer.count if is_static else 0))
    hasher.update(b"\0body\0" + _U32.pack(len(program.entry)) + wire_bytes(*program.entry))
    return hasher.digest()


def _check_element(buffer: BufferDecl) -> None:
    problem = wire_problem(buffer.element)
    if problem is not None:
        refuse(f"buffer {buffer.name!r} cannot be encoded: {problem}", "use a storage that is allowed", buffer=buffer.name)


def fingerprint(program: Program, version: int) -> bytes:
    """Return upstream's fingerprint (32 bytes): BLAKE3 of the canonical container of this format.

    A program that has no container gets a name of our own, made of its strong digest: upstream's is made of error texts.
    """
    try:
        return blake3(program.canonical_wire_bytes(version)).digest()
    except InvalidProgram:
        return blake3(_FALLBACK_DOMAIN + strong_digest(program)).digest()


Made = TypeVar("Made")

ROOT_GENERATOR = "vyre.program.root"
ROOT_GENERATORS = frozenset({ROOT_GENERATOR, f"anonymous::{ROOT_GENERATOR}"})
"""The names of the region around a program: that of upstream's 0.4 to 0.7, and that of its 0.8."""


class GivesProgram(Protocol):
    """What is written in another form than a program, and gives one."""

    def __vyre_program__(self) -> Program:
        """Return the program."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Program:
    """A program.

    ``workgroup_size`` is in invocations along x, y and z (u32). Use :meth:`wrapped`; the constructor takes nodes as they are.
    ``structurally_validated`` remembers that the validator passed it: no part of equality, but of digest v2.

    Raises
    ------
    InvalidProgram
        If a field has the wrong type or no encoding. Whether the program makes sense is for the validator to say.
    """

    buffers: tuple[BufferDecl, ...]
    workgroup_size: tuple[int, int, int]
    entry: tuple[Node, ...]
    entry_op_id: str | None = None
    non_composable_with_self: bool = False
    structurally_validated: bool = False
    _memo: dict[str, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Keep sequences as tuples, and check every field alone."""
        put = object.__setattr__
        if not isinstance(self.buffers, list | tuple):
            refuse(f"the buffers of a program are {brief(self.buffers)}", "give a list of BufferDecl")
        for buffer in self.buffers:
            instance(buffer, BufferDecl, "a buffer of a program")
        put(self, "buffers", tuple(self.buffers))
        put(self, "workgroup_size", _checked_size(self.workgroup_size))
        put(self, "entry", node_tuple(self.entry, "the entry of a program"))
        if self.entry_op_id is not None:
            encoded_text(self.entry_op_id, "the op id of a program")
        instance(self.non_composable_with_self, bool, "non_composable_with_self")
        instance(self.structurally_validated, bool, "structurally_validated")

    @classmethod
    def wrapped(cls, buffers: Sequence[BufferDecl], workgroup_size: Sequence[int], nodes: Sequence[Node]) -> Program:
        """Return a program of these nodes, in one root region unless each of them is a region already."""
        return cls(tuple(buffers), _checked_size(workgroup_size), _in_regions(node_tuple(nodes, "the entry of a program")))

    @classmethod
    def new(cls, buffers: Sequence[BufferDecl], workgroup_size: Sequence[int], nodes: Sequence[Node]) -> Program:
        """Return a program of these nodes as they are; the validator wants regions."""
        return cls(tuple(buffers), _checked_size(workgroup_size), node_tuple(nodes, "the entry of a program"))

    @classmethod
    def empty(cls) -> Program:
        """Return the program that does nothing."""
        return cls.wrapped((), (1, 1, 1), ())

    def with_rewritten_entry(self, nodes: Sequence[Node]) -> Program:
        """Return it with other nodes, as they are."""
        return self._with(entry=nodes)

    def with_rewritten_wrapped_entry(self, nodes: Sequence[Node]) -> Program:
        """Return it with other nodes, in one root region unless each of them is a region already."""
        return self._with(entry=_in_regions(node_tuple(nodes, "the entry of a program")))

    def with_rewritten_buffers(self, buffers: Sequence[BufferDecl]) -> Program:
        """Return it with other buffers."""
        return self._with(buffers=buffers)

    def with_rewritten_workgroup_size_and_entry(self, workgroup_size: Sequence[int], nodes: Sequence[Node]) -> Program:
        """Return it with another workgroup size and other nodes, as they are."""
        return self._with(workgroup_size=workgroup_size, entry=nodes)

    def with_workgroup_size(self, workgroup_size: Sequence[int]) -> Program:
        """Return it with another workgroup size."""
        return self._with(workgroup_size=workgroup_size)

    def with_entry_op_id(self, op_id: str | None) -> Program:
        """Return it as the body of another operation."""
        return self._with(entry_op_id=op_id)

    def with_non_composable_with_self(self, flag: bool) -> Program:  # noqa: FBT001 -- upstream's rewriter
        """Return it with the flag that two of it may not be fused set as given."""
        return self._with(non_composable_with_self=flag)

    def with_structurally_validated(self, flag: bool) -> Program:  # noqa: FBT001 -- upstream's flag
        """Return it as passed by the validator or not; every other rewriter clears this."""
        return self if flag == self.structurally_validated else replace(self, structurally_validated=flag)

    def map_entry(self, function: Callable[[tuple[Node, ...]], Sequence[Node]]) -> Program:
        """Return it with the nodes that ``function`` makes of its own."""
        return self._with(entry=function(self.entry))

    def _with(self, **changes: Any) -> Program:  # noqa: ANN401 -- the fields, checked by the constructor
        return replace(self, structurally_validated=False, **changes)

    def _once(self, what: str, make: Callable[[Program], Made]) -> Made:
        """Return what ``make`` makes of the program; it is made once."""
        known: Made | None = self._memo.get(what)
        if known is None:
            known = self._memo[what] = make(self)
        return known

    def canonical(self) -> Program:
        """Return it as upstream's encoder orders it: nodes in canonical form (docs/ir.md), buffers sorted.

        Raises
        ------
        InvalidProgram
            If an operand that has to be compared takes more than 2**26 bytes.
        """
        return self._with(buffers=tuple(sorted(self.buffers, key=canonical_place)), entry=canonical_nodes(self.entry))

    def to_wire(self, version: int = wire_format.VERSION) -> bytes:
        """Return the program in a wire container of format 6, or 4: the canonical form, which runs the same.

        Upstream's 0.7 reads both; its 0.6, and vyre_driver 0.2, read 4 alone.

        Raises
        ------
        InvalidProgram
            If the format cannot carry it, or would lose something that it means (docs/ir.md lists both); for another
            version.
        """
        return self._once(f"wire {_written(version)}", lambda program: _without_losses(program, version))

    @classmethod
    def from_wire(cls, data: bytes, *, subgroup_sums: bool | None = None) -> Program:
        """Return the program in a wire container of format 4 to 7; whether it makes sense is for the validator to say.

        In format 4 subgroup reductions were written without an operator, as sums, up to upstream's 0.6.3 and by
        vyre_driver 0.2, and with one by upstream's 0.6.4 and 0.6.5. ``subgroup_sums`` says so (True) or otherwise (False);
        without it bytes that can be read both ways are refused.

        Raises
        ------
        InvalidProgram
            If the bytes are no such container, or have tiles (format 7).
        """
        return cls(*read_container(data, subgroup_sums=subgroup_sums))

    def canonical_wire_bytes(self, version: int = wire_format.WITHOUT_REQUIREMENTS) -> bytes:
        """Return what upstream's encoder writes, even where that loses something; for identities.

        Format 4 is that of its 0.6.2, 6 that of its 0.7.

        Raises
        ------
        InvalidProgram
            If that encoder refuses the program; for another version.
        """
        return self._once(f"canonical wire {_written(version)}", lambda program: canonical_container(program, version))

    def digest(self) -> bytes:
        """Return the strong digest (32 bytes): whatever may change the code changes it."""
        return self._once("digest", strong_digest)

    def fingerprint(self, version: int = wire_format.VERSION) -> bytes:
        """Return upstream's fingerprint (32 bytes), which leaves fields out: it selects nothing alone.

        It is of wire format 6, that of upstream's 0.7, or 4, that of its 0.6.

        Raises
        ------
        InvalidProgram
            For another version.
        """
        return self._once(f"fingerprint {_written(version)}", lambda program: fingerprint(program, version))

    def normalized_cache_digest(self, version: int = 2) -> bytes:
        """Return upstream's program digest v2 or v3 (32 bytes), which leave fields out: they select nothing alone.

        v2 is that of upstream's 0.4 to 0.6, v3 that of its 0.7 and 0.8.

        Raises
        ------
        InvalidProgram
            If a type has no encoding; for another version.
        """
        if type(version) is not int or version not in _DIGESTS:
            refuse(f"there is no program digest of version {brief(version)}", "give 2 or 3")
        return self._once(f"normalized {version}", _DIGESTS[version])

    def output_buffer_indices(self) -> tuple[int, ...]:
        """Return the places of the buffers that may be written and outlive the program, flagged as output or not."""
        return output_places(self.buffers)

    def buffer(self, name: str) -> BufferDecl | None:
        """Return the first buffer of this name, or None."""
        return next((buffer for buffer in self.buffers if buffer.name == name), None)

    @property
    def is_explicit_noop(self) -> bool:
        """Whether it holds nothing but regions, blocks and returns."""
        return all(isinstance(term, Region | Block | Return) for term in terms_within(*self.entry))

    @property
    def has_indirect_dispatch(self) -> bool:
        """Whether it holds an indirect dispatch."""
        return any(isinstance(term, IndirectDispatch) for term in terms_within(*self.entry))

    def estimate_peak_vram_bytes(self) -> int:
        """Return the bytes of all buffers outside workgroup memory whose size is known."""
        return sum(
            buffer.static_byte_len() or 0
            for buffer in self.buffers
            if buffer.kind is not MemoryKind.SHARED and not buffer.is_local
        )

    def stats(self) -> ProgramStats:
        """Return its size and what it makes use of."""
        return self._once("stats", lambda program: measure(program.buffers, program.entry))

    def __eq__(self, other: object) -> bool:
        """Return whether the other has the same canonical form (docs/ir.md); the order of buffers does not matter.

        So 0.0 and -0.0 are equal here, as upstream has it; the strong digest tells them apart.
        """
        return self is other or (isinstance(other, Program) and self._comparison() == other._comparison())

    def __hash__(self) -> int:
        """Hash what equality compares."""
        return hash(self._comparison()[:-1])

    def _comparison(self) -> tuple[Any, ...]:
        return self._once("comparison", _compared)

    def __str__(self) -> str:
        """Return it as indented pseudo-code (:mod:`vyre_driver.ir.text`), cut at a million characters."""
        return program_text(self)

    def __copy__(self) -> Program:
        """Return itself: it cannot change."""
        return self

    def __deepcopy__(self, memo: object) -> Program:
        """Return itself: it cannot change."""
        return self

    def __repr__(self) -> str:
        """Return its name and size."""
        name = self.entry_op_id if self.entry_op_id is not None else "anonymous"
        nodes = sum(node.node_count for node in self.entry)
        return f"<Program {name}: {len(self.buffers)} buffers, {nodes} nodes, workgroup {self.workgroup_size}>"


_DIGESTS = {2: normalized_cache_digest_v2, 3: normalized_cache_digest_v3}


def _written(version: object) -> int:
    """Return the version of a wire format that is written."""
    if type(version) is not int or version not in (wire_format.WITHOUT_REQUIREMENTS, wire_format.VERSION):
        refuse(f"wire format {brief(version)} is not written", "give 6 or 4")
    return version


def _without_losses(program: Program, version: int) -> bytes:
    refuse_losses(program, version)
    return program.canonical_wire_bytes(version)


def _compared(program: Program) -> tuple[Any, ...]:
    flags = (program.workgroup_size, program.entry_op_id, program.non_composable_with_self)
    return flags, canonical_nodes(program.entry), Counter(program.buffers)


def _in_regions(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    if nodes and all(isinstance(node, Region) for node in nodes):
        return nodes
    return (Region(ROOT_GENERATOR, None, nodes),)


def _checked_size(given: object) -> tuple[int, int, int]:
    if not isinstance(given, list | tuple) or len(given) != 3:
        refuse(f"a workgroup size is {brief(given)}", "give (x, y, z) in invocations")
    x, y, z = (whole(size, U32_MAX, f"the workgroup size along {axis}") for axis, size in zip("xyz", given, strict=True))
    return x, y, z
