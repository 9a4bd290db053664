"""What conditions on the way to a place prove of whole numbers there: their bounds, and which is below which.

A number is looked at as a base and a distance from it, ``i`` and 1 of ``i + 1``, where that sum cannot wrap.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vyre_driver.ir.arithmetic import Binary, LitU32
from vyre_driver.ir.operators import BinOp
from vyre_driver.ir.terms import Traits
from vyre_driver.lang.types import i32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.values import Number
    from vyre_driver.lang.types import ScalarType

    Base = tuple[ScalarType, Expr]

_SIGN = 0x8000_0000


class Comparison(NamedTuple):
    """A condition: ``left < right``, or not."""

    left: Number
    right: Number
    is_strict: bool


class Both(NamedTuple):
    """Two conditions that hold together."""

    one: Expr
    other: Expr


class Either(NamedTuple):
    """Two conditions of which one holds."""

    one: Expr
    other: Expr


class Negation(NamedTuple):
    """A condition that holds where another does not."""

    of: Expr


Meaning: TypeAlias = "Comparison | Both | Either | Negation"


@dataclass(slots=True)
class _Known:
    """The facts of one scope: ``distances`` of one base below others, and what conditions mean."""

    bounds: dict[Base, tuple[int, int]] = field(default_factory=dict)
    distances: dict[Base, dict[Base, int]] = field(default_factory=dict)
    conditions: dict[Expr, Meaning] = field(default_factory=dict)


class Facts:
    """The facts at a place; those of a scope end with it."""

    def __init__(self) -> None:
        """Know nothing."""
        self._scopes = [_Known()]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget at the end what was assumed inside.

        What a condition means stays, but not in the place of what it meant outside: its bounds may be those inside alone.
        """
        self._scopes.append(_Known())
        try:
            yield
        finally:
            inner = self._scopes.pop().conditions
            outer = self._scopes[-1].conditions
            outer.update({condition: means for condition, means in inner.items() if condition not in outer})

    def note(self, condition: Expr, means: Meaning) -> None:
        """Keep what a condition means, for when it is assumed."""
        self._scopes[-1].conditions[condition] = means

    def _meaning(self, condition: Expr) -> Meaning | None:
        return next((one.conditions[condition] for one in reversed(self._scopes) if condition in one.conditions), None)

    def rename(self, number: Number, held: Number) -> None:
        """Note that a variable holds a value: what a condition means, and what a number is below."""
        means = self._meaning(number.expr)
        if means is not None:
            self.note(held.expr, means)
        for known in self._scopes:
            found = known.distances.get((number.type, number.expr))
            if found is not None:
                self._scopes[-1].distances.setdefault((held.type, held.expr), {}).update(found)

    def assume(self, condition: Expr, *, holds: bool) -> None:
        """Take a condition for true, or for false, until the scope ends."""
        match self._meaning(condition):
            case Comparison(left, right, is_strict):
                if holds:
                    self._below(left, right, 0 if is_strict else 1)
                else:
                    self._below(right, left, 1 if is_strict else 0)
            case Both(one, other) if holds:
                self.assume(one, holds=True)
                self.assume(other, holds=True)
            case Either(one, other) if not holds:
                self.assume(one, holds=False)
                self.assume(other, holds=False)
            case Negation(of):
                self.assume(of, holds=not holds)

    def know_below(self, left: Number, right: Number) -> None:
        """Keep that ``left < right`` until the scope ends."""
        self._below(left, right, 0)

    def know_not_above(self, left: Number, right: Number) -> None:
        """Keep that ``left <= right`` until the scope ends."""
        self._below(left, right, 1)

    def refined(self, number: Number) -> Number:
        """Return a number with the bounds that it has here."""
        low, high = self._bounds(number)
        return number if (low, high) == (number.low, number.high) else replace(number, low=low, high=high)

    def is_below(self, left: Number, right: Number) -> bool:
        """Whether ``left < right`` for certain."""
        if self._bounds(left)[1] < self._bounds(right)[0]:
            return True
        (one, add), (other, plus) = _parts(left), _parts(right)
        if one == other and add < plus:
            return True
        found = [known.distances.get(one, {}).get(other) for known in self._scopes]
        return any(distance is not None and distance + add <= plus for distance in found)

    def _below(self, left: Number, right: Number, slack: int) -> None:
        """Keep that ``left < right + slack``, but nothing of what memory holds, which may change."""
        if not left.expr.traits & right.expr.traits & Traits.NO_READS:
            return
        (one, add), (other, plus) = _parts(left), _parts(right)
        known = self._scopes[-1]
        distance = plus + slack - add
        above = known.distances.setdefault(one, {})
        above[other] = min(distance, above.get(other, distance))
        (least, _), (_, most) = self._bounds(left), self._bounds(right)
        self._narrow(one, left.type.bounds[0], most + slack - 1 - add)
        self._narrow(other, least + 1 - slack - plus, right.type.bounds[1])

    def _narrow(self, base: Base, low: int, high: int) -> None:
        bounds = self._scopes[-1].bounds
        before = bounds.get(base)
        bounds[base] = (low, high) if before is None else (max(low, before[0]), min(high, before[1]))

    def _bounds(self, number: Number) -> tuple[int, int]:
        base, add = _parts(number)
        low, high = number.low, number.high
        for known in self._scopes:
            found = known.bounds.get(base)
            if found is not None:
                low, high = max(low, found[0] + add), min(high, found[1] + add)
        return (low, high) if low <= high else (number.low, number.high)  # a place that nothing reaches


def _parts(number: Number) -> tuple[Base, int]:
    """Return a base and the distance from it; one that may have wrapped is a base itself.

    The same bits are another number as another type.
    """
    scalar, expr = number.type, number.expr
    if isinstance(expr, Binary) and isinstance(expr.right, LitU32) and (number.low, number.high) != number.type.bounds:
        distance = expr.right.value
        if number.type is i32 and distance & _SIGN:
            distance -= 2 * _SIGN
        if expr.op is BinOp.ADD:
            return (scalar, expr.left), distance
        if expr.op is BinOp.SUB:
            return (scalar, expr.left), -distance
    return (scalar, expr), 0
