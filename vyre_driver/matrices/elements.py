"""The types of a matrix's elements: how SPIR-V declares them, what they need, and what numpy and devices call them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.spirv.opcodes import Capability, Op

if TYPE_CHECKING:
    from vyre_driver.spirv.builder import ModuleBuilder

VECTOR_BYTES = 16
"""What an invocation moves at once."""
_BFLOAT16_KHR = 0  # the floating-point encoding of SPV_KHR_bfloat16


@dataclass(frozen=True, slots=True)
class ElementType:
    """``name`` is as in ``CooperativeMatrixShape``; ``declaration`` the instruction that declares it, opcode first.

    ``stored`` are capabilities for it in buffers, ``computed`` those to compute with it.
    """

    name: str
    byte_len: int
    declaration: tuple[int, ...]
    stored: tuple[Capability, ...] = ()
    computed: tuple[Capability, ...] = ()
    extensions: tuple[str, ...] = ()

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.declaration[0] == Op.TypeFloat

    @property
    def is_bfloat(self) -> bool:
        """Whether it is bfloat16."""
        return self.declaration[2:] == (_BFLOAT16_KHR,) and self.is_float

    @property
    def in_vector(self) -> int:
        """How many elements 16 bytes are."""
        return VECTOR_BYTES // self.byte_len

    def declared(self, module: ModuleBuilder) -> int:
        """Return the id of the type in a module, which declares what it needs."""
        for capability in (*self.stored, *self.computed):
            module.capability(capability)
        for extension in self.extensions:
            module.extension(extension)
        return module.type(*self.declaration)


F16 = ElementType("float16", 2, (Op.TypeFloat, 16), (Capability.StorageBuffer16BitAccess,), (Capability.Float16,))
BF16 = ElementType(
    "bfloat16",
    2,
    (Op.TypeFloat, 16, _BFLOAT16_KHR),
    (Capability.StorageBuffer16BitAccess,),
    (Capability.BFloat16TypeKHR, Capability.BFloat16CooperativeMatrixKHR),
    ("SPV_KHR_bfloat16",),
)
F32 = ElementType("float32", 4, (Op.TypeFloat, 32))
S8 = ElementType(
    "sint8", 1, (Op.TypeInt, 8, 1), (Capability.StorageBuffer8BitAccess,), (Capability.Int8,), ("SPV_KHR_8bit_storage",)
)
S32 = ElementType("sint32", 4, (Op.TypeInt, 32, 1))
