"""The sum of what the parts of a product's k come to, and what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.matrices.epilogue import Epilogue
from vyre_driver.matrices.function import Function
from vyre_driver.matrices.interface import NumberBuffer, float_of, push_constants
from vyre_driver.matrices.tiles import GLSL450
from vyre_driver.spirv.builder import ModuleBuilder
from vyre_driver.spirv.instructions import Ins
from vyre_driver.spirv.opcodes import BuiltIn, Capability, Decoration, Op

if TYPE_CHECKING:
    from vyre_driver.matrices.description import Result

INVOCATIONS = 256
PUSHED = ("n", "size", "count", "parts", "scale")
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
    pushed = push_constants(f, PUSHED)
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
