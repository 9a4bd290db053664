"""Numbers that a module's constants stand for, at the defaults of its specialization constants.

Source: SPIR-V 1.6, 3.42.7 (constant-creation instructions).
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from vyre_driver.spirv.declarations import invalid
from vyre_driver.spirv.opcodes import Op

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.spirv.declarations import Declarations

_MAX_NESTING = 64
_PLAIN = frozenset({Op.Constant, Op.ConstantTrue, Op.ConstantFalse, Op.ConstantComposite})
_WORD = 0xFFFF_FFFF

# What lengths and sizes are computed with: opcode of an OpSpecConstantOp -> its meaning on unsigned words.
_ARITHMETIC: dict[int, Callable[[int, int], int]] = {
    128: operator.add,
    130: operator.sub,
    132: operator.mul,
    134: lambda a, b: a // b if b else 0,
    137: lambda a, b: a % b if b else 0,
    194: lambda a, b: a >> min(b, 32),
    196: lambda a, b: a << min(b, 32),
    197: operator.or_,
    198: operator.xor,
    199: operator.and_,
}


class ConstantTable:
    """Answers about the constants of one module; a bad one raises InvalidModule."""

    def __init__(self, declarations: Declarations, source: str) -> None:
        """Look constants up in ``declarations``; ``source`` names the module in errors."""
        self._constant = declarations.constant
        self._source = source
        self._computed: dict[int, int | None] = {}

    def number(self, constant_id: int) -> int:
        """Return a 32-bit scalar constant's value; a specialization constant gives its default."""
        found = self._constant(constant_id)
        if found is None or found.op not in {Op.Constant, Op.SpecConstant}:
            raise invalid(self._source, f"%{constant_id} is used as a number and is no scalar constant")
        return found.operands[0]

    def is_specialized(self, constant_id: int) -> bool:
        """Whether a constant's value may be another than ``number`` tells."""
        found = self._constant(constant_id)
        return found is not None and found.op not in _PLAIN

    def array_length(self, constant_id: int) -> int | None:
        """Return the number of elements that a length constant gives an array, at least 1.

        One that is computed is of the defaults, and None where they are computed with in an unusual way.
        """
        found = self._constant(constant_id)
        is_computed = found is not None and found.op == Op.SpecConstantOp
        length = self._compute(constant_id, 0) if is_computed else self.number(constant_id)
        if length is not None and length < 1:
            raise invalid(self._source, f"%{constant_id} gives an array no elements")
        return length

    def _compute(self, constant_id: int, depth: int) -> int | None:
        if constant_id in self._computed:
            return self._computed[constant_id]
        found = self._constant(constant_id)
        value = None
        if found is not None and found.op in {Op.Constant, Op.SpecConstant} and len(found.operands) == 1:
            value = found.operands[0]
        elif found is not None and found.op == Op.SpecConstantOp and len(found.operands) == 3 and depth < _MAX_NESTING:
            apply, operands = _ARITHMETIC.get(found.operands[0]), found.operands[1:]
            numbers = [self._compute(one, depth + 1) for one in operands]
            if apply is not None and numbers[0] is not None and numbers[1] is not None:
                value = apply(numbers[0], numbers[1]) & _WORD
        self._computed[constant_id] = value
        return value
