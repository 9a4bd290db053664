"""The interface of a module as frozen values, and the reader that makes them of its instructions.

It has the entry points, resources, push constants, specialization constants, shared memory and capabilities, whether this
driver can run the module or not, and refuses only what is not a proper module: the bytes are untrusted. Of function bodies the
reader knows where instructions stand and which ids they use, not what they compute; and it knows no device.

Source: SPIR-V 1.6; Vulkan 1.3, "Shader Interfaces" and "Specialization Constants".
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.spirv import _scan, opcodes
from vyre_driver.spirv.declarations import Declarations, Variable, check_shape, invalid, read_declarations
from vyre_driver.spirv.matrices import FunctionMatrices, read_matrices
from vyre_driver.spirv.types import Formula, TypeTable, scalar_bits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_driver.spirv.layout import Scalar, Struct


class ResourceKind(enum.Enum):
    """The kind of a descriptor; the values are its names in messages."""

    STORAGE_BUFFER = "storage buffer"
    UNIFORM_BLOCK = "uniform block"
    STORAGE_IMAGE = "storage image"
    SAMPLED_IMAGE = "sampled image"
    SAMPLER = "sampler"
    COMBINED_IMAGE_SAMPLER = "combined image and sampler"
    STORAGE_TEXEL_BUFFER = "storage texel buffer"
    UNIFORM_TEXEL_BUFFER = "uniform texel buffer"
    INPUT_ATTACHMENT = "input attachment"
    ACCELERATION_STRUCTURE = "acceleration structure"

    @property
    def is_buffer(self) -> bool:
        """Whether it has a block of members, which may be bound as a storage buffer."""
        return self in {ResourceKind.STORAGE_BUFFER, ResourceKind.UNIFORM_BLOCK}


def access_text(*, readable: bool, writable: bool) -> str:
    """Return ``in``, ``out`` or ``inout``."""
    if not writable:
        return "in"
    return "inout" if readable else "out"


@dataclass(frozen=True, slots=True)
class Image:
    """The facts of an ``OpTypeImage``: ``dimension`` by the specification's name, ``image_format`` by its number (0: none)."""

    dimension: str
    arrayed: bool
    multisampled: bool
    sampled_type: Scalar | None
    image_format: int


@dataclass(frozen=True, slots=True)
class Resource:
    """A variable that a descriptor is bound to.

    ``id`` and ``block_id`` are the module's ids of the variable and of its structure (0 without one). ``count`` is the number
    of descriptors: None for one that is not an array, 0 for a run-time array. ``readable`` and ``writable`` are what the
    decorations leave open to the shader; ``restrict`` says that nothing else may be the memory that it names. ``is_named`` is
    False where the module has no name, and ``name`` is made of the binding number.
    """

    id: int
    name: str
    kind: ResourceKind
    set: int
    binding: int
    count: int | None
    readable: bool
    writable: bool
    block_id: int = 0
    block: Struct | None = None
    image: Image | None = None
    restrict: bool = False
    is_named: bool = field(default=True, compare=False)

    @property
    def access(self) -> str:
        """Return ``in``, ``out`` or ``inout``."""
        return access_text(readable=self.readable, writable=self.writable)

    @property
    def type_text(self) -> str:
        """The type of a buffer, else the kind of the descriptor; of an array, the number of descriptors before it."""
        text = self.kind.value if self.block is None else self.block.text
        return text if self.count is None else f"{self.count or 'n'} x {text}"

    @property
    def min_byte_len(self) -> int:
        """The bytes that a buffer has at least: its fixed part, and one element of a run-time array."""
        if self.block is None:
            return 0
        last = self.block.members[-1]
        is_open = getattr(last.type, "count", 0) is None
        return max(self.block.byte_len, last.offset + getattr(last.type, "stride", 0) if is_open else 0)


@dataclass(frozen=True, slots=True)
class PushConstantBlock:
    """The push constants: ids of variable and structure, and layout; ``block.byte_len`` is what they take."""

    id: int
    name: str
    block_id: int
    block: Struct


@dataclass(frozen=True, slots=True)
class SharedVariable:
    """A variable in workgroup memory; ``is_specialized`` says that ``byte_len`` holds for the constants' defaults only.

    ``formula`` gives its bytes for other values, None where they do not follow from integers.
    """

    id: int
    name: str
    byte_len: int
    is_specialized: bool
    formula: Formula | None = None


@dataclass(frozen=True, slots=True)
class SpecConstant:
    """A specialization constant: its SpecId, its type, and the bits of its default.

    ``is_of_vector`` says that a constant vector, or the workgroup's size, is made of it: compilers add such ones.
    """

    name: str
    spec_id: int
    scalar: Scalar
    default_bits: int
    is_of_vector: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class LocalSize:
    """One axis of the workgroup size: a number, a constant's SpecId and default, or a formula of several constants."""

    value: int
    spec_id: int | None = None
    formula: Formula | None = None

    def specialized(self, words: Sequence[int]) -> int:
        """Return the axis, given the constants' bits by SpecId."""
        if self.formula is not None:
            return self.formula.value(words)
        return self.value if self.spec_id is None else words[self.spec_id]


class FloatControl(NamedTuple):
    """An execution mode for the floats of one width, 16, 32 or 64 bits, by its capability."""

    capability: opcodes.Capability
    width: int

    def __str__(self) -> str:
        """Return it as SPIR-V's text has it: ``RoundingModeRTE 32``."""
        return f"{self.capability.name} {self.width}"

    @property
    def member(self) -> str:
        """The member of VkPhysicalDeviceFloatControlsProperties that says whether a device has it."""
        return opcodes.float_control(self.capability, self.width)


@dataclass(frozen=True, slots=True)
class ComputeEntry:
    """An entry point of a compute shader; ``float_controls`` are sorted, each once."""

    name: str
    function_id: int
    local_size: tuple[LocalSize, LocalSize, LocalSize]
    float_controls: tuple[FloatControl, ...] = ()


@dataclass(frozen=True, slots=True)
class ModuleInterface:
    """Everything a module declares to the outside, in the order of its declarations, resources by set and binding.

    ``generator`` is the header's third word: the tool's registered number above its version. ``memory_model`` is the addressing
    and the memory model by the specification's names. ``names`` is how many ids have a debug name,
    ``has_buffer_blocks`` whether storage buffers are spelled as before SPIR-V 1.3, ``first_function`` the word at which the
    declarations end. ``matrices`` are the cooperative matrices of the functions that have any. ``source_language`` is the
    number that OpSource has, None without one; ``stores_rows_as_columns`` says that it or the generator is of HLSL or Slang, so
    that rows and columns of the matrices in blocks are the source's, and SPIR-V's the other way round.
    """

    version: tuple[int, int]
    generator: int
    memory_model: tuple[str, str]
    capabilities: tuple[int, ...]
    extensions: tuple[str, ...]
    entry_points: tuple[ComputeEntry, ...]
    resources: tuple[Resource, ...]
    push_constants: tuple[PushConstantBlock, ...]
    spec_constants: tuple[SpecConstant, ...]
    shared: tuple[SharedVariable, ...]
    names: int
    has_buffer_blocks: bool
    first_function: int
    matrices: tuple[FunctionMatrices, ...] = ()
    source_language: int | None = None
    stores_rows_as_columns: bool = False


_RESOURCES = frozenset(
    {opcodes.StorageClass.UNIFORM, opcodes.StorageClass.STORAGE_BUFFER, opcodes.StorageClass.UNIFORM_CONSTANT}
)
_SPECIALIZED = frozenset({opcodes.Op.SpecConstant, opcodes.Op.SpecConstantTrue, opcodes.Op.SpecConstantFalse})
_DIM_BUFFER, _DIM_SUBPASS = 5, 6
_SAMPLED = 1
_MAX_ENTRY_POINTS = 1024


def read_module(module: bytes, source: str) -> tuple[bytes, ModuleInterface]:
    """Return the module in host byte order and what it declares; ``source`` names it in errors.

    Raises
    ------
    InvalidModule
        If the bytes are not a whole SPIR-V module with a compute entry point and the layout decorations buffers need.
    UnsupportedFeature
        If it declares floats of an encoding that this package does not know.
    """
    host_order, declarations = read_declarations(module, source)
    reader = _Reader(declarations, source)
    addressing, memory = declarations.memory_model
    found = ModuleInterface(
        version=declarations.version,
        generator=declarations.generator,
        memory_model=(
            opcodes.ADDRESSING_MODELS.get(addressing, str(addressing)),
            opcodes.MEMORY_MODELS.get(memory, str(memory)),
        ),
        capabilities=tuple(declarations.capabilities),
        extensions=tuple(declarations.extensions),
        entry_points=reader.entry_points(host_order),
        resources=reader.resources(),
        push_constants=reader.push_constants(),
        spec_constants=reader.spec_constants(),
        shared=reader.shared(),
        names=len(declarations.names),
        has_buffer_blocks=any(opcodes.Decoration.BUFFER_BLOCK in one for one in declarations.decorations.values()),
        first_function=declarations.first_function,
        matrices=reader.matrices(host_order),
        source_language=declarations.source_language,
        stores_rows_as_columns=declarations.stores_rows_as_columns,
    )
    check_shape(host_order, source)
    return host_order, found


class _Reader:
    def __init__(self, declarations: Declarations, source: str) -> None:
        self._in = declarations
        self._variables = [Variable(*one) for one in declarations.variables]
        self._types = TypeTable(declarations, source)
        self._source = source

    def entry_points(self, code: bytes) -> tuple[ComputeEntry, ...]:
        compute = [(name, function) for model, function, name in self._in.entry_points if model == opcodes.GL_COMPUTE]
        if not compute:
            raise invalid(self._source, "it has no compute entry point")
        if len(compute) > _MAX_ENTRY_POINTS:
            raise invalid(self._source, f"it has {len(compute)} compute entry points, more than {_MAX_ENTRY_POINTS}")
        if len({name for name, _ in compute}) < len(compute):
            raise invalid(self._source, "two of its compute entry points have one name")
        functions = _scan.functions(code, self._in.first_function)
        for name, function in compute:
            if function not in functions:
                raise invalid(self._source, f"entry point {name!r} is function %{function}, which is not there")
        sizes, controls = self._local_sizes(), self._float_controls()
        built_in = self._built_in_size()
        return tuple(
            ComputeEntry(
                name,
                function,
                built_in or self._local_size(sizes.get(function)),
                self._checked_controls(name, controls.get(function, set())),
            )
            for name, function in compute
        )

    def _local_sizes(self) -> dict[int, tuple[int, Sequence[int]]]:
        """The last of the modes that state a size by function; LocalSizeId wins over LocalSize (Vulkan 1.3)."""
        sizes: dict[int, tuple[int, Sequence[int]]] = {}
        for target, mode, operands in self._in.modes:
            if mode == opcodes.MODE_LOCAL_SIZE_ID or (mode == opcodes.MODE_LOCAL_SIZE and target not in sizes):
                sizes[target] = mode, operands
        return sizes

    def _float_controls(self) -> dict[int, set[FloatControl]]:
        """The float controls that are stated, by function; of other widths than Vulkan's there is no end."""
        found: dict[int, set[FloatControl]] = {}
        for target, mode, operands in self._in.modes:
            capability = opcodes.FLOAT_CONTROLS.get(mode)
            if capability is not None:
                if len(operands) != 1:
                    problem = f"its execution mode {capability.name} has {len(operands)} operands, not 1, a width"
                    raise invalid(self._source, problem)
                if operands[0] not in opcodes.FLOAT_CONTROL_WIDTHS:
                    problem = f"its execution mode {capability.name} is for floats of {operands[0]} bits, not 16, 32 or 64"
                    raise invalid(self._source, problem)
                found.setdefault(target, set()).add(FloatControl(capability, operands[0]))
        return found

    def _checked_controls(self, entry: str, stated: set[FloatControl]) -> tuple[FloatControl, ...]:
        """Of two modes that exclude each other an entry point states one a width (SPIR-V 1.6, 2.16.1)."""
        for one, other in opcodes.FLOAT_ALTERNATIVES:
            for control in sorted(stated):
                if control.capability == one and FloatControl(other, control.width) in stated:
                    both = f"{one.name} and {other.name} for floats of {control.width} bits"
                    raise invalid(self._source, f"entry point {entry!r} states both {both}")
        return tuple(sorted(stated))

    def _local_size(self, stated: tuple[int, Sequence[int]] | None) -> tuple[LocalSize, LocalSize, LocalSize]:
        if stated is None or len(stated[1]) != 3:
            raise invalid(self._source, "it does not say its workgroup size")
        mode, (x, y, z) = stated
        if mode == opcodes.MODE_LOCAL_SIZE:
            return LocalSize(x), LocalSize(y), LocalSize(z)
        return self._local_axis(x), self._local_axis(y), self._local_axis(z)

    def _built_in_size(self) -> tuple[LocalSize, LocalSize, LocalSize] | None:
        """The built-in WorkgroupSize wins over every mode (Vulkan 1.3, "WorkgroupSize")."""
        for target, decorations in self._in.decorations.items():
            built_in = decorations.get(opcodes.Decoration.BUILT_IN)
            sizes = self._in.constant(target) if built_in and built_in[0] == opcodes.BUILT_IN_WORKGROUP_SIZE else None
            if sizes is not None and sizes.op == opcodes.Op.SpecConstantOp:
                raise invalid(self._source, f"its workgroup size %{target} is computed as a whole, not axis by axis")
            if sizes is not None:
                return self._local_size((opcodes.MODE_LOCAL_SIZE_ID, sizes.operands))
        return None

    def _local_axis(self, constant_id: int) -> LocalSize:
        spec_id = self._in.decorations.get(constant_id, {}).get(opcodes.Decoration.SPEC_ID)
        constants = self._types.constants
        formula = constants.formula(constant_id)
        if formula is not None:
            return LocalSize(formula.value(), None, formula if formula.is_specialized else None)
        return LocalSize(
            constants.number(constant_id), spec_id[0] if spec_id and constants.is_specialized(constant_id) else None
        )

    def resources(self) -> tuple[Resource, ...]:
        found = [self._resource(variable) for variable in self._variables if variable.storage_class in _RESOURCES]
        return tuple(sorted(found, key=lambda resource: (resource.set, resource.binding)))

    def _resource(self, variable: Variable) -> Resource:
        type_id, count = self._descriptors(self._pointee(variable))
        kind = self._kind(type_id, variable)
        given_name = self._name(variable, type_id)
        decorations = self._in.decorations.get(variable.id, {})
        block = self._block(type_id) if kind.is_buffer else None
        readable, writable = self._access(variable, kind, block)
        number = decorations.get(opcodes.Decoration.BINDING) or (variable.id,)
        name = given_name or f"binding_{number[0]}"
        image_id = self._types.instruction(type_id).operands[0] if kind is ResourceKind.COMBINED_IMAGE_SAMPLER else type_id
        return Resource(
            id=variable.id,
            name=name,
            kind=kind,
            set=self._decorated(decorations, opcodes.Decoration.DESCRIPTOR_SET, name, "descriptor set"),
            binding=self._decorated(decorations, opcodes.Decoration.BINDING, name, "binding"),
            count=count,
            readable=readable,
            writable=writable,
            block_id=type_id if block else 0,
            block=block,
            image=self._image(image_id),
            restrict=block is not None and self._is_restrict(variable, type_id, len(block.members)),
            is_named=bool(given_name),
        )

    def _descriptors(self, type_id: int) -> tuple[int, int | None]:
        """Return the type of one descriptor, and the length of an array of them: None for no array, 0 when run time decides."""
        op, operands = self._types.instruction(type_id)
        if op == opcodes.Op.TypeRuntimeArray:
            return operands[0], 0
        if op == opcodes.Op.TypeArray:
            return operands[0], self._types.constants.array_length(operands[1]) or 0
        return type_id, None

    def _kind(self, type_id: int, variable: Variable) -> ResourceKind:
        op, operands = self._types.instruction(type_id)
        match op:
            case opcodes.Op.TypeStruct:
                is_storage = variable.storage_class == opcodes.StorageClass.STORAGE_BUFFER
                is_storage |= opcodes.Decoration.BUFFER_BLOCK in self._in.decorations.get(type_id, {})
                return ResourceKind.STORAGE_BUFFER if is_storage else ResourceKind.UNIFORM_BLOCK
            case opcodes.Op.TypeSampler:
                return ResourceKind.SAMPLER
            case opcodes.Op.TypeSampledImage:
                return ResourceKind.COMBINED_IMAGE_SAMPLER
            case opcodes.Op.TypeAccelerationStructure:
                return ResourceKind.ACCELERATION_STRUCTURE
            case opcodes.Op.TypeImage:
                is_sampled = operands[5] == _SAMPLED
                if operands[1] == _DIM_SUBPASS:
                    return ResourceKind.INPUT_ATTACHMENT
                if operands[1] == _DIM_BUFFER:
                    return ResourceKind.UNIFORM_TEXEL_BUFFER if is_sampled else ResourceKind.STORAGE_TEXEL_BUFFER
                return ResourceKind.SAMPLED_IMAGE if is_sampled else ResourceKind.STORAGE_IMAGE
        raise invalid(self._source, f"variable %{variable.id} has a type that no descriptor stands for")

    def _image(self, type_id: int) -> Image | None:
        op, operands = self._types.instruction(type_id)
        if op != opcodes.Op.TypeImage:
            return None
        void = self._types.instruction(operands[0]).op == opcodes.Op.TypeVoid
        scalar = None if void else self._types.scalar(operands[0])
        dimension = opcodes.DIMENSIONS.get(operands[1], str(operands[1]))
        return Image(dimension, bool(operands[3]), bool(operands[4]), scalar, operands[6])

    def _block(self, type_id: int) -> Struct:
        block = self._types.struct(type_id)
        if not block.members:
            raise invalid(self._source, f"buffer structure %{type_id} has no members")
        return block

    def _access(self, variable: Variable, kind: ResourceKind, block: Struct | None) -> tuple[bool, bool]:
        """A block is closed where its variable is, or all of its members are; only storage can be written."""
        decorations = self._in.decorations.get(variable.id, {})
        readable, writable = (
            opcodes.Decoration.NON_READABLE not in decorations,
            opcodes.Decoration.NON_WRITABLE not in decorations,
        )
        if block is not None:
            readable &= any(member.readable for member in block.members)
            writable &= any(member.writable for member in block.members)
        storage = {ResourceKind.STORAGE_BUFFER, ResourceKind.STORAGE_IMAGE, ResourceKind.STORAGE_TEXEL_BUFFER}
        return readable, writable and kind in storage

    def _is_restrict(self, variable: Variable, type_id: int, members: int) -> bool:
        """Whether the variable is so decorated, or a member of its block, as older compilers do."""
        places = (self._in.member_decorations.get((type_id, at), {}) for at in range(members))
        return any(opcodes.Decoration.RESTRICT in one for one in (self._in.decorations.get(variable.id, {}), *places))

    def _pointee(self, variable: Variable) -> int:
        op, operands = self._types.instruction(variable.pointer_type_id)
        if op != opcodes.Op.TypePointer:
            raise invalid(self._source, f"variable %{variable.id} has a type that is not a pointer")
        return int(operands[1])

    def _name(self, variable: Variable, type_id: int) -> str:
        """Instance name, else the only member's, else the block's: what the shader's text calls the data; empty if none."""
        name = self._in.names.get(variable.id)
        op, operands = self._types.instruction(type_id)
        if not name and op == opcodes.Op.TypeStruct and len(operands) == 1:
            name = self._in.member_names.get((type_id, 0))
        return name or self._in.names.get(type_id) or ""

    def _decorated(self, decorations: Mapping[int, Sequence[int]], wanted: opcodes.Decoration, name: str, what: str) -> int:
        operands = decorations.get(wanted)
        if not operands:
            raise invalid(self._source, f"{name!r} has no {what}")
        return operands[0]

    def push_constants(self) -> tuple[PushConstantBlock, ...]:
        blocks = []
        for variable in self._variables:
            if variable.storage_class == opcodes.StorageClass.PUSH_CONSTANT:
                type_id = self._pointee(variable)
                if self._types.instruction(type_id).op != opcodes.Op.TypeStruct:
                    raise invalid(self._source, "its push constants are not a structure")
                name = self._in.names.get(variable.id) or self._in.names.get(type_id) or "push"
                blocks.append(PushConstantBlock(variable.id, name, type_id, self._types.struct(type_id)))
        return tuple(blocks)

    def spec_constants(self) -> tuple[SpecConstant, ...]:
        found, parts = [], self._in.parts_of_vectors()
        for constant_id, decorations in self._in.decorations.items():
            spec_id = decorations.get(opcodes.Decoration.SPEC_ID)
            constant = self._in.constant(constant_id) if spec_id else None
            if not spec_id or constant is None or constant.op not in _SPECIALIZED:
                continue
            scalar = self._types.scalar(constant.type_id)
            name = self._in.names.get(constant_id) or f"constant_{spec_id[0]}"
            bits = None if scalar is None else scalar_bits(constant, scalar.bits)
            if scalar is None or bits is None:
                raise invalid(self._source, f"specialization constant {name!r} has no number of its type")
            found.append(SpecConstant(name, spec_id[0], scalar, bits, is_of_vector=constant_id in parts))
        return tuple(sorted(found, key=lambda constant: constant.spec_id))

    def matrices(self, code: bytes) -> tuple[FunctionMatrices, ...]:
        return read_matrices(code, self._in, self._types, self._source)

    def shared(self) -> tuple[SharedVariable, ...]:
        found = []
        for variable in self._variables:
            if variable.storage_class == opcodes.StorageClass.WORKGROUP:
                type_id = self._pointee(variable)
                size, _ = self._types.shared_size(type_id)
                is_specialized = self._types.is_sized_by_constants(type_id)
                name = self._in.names.get(variable.id) or f"shared_{variable.id}"
                formula = self._types.shared_formula(type_id) if is_specialized else None
                found.append(SharedVariable(variable.id, name, size, is_specialized, formula))
        return tuple(found)
