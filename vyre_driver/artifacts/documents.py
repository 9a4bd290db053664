"""JSON that another program wrote: bounded before it is parsed, canonical, and read field by field."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from vyre_driver.artifacts.faults import refuse
from vyre_driver.checks import U32_MAX
from vyre_driver.errors import InvalidContainer

if TYPE_CHECKING:
    from collections.abc import Mapping

Member = TypeVar("Member")

MAX_DEPTH = 128  # of serde_json, which wrote it
MAX_ITEMS = 1_000_000  # objects and lists together, and what a list of anything but bytes holds
MAX_TEXTS = 1_000_000
MAX_ESCAPES = 1_000_000
MAX_NAME_BYTES = 4_096

# One that nothing ends goes to the end: it is never looked for again from within, which would take time squared.
_STRING = re.compile(rb'"[^"\\]*(?:\\.?[^"\\]*)*"?', re.DOTALL)
_LONG_NUMBER = re.compile(rb"[0-9]{21}")
_BRACKET = re.compile(rb"[\[\]{}]")
_OPENING = b"[{"


class Document:
    """One JSON document; its methods return a value of the kind that is asked for, or raise InvalidContainer.

    ``where`` names a value, as in ``nodes[0].program``; ``offset`` is the byte at which the document begins.
    """

    def __init__(self, what: str, offset: int = 0) -> None:
        """Take what the bytes are meant to be, for messages."""
        self.what = what
        self.offset = offset

    def refuse(self, problem: str) -> NoReturn:
        """Raise InvalidContainer at the document's first byte."""
        refuse(self.what, problem, self.offset)

    def parse(self, data: bytes, *, is_canonical: bool = True) -> Any:  # noqa: ANN401 -- whatever JSON holds
        """Return the value of the document.

        A canonical one is written without spaces and fractions, as serde_json writes it.
        """
        self._check_bounds(data)
        try:
            text = data.decode()
            value = json.loads(text, object_pairs_hook=self._object, parse_constant=self._no_number)
            if is_canonical and json.dumps(value, separators=(",", ":"), ensure_ascii=False) != text:
                self.refuse("its JSON is not canonical")
        except InvalidContainer:
            raise
        except (ValueError, RecursionError) as error:
            self.refuse(f"it is not JSON ({error})")
        return value

    def _check_bounds(self, data: bytes) -> None:
        """Check the numbers of texts, lists and objects, and how deep these nest: they decide what parsing costs."""
        texts, escapes = data.count(b'"') // 2, data.count(b"\\")
        if texts > MAX_TEXTS or escapes > MAX_ESCAPES:
            self.refuse(f"its JSON has {texts} texts and {escapes} escapes, over the limits of {MAX_TEXTS} and {MAX_ESCAPES}")
        bare = _STRING.sub(b"", data)
        if _LONG_NUMBER.search(bare):
            self.refuse("its JSON has a number of more than 20 digits")
        depth = number = 0
        for match in _BRACKET.finditer(bare):
            is_opening = match[0] in _OPENING
            depth, number = depth + (1 if is_opening else -1), number + is_opening
            if depth < 0:
                self.refuse("its JSON closes what is not open")
            if depth > MAX_DEPTH:
                self.refuse(f"its JSON nests deeper than {MAX_DEPTH} levels")
            if number > MAX_ITEMS:
                self.refuse(f"its JSON has more than {MAX_ITEMS} lists and objects")

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            self.refuse("an object of its JSON has a key twice")
        return members

    def _no_number(self, text: str) -> NoReturn:
        self.refuse(f"its JSON has the number {text}")

    def members(self, value: object, where: str, *names: str) -> list[Any]:
        """Return the values of an object that has exactly these keys, in this order."""
        if not isinstance(value, dict):
            self.refuse(f"{where} is not an object")
        if tuple(value) != names:
            self.refuse(f"{where} has the keys {', '.join(map(repr, value))[:200]}, not {', '.join(map(repr, names))}")
        return list(value.values())

    def items(self, value: object, where: str) -> list[Any]:
        """Return the items of a list."""
        if not isinstance(value, list):
            self.refuse(f"{where} is not a list")
        if len(value) > MAX_ITEMS:
            self.refuse(f"{where} has {len(value)} items, over the limit of {MAX_ITEMS}")
        return value

    def number(self, value: object, where: str, limit: int = U32_MAX) -> int:
        """Return a whole number from 0 to ``limit``."""
        if type(value) is not int or not 0 <= value <= limit:
            self.refuse(f"{where} is not a whole number from 0 to {limit}")
        return value

    def numbers(self, value: object, where: str, count: int | None = None) -> tuple[int, ...]:
        """Return a list of u32 numbers, ``count`` of them if that is given."""
        items = self.items(value, where)
        if count is not None and len(items) != count:
            self.refuse(f"{where} has {len(items)} numbers, not {count}")
        return tuple([self.number(item, f"{where}[{place}]") for place, item in enumerate(items)])

    def text(self, value: object, where: str) -> str:
        """Return a text of 1 to 4096 bytes."""
        try:
            size = len(value.encode()) if isinstance(value, str) else 0
        except UnicodeEncodeError:
            size = 0
        if not isinstance(value, str) or not 1 <= size <= MAX_NAME_BYTES:
            self.refuse(f"{where} is not a text of 1 to {MAX_NAME_BYTES} bytes")
        return value

    def octets(self, value: object, where: str, length: int | None = None) -> bytes:
        """Return bytes, which JSON has as a list of numbers."""
        try:
            octets = bytes(value) if isinstance(value, list) and set(map(type, value)) <= {int} else None
        except ValueError:
            octets = None
        if octets is None:
            self.refuse(f"{where} is not a list of bytes")
        if length is not None and len(octets) != length:
            self.refuse(f"{where} has {len(octets)} bytes, not {length}")
        return octets

    def choice(self, value: object, where: str, members: Mapping[str, Member]) -> Member:
        """Return the member that a text names."""
        if not isinstance(value, str) or value not in members:
            self.refuse(f"{where} is none of {', '.join(members)}")
        return members[value]
