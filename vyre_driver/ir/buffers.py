"""The buffers of a program: how each is bound, laid out and used.

Source: spec item 1.3.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vyre_driver.checks import U8_MAX, U32_MAX, U64_MAX
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.fields import encoded_text, instance, refuse, whole
from vyre_driver.ir.predicates import ShapePredicate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class BufferAccess(enum.Enum):
    """Whether it is read, written or both; the value is the place in upstream's declaration, which digest v2 hashes."""

    READ_ONLY = 0
    READ_WRITE = 1
    UNIFORM = 2
    WRITE_ONLY = 3
    WORKGROUP = 4

    @property
    def wire_tag(self) -> int:
        """The tag in a container, which is another one for the last two."""
        return _ACCESS_TAGS.get(self, self.value)


_ACCESS_TAGS: Mapping[BufferAccess, int] = {BufferAccess.WORKGROUP: 3, BufferAccess.WRITE_ONLY: 4}


class MemoryKind(enum.Enum):
    """Where the memory is; the value is the place in upstream's declaration, which digest v2 hashes."""

    GLOBAL = 0
    SHARED = 1
    UNIFORM = 2
    LOCAL = 3
    READONLY = 4
    PERSISTENT = 5
    PUSH = 6

    @property
    def wire_tag(self) -> int:
        """The tag in a container, which is another one for the last two."""
        return _KIND_TAGS.get(self, self.value)


_KIND_TAGS: Mapping[MemoryKind, int] = {MemoryKind.PUSH: 5, MemoryKind.PERSISTENT: 6}

PUSHED_TYPES = (DataType.U32, DataType.I32, DataType.F32, DataType.Bool, DataType.U64, DataType.I64, DataType.F64)
"""What a push buffer holds."""

MAX_LOCAL_BYTES = 1 << 16
"""The most memory that an invocation has of its own."""

_KIND_OF_ACCESS = {
    BufferAccess.READ_ONLY: MemoryKind.READONLY,
    BufferAccess.UNIFORM: MemoryKind.UNIFORM,
    BufferAccess.WORKGROUP: MemoryKind.SHARED,
}


class CacheLocality(enum.Enum):
    """How soon an element is used again."""

    STREAMING = 0
    TEMPORAL = 1
    RANDOM = 2

    @property
    def wire_tag(self) -> int:
        """The tag in a container."""
        return int(self.value)


class LinearType(enum.Enum):
    """How often a program may name the buffer: once, at most once, at least once, or any number of times."""

    LINEAR = 0
    AFFINE = 1
    RELEVANT = 2
    UNRESTRICTED = 3


@dataclass(frozen=True, slots=True)
class MemoryHints:
    """What a lowering may use: the axis along which neighbours read neighbours (u8), the alignment in bytes (0: any)."""

    coalesce_axis: int | None = None
    preferred_alignment: int = 0
    cache_locality: CacheLocality = CacheLocality.TEMPORAL

    def __post_init__(self) -> None:
        """Refuse numbers that have no encoding."""
        if self.coalesce_axis is not None:
            whole(self.coalesce_axis, U8_MAX, "coalesce_axis")
        whole(self.preferred_alignment, U32_MAX, "preferred_alignment")
        instance(self.cache_locality, CacheLocality, "cache_locality")


@dataclass(frozen=True, slots=True)
class BufferDecl:
    """One buffer of a program.

    ``count`` elements of type ``element``; 0 leaves the count to run time. ``output_byte_range`` is the half-open range of
    bytes that is read back, None for all. The constructors below set access, kind and flags that belong together.

    Raises
    ------
    InvalidProgram
        If a field has the wrong type or no encoding. Whether the program makes sense is for the validator to say.
    """

    name: str
    binding: int
    access: BufferAccess
    kind: MemoryKind
    element: DataType
    count: int = 0
    is_output: bool = False
    pipeline_live_out: bool = False
    output_byte_range: tuple[int, int] | None = None
    hints: MemoryHints = field(default_factory=MemoryHints)
    bytes_extraction: bool = False
    linear_type: LinearType = LinearType.UNRESTRICTED
    shape_predicate: ShapePredicate | None = None

    def __post_init__(self) -> None:
        """Check every field alone."""
        encoded_text(self.name, "the name of a buffer")
        what = f"of buffer {self.name!r}"
        whole(self.binding, U32_MAX, f"the binding {what}")
        instance(self.access, BufferAccess, f"the access {what}")
        instance(self.kind, MemoryKind, f"the kind {what}")
        instance(self.element, DataType, f"the element {what}")
        whole(self.count, U32_MAX, f"the count {what}")
        for flag in ("is_output", "pipeline_live_out", "bytes_extraction"):
            instance(getattr(self, flag), bool, f"{flag} {what}")
        instance(self.hints, MemoryHints, f"the hints {what}")
        instance(self.linear_type, LinearType, f"the linear_type {what}")
        if self.shape_predicate is not None:
            instance(self.shape_predicate, ShapePredicate, f"the shape_predicate {what}")
        if self.output_byte_range is not None:
            object.__setattr__(self, "output_byte_range", _checked_range(self.output_byte_range, what))

    @classmethod
    def storage(cls, name: str, binding: int, access: BufferAccess, element: DataType) -> BufferDecl:
        """Declare a buffer whose kind follows from its access."""
        return cls(name, binding, access, _KIND_OF_ACCESS.get(access, MemoryKind.GLOBAL), element)

    @classmethod
    def read(cls, name: str, binding: int, element: DataType) -> BufferDecl:
        """Declare an input."""
        return cls(name, binding, BufferAccess.READ_ONLY, MemoryKind.READONLY, element)

    @classmethod
    def read_write(cls, name: str, binding: int, element: DataType) -> BufferDecl:
        """Declare a buffer that is input and output."""
        return cls(name, binding, BufferAccess.READ_WRITE, MemoryKind.GLOBAL, element)

    @classmethod
    def output(cls, name: str, binding: int, element: DataType) -> BufferDecl:
        """Declare an output: it may be read, and lives on after the program."""
        return cls(name, binding, BufferAccess.READ_WRITE, MemoryKind.GLOBAL, element, is_output=True, pipeline_live_out=True)

    @classmethod
    def uniform(cls, name: str, binding: int, element: DataType) -> BufferDecl:
        """Declare a small buffer that every invocation reads alike."""
        return cls(name, binding, BufferAccess.UNIFORM, MemoryKind.UNIFORM, element)

    @classmethod
    def push(cls, name: str, binding: int, element: DataType, count: int = 1) -> BufferDecl:
        """Declare numbers of the launch: push constants, which every invocation reads alike; the first is at index 0."""
        return cls(name, binding, BufferAccess.UNIFORM, MemoryKind.PUSH, element, count)

    @classmethod
    def workgroup(cls, name: str, count: int, element: DataType) -> BufferDecl:
        """Declare memory that the invocations of one workgroup share, zero at its start."""
        return cls(name, 0, BufferAccess.WORKGROUP, MemoryKind.SHARED, element, count)

    @classmethod
    def local(cls, name: str, count: int, element: DataType) -> BufferDecl:
        """Declare memory of each invocation's own, zero at its start."""
        return cls(name, 0, BufferAccess.WORKGROUP, MemoryKind.LOCAL, element, count)

    def with_count(self, count: int) -> BufferDecl:
        """Return it with ``count`` elements (u32, 0 for run time)."""
        return replace(self, count=count)

    def with_kind(self, kind: MemoryKind) -> BufferDecl:
        """Return it in another kind of memory."""
        return replace(self, kind=kind)

    def with_hints(self, hints: MemoryHints) -> BufferDecl:
        """Return it with other hints."""
        return replace(self, hints=hints)

    def with_pipeline_live_out(self, live_out: bool) -> BufferDecl:  # noqa: FBT001 -- upstream's builder
        """Return it with the flag set as given."""
        return replace(self, pipeline_live_out=live_out)

    def with_output_byte_range(self, byte_range: tuple[int, int] | range | None) -> BufferDecl:
        """Return it with only these bytes read back: ``(start, end)`` or ``range(start, end)``; None for all."""
        return replace(self, output_byte_range=_pair(byte_range, f"of buffer {self.name!r}"))

    def with_bytes_extraction(self, extraction: bool) -> BufferDecl:  # noqa: FBT001 -- upstream's builder
        """Return it with loads and stores of a Bytes buffer allowed or not."""
        return replace(self, bytes_extraction=extraction)

    def with_linear_type(self, linear_type: LinearType) -> BufferDecl:
        """Return it with another rule on how often it is named."""
        return replace(self, linear_type=linear_type)

    def with_shape_predicate(self, predicate: ShapePredicate | None) -> BufferDecl:
        """Return it with a condition on its count."""
        return replace(self, shape_predicate=predicate)

    @property
    def is_writable(self) -> bool:
        """Whether a program may store to it."""
        return self.access in {BufferAccess.READ_WRITE, BufferAccess.WRITE_ONLY, BufferAccess.WORKGROUP}

    @property
    def is_pushed(self) -> bool:
        """Whether it is a push constant: a uniform buffer of kind PUSH."""
        return self.kind is MemoryKind.PUSH and self.access is BufferAccess.UNIFORM

    @property
    def is_local(self) -> bool:
        """Whether each invocation has it for itself: declared as workgroup memory is, of kind LOCAL."""
        return self.kind is MemoryKind.LOCAL and self.access is BufferAccess.WORKGROUP

    @property
    def is_shared(self) -> bool:
        """Whether the invocations of a workgroup share it."""
        return self.access is BufferAccess.WORKGROUP and not self.is_local

    def static_byte_len(self) -> int | None:
        """Return the bytes of ``count`` packed elements, or None when count or element size is left to run time."""
        return self.element.packed_size_bytes(self.count) if self.count else None


def _pair(given: tuple[int, int] | range | None, what: str) -> tuple[int, int] | None:
    if not isinstance(given, range):
        return given
    if given.step != 1:
        refuse(f"the output_byte_range {what} has a step of {given.step}", "give a range of step 1")
    return given.start, given.stop


def _checked_range(given: object, what: str) -> tuple[int, int]:
    if not isinstance(given, tuple) or len(given) != 2:
        refuse(f"the output_byte_range {what} is {given!r}", "give (start, end) in bytes")
    start = whole(given[0], U64_MAX, f"the start of the output_byte_range {what}")
    return start, whole(given[1], U64_MAX, f"the end of the output_byte_range {what}")


def output_places(buffers: Iterable[BufferDecl]) -> tuple[int, ...]:
    """Return the places of the buffers that may be written and outlive the program, flagged as output or not."""
    written = (BufferAccess.READ_WRITE, BufferAccess.WRITE_ONLY)
    return tuple(place for place, buffer in enumerate(buffers) if buffer.access in written)


def canonical_place(buffer: BufferDecl) -> tuple[Any, ...]:
    """Return the sort key of buffers in upstream's canonical form (spec 3.4); enum positions, not wire tags."""
    name = buffer.name.encode()
    hints = buffer.hints
    return (
        len(name),
        name,
        buffer.binding,
        buffer.access.value,
        buffer.kind.value,
        buffer.element.encoded,
        buffer.count,
        buffer.is_output,
        buffer.pipeline_live_out,
        buffer.output_byte_range or (),
        (() if hints.coalesce_axis is None else (hints.coalesce_axis,), hints.preferred_alignment, hints.cache_locality.value),
        buffer.bytes_extraction,
        buffer.linear_type.value,
        b"" if buffer.shape_predicate is None else buffer.shape_predicate.encoded,
    )
