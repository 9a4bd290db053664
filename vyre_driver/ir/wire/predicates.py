"""Shape predicates in the metadata of a buffer, since wire format 6: a tag, and numbers or predicates.

Source: upstream 0.7, section 1.1 of its wire container.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from vyre_driver.checks import I64_MAX
from vyre_driver.ir.fields import refuse
from vyre_driver.ir.predicates import LAYOUTS, TAGS
from vyre_driver.ir.wire.cursor import refuse_bytes
from vyre_driver.ir.wire.leb import leb

if TYPE_CHECKING:
    from vyre_driver.ir.predicates import ShapePredicate
    from vyre_driver.ir.wire.cursor import Cursor

MAX_DEPTH = 32
"""How deep predicates may nest on the wire; one of numbers is 1 deep."""
_NONE = 0
_CLASSES = {tag: cls for cls, tag in TAGS.items()}
_I64 = "q"  # in the layout of numbers; the wire has these as LEB128, and the others as the layout says
_U64 = 1 << 64


def predicate_bytes(predicate: ShapePredicate | None) -> bytes:
    """Return a predicate as it stands on the wire.

    Raises
    ------
    InvalidProgram
        If it nests deeper than MAX_DEPTH.
    """
    if predicate is None:
        return bytes((_NONE,))
    if predicate.depth > MAX_DEPTH:
        refuse(
            f"a shape predicate nests {predicate.depth} deep, over the wire format's limit of {MAX_DEPTH}", "use fewer levels"
        )
    pieces: list[bytes] = []
    waiting = [predicate]
    while waiting:
        part = waiting.pop()
        values = [getattr(part, name) for name in part.__match_args__]
        pieces.append(bytes((TAGS[type(part)],)))
        layout = LAYOUTS[type(part)]
        if not layout:
            waiting.extend(reversed(values))
        elif _I64 in layout:
            pieces.extend(leb(value % _U64) for value in values)
        else:
            pieces.append(struct.pack(f"<{layout}", *values))
    return b"".join(pieces)


def read_predicate(cursor: Cursor) -> ShapePredicate | None:
    """Return the predicate, or None, that stands at a cursor.

    Raises
    ------
    InvalidContainer
        If there is neither, or it nests deeper than MAX_DEPTH.
    InvalidProgram
        If it has more parts than a predicate may have.
    """
    at = cursor.at
    tag = cursor.u8("the tag of a shape predicate")
    return None if tag == _NONE else _read(cursor, tag, at, 1)


def _read(cursor: Cursor, tag: int, at: int, depth: int) -> ShapePredicate:
    if depth > MAX_DEPTH:
        refuse_bytes(f"shape predicates nest deeper than {MAX_DEPTH}", at)
    cls = _CLASSES.get(tag)
    if cls is None:
        refuse_bytes(f"a shape predicate has the unknown tag {tag:#04x}", at)
    layout = LAYOUTS[cls]
    values: list[object] = []
    for _ in cls.__match_args__:
        if not layout:
            inner = cursor.at
            values.append(_read(cursor, cursor.u8("the tag of a shape predicate"), inner, depth + 1))
        elif _I64 in layout:
            values.append(_signed(cursor.leb("a number of a shape predicate")))
        else:
            values.append(cursor.u32("a number of a shape predicate"))
    return cls(*values)


def _signed(value: int) -> int:
    return value - _U64 if value > I64_MAX else value
