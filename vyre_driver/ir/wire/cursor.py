"""A cursor over untrusted bytes, and the numbers and texts that it reads."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeVar

from vyre_driver.errors import InvalidContainer
from vyre_driver.ir.wire import format as wire_format

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

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

    def count(self, what: str, *, least_bytes: int = 1, limit: int = wire_format.MAX_NODES + 1) -> int:
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
        if length > wire_format.MAX_STRING_BYTES:
            self.refuse(f"{what} has {length} bytes, over the limit of {wire_format.MAX_STRING_BYTES}", at)
        try:
            return str(self.take(length, what), "utf-8")
        except UnicodeDecodeError:
            return self.refuse(f"{what} is not UTF-8", at)

    def payload(self, what: str) -> bytes:
        """Return an opaque payload of a u32 length."""
        at = self.at
        length = self.u32(f"the length of {what}")
        if length > wire_format.MAX_PAYLOAD_BYTES:
            self.refuse(f"{what} has {length} bytes, over the limit of {wire_format.MAX_PAYLOAD_BYTES}", at)
        return self.take(length, what)
