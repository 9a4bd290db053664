"""One entry point of a module: what its functions use, and what a caller and a device must provide to run it.

Several variables at one binding are views of one buffer: as numbers and as vectors, as words and as structures. A caller brings
one buffer, which must do for all views that the entry point looks through.

kompute binds storage buffers in set 0 as 0, 1, 2, ... and runs ``main``; its constants are 32 bits wide. What a module has
beyond that is rewritten (rewrite.py) or refused here, by the variable's name.

Source: Vulkan 1.3, "Shader Interfaces" and "Shader Resource Interface" (variables may share a set and binding); SPIR-V 1.6,
2.18.2 (aliasing); design of kompute 0.9.0 (docs/kompute.md).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.spirv import _axes, _scan
from vyre_driver.spirv.declarations import invalid
from vyre_driver.spirv.interface import LocalSize, ResourceKind, SpecConstant
from vyre_driver.spirv.layout import Address, Array, Element, Matrix, Member, MemoryType, Scalar, Struct, shape_of_views, shown
from vyre_driver.spirv.opcodes import ENTRY_POINT, Capability

if TYPE_CHECKING:
    from vyre_driver.spirv.interface import ComputeEntry, FloatControl, ModuleInterface, Resource, SharedVariable
    from vyre_driver.spirv.matrices import CooperativeMatrix, FunctionMatrices, MatrixProduct


def choose_entry(interface: ModuleInterface, wanted: str | None, source: str) -> ComputeEntry:
    """Return the entry point of that name; without one the only one there is, or ``main``.

    Raises
    ------
    InvalidInput
        If there is none of that name.
    UnsupportedFeature
        If there are several and none is named or called main.
    """
    by_name = {entry.name: entry for entry in interface.entry_points}
    names = ", ".join(map(repr, by_name))
    if wanted is not None:
        if wanted not in by_name:
            raise InvalidInput(
                f"{source} has no compute entry point {wanted!r}; it has {names}", fix="name one of them", entry=wanted
            )
        return by_name[wanted]
    if len(by_name) == 1:
        return interface.entry_points[0]
    if ENTRY_POINT not in by_name:
        raise UnsupportedFeature(
            f"{source} has {len(by_name)} compute entry points, {names}, and a kernel is one of them",
            fix="choose it with entry=NAME or --entry NAME",
            source=source,
        )
    return by_name[ENTRY_POINT]


@dataclass(frozen=True, slots=True)
class Slot:
    """One set and binding: all ``variables`` that stand there, in the order of their declarations.

    ``views`` are those of them that the entry point's functions name, or all where they name none.
    """

    variables: tuple[Resource, ...]
    views: tuple[Resource, ...]

    @property
    def name(self) -> str:
        """The name of the first view."""
        return self.views[0].name

    def renamed(self, name: str) -> Slot:
        """Return the slot with this name for its variables that have none of their own."""

        def with_name(resources: tuple[Resource, ...]) -> tuple[Resource, ...]:
            return tuple(one if one.is_named or one.name == name else replace(one, name=name) for one in resources)

        return Slot(with_name(self.variables), with_name(self.views))

    @property
    def aliases(self) -> tuple[str, ...]:
        """The names of the other views, each once."""
        return tuple(name for name in dict.fromkeys(one.name for one in self.views) if name != self.name)

    @property
    def shown(self) -> str:
        """Names and types of the views: ``x: f32[n]``, ``x|x4: f32[n]|vec4<f32>[n]``."""
        names = "|".join(map(shown, (self.name, *self.aliases)))
        return f"{names}: {'|'.join(dict.fromkeys(one.type_text for one in self.views))}"

    @property
    def readable(self) -> bool:
        """Whether a view is open to reading."""
        return any(one.readable for one in self.views)

    @property
    def writable(self) -> bool:
        """Whether a view is open to writing."""
        return any(one.writable for one in self.views)

    @property
    def restrict(self) -> bool:
        """Whether a view is declared so."""
        return any(one.restrict for one in self.views)


def _with_unique_names(slots: list[Slot]) -> tuple[Slot, ...]:
    """Return the slots, with the set in the name of an unnamed one where another has the name of its binding number."""
    taken = {slot.name for slot in slots if slot.views[0].is_named}
    by_place: dict[tuple[int, int], str] = {}
    result = []
    for slot in slots:
        first = slot.views[0]
        place = first.set, first.binding
        if not first.is_named and place not in by_place:
            longer = f"set_{first.set}_binding_{first.binding}"
            names = itertools.chain([slot.name], (longer + "_" * count for count in itertools.count()))
            by_place[place] = next(name for name in names if name not in taken)
            taken.add(by_place[place])
        result.append(slot if first.is_named else slot.renamed(by_place[place]))
    return tuple(result)


class EntryUses:
    """What an entry point uses of its module; every answer is worked out when it is first asked for."""

    def __init__(self, code: bytes, interface: ModuleInterface, entry: ComputeEntry) -> None:
        """Ask about an entry point of the module that has this code in host byte order, and this interface."""
        self.code = code
        self.interface = interface
        self.entry = entry
        self._is_only = len(interface.entry_points) == 1

    @cached_property
    def variables(self) -> frozenset[int] | None:
        """The ids of the variables that its functions name; None, all, when it is the module's only entry point.

        One entry point keeps the buffers that it declares and leaves alone: callers count by the declarations.
        """
        return None if self._is_only else self._reached

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Its bindings in the order of set and binding.

        Only buffers of one kind share a slot; what else shares a binding is left apart, each variable in a slot of its own. No
        two places have one name that is made of their binding number.
        """
        named = self.variables
        groups: dict[tuple[object, ...], list[Resource]] = {}
        for one in self.interface.resources:
            if named is None or one.id in named:
                shares = one.kind.is_buffer and one.count is None
                groups.setdefault((one.set, one.binding, one.kind if shares else one.id), []).append(one)
        if any(len(group) > 1 for group in groups.values()):
            named = self._reached
        views = ([one for one in group if named is None or one.id in named] for group in groups.values())
        slots = [Slot(tuple(group), tuple(seen or group)) for group, seen in zip(groups.values(), views, strict=True)]
        return _with_unique_names(slots)

    @property
    def matrices(self) -> tuple[FunctionMatrices, ...]:
        """What its functions do with cooperative matrices; of an only entry point what any function does."""
        found = self.interface.matrices
        return found if self._is_only or not found else tuple(one for one in found if one.function_id in self._reached)

    @property
    def placed(self) -> list[tuple[Resource, int]]:
        """Its buffers, each with the number of its slot, which is the binding that kompute gives it."""
        return [(one, place) for place, slot in enumerate(self.slots) for one in slot.variables]

    @property
    def looks_beyond_x(self) -> bool:
        """Whether it looks at y or z of an invocation's or a workgroup's index, or of their number, or may do so."""
        return _axes.looks_beyond_x(self.code, self.interface.first_function, None if self._is_only else self._reached)

    @cached_property
    def _reached(self) -> frozenset[int]:
        """The functions that it reaches, and the variables that they name."""
        start = self.interface.first_function
        declared = (self.interface.resources, self.interface.push_constants, self.interface.shared)
        variables = {one.id for group in declared for one in group}
        uses = _scan.function_uses(self.code, start, variables | _scan.functions(self.code, start))
        reached, waiting = set[int](), [self.entry.function_id]
        while waiting:
            one = waiting.pop()
            if one not in reached:
                reached.add(one)
                waiting.extend(uses.get(one, ()))
        return frozenset(reached)


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
