"""Small modules with cooperative matrices, built word by word: one product, or a matrix that nothing is multiplied with."""

from __future__ import annotations

from dataclasses import dataclass

from vyre_driver.spirv.builder import ModuleBuilder, instruction
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.opcodes import Capability, Decoration, Op, StorageClass

TYPE_MATRIX, MUL_ADD = 4456, 4459
FUNCTION, FUNCTION_END, ARRAY_LENGTH, COPY_OBJECT, LABEL, RETURN = 54, 56, 68, 83, 248, 253
WORKGROUP, SUBGROUP = 2, 3
F16, F32 = (Op.TypeFloat, 16), (Op.TypeFloat, 32)
BF16, E4M3 = (Op.TypeFloat, 16, 0), (Op.TypeFloat, 8, 4214)
S8, U8, S32, U32 = (Op.TypeInt, 8, 1), (Op.TypeInt, 8, 0), (Op.TypeInt, 32, 1), (Op.TypeInt, 32, 0)


@dataclass
class Product:
    """What a module multiplies; ``m``, ``n`` and ``k`` are numbers, or specialization constants by name with a default."""

    m: int | tuple[str, int] = 16
    n: int | tuple[str, int] = 16
    k: int | tuple[str, int] = 16
    types: tuple[tuple[int, ...], ...] = (F16, F16, F32, F32)
    scope: int = SUBGROUP
    operands: int = 0
    rows_of_b: int | None = None
    uses: tuple[int, int, int, int] = (0, 1, 2, 2)
    workgroup: int = 64
    shared_words: int = 0
    capabilities: tuple[int, ...] = (Capability.Float16, Capability.CooperativeMatrixKHR, Capability.VulkanMemoryModel)
    is_multiplied: bool = True
    doubled: bool = False


def built(product: Product) -> SpirvModule:
    """Return the module; its entry point multiplies matrices of zeros once, or twice if ``doubled``, and keeps nothing."""
    return SpirvModule.from_bytes(_Build(product).builder.build())


def two_entries(first: Product, second: Product) -> bytes:
    """Return a module with two entry points, ``one`` and ``two``, that multiply the one and the other."""
    build = _Build(first, "one")
    build.entry("two", second)
    return build.builder.build()


class _Build:
    def __init__(self, product: Product, name: str = "main") -> None:
        self.builder = builder = ModuleBuilder(0x0001_0600)
        builder.capability(Capability.Shader)
        for capability in product.capabilities:
            builder.capability(capability)
        builder.extension("SPV_KHR_cooperative_matrix")
        builder.memory_model(0, 3)
        self.uint = builder.type(*U32)
        self.void = builder.type(Op.TypeVoid)
        self.function_type = builder.type(Op.TypeFunction, self.void)
        self.variables = [self._buffer()]
        if product.shared_words:
            self.variables.append(self._shared(product.shared_words))
        self.sizes: dict[str, int] = {}
        self.matrices: dict[tuple[int, ...], int] = {}
        self.entry(name, product)

    def _buffer(self) -> int:
        builder = self.builder
        block = builder.struct_type(builder.array_type(Op.TypeRuntimeArray, self.uint, stride=4))
        builder.decorate(block, Decoration.BLOCK)
        builder.member_decorate(block, 0, Decoration.OFFSET, 0)
        pointer = builder.type(Op.TypePointer, StorageClass.STORAGE_BUFFER, block)
        variable = builder.global_variable(pointer, StorageClass.STORAGE_BUFFER)
        builder.decorate(variable, Decoration.DESCRIPTOR_SET, 0)
        builder.decorate(variable, Decoration.BINDING, 0)
        return builder.name(variable, "out")

    def _shared(self, words: int) -> int:
        builder = self.builder
        array = builder.array_type(Op.TypeArray, self.uint, self.number(words))
        pointer = builder.type(Op.TypePointer, StorageClass.WORKGROUP, array)
        return builder.name(builder.global_variable(pointer, StorageClass.WORKGROUP), "tile")

    def number(self, given: int | tuple[str, int]) -> int:
        if isinstance(given, int):
            return self.builder.constant(Op.Constant, self.uint, given)
        name, default = given
        if name not in self.sizes:
            self.sizes[name] = self.builder.name(self.builder.spec_constant(Op.SpecConstant, self.uint, default), name)
            self.builder.decorate(self.sizes[name], Decoration.SPEC_ID, len(self.sizes) - 1)
        return self.sizes[name]

    def entry(self, name: str, product: Product) -> None:
        builder, function = self.builder, self.builder.new_id()
        builder.entry_point(5, function, name, self.variables)
        builder.execution_mode(function, 17, product.workgroup, 1, 1)
        m, n, k = (self.number(one) for one in (product.m, product.n, product.k))
        rows_of_b = k if product.rows_of_b is None else self.number(product.rows_of_b)
        sizes = ((m, k), (rows_of_b, n), (m, n), (m, n))
        types = [
            self.matrix(builder.type(*component), product.scope, size, use)
            for component, size, use in zip(product.types, sizes, product.uses, strict=True)
        ]
        words = [*instruction(FUNCTION, self.void, function, 0, self.function_type), *instruction(LABEL, builder.new_id())]
        words += instruction(ARRAY_LENGTH, self.uint, builder.new_id(), self.variables[0], 0)  # so that it uses the buffer
        if product.is_multiplied:
            zeros = [builder.constant(Op.ConstantNull, one) for one in types[:3]]
            for _ in range(2 if product.doubled else 1):
                flags = [product.operands] if product.operands else []
                words += instruction(MUL_ADD, types[3], builder.new_id(), *zeros, *flags)
        else:
            words += instruction(COPY_OBJECT, types[3], builder.new_id(), builder.constant(Op.ConstantNull, types[3]))
        builder.function += [*words, *instruction(RETURN), *instruction(FUNCTION_END)]

    def matrix(self, component: int, scope: int, size: tuple[int, int], use: int) -> int:
        return self.builder.type(TYPE_MATRIX, component, self.number(scope), *size, self.number(use))
