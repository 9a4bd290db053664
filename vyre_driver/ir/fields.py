"""Check the fields of a program's values when they are created, so that every later stage can rely on them."""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING

from vyre_driver.checks import integer
from vyre_driver.errors import InvalidProgram, with_article

if TYPE_CHECKING:
    from typing import NoReturn

_LENGTH = struct.Struct("<I")
_KEPT_CHARACTERS = 64  # names repeat; long texts do not


def whole(value: object, highest: int, what: str, *, lowest: int = 0) -> int:
    """Return ``value`` as an int when it is an integer from ``lowest`` to ``highest``; a bool is none.

    Raises
    ------
    InvalidProgram
        If it is not.
    """
    number = integer(value)
    if number is None:
        refuse(f"{what} is {brief(value)}, which is not an integer", f"give an integer from {lowest} to {highest}")
    if not lowest <= number <= highest:
        refuse(f"{what} is {brief(number)}, outside {lowest} to {highest}", f"give an integer from {lowest} to {highest}")
    return number


def encoded_text(value: object, what: str) -> bytes:
    """Return a text as it stands in every encoding: u32 little-endian length in bytes, then UTF-8.

    Raises
    ------
    InvalidProgram
        If it is not a str, or has no UTF-8 form.
    """
    if not isinstance(value, str):
        refuse(f"{what} is {brief(value)}, which is not a str", "give a str")
    try:
        return _encoded(value) if len(value) <= _KEPT_CHARACTERS else _encoded.__wrapped__(value)
    except UnicodeEncodeError:
        refuse(f"{what} is {value!a}, which has a lone surrogate and so no UTF-8 form", "give well-formed Unicode")


@functools.lru_cache(maxsize=1024)
def _encoded(text: str) -> bytes:
    data = text.encode()
    return _LENGTH.pack(len(data)) + data


def instance(value: object, wanted: type | tuple[type, ...], what: str) -> None:
    """Refuse a value of another type.

    Raises
    ------
    InvalidProgram
        If they differ; names both types.
    """
    if not isinstance(value, wanted):
        classes = wanted if isinstance(wanted, tuple) else (wanted,)
        names = " or ".join(one.__name__ for one in classes)
        refuse(f"{what} is {brief(value)}, {with_article(type(value).__name__)}, where {names} is wanted", f"give {names}")


def brief(value: object) -> str:
    """Return the representation of a value, cut at 80 characters, for a message."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def refuse(problem: str, fix: str, **context: object) -> NoReturn:
    """Raise InvalidProgram (1006)."""
    raise InvalidProgram(problem, fix=fix, **context)
