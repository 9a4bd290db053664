"""What a caller and a device must provide to run one entry point, as this driver passes it to kompute.

kompute binds storage buffers in set 0 as 0, 1, 2, ... and runs ``main``; its constants are 32 bits wide. What a module has
beyond that is rewritten (rewrite.py) or refused here, by the variable's name.

Source: Vulkan 1.3, "Shader Interfaces"; design of kompute 0.9.0 (docs/kompute.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.spirv.declarations import invalid
from vyre_driver.spirv.interface import LocalSize, ResourceKind, SpecConstant
from vyre_driver.spirv.layout import Address, Array, Element, Matrix, MemoryType, Scalar, Struct, shape_of_views
from vyre_driver.spirv.opcodes import Capability

if TYPE_CHECKING:
    from vyre_driver.spirv.entry import EntryUses, Slot
    from vyre_driver.spirv.interface import FloatControl, Resource, SharedVariable
    from vyre_driver.spirv.layout import Member
    from vyre_driver.spirv.matrices import CooperativeMatrix, MatrixProduct


_MAX_SPEC_ID = 1023
_WORD_BITS = 32

_INSTEAD = {
    ResourceKind.STORAGE_IMAGE: "keep its texels in a storage buffer",
    ResourceKind.SAMPLED_IMAGE: "keep its texels in a storage buffer",
    ResourceKind.SAMPLER: "read a storage buffer and interpolate in the shader",
    ResourceKind.COMBINED_IMAGE_SAMPLER: "keep its texels in a storage buffer and interpolate in the shader",
    ResourceKind.STORAGE_TEXEL_BUFFER: "make it a storage buffer",
    ResourceKind.UNIFORM_TEXEL_BUFFER: "make it a storage buffer",
    ResourceKind.INPUT_ATTACHMENT: "keep its texels in a storage buffer",
    ResourceKind.ACCELERATION_STRUCTURE: "trace rays in the shader itself",
}


@dataclass(frozen=True, slots=True)
class BufferInterface:
    """A buffer of the shader, bound as a storage buffer at ``binding`` of set 0.

    ``header_bytes`` stand before the first element; ``count`` is the number of elements, None when it is sized at run time;
    ``readable`` and ``writable`` are what the shader's decorations leave open to it. Of several variables at one binding,
    ``aliases`` names all but the first, and ``least_bytes`` is what the largest of them takes at least (0: one element).
    ``restrict`` says that the shader declares it so: no other binding may be the same memory while one of the two is written.
    ``block`` is its structure, None where several variables have different ones. ``views`` shows names and types of several,
    ``x|x4: f32[n]|vec4<f32>[n]``; it is empty for one.
    """

    name: str
    binding: int
    readable: bool
    writable: bool
    header_bytes: int
    element: Element
    count: int | None
    aliases: tuple[str, ...] = ()
    least_bytes: int = 0
    restrict: bool = False
    block: Struct | None = field(default=None, compare=False, repr=False)
    views: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Reflection:
    """What a caller and a device must provide to run one entry point of a module.

    ``float_controls`` are those that the entry point states, ``capabilities`` those of the whole module.
    ``shared_bytes`` is its workgroup memory, without ``sized_shared``, the variables that specialization constants size;
    ``largest_shared`` names the largest part of it. ``matrices`` are the cooperative matrices that its functions name, and
    ``products`` what they multiply, each once.
    """

    version: tuple[int, int]
    capabilities: tuple[int, ...]
    buffers: tuple[BufferInterface, ...]
    push_constants: tuple[Member, ...]
    push_constant_bytes: int
    spec_constants: tuple[SpecConstant, ...]
    local_size: tuple[LocalSize, LocalSize, LocalSize]
    shared_bytes: int = 0
    sized_shared: tuple[SharedVariable, ...] = ()
    largest_shared: str = field(default="", compare=False)
    float_controls: tuple[FloatControl, ...] = ()
    matrices: tuple[CooperativeMatrix, ...] = ()
    products: tuple[MatrixProduct, ...] = ()


def reflection_of(uses: EntryUses, source: str) -> Reflection:
    """Return what running an entry point takes; ``source`` names the module in errors.

    Raises
    ------
    UnsupportedFeature
        If it needs what kompute cannot bind, whatever is rewritten.
    InvalidModule
        If its push constants are not placed on words.
    """
    return _ReflectionBuilder(uses, source).build()


class _ReflectionBuilder:
    def __init__(self, uses: EntryUses, source: str) -> None:
        self._in = uses.interface
        self._uses = uses
        self._source = source

    def build(self) -> Reflection:
        shared = [one for one in self._in.shared if self._is_used(one.id)]
        fixed = [one for one in shared if not one.is_specialized]
        buffers = self._buffers()
        push_constants, push_constant_bytes = self._push_constants()
        return Reflection(
            version=self._in.version,
            capabilities=self._in.capabilities,
            buffers=buffers,
            push_constants=push_constants,
            push_constant_bytes=push_constant_bytes,
            spec_constants=self._spec_constants(),
            local_size=self._uses.entry.local_size,
            shared_bytes=sum(one.byte_len for one in fixed),
            largest_shared=max(fixed, key=lambda one: one.byte_len).name if fixed else "",
            sized_shared=tuple(one for one in shared if one.is_specialized),
            float_controls=self._uses.entry.float_controls,
            matrices=tuple(dict.fromkeys(one for part in self._uses.matrices for one in part.matrices)),
            products=tuple(dict.fromkeys(one for part in self._uses.matrices for one in part.products)),
        )

    def _is_used(self, variable: int) -> bool:
        return self._uses.variables is None or variable in self._uses.variables

    def _buffers(self) -> tuple[BufferInterface, ...]:
        slots = self._uses.slots
        taken: dict[tuple[int, int], Slot] = {}
        for slot in slots:
            for resource in slot.variables:
                self._check_kind(resource)
            place = slot.variables[0].set, slot.variables[0].binding
            other = taken.setdefault(place, slot)
            if other is not slot:
                where = f"binding {place[1]}" + (f" of set {place[0]}" if place[0] else "")
                raise self._unsupported(
                    f"{where} belongs to both {other.name!r}, a {other.views[0].kind.value}, and {slot.name!r}, a "
                    f"{slot.views[0].kind.value}",
                    "give each a binding of its own",
                )
        if not any(slot.writable for slot in slots):
            if Capability.PhysicalStorageBufferAddresses in self._in.capabilities:
                raise self._unsupported(
                    "it has no storage buffer to write to but through device addresses, and kompute binds buffers only",
                    "write to a storage buffer with a binding",
                )
            raise self._unsupported("it has no storage buffer to write to, so it cannot have a result", "add an output buffer")
        names = [slot.name for slot in slots]
        if len(set(names)) != len(names):
            raise self._unsupported(f"two of its buffers have one name ({', '.join(sorted(names))})", "give each a name")
        return tuple(self._buffer(place, slot) for place, slot in enumerate(slots))

    def _check_kind(self, resource: Resource) -> None:
        if not resource.kind.is_buffer:
            raise self._unsupported(
                f"{resource.name!r} is a {resource.kind.value}, and kompute binds storage buffers only",
                _INSTEAD[resource.kind],
            )
        if resource.count is not None:
            many = f"{resource.count} descriptors" if resource.count else "descriptors"
            raise self._unsupported(
                f"{resource.name!r} is an array of {many}, and kompute binds single buffers",
                "declare a buffer for each, or put their contents into one",
            )

    def _buffer(self, place: int, slot: Slot) -> BufferInterface:
        for one in slot.variables:
            if one.block is None or not one.min_byte_len:
                raise invalid(self._source, f"buffer structure %{one.block_id} takes no bytes")
        blocks = [one.block for one in slot.views if one.block is not None]
        header, element, count, least = shape_of_views(blocks)
        members = {tuple((member.name, member.offset, member.type) for member in one.members) for one in blocks}
        block = blocks[0] if len(members) == 1 else None
        return BufferInterface(
            name=slot.name,
            binding=place,
            readable=slot.readable,
            writable=slot.writable,
            header_bytes=header,
            element=element,
            count=count,
            aliases=slot.aliases,
            least_bytes=least,
            restrict=slot.restrict,
            block=block,
            views=slot.shown if len(slot.views) > 1 else "",
        )

    def _push_constants(self) -> tuple[tuple[Member, ...], int]:
        blocks = [one for one in self._in.push_constants if self._is_used(one.id)]
        if not blocks:
            return (), 0
        if len(blocks) > 1:
            names = " and ".join(repr(one.name) for one in blocks[:2])
            raise self._unsupported(f"it has two blocks of push constants, {names}", "declare one block")
        members = blocks[0].block.members
        for member in members:
            self._check_pushed(member.name, member.type, member.offset)
        if len({member.name for member in members}) < len(members):
            raise self._unsupported(f"two push constants of {blocks[0].name!r} have one name", "give each a name")
        return members, -(-max((member.offset + member.type.byte_len for member in members), default=0) // 4) * 4

    def _check_pushed(self, path: str, found: MemoryType, offset: int) -> None:
        """Refuse what cannot be given by value, and numbers that are not placed on multiples of their size."""
        match found:
            case Struct():
                if len({member.name for member in found.members}) < len(found.members):
                    raise self._unsupported(f"two members of push constant {path!r} have one name", "give each a name")
                for member in found.members:
                    self._check_pushed(f"{path}.{member.name}", member.type, offset + member.offset)
            case Array():
                if found.is_open:
                    raise self._unsupported(
                        f"push constant {path!r} is an array whose length the shader does not fix", "give it a length"
                    )
                self._check_placed(path, found.stride, found.element)
                self._check_apart(path, "elements", found.element.byte_len, found.stride)
                self._check_pushed(path, found.element, offset)
            case Address():
                raise self._unsupported(f"push constant {path!r} is a device address", "bind the buffer it points to")
            case _:
                self._check_placed(path, offset, found)
                if isinstance(found, Matrix):
                    self._check_placed(path, found.stride, found)
                    parts, count = ("rows", found.columns) if found.row_major else ("columns", found.rows)
                    self._check_apart(path, parts, found.scalar.byte_len * count, found.stride)

    def _check_placed(self, path: str, place: int, found: MemoryType) -> None:
        scalar = found if isinstance(found, Scalar) else getattr(found, "scalar", None)
        if scalar is not None and scalar.kind == "b":
            raise self._unsupported(f"push constant {path!r} is made of truth values", "use uint")
        if scalar is not None and scalar.is_encoded:
            raise self._unsupported(
                f"push constant {path!r} is made of {scalar} numbers", "use float, and convert it in the shader"
            )
        if scalar is not None and place % scalar.byte_len:
            problem = f"push constant {path!r} has offset {place}, which is not a multiple of {scalar.byte_len}"
            raise invalid(self._source, problem)

    def _check_apart(self, path: str, parts: str, byte_len: int, stride: int) -> None:
        """Refuse parts that overlap: the last would end behind what the block is counted to take."""
        if stride < byte_len:
            problem = f"push constant {path!r} has {parts} of {byte_len} bytes each, {stride} bytes apart"
            raise invalid(self._source, problem)

    def _spec_constants(self) -> tuple[SpecConstant, ...]:
        """One constant an id: a workgroup size by id has one of its own beside that which the shader names.

        kompute gives every constant a value, so both have that of the named one, by default too; where no names are left, of
        the one that is not part of a vector.
        """
        found: dict[int, SpecConstant] = {}
        for constant in self._in.spec_constants:
            self._check_constant(constant)
            other = found.setdefault(constant.spec_id, constant)
            unnamed = f"constant_{constant.spec_id}"
            if (other.name == unnamed) != (constant.name == unnamed):
                found[constant.spec_id] = constant if other.name == unnamed else other
            elif other.scalar == constant.scalar and other.is_of_vector != constant.is_of_vector:
                found[constant.spec_id] = constant if other.is_of_vector else other
            elif (other.scalar, other.default_bits) != (constant.scalar, constant.default_bits):
                raise self._unsupported(
                    f"specialization constants {other.name!r} and {constant.name!r} both have id {constant.spec_id}, and "
                    "differ in type or default",
                    "give them one type and default, or ids of their own",
                )
        return tuple(found.values())

    def _check_constant(self, constant: SpecConstant) -> None:
        if constant.scalar.bits != _WORD_BITS:
            raise self._unsupported(
                f"specialization constant {constant.name!r} is not 32 bits wide", "use int, uint, float or bool"
            )
        if constant.spec_id > _MAX_SPEC_ID:
            raise self._unsupported(
                f"specialization constant {constant.name!r} has id {constant.spec_id}, over {_MAX_SPEC_ID}",
                "number them from 0",
            )

    def _unsupported(self, problem: str, fix: str) -> UnsupportedFeature:
        return UnsupportedFeature(f"{self._source} cannot run through kompute: {problem}", fix=fix, source=self._source)
