"""The modules of matrix products, and of the sums of what the parts of a product's k come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput
from vyre_driver.matrices.convolution import MatrixConvolution, ScalarConvolution
from vyre_driver.matrices.epilogue import Epilogue
from vyre_driver.matrices.function import Function, NumberBuffer, float_of, push_constants
from vyre_driver.matrices.tiles import GLSL450, MatrixProduct, ScalarProduct
from vyre_driver.spirv.builder import ModuleBuilder
from vyre_driver.spirv.opcodes import BuiltIn, Capability, Decoration, Ins, Op

if TYPE_CHECKING:
    from vyre_driver.matrices.description import ProductDescription, Result


def product_module(description: ProductDescription) -> bytes:
    """Return the SPIR-V of a product.

    Its buffers are ``a``, ``b``, ``c``, and ``bias`` and ``residual`` where the result has them, its push constants
    :data:`~vyre_driver.matrices.tiles.PUSHED`, of a convolution :data:`~vyre_driver.matrices.convolution.IMAGE` after them. A
    workgroup makes a tile of the result, those of one matrix along x and y of the grid, row by row of the grid, and along z the
    parts of k of each matrix of the batch.

    Raises
    ------
    InvalidInput
        If there is no such kernel: ``description.problem()``.
    """
    problem = description.problem()
    if problem is not None:
        raise InvalidInput(
            f"there is no such product: {problem}", fix="choose a tile, a split and a fragment that divide each other"
        )
    is_scalar = description.tiling.is_scalar
    if description.is_convolution:
        return (ScalarConvolution if is_scalar else MatrixConvolution)(description).build()
    return (ScalarProduct if is_scalar else MatrixProduct)(description).build()


INVOCATIONS = 256
PARTS_PUSHED = ("n", "size", "count", "parts", "scale")
"""The push constants: columns of a matrix, its numbers, those of all of the batch, parts; the bits of the factor of sums."""


def parts_module(result: Result) -> bytes:
    """Return the SPIR-V of a kernel that adds parts up: buffers ``partial``, ``c``, and what the result has besides.

    ``partial`` has the parts of each matrix of the batch one after the other. Each invocation of a grid of x and y makes one
    number of the result.
    """
    module = ModuleBuilder()
    module.capability(Capability.Shader)
    module.memory_model(0, GLSL450)
    f = Function(module)
    pushed = push_constants(f, PARTS_PUSHED)
    partial = NumberBuffer(f, "partial", 0, result.accumulator, Decoration.NON_WRITABLE)
    epilogue = Epilogue(f, result, 1, float_of(f, pushed["scale"]))
    number = f.f32 if result.accumulator.is_float else f.i32
    total = f.variable(number)
    x, y, _ = f.built_in_vector(BuiltIn.GLOBAL_INVOCATION_ID)
    width, _, _ = f.built_in_vector(BuiltIn.NUM_WORKGROUPS)
    place = y * (width * INVOCATIONS) + x
    with f.when(f.is_below(place, pushed["count"])):
        matrix, within = place // pushed["size"], place % pushed["size"]
        f.store(total, module.constant(Op.ConstantNull, number))
        with f.repeat(0, pushed["parts"], 1) as part:
            one = partial.read((matrix * pushed["parts"] + part) * pushed["size"] + within)
            add = Ins.FAdd if result.accumulator.is_float else Ins.IAdd
            f.store(total, f.result(add, number, f.load(number, total), one))
        epilogue.write(place, within % pushed["n"], f.load(number, total))
    f.finish((INVOCATIONS, 1, 1))
    return module.build()
