"""Which u32 is certainly below which: what conditions on the way prove, and what follows from it (docs/lowering.md, "Bounds").

A u32 is looked at as a base and a distance from it, ``i`` and -1 of ``i - 1``, where that cannot wrap; what is known of two
bases is how far one of them is below the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.spirv.instructions import Glsl, Ins

if TYPE_CHECKING:
    from vyre_driver.lowering.emit.code import Code

MADE = frozenset({int(Ins.IAdd), int(Ins.ISub), int(Ins.IMul), int(Ins.UMod), int(Ins.ExtInst)})
"""Instructions whose results are remembered with their operands."""
_DEEPEST = 8  # of derivations; each axis of an array takes two


class Orders:
    """What is known of the order of u32 in the scope at hand."""

    def __init__(self, code: Code) -> None:
        """Know nothing."""
        self._code = code
        self._below: dict[int, dict[int, int]] = {}  # by the base above: bases with m where base + m < base above
        self.changes: list[tuple[int, int, int | None]] = []  # of the scope at hand: two bases, and what was known before

    def know_below(self, left: int, right: int, slack: int = 0) -> None:
        """Note that ``left < right + slack`` as long as the scope is open, and what that says of their ranges."""
        code = self._code
        (one, add), (other, plus) = self._parts(left), self._parts(right)
        known, margin = self._below.setdefault(other, {}), add - plus - slack
        before = known.get(one)
        if one != other and (before is None or before < margin):
            self.changes.append((one, other, before))
            known[one] = margin
        least, most = code.range_of(left)[0], code.range_of(right)[1]
        for value, high in ((left, most + slack - 1), (one, most + slack - 1 - add)):
            if high >= 0:
                code.narrow(value, 0, min(high, U32_MAX))
        for value, low in ((right, least + 1 - slack), (other, least + 1 - slack - plus)):
            if 0 < low <= U32_MAX:
                code.narrow(value, low, U32_MAX)

    def forget(self, changes: list[tuple[int, int, int | None]]) -> None:
        """Take back what a scope has noted."""
        for one, other, before in reversed(changes):
            if before is None:
                del self._below[other][one]
            else:
                self._below[other][one] = before

    def is_below(self, left: int, right: int, depth: int = 0) -> bool:
        """Return whether one u32 is certainly less than another."""
        code = self._code
        if code.range_of(left)[1] < code.range_of(right)[0] or self._is_apart(left, right):
            return True
        depth += 1
        return depth <= _DEEPEST and (self._is_made_below(left, right, depth) or self._is_place_below(left, right, depth))

    def _is_apart(self, left: int, right: int) -> bool:
        """Whether what is known of the bases proves it, at once or over one other base."""
        (one, add), (other, plus) = self._parts(left), self._parts(right)
        wanted = add - plus
        if one == other:
            return wanted < 0
        above = self._below.get(other, {})
        if above.get(one, wanted - 1) >= wanted:
            return True
        # one + first < middle and middle + second < other
        between = ((self._below.get(middle, {}).get(one), second) for middle, second in above.items())
        return any(first is not None and first + second + 1 >= wanted for first, second in between)

    def _is_made_below(self, left: int, right: int, depth: int) -> bool:
        """Whether it follows from the operator that made the lesser one, or its base."""
        base, add = self._parts(left)
        if add < 0 and self.is_below(base, right, depth):
            return True
        opcode, operands = self._made(left)
        if opcode == Ins.ExtInst and operands[1] == Glsl.UMin:
            return any(self.is_below(one, right, depth) for one in operands[2:])
        if opcode == Ins.UMod and self._code.range_of(operands[1])[0]:
            return operands[1] == right or self.is_below(operands[1], right, depth)
        return False

    def _is_place_below(self, left: int, right: int, depth: int) -> bool:
        """Whether one is ``a * c + b``, and the other no less than ``r * c``, which does not wrap, with a < r and b < c."""
        code = self._code
        row_and_column = self._row_and_column(left)
        if row_and_column is None:
            return False
        (row, count), column = row_and_column
        for product in (right, *(one for one, margin in self._below.get(right, {}).items() if margin >= -1)):
            opcode, sides = self._made(product)
            if opcode != Ins.IMul or not self._is_exact(*sides):
                continue
            for factor, rows, columns in (
                (factor, rows, columns)
                for factor, columns in ((row, count), (count, row))
                for rows, width in (sides, sides[::-1])
                if width == columns
            ):
                fits = code.range_of(columns)[0] > 0 if column is None else self.is_below(column, columns, depth)
                if fits and self.is_below(factor, rows, depth):
                    return True
        return False

    def _row_and_column(self, place: int) -> tuple[tuple[int, int], int | None] | None:
        """Return the factors of the product in a place, and what is added to it."""
        opcode, operands = self._made(place)
        if opcode == Ins.IMul:
            return (operands[0], operands[1]), None
        if opcode == Ins.IAdd:
            for product, column in (operands, operands[::-1]):
                inner, factors = self._made(product)
                if inner == Ins.IMul:
                    return (factors[0], factors[1]), column
        return None

    def _is_exact(self, left: int, right: int) -> bool:
        """Whether a product does not wrap: by the ranges, or because its upper word is known to be 0."""
        code = self._code
        if code.range_of(left)[1] * code.range_of(right)[1] <= U32_MAX:
            return True
        uppers = (code.recall(("upper word", *sides)) for sides in ((left, right), (right, left)))
        return any(upper is not None and not code.range_of(upper)[1] for upper in uppers)

    def _made(self, value: int) -> tuple[int, tuple[int, ...]]:
        opcode, _, *operands = self._code.made.get(value, (0, 0))
        return opcode, tuple(operands)

    def _parts(self, value: int) -> tuple[int, int]:
        """Return a base, and the distance of a u32 from it, where the sum or difference does not wrap."""
        code, distance = self._code, 0
        while True:
            opcode, operands = self._made(value)
            if opcode not in {Ins.IAdd, Ins.ISub}:
                return value, distance
            base, by = operands
            if opcode == Ins.IAdd and code.range_of(base)[0] == code.range_of(base)[1]:
                base, by = by, base
            (low, high), (step, most) = code.range_of(base), code.range_of(by)
            if step != most or (high + step > U32_MAX if opcode == Ins.IAdd else low < step):
                return value, distance
            value, distance = base, distance + (step if opcode == Ins.IAdd else -step)
