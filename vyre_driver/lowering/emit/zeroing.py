"""Which workgroup memory has to be zeroed: all but what the invocations write completely before any of them reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import Binary, LitU32
from vyre_driver.ir.expressions import Atomic, Load, LocalId
from vyre_driver.ir.nodes import Assign, Barrier, Block, If, Let, Loop, Region, Return, Store
from vyre_driver.ir.operators import BinOp
from vyre_driver.ir.walks import BODY_FIELDS, OPERANDS, expressions_within

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.program import Program

_KNOWN = (Assign, Barrier, Block, If, Let, Loop, Region, Return, Store)


def read_before_written(program: Program, counts: dict[str, int]) -> set[str]:
    """Return which of these buffers, by name with their elements, may be read where not all of their elements were written.

    An element is written for certain where each invocation stores to the one of its own, at a place that it does not come to by
    a condition or a loop that the barrier behind it is not in too: a barrier that is reached is reached by all of them.
    """
    found = _Search(program.workgroup_size, counts)
    found.body(program.entry, set(), set())
    return found.early


class _Search:
    def __init__(self, size: tuple[int, int, int], counts: dict[str, int]) -> None:
        self._own = _own_places(size)
        self._counts = counts
        self.early: set[str] = set()

    def body(self, nodes: Iterable[Node], stored: set[str], written: set[str]) -> None:
        """Look at statements: what each invocation has ``stored``, and what is ``written`` by all of them."""
        for node in nodes:
            if not isinstance(node, _KNOWN):
                self.early.update(self._counts)
                return
            operands = OPERANDS.get(type(node))
            for one in expressions_within(*(operands(node) if operands is not None else ())):
                if isinstance(one, (Load, Atomic)) and one.buffer in self._counts and one.buffer not in written:
                    self.early.add(one.buffer)
            if isinstance(node, Store) and self._is_own(node.buffer, node.index):
                stored.add(node.buffer)
            elif isinstance(node, Barrier):
                written |= stored
            elif isinstance(node, (Block, Region)):
                self.body(node.body, stored, written)
            else:
                for field in BODY_FIELDS.get(type(node), ()):
                    self.body(getattr(node, field), set(), set(written))

    def _is_own(self, name: str, index: Expr) -> bool:
        return any(self._counts.get(name) == count and index == place for place, count in self._own)


def _own_places(size: tuple[int, int, int]) -> list[tuple[Expr, int]]:
    """Return the places that are each one invocation's alone, with how many there are."""
    x, y, z = size
    if z != 1:
        return []
    row = Binary(BinOp.MUL, LocalId(1), LitU32(x))
    found: list[tuple[Expr, int]] = [(Binary(BinOp.ADD, row, LocalId(0)), x * y)]
    return [*found, (LocalId(0), x)] if y == 1 else found
