"""The wire container, formats 4 to 7: its constants and numbers, a cursor over untrusted bytes, and shape predicates.

Upstream's 0.6.2 to 0.6.5 write 4, 0.7.0 to 0.7.2 write 6, and 0.8.0 writes 7; 5 lived for a day.

Shape predicates stand in the metadata of a buffer, since format 6: a tag, and numbers or predicates.

Source: spec item 3.5; upstream 0.7, section 1.1.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeVar

from vyre_driver.checks import I64_MAX
from vyre_driver.errors import InvalidContainer
from vyre_driver.ir import dtypes
from vyre_driver.ir.fields import refuse
from vyre_driver.ir.predicates import LAYOUTS, TAGS, ShapePredicate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn


MAGIC = b"VYRE"
VERSION = 6
"""The version that is written by default."""
OLDEST, NEWEST = 4, 7  # that are read
WITHOUT_REQUIREMENTS = 4  # the newest that is written and has no place for linear types, bytes_extraction and shape predicates
REQUIREMENTS_SINCE = 6
TILES_SINCE = 7
TILE_NODES = {
    19: "TileLoad",
    20: "TileStore",
    21: "TileMatmul",
    22: "TileReduce",
    23: "TileElementwise",
    24: "TileDecl",
}
ENDIAN_FIXED = 4  # of the flags; 1 is compressed and 2 sealed, which nobody writes
HEADER_BYTES = 40  # magic, u16 version, u16 flags, 32-byte digest of the body

METADATA_OP = "vyre.program.metadata"
METADATA_MAGIC = b"VYRE-META"

MAX_BUFFERS = 16_384
MAX_NODES = 1_000_000
MAX_CALL_ARGS = 4_096
MAX_STRING_BYTES = 1 << 20
MAX_PAYLOAD_BYTES = 4 << 20
MAX_NESTING = 64
MAX_AXES = 4_096  # of a shaped tensor or a mesh
MAX_EXPRESSION_DEPTH = 128  # what the validator allows; the format names no limit of its own
MAX_TERMS = 4_000_000  # nodes and expressions together: ours, it bounds the memory of a reader
MAX_PREDICATE_PARTS = 100_000  # of all buffers together: ours too, it bounds time and memory
MAX_CONTAINER_BYTES = 64 << 20

# Element types whose parameters have no place in the buffer table, and those that upstream refuses there.
LOSSY_ELEMENTS = frozenset({dtypes.VEC, dtypes.TENSOR_SHAPED})
REFUSED_ELEMENTS = frozenset({dtypes.SPARSE_CSR, dtypes.SPARSE_COO, dtypes.SPARSE_BSR, dtypes.DEVICE_MESH})


def leb(value: int) -> bytes:
    """Return an integer as unsigned LEB128."""
    if value < 0x80:
        return bytes((value,))
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


Member = TypeVar("Member")

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_read_u32 = _U32.unpack_from
_MAX_LEB_BYTES = 10


def refuse_bytes(problem: str, offset: int) -> NoReturn:
    """Raise InvalidContainer (2105) for what stands at byte ``offset``."""
    raise InvalidContainer(
        f"the bytes are not a program in a wire format that is read: byte {offset}: {problem}",
        fix="write the program anew with to_wire()",
        offset=offset,
    )


class Cursor:
    """Reads ``data`` from ``at`` on; every method names what it wants when the bytes do not hold it."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0) -> None:
        """Stand at byte ``at``."""
        self.data = data
        self.at = at
        self.end = len(data)

    def refuse(self, problem: str, offset: int) -> NoReturn:
        """Raise InvalidContainer for what stands at byte ``offset``; readers of other bytes than programs say so here."""
        refuse_bytes(problem, offset)

    def take(self, length: int, what: str) -> bytes:
        """Return the next ``length`` bytes."""
        start = self.at
        if length > self.end - start:
            self.refuse(f"{what} takes {length} bytes and {self.end - start} are left", start)
        self.at = start + length
        return self.data[start : self.at]

    def u8(self, what: str) -> int:
        """Return a byte."""
        at = self.at
        if at >= self.end:
            self.refuse(f"{what} is missing: the bytes end", at)
        self.at = at + 1
        return self.data[at]

    def u32(self, what: str) -> int:
        """Return four bytes as a number."""
        at = self.at
        if at + 4 > self.end:
            self.refuse(f"{what} takes 4 bytes and {self.end - at} are left", at)
        self.at = at + 4
        return _read_u32(self.data, at)[0]  # type: ignore[no-any-return]

    def u64(self, what: str) -> int:
        """Return eight bytes as a number."""
        return int(_U64.unpack(self.take(8, what))[0])

    def flag(self, what: str) -> bool:
        """Return a byte that is 0 or 1."""
        value = self.u8(what)
        if value > 1:
            self.refuse(f"{what} is {value}, neither 0 nor 1", self.at - 1)
        return value == 1

    def zero(self, what: str) -> None:
        """Read a byte that must be 0."""
        value = self.u8(what)
        if value:
            self.refuse(f"{what} is {value}, not 0", self.at - 1)

    def leb(self, what: str) -> int:
        """Return an unsigned LEB128 number of at most 64 bits in its shortest form."""
        start = self.at
        value = shift = 0
        for _ in range(_MAX_LEB_BYTES):
            byte = self.u8(what)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if (byte == 0 and shift > 7) or value >> 64:
                    self.refuse(f"{what} is a number that is not written in its shortest form or passes 64 bits", start)
                return value
        return self.refuse(f"{what} is a number of more than {_MAX_LEB_BYTES} bytes", start)

    def member(self, members: Mapping[int, Member], what: str) -> Member:
        """Return the member that a tag byte encodes."""
        at = self.at
        found = members.get(self.data[at]) if at < self.end else None
        if found is None:
            return self._known(self.u8(what), members, what)
        self.at = at + 1
        return found

    def leb_member(self, members: Mapping[int, Member], what: str) -> Member:
        """Return the member that a LEB128 tag encodes."""
        return self._known(self.leb(what), members, what)

    def _known(self, tag: int, members: Mapping[int, Member], what: str) -> Member:
        found = members.get(tag)
        if found is None:
            self.refuse(f"{what} has the unknown tag {tag:#04x}", self.at - 1)
        return found

    def count(self, what: str, *, least_bytes: int = 1, limit: int = MAX_NODES + 1) -> int:
        """Return a LEB128 count of things of ``least_bytes`` each, for which there must be bytes left."""
        at = self.at
        number = self.leb(f"the number of {what}")
        if number > limit:
            self.refuse(f"there are {number} {what}, over the limit of {limit}", at)
        if number * least_bytes > self.end - self.at:
            self.refuse(f"{number} {what} are announced and {self.end - self.at} bytes are left", at)
        return number

    def at_end_of(self, what: str) -> int:
        """Return where a part ends whose LEB128 length stands here; it must be within the bytes."""
        at = self.at
        length = self.leb(f"the length of {what}")
        if length > self.end - self.at:
            self.refuse(f"{what} takes {length} bytes and {self.end - self.at} are left", at)
        return self.at + length

    def text(self, what: str) -> str:
        """Return a text of a u32 length."""
        return self._decoded(self.u32(what), what)

    def leb_text(self, what: str) -> str:
        """Return a text of a LEB128 length."""
        return self._decoded(self.leb(f"the length of {what}"), what)

    def _decoded(self, length: int, what: str) -> str:
        at = self.at
        if length > MAX_STRING_BYTES:
            self.refuse(f"{what} has {length} bytes, over the limit of {MAX_STRING_BYTES}", at)
        try:
            return str(self.take(length, what), "utf-8")
        except UnicodeDecodeError:
            return self.refuse(f"{what} is not UTF-8", at)

    def payload(self, what: str) -> bytes:
        """Return an opaque payload of a u32 length."""
        at = self.at
        length = self.u32(f"the length of {what}")
        if length > MAX_PAYLOAD_BYTES:
            self.refuse(f"{what} has {length} bytes, over the limit of {MAX_PAYLOAD_BYTES}", at)
        return self.take(length, what)


MAX_DEPTH = 32
"""How deep predicates may nest on the wire; one of numbers is 1 deep."""
_NONE = 0
_CLASSES = {tag: cls for cls, tag in TAGS.items()}
_I64 = "q"  # in the layout of numbers; the wire has these as LEB128, and the others as the layout says
_TWO_TO_64 = 1 << 64


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
            pieces.extend(leb(value % _TWO_TO_64) for value in values)
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
    return value - _TWO_TO_64 if value > I64_MAX else value
