"""Bodies of functions: operands evaluated once, then each part from those before."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.backends.reference.invocations import InvocationBatch
    from vyre_driver.backends.reference.values import Values

    Evaluate = Callable[[InvocationBatch], Values]


class BodyRun:
    """What evaluates a body; ``operands`` and ``parts`` look at the values before them, which :meth:`at` gives."""

    def __init__(self, operands: Sequence[Evaluate]) -> None:
        """Begin without parts."""
        self._operands = operands
        self._parts: list[Evaluate] = []
        self._values: list[Values] = []

    def at(self, place: int) -> Evaluate:
        """Return what gives the value of an operand, or of a part behind them."""
        return lambda _batch: self._values[place]

    def add(self, part: Evaluate) -> Evaluate:
        """Add the next part, and return what gives its value."""
        self._parts.append(part)
        return self.at(len(self._operands) + len(self._parts) - 1)

    def __call__(self, batch: InvocationBatch) -> Values:
        """Return the value of the last part for the active invocations."""
        values = [evaluate(batch) for evaluate in self._operands]
        self._values = values
        for evaluate in self._parts:  # each of which looks at those before
            values.append(evaluate(batch))  # noqa: PERF401
        return values[-1]
