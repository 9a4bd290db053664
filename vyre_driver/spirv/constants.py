"""The values of a module's constants, and formulas for those that depend on specialization constants.

Source: SPIR-V 1.6, 3.42.7 (constant-creation instructions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.spirv.declarations import invalid
from vyre_driver.spirv.formulas import CONSTANT, NUMBER, OPERANDS, FormulaBuilder
from vyre_driver.spirv.opcodes import Decoration, Op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.spirv.declarations import Constant, Declarations
    from vyre_driver.spirv.formulas import Formula

_MAX_NESTING = 64
_PLAIN = frozenset({Op.Constant, Op.ConstantTrue, Op.ConstantFalse, Op.ConstantComposite})
_COMPOSITES = frozenset({Op.ConstantComposite, Op.SpecConstantComposite})
_TRUTHS = {Op.ConstantTrue: 1, Op.ConstantFalse: 0, Op.SpecConstantTrue: 1, Op.SpecConstantFalse: 0}
_COMPOSITE_EXTRACT = 81
_WORD_BITS = 32


def scalar_bits(found: Constant, width: int) -> int | None:
    """Return the bits of a scalar or truth value; None for all else, and for one of fewer words than its type's width takes."""
    if found.op in _TRUTHS:
        return _TRUTHS[Op(found.op)]
    if found.op not in {Op.Constant, Op.SpecConstant} or len(found.operands) * _WORD_BITS < width:
        return None
    return sum(word << _WORD_BITS * at for at, word in enumerate(found.operands)) & (1 << width) - 1


class ConstantTable:
    """Answers about the constants of one module; a bad one raises InvalidModule."""

    def __init__(self, declarations: Declarations, source: str) -> None:
        """Look constants up in ``declarations``; ``source`` names the module in errors."""
        self._in = declarations
        self._constant = declarations.constant
        self._source = source
        self._found: dict[int, int | None] = {}
        self.builder = FormulaBuilder()

    def number(self, constant_id: int) -> int:
        """Return a 32-bit scalar constant's value; a specialization constant gives its default."""
        found = self._constant(constant_id)
        if found is None or found.op not in {Op.Constant, Op.SpecConstant}:
            raise invalid(self._source, f"%{constant_id} is used as a number and is not a scalar constant")
        return found.operands[0]

    def formula(self, constant_id: int) -> Formula | None:
        """Return how a computed constant follows from others; None if it is none, or does not follow from integers."""
        found = self._constant(constant_id)
        place = self.place(constant_id) if found is not None and found.op == Op.SpecConstantOp else None
        return None if place is None else self.builder.formula(place)

    def is_specialized(self, constant_id: int) -> bool:
        """Whether a constant's value may differ from ``number``."""
        found = self._constant(constant_id)
        return found is not None and found.op not in _PLAIN

    def array_length(self, constant_id: int) -> int | None:
        """Return the number of elements that a length constant gives an array, at least 1.

        One that is computed is of the defaults, and None where it does not follow from integers.
        """
        found = self._constant(constant_id)
        if found is not None and found.op == Op.SpecConstantOp:
            formula = self.formula(constant_id)
            length = None if formula is None else formula.value()
        else:
            length = self.number(constant_id)
        if length is not None and length < 1:
            raise invalid(self._source, f"%{constant_id} gives an array no elements")
        return length

    def place(self, constant_id: int, depth: int = 0) -> int | None:
        """Return the step of ``builder`` that gives an integer or truth value; None for all else."""
        if constant_id not in self._found:
            found = self._constant(constant_id)
            self._found[constant_id] = None if found is None else self._placed(constant_id, found, depth)
        return self._found[constant_id]

    def _placed(self, constant_id: int, found: Constant, depth: int) -> int | None:
        bits = self._bits(found.type_id)
        if bits is None or depth > _MAX_NESTING:
            return None
        if found.op == Op.SpecConstantOp:
            return self._computed(found, bits, depth)
        value = scalar_bits(found, bits)
        if value is None:
            return None
        spec_id = self._in.decorations.get(constant_id, {}).get(Decoration.SPEC_ID)
        if spec_id and found.op not in _PLAIN:
            return self.builder.add(CONSTANT, (spec_id[0], value))
        return self.builder.add(NUMBER, (value,))

    def _computed(self, found: Constant, bits: int, depth: int) -> int | None:
        opcode, *operands = found.operands
        if opcode == _COMPOSITE_EXTRACT:
            return self._extracted(operands, depth)
        if OPERANDS.get(opcode) != len(operands):
            return None
        places = [self.place(one, depth + 1) for one in operands]
        last = self._constant(operands[-1])  # of a selection the first operand has another type
        operand_bits = None if last is None or opcode in _SHIFTS else self._bits(last.type_id)
        known = [place for place in places if place is not None]
        if len(known) < len(places):
            return None
        return self.builder.add(opcode, known, operand_bits or bits, bits)

    def _extracted(self, operands: Sequence[int], depth: int) -> int | None:
        """Return the number at a place in a composite constant."""
        if not operands:
            return None
        at, *path = operands
        for index in path:
            found = self._constant(at)
            if found is None or found.op not in _COMPOSITES or index >= len(found.operands):
                return None
            at = found.operands[index]
        return self.place(at, depth + 1)

    def _bits(self, type_id: int) -> int | None:
        """Return the width of a type of integers, 1 for truth values; None for other types."""
        found = self._in.type(type_id)
        if found is None or found.op not in {Op.TypeInt, Op.TypeBool}:
            return None
        return 1 if found.op == Op.TypeBool else found.operands[0]


_SHIFTS = frozenset({194, 195, 196})  # shifted by a number of any width
