"""The fields of terms: what each kind of field refuses, keeps and writes.

The class of a term names the kinds of its fields in wire order, as ``_layout``. The rest follows: the encoding and the terms
inside (``parts`` in terms.py), what a walk looks at (walks.py), and the grammar that bytes are read by (wire/reader.py).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.checks import I32_MAX, U8_MAX, U32_MAX, U64_MAX
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.fields import brief, encoded_text, instance, refuse, whole
from vyre_driver.ir.operators import (
    AtomicOp,
    BinOp,
    CollectiveOp,
    MemoryOrdering,
    OpaqueOp,
    Operator,
    SubgroupOp,
    UnOp,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.ir.terms import Term

    Take = Callable[[Term, str, Any], object]

_U32 = struct.Struct("<I")
TABLES: tuple[type[Operator], ...] = (BinOp, UnOp, AtomicOp, CollectiveOp, MemoryOrdering, SubgroupOp)


class Step:
    """The numbers of wire/_scan.pxd: what stands on the wire for a field. To the last two the place in TABLES is added."""

    U8, U32, U64, FLAG, TEXT, SOURCE, PAYLOAD, DTYPE, EXPRESSION, OPTIONAL, ARGUMENTS, BODY, NODE, I32 = range(1, 15)
    MEMBER, OPERATOR = 32, 64


class Kind(NamedTuple):
    """A kind of field.

    ``step`` is what stands for it on the wire. ``take`` gets the term, the name of the field and its value, refuses what has no
    encoding, and returns what the term keeps. ``encode`` is for texts and payloads: ``_seal`` itself writes the others.
    """

    step: int
    take: Take | None = None
    encode: Callable[[Any], bytes] | None = None


Layout = tuple[Kind, ...]


def _arguments(_term: Term, _name: str, value: object) -> object:
    if not isinstance(value, list | tuple):
        refuse(f"the arguments of a call are {brief(value)}", "give a sequence of expressions")
    return tuple(value)


EXPRESSION, OPTIONAL, ARGUMENTS = Kind(Step.EXPRESSION), Kind(Step.OPTIONAL), Kind(Step.ARGUMENTS, _arguments)


_RANGES = {Step.U8: (0, U8_MAX), Step.U32: (0, U32_MAX), Step.U64: (0, U64_MAX), Step.I32: (-I32_MAX - 1, I32_MAX)}


def number(step: int, what: str = "") -> Kind:
    """Return the kind of a whole number in the range of its step, which messages call by its name unless ``what`` says how."""
    lowest, highest = _RANGES[step]

    def take(term: Term, name: str, value: object) -> int:
        return whole(value, highest, what or f"{name} of {type(term).__name__}", lowest=lowest)

    return Kind(step, take)


U32 = number(Step.U32)


def text(what: str) -> Kind:
    """Return the kind of a text that messages call ``what``."""
    return Kind(Step.TEXT, None, lambda value: encoded_text(value, what))


VARIABLE, BUFFER, TRANSFER, TRAP = (text(f"the name of a {what}") for what in ("variable", "buffer", "transfer", "trap"))


def _encoded_source(value: str | None) -> bytes:
    return b"\0" if value is None else b"\1" + encoded_text(value, "the name of a source region")


SOURCE = Kind(Step.SOURCE, None, _encoded_source)


def payload(what: str) -> Kind:
    """Return the kind of the bytes of an extension."""
    return Kind(Step.PAYLOAD, _only(what, bytes), lambda value: _U32.pack(len(value)) + value)


def _only(what: str, *wanted: type) -> Take:
    def take(_term: Term, _name: str, value: object) -> object:
        instance(value, wanted, what)
        return value

    return take


FLAG = Kind(Step.FLAG, _only("a bool literal", bool))
DTYPE = Kind(Step.DTYPE, _only("the target of a cast", DataType))


def member(table: type[Operator], what: str) -> Kind:
    """Return the kind of a member of a table."""
    return Kind(Step.MEMBER + TABLES.index(table), _only(what, table))


def operator(table: type[Operator], what: str) -> Kind:
    """Return the kind of a member of a table or an operator that an extension defines."""
    return Kind(Step.OPERATOR + TABLES.index(table), _only(what, table, OpaqueOp))
