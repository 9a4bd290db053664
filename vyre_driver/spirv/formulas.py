"""Formulas over specialization constants, evaluated when their values are known.

A formula is a list of steps, each on numbers that earlier ones gave; the last gives the result. Steps that a module shares are
shared, so its size is bounded by the module's.

Source: SPIR-V 1.6, 3.42.7 (``OpSpecConstantOp``) and 3.42.13 (arithmetic); what is undefined there (division by 0, shifts by
the width or more) gives 0, which no size may be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Steps of our own beside SPIR-V's opcodes: a number, a specialization constant, and the arithmetic of sizes, which never wraps.
NUMBER, CONSTANT, PRODUCT, SUM, ALIGNED = -1, -2, -3, -4, -5


class Step(NamedTuple):
    """An operation, the bits of its operands and of its result (0: unbounded), and its operands.

    Operands are places of earlier steps; of ``NUMBER`` the number, of ``CONSTANT`` the SpecId and the default.
    """

    op: int
    operand_bits: int
    bits: int
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """The steps to a number."""

    steps: tuple[Step, ...]

    @property
    def is_specialized(self) -> bool:
        """Whether a specialization constant has a part in it."""
        return any(step.op == CONSTANT for step in self.steps)

    def value(self, words: Sequence[int] = ()) -> int:
        """Return the number, given the constants' bits by SpecId; those that are left out have their defaults."""
        found: list[int] = []
        for step in self.steps:
            if step.op == CONSTANT:
                spec_id, default = step.operands
                found.append(words[spec_id] if spec_id < len(words) else default)
            else:
                found.append(_apply(step, step.operands if step.op == NUMBER else [found[at] for at in step.operands]))
        return found[-1]


def _apply(step: Step, numbers: Sequence[int]) -> int:
    result = numbers[0] if step.op == NUMBER else _MEANING[step.op](step.operand_bits, *numbers)
    return result & (1 << step.bits) - 1 if step.bits else result


class FormulaBuilder:
    """Collects the steps of one module; the same step is there once."""

    def __init__(self) -> None:
        """Start without any."""
        self._steps: list[Step] = []
        self._places: dict[Step, int] = {}

    def add(self, op: int, operands: Sequence[int], operand_bits: int = 0, bits: int = 0) -> int:
        """Return the place of a step; one on numbers alone is worked out at once."""
        step = Step(op, operand_bits, bits, tuple(operands))
        if op not in {NUMBER, CONSTANT} and all(self._steps[at].op == NUMBER for at in operands):
            step = Step(NUMBER, 0, 0, (_apply(step, [self._steps[at].operands[0] for at in operands]),))
        place = self._places.setdefault(step, len(self._steps))
        if place == len(self._steps):
            self._steps.append(step)
        return place

    def formula(self, place: int) -> Formula:
        """Return the steps that lead to a place."""
        needed, waiting = set[int](), [place]
        while waiting:
            at = waiting.pop()
            if at not in needed:
                needed.add(at)
                waiting.extend(self._steps[at].operands if self._steps[at].op not in {NUMBER, CONSTANT} else ())
        moved = {at: number for number, at in enumerate(sorted(needed))}
        return Formula(tuple(self._moved(self._steps[at], moved) for at in sorted(needed)))

    def _moved(self, step: Step, moved: Mapping[int, int]) -> Step:
        own = step.op in {NUMBER, CONSTANT}
        return step if own else step._replace(operands=tuple(moved[at] for at in step.operands))


def _signed(bits: int, number: int) -> int:
    return number - (1 << bits) if bits and number >> bits - 1 else number


def _divided(a: int, b: int) -> int:
    """Towards zero, as SPIR-V divides signed numbers."""
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def _signed_rule(rule: Callable[[int, int], int]) -> Callable[[int, int, int], int]:
    return lambda bits, a, b: rule(_signed(bits, a), _signed(bits, b))


# Opcode -> its meaning: of the operands' width, then the operands as unsigned numbers; the result is cut to its width.
_MEANING: dict[int, Callable[..., int]] = {
    PRODUCT: lambda _, a, b: a * b,
    SUM: lambda _, a, b: a + b,
    ALIGNED: lambda _, a, b: -(-a // b) * b,
    113: lambda _, a: a,
    114: _signed,
    126: lambda _, a: -a,
    128: lambda _, a, b: a + b,
    130: lambda _, a, b: a - b,
    132: lambda _, a, b: a * b,
    134: lambda _, a, b: a // b if b else 0,
    135: _signed_rule(_divided),
    137: lambda _, a, b: a % b if b else 0,
    138: _signed_rule(lambda a, b: a - b * _divided(a, b)),
    139: _signed_rule(lambda a, b: a % b if b else 0),
    164: lambda _, a, b: a == b,
    165: lambda _, a, b: a != b,
    166: lambda _, a, b: a | b,
    167: lambda _, a, b: a & b,
    168: lambda _, a: not a,
    169: lambda _, which, a, b: a if which else b,
    170: lambda _, a, b: a == b,
    171: lambda _, a, b: a != b,
    172: lambda _, a, b: a > b,
    173: _signed_rule(lambda a, b: a > b),
    174: lambda _, a, b: a >= b,
    175: _signed_rule(lambda a, b: a >= b),
    176: lambda _, a, b: a < b,
    177: _signed_rule(lambda a, b: a < b),
    178: lambda _, a, b: a <= b,
    179: _signed_rule(lambda a, b: a <= b),
    194: lambda bits, a, b: a >> b if b < bits else 0,
    195: lambda bits, a, b: _signed(bits, a) >> b if b < bits else 0,
    196: lambda bits, a, b: a << b if b < bits else 0,
    197: lambda _, a, b: a | b,
    198: lambda _, a, b: a ^ b,
    199: lambda _, a, b: a & b,
    200: lambda _, a: ~a,
}
OPERANDS = {op: 3 if op == 169 else 1 if op in {113, 114, 126, 168, 200} else 2 for op in _MEANING if op > 0}
