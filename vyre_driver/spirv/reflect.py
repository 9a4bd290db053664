"""SPIR-V -> its dispatch contract: buffers, push constants, specialization constants, workgroup size, capabilities.

Reads what the module declares and refuses what kompute cannot bind, by the shader's own names. It does not judge function
bodies, and it knows no device: limits and features are compared elsewhere.

Source: SPIR-V 1.6; Vulkan 1.3, "Shader Interfaces" and "Specialization Constants".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver import _fast
from vyre_driver.errors import UnsupportedFeature
from vyre_driver.spirv.declarations import invalid, read_declarations
from vyre_driver.spirv.opcodes import (
    BUILT_IN_WORKGROUP_SIZE,
    GL_COMPUTE,
    MODE_LOCAL_SIZE,
    MODE_LOCAL_SIZE_ID,
    Decoration,
    Op,
    StorageClass,
)
from vyre_driver.spirv.types import Element, Scalar, TypeTable

if TYPE_CHECKING:
    import array

    from vyre_driver.spirv.declarations import Declarations, Variable

ENTRY_POINT = "main"
_MAX_SPEC_ID = 1023
_MAX_BINDING = 1023


@dataclass(frozen=True, slots=True)
class BufferInterface:
    """A storage buffer of the shader.

    ``header_bytes`` stand before the first element; ``count`` is the number of elements, None when it is sized at run time;
    ``readable`` and ``writable`` are what the shader's decorations leave open to it.
    """

    name: str
    binding: int
    readable: bool
    writable: bool
    header_bytes: int
    element: Element
    count: int | None


@dataclass(frozen=True, slots=True)
class PushConstantMember:
    """A member of the push-constant block: ``components`` 32-bit scalars at byte ``offset``."""

    name: str
    offset: int
    scalar: Scalar
    components: int


@dataclass(frozen=True, slots=True)
class SpecConstant:
    """A specialization constant: its SpecId, its type, and the 32 bits of its default."""

    name: str
    spec_id: int
    scalar: Scalar
    default_bits: int


@dataclass(frozen=True, slots=True)
class LocalSize:
    """One axis of the workgroup size: a number, or a specialization constant's id and default."""

    value: int
    spec_id: int | None = None


@dataclass(frozen=True, slots=True)
class Reflection:
    """What a caller and a device must bring to run the module's entry point ``main``."""

    version: tuple[int, int]
    capabilities: tuple[int, ...]
    buffers: tuple[BufferInterface, ...]
    push_constants: tuple[PushConstantMember, ...]
    push_constant_bytes: int
    spec_constants: tuple[SpecConstant, ...]
    local_size: tuple[LocalSize, LocalSize, LocalSize]


def reflect(module: bytes, source: str) -> tuple[bytes, Reflection]:
    """Return the module in host byte order and its contract; ``source`` names it in errors.

    Raises
    ------
    InvalidModule
        2101 if the bytes are not a whole SPIR-V module with the layout decorations a buffer needs.
    UnsupportedFeature
        1002 if it needs what kompute cannot bind: an entry point not named main, another descriptor set, something else than
        storage buffers, or constants that are not 32 bits wide.
    """
    host_order, declarations = read_declarations(module, source)
    reader = _Reader(declarations, source)
    entry = reader.entry_point()
    if not _fast.defines_function(host_order, declarations.first_function, entry):
        raise invalid(source, f"entry point {ENTRY_POINT!r} is function %{entry}, which is not there")
    push_constants, push_constant_bytes = reader.push_constants()
    return host_order, Reflection(
        version=declarations.version,
        capabilities=tuple(declarations.capabilities),
        buffers=reader.buffers(),
        push_constants=push_constants,
        push_constant_bytes=push_constant_bytes,
        spec_constants=reader.spec_constants(),
        local_size=reader.local_size(entry),
    )


class _Reader:
    def __init__(self, declarations: Declarations, source: str) -> None:
        self._in = declarations
        self._types = TypeTable(declarations, source)
        self._source = source

    def entry_point(self) -> int:
        compute = [entry for entry in self._in.entry_points if entry.model == GL_COMPUTE]
        for entry in compute:
            if entry.name == ENTRY_POINT:
                return entry.function_id
        if compute:
            raise self._unsupported(
                f"its compute entry point is named {compute[0].name!r}, and kompute runs {ENTRY_POINT!r} only",
                f"name the entry point {ENTRY_POINT}",
            )
        raise invalid(self._source, "it has no compute entry point")

    def buffers(self) -> tuple[BufferInterface, ...]:
        found: dict[int, BufferInterface] = {}
        for variable in self._in.variables:
            if variable.storage_class in {StorageClass.UNIFORM, StorageClass.STORAGE_BUFFER, StorageClass.UNIFORM_CONSTANT}:
                buffer = self._buffer(variable)
                if buffer.binding in found:
                    raise self._unsupported(
                        f"binding {buffer.binding} belongs to both {found[buffer.binding].name!r} and {buffer.name!r}",
                        "give each buffer a binding of its own",
                    )
                found[buffer.binding] = buffer
        if not any(buffer.writable for buffer in found.values()):
            raise self._unsupported("it has no storage buffer to write to, so it cannot have a result", "add an output buffer")
        names = [buffer.name for buffer in found.values()]
        if len(set(names)) != len(names):
            raise self._unsupported(f"two of its buffers have one name ({', '.join(sorted(names))})", "give each a name")
        return tuple(found[binding] for binding in sorted(found))

    def _buffer(self, variable: Variable) -> BufferInterface:
        struct_id = self._pointee(variable)
        name = self._name(variable, struct_id)
        decorations = self._in.decorations.get(variable.id, {})
        block = self._in.decorations.get(struct_id, {})
        is_storage = Decoration.BUFFER_BLOCK in block or variable.storage_class == StorageClass.STORAGE_BUFFER
        if self._types.instruction(struct_id).op != Op.TypeStruct or not is_storage:
            kind = "uniform block" if Decoration.BLOCK in block else "image, sampler or array of descriptors"
            raise self._unsupported(f"{name!r} is a {kind}, and kompute binds storage buffers only", "make it a storage buffer")
        descriptor_set = self._decorated(decorations, Decoration.DESCRIPTOR_SET, name, "descriptor set")
        if descriptor_set != 0:
            raise self._unsupported(f"{name!r} is in descriptor set {descriptor_set}, and kompute binds set 0", "use set 0")
        binding = self._decorated(decorations, Decoration.BINDING, name, "binding")
        if binding > _MAX_BINDING:
            raise self._unsupported(f"{name!r} has binding {binding}, over {_MAX_BINDING}", "number the bindings from 0")
        header_bytes, element, count = self._layout(struct_id)
        return BufferInterface(
            name=name,
            binding=binding,
            readable=not self._everywhere(Decoration.NON_READABLE, variable, struct_id),
            writable=not self._everywhere(Decoration.NON_WRITABLE, variable, struct_id),
            header_bytes=header_bytes,
            element=element,
            count=count,
        )

    def _pointee(self, variable: Variable) -> int:
        op, operands = self._types.instruction(variable.pointer_type_id)
        if op != Op.TypePointer:
            raise invalid(self._source, f"variable %{variable.id} has a type that is no pointer")
        return int(operands[1])

    def _name(self, variable: Variable, struct_id: int) -> str:
        """Instance name, else the only member's name, else the block's name: what the shader's text calls the data."""
        name = self._in.names.get(variable.id)
        if not name and len(self._types.instruction(struct_id).operands) == 1:
            name = self._in.member_names.get((struct_id, 0))
        binding = self._in.decorations.get(variable.id, {}).get(Decoration.BINDING)
        return name or self._in.names.get(struct_id) or f"binding_{binding[0] if binding else variable.id}"

    def _decorated(self, decorations: dict[int, array.array[int]], wanted: Decoration, name: str, what: str) -> int:
        operands = decorations.get(wanted)
        if not operands:
            raise invalid(self._source, f"{name!r} has no {what}")
        return operands[0]

    def _everywhere(self, decoration: Decoration, variable: Variable, struct_id: int) -> bool:
        if decoration in self._in.decorations.get(variable.id, {}):
            return True
        members = range(len(self._types.instruction(struct_id).operands))
        return bool(members) and all(decoration in self._in.member_decorations.get((struct_id, at), {}) for at in members)

    def _layout(self, struct_id: int) -> tuple[int, Element, int | None]:
        """Header bytes, element and count: an array alone is elements, so is one after a header; the rest is one structure.

        An array whose length is specialized is sized at run time, as far as its default tells.
        """
        members = self._types.instruction(struct_id).operands
        if not members:
            raise invalid(self._source, f"buffer structure %{struct_id} has no members")
        last = len(members) - 1
        op, operands = self._types.instruction(members[last])
        offset = self._types.member_offset(struct_id, last)
        if op == Op.TypeRuntimeArray or (op == Op.TypeArray and self._types.is_specialized(operands[1])):
            return offset, self._types.element(members[last]), None
        if op == Op.TypeArray and last == 0:
            return offset, self._types.element(members[0]), self._types.array_length(operands[1])
        packed = self._types.packed(members[0]) if last == 0 and offset == 0 else None
        byte_len = self._types.byte_len(struct_id)
        if not byte_len:
            raise invalid(self._source, f"buffer structure %{struct_id} takes no bytes")
        if packed is not None and packed[0].dtype is not None:
            return 0, Element(byte_len, *packed), 1
        return 0, Element(byte_len, None, byte_len), 1

    def push_constants(self) -> tuple[tuple[PushConstantMember, ...], int]:
        blocks = [variable for variable in self._in.variables if variable.storage_class == StorageClass.PUSH_CONSTANT]
        if not blocks:
            return (), 0
        struct_id = self._pointee(blocks[0])
        op, operands = self._types.instruction(struct_id)
        if op != Op.TypeStruct:
            raise invalid(self._source, "its push constants are no structure")
        members = tuple(self._push_constant(struct_id, at, type_id) for at, type_id in enumerate(operands))
        end = max((member.offset + 4 * member.components for member in members), default=0)
        return members, end

    def _push_constant(self, struct_id: int, member: int, type_id: int) -> PushConstantMember:
        name = self._in.member_names.get((struct_id, member)) or f"push_{member}"
        packed = self._types.packed(type_id)
        if packed is None or packed[0].bits != 32 or packed[0].kind == "b":
            raise self._unsupported(
                f"push constant {name!r} is not made of 32-bit scalars", "use int, uint, float and vectors of them"
            )
        offset = self._types.member_offset(struct_id, member)
        if offset % 4:
            raise invalid(self._source, f"push constant {name!r} has offset {offset}, which is not a multiple of 4")
        return PushConstantMember(name, offset, *packed)

    def spec_constants(self) -> tuple[SpecConstant, ...]:
        found = []
        for constant_id, constant in self._in.constants.items():
            decoration = self._in.decorations.get(constant_id, {}).get(Decoration.SPEC_ID)
            if not decoration or constant.op not in {Op.SpecConstant, Op.SpecConstantTrue, Op.SpecConstantFalse}:
                continue
            scalar = self._types.scalar(constant.type_id)
            name = self._in.names.get(constant_id) or f"constant_{decoration[0]}"
            if scalar is None or scalar.bits != 32:
                raise self._unsupported(f"specialization constant {name!r} is not 32 bits wide", "use int, uint, float or bool")
            if decoration[0] > _MAX_SPEC_ID:
                raise self._unsupported(
                    f"specialization constant {name!r} has id {decoration[0]}, over {_MAX_SPEC_ID}", "number them from 0"
                )
            default = constant.operands[0] if constant.op == Op.SpecConstant else int(constant.op == Op.SpecConstantTrue)
            found.append(SpecConstant(name, decoration[0], scalar, default))
        return tuple(sorted(found, key=lambda constant: constant.spec_id))

    def local_size(self, entry: int) -> tuple[LocalSize, LocalSize, LocalSize]:
        ids = self._workgroup_size_ids(entry)
        if ids is not None:
            axes = tuple(self._local_axis(constant_id) for constant_id in ids)
        else:
            literals = [operands for target, mode, operands in self._in.modes if target == entry and mode == MODE_LOCAL_SIZE]
            axes = tuple(LocalSize(value) for value in literals[0]) if literals else ()
        if len(axes) != 3:
            raise invalid(self._source, "it does not say its workgroup size")
        return axes[0], axes[1], axes[2]

    def _workgroup_size_ids(self, entry: int) -> list[int] | None:
        """The built-in WorkgroupSize wins over LocalSizeId and LocalSize (Vulkan 1.3, "WorkgroupSize")."""
        for constant_id, constant in self._in.constants.items():
            built_in = self._in.decorations.get(constant_id, {}).get(Decoration.BUILT_IN)
            if built_in and built_in[0] == BUILT_IN_WORKGROUP_SIZE:
                return list(constant.operands)
        for target, mode, operands in self._in.modes:
            if target == entry and mode == MODE_LOCAL_SIZE_ID:
                return list(operands)
        return None

    def _local_axis(self, constant_id: int) -> LocalSize:
        spec_id = self._in.decorations.get(constant_id, {}).get(Decoration.SPEC_ID)
        return LocalSize(
            self._types.constant(constant_id), spec_id[0] if spec_id and self._types.is_specialized(constant_id) else None
        )

    def _unsupported(self, problem: str, fix: str) -> UnsupportedFeature:
        return UnsupportedFeature(f"{self._source} cannot run through kompute: {problem}", fix=fix, source=self._source)
