"""What becomes of the sums of a product on their way into the result: scaled, biased, activated, added to, rounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.matrices.activations import ACTIVATIONS
from vyre_driver.matrices.interface import NumberBuffer
from vyre_driver.spirv.instructions import Ins
from vyre_driver.spirv.opcodes import Decoration

if TYPE_CHECKING:
    from vyre_driver.matrices.description import Result
    from vyre_driver.matrices.function import Function, Index

_MATRIX_TIMES_SCALAR = 143


class Epilogue:
    """The buffer of the result, and those that are needed for it: in this order, from one binding on."""

    def __init__(self, function: Function, result: Result, binding: int, scale: int) -> None:
        """Declare them; ``scale`` is the id of the factor."""
        self._f = function
        self._result = result
        self._scale = scale
        self.c = NumberBuffer(function, "c", binding, result.out, Decoration.NON_READABLE)
        names = result.extra_buffers
        self._extra = {
            name: NumberBuffer(function, name, binding + 1 + number, result.out, Decoration.NON_WRITABLE)
            for number, name in enumerate(names)
        }

    def scaled(self, type_id: int, found: int) -> int:
        """Return a number or matrix of float32 times the factor; of whole numbers what it is."""
        if not self._result.accumulator.is_float:
            return found
        f = self._f
        if type_id == f.f32:
            return f.result(Ins.FMul, type_id, found, self._scale)
        return f.result(_MATRIX_TIMES_SCALAR, type_id, found, self._scale)

    def write(self, place: Index, column: Index, total: int) -> None:
        """Store what becomes of a sum, float32 or int32, at a place of the result, which is in this column."""
        self.c.write(place, self._finished(place, column, total))

    def _finished(self, place: Index, column: Index, total: int) -> int:
        f, result = self._f, self._result
        if not result.out.is_float:
            return total
        if not result.accumulator.is_float:
            total = f.result(Ins.ConvertSToF, f.f32, total)
        found = f.result(Ins.FMul, f.f32, total, self._scale)
        if "bias" in self._extra:
            found = f.result(Ins.FAdd, f.f32, found, self._extra["bias"].read(column))
        if result.activation is not None:
            found = ACTIVATIONS[result.activation](f, found)
        if "residual" in self._extra:
            found = f.result(Ins.FAdd, f.f32, found, self._extra["residual"].read(place))
        return found
