"""Decode expressions and nodes.

A scan in C proves a node first, so that invalid bytes cost no memory; then its terms are created, the inner ones first.

Source: spec items 1.5 and 1.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.ir import nodes as nd
from vyre_driver.ir.terms import KEY_BYTES, Traits
from vyre_driver.ir.wire._scan import Walk
from vyre_driver.ir.wire._terms import TermMaker
from vyre_driver.ir.wire.cursor import Cursor
from vyre_driver.ir.wire.grammar import GRAMMAR, PLANS, READERS, TABLES, limits, refuse_fault

if TYPE_CHECKING:
    from vyre_driver.ir.nodes import Node

_IS_NODE = 1 << 8  # beside the tag, in what a walk calls a term
_CLASSES: dict[int, type[Any]] = {cls.wire_tag + _IS_NODE * issubclass(cls, nd.Node): cls for cls in PLANS}


class TermReader:
    """Reads the nodes of one program; short terms that are written alike become one object."""

    def __init__(self, data: bytes) -> None:
        """Read from these bytes."""
        self._cursor = Cursor(data)
        self._walk = Walk(GRAMMAR, data, limits())
        self._maker = TermMaker(self._walk, self._cursor, _CLASSES, TABLES, READERS, KEY_BYTES, Traits.PLAIN)

    def check(self, at: int, end: int) -> int:
        """Prove that a node stands at byte ``at``, and count it; returns the byte after it, ``end`` at most.

        Raises
        ------
        InvalidContainer
            If there is none, or it passes a limit of the format.
        """
        fault, stopped, wanted, number, limit = self._walk.check(at, end)
        if fault:
            refuse_fault(fault, stopped, wanted, number, limit)
        return stopped

    def op_id(self, at: int) -> str:
        """Return the id of the operation that the checked node at byte ``at`` is."""
        cls = _CLASSES[_IS_NODE + self._cursor.data[at]]
        if cls is not nd.OpaqueNode:
            return str(cls.op_id)
        self._cursor.at = at + 1
        return self._cursor.text("a name")

    def node(self, at: int, end: int) -> Node:
        """Return the checked node at byte ``at``.

        Raises
        ------
        InvalidProgram
            If a field of it cannot be so.
        """
        return self._maker.make(at, end)  # type: ignore[no-any-return]
