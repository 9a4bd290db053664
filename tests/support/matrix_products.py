"""Modules that multiply arrays by cooperative matrices, a workgroup of one subgroup for each fragment of the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matrix_modules import F16, F32, FUNCTION, FUNCTION_END, LABEL, MUL_ADD, RETURN, S8, S32, SUBGROUP, TYPE_MATRIX, U8, U32

from vyre_driver.spirv.builder import ModuleBuilder, instruction
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.opcodes import BuiltIn, Capability, Decoration, Op, StorageClass

if TYPE_CHECKING:
    from vyre_driver.vulkan import CooperativeMatrixShape

COMPONENTS = {"float16": F16, "float32": F32, "sint8": S8, "uint8": U8, "sint32": S32, "uint32": U32}
CAPABILITIES = {
    "float16": (Capability.Float16, Capability.StorageBuffer16BitAccess),
    "sint8": (Capability.Int8, Capability.StorageBuffer8BitAccess),
    "uint8": (Capability.Int8, Capability.StorageBuffer8BitAccess),
}
MATRIX_LOAD, MATRIX_STORE, LOAD, ACCESS_CHAIN, COMPOSITE_EXTRACT, ADD, MULTIPLY = 4457, 4458, 61, 65, 81, 128, 132
ALL_SIGNED, READ_ONLY, WRITE_ONLY = 15, Decoration.NON_WRITABLE, Decoration.NON_READABLE


@dataclass(frozen=True)
class ArrayProduct:
    """``c`` = ``a`` times ``b``: so many fragments of a shape down, across and deep.

    Arrays lie by rows, and those that ``by_columns`` names (``ab``) by columns: numpy's of them are transposed.
    """

    shape: CooperativeMatrixShape
    down: int
    across: int
    deep: int
    by_columns: str = ""

    @property
    def workgroups(self) -> tuple[int, int]:
        """Along columns, and along rows."""
        return self.across, self.down

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of ``c``."""
        return self.down * self.shape.m, self.across * self.shape.n

    @property
    def depth(self) -> int:
        """Columns of ``a``, and rows of ``b``."""
        return self.deep * self.shape.k


def product_module(product: ArrayProduct, subgroup_size: int) -> SpirvModule:
    """Return the module; its buffers are ``a``, ``b`` and ``c``, and a workgroup has as many invocations as a subgroup."""
    return SpirvModule.from_bytes(_Build(product, subgroup_size).builder.build())


class _Build:
    def __init__(self, product: ArrayProduct, subgroup_size: int) -> None:
        self.product, self.builder = product, ModuleBuilder(0x0001_0600)
        builder, shape = self.builder, product.shape
        for capability in (Capability.Shader, Capability.CooperativeMatrixKHR, Capability.VulkanMemoryModel):
            builder.capability(capability)
        for name in shape.types:
            for capability in CAPABILITIES.get(name, ()):
                builder.capability(capability)
        builder.extension("SPV_KHR_cooperative_matrix")
        builder.memory_model(0, 3)
        self.uint = builder.type(*U32)
        arrays = (("a", shape.a, READ_ONLY), ("b", shape.b, READ_ONLY), ("c", shape.result, WRITE_ONLY))
        self.buffers = {name: self.buffer(at, name, component, access) for at, (name, component, access) in enumerate(arrays)}
        triple = builder.type(Op.TypeVector, self.uint, 3)
        group = builder.global_variable(builder.type(Op.TypePointer, StorageClass.INPUT, triple), StorageClass.INPUT)
        builder.decorate(group, Decoration.BUILT_IN, BuiltIn.WORKGROUP_ID)
        main, void = builder.new_id(), builder.type(Op.TypeVoid)
        builder.entry_point(5, main, "main", [*(variable for variable, _ in self.buffers.values()), group])
        builder.execution_mode(main, 17, subgroup_size, 1, 1)
        self.put(FUNCTION, void, main, 0, builder.type(Op.TypeFunction, void))
        self.put(LABEL, builder.new_id())
        places = self.value(LOAD, triple, group)
        column, row = (self.value(COMPOSITE_EXTRACT, self.uint, places, axis) for axis in (0, 1))
        self.multiply(self.times(row, shape.m), self.times(column, shape.n))
        self.put(RETURN)
        self.put(FUNCTION_END)

    def buffer(self, binding: int, name: str, component: str, access: int) -> tuple[int, int]:
        """Declare a buffer, and return it and the type of its elements."""
        builder, element = self.builder, self.builder.type(*COMPONENTS[component])
        block = builder.struct_type(builder.array_type(Op.TypeRuntimeArray, element, stride=COMPONENTS[component][1] // 8))
        builder.decorate(block, Decoration.BLOCK)
        builder.member_decorate(block, 0, Decoration.OFFSET, 0)
        builder.member_decorate(block, 0, access)
        pointer = builder.type(Op.TypePointer, StorageClass.STORAGE_BUFFER, block)
        variable = builder.global_variable(pointer, StorageClass.STORAGE_BUFFER)
        builder.decorate(variable, Decoration.DESCRIPTOR_SET, 0)
        builder.decorate(variable, Decoration.BINDING, binding)
        return builder.name(variable, name), element

    def multiply(self, row: int, column: int) -> None:
        """Multiply along the depth, for the fragment of ``c`` that begins at this row and column."""
        product, shape = self.product, self.product.shape
        (m, n), k = product.size, product.depth
        of_a, of_b = self.matrix(shape.a, shape.m, shape.k, 0), self.matrix(shape.b, shape.k, shape.n, 1)
        of_c = self.matrix(shape.result, shape.m, shape.n, 2)
        total, signed = self.builder.constant(Op.ConstantNull, of_c), [ALL_SIGNED] if shape.a == "sint8" else []
        for at in map(self.number, range(0, k, shape.k)):
            a = self.value(MATRIX_LOAD, of_a, *self.place("a", (row, at), (m, k)))
            b = self.value(MATRIX_LOAD, of_b, *self.place("b", (at, column), (k, n)))
            total = self.value(MUL_ADD, of_c, a, b, total, *signed)
        pointer, *layout = self.place("c", (row, column), (m, n))
        self.put(MATRIX_STORE, pointer, total, *layout)

    def place(self, name: str, at: tuple[int, int], size: tuple[int, int]) -> tuple[int, int, int]:
        """Return a pointer to an array's element at a row and a column, and layout and stride of what begins there."""
        by_columns = name in self.product.by_columns
        outer, inner = at[::-1] if by_columns else at
        stride = size[0] if by_columns else size[1]
        index = self.value(ADD, self.uint, self.times(outer, stride), inner)
        variable, element = self.buffers[name]
        pointer = self.builder.type(Op.TypePointer, StorageClass.STORAGE_BUFFER, element)
        found = self.value(ACCESS_CHAIN, pointer, variable, self.number(0), index)
        return found, self.number(int(by_columns)), self.number(stride)

    def matrix(self, component: str, rows: int, columns: int, use: int) -> int:
        sizes = (self.number(rows), self.number(columns), self.number(use))
        return self.builder.type(TYPE_MATRIX, self.builder.type(*COMPONENTS[component]), self.number(SUBGROUP), *sizes)

    def times(self, value: int, by: int) -> int:
        return self.value(MULTIPLY, self.uint, value, self.number(by))

    def number(self, number: int) -> int:
        return self.builder.constant(Op.Constant, self.uint, number)

    def value(self, opcode: int, result_type: int, *operands: int) -> int:
        made = self.builder.new_id()
        self.put(opcode, result_type, made, *operands)
        return made

    def put(self, opcode: int, *operands: int) -> None:
        self.builder.function += instruction(opcode, *operands)
