"""The interface of a module as frozen values: all that reflection reads, whether this driver can run it or not.

Source: SPIR-V 1.6; Vulkan 1.3, "Shader Interfaces" and "Specialization Constants".
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.spirv.opcodes import Capability, float_control

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.spirv.layout import Scalar, Struct
    from vyre_driver.spirv.matrices import FunctionMatrices
    from vyre_driver.spirv.types import Formula


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

    capability: Capability
    width: int

    def __str__(self) -> str:
        """Return it as SPIR-V's text has it: ``RoundingModeRTE 32``."""
        return f"{self.capability.name} {self.width}"

    @property
    def member(self) -> str:
        """The member of VkPhysicalDeviceFloatControlsProperties that says whether a device has it."""
        return float_control(self.capability, self.width)


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
