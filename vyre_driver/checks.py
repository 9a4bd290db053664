"""Check the values that callers give: an integer in a range, a sequence of values, text, or a field of a key.

What a field of a key or fingerprint may hold is checked where the value is made, so that nothing wrong is ever hashed.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from vyre_driver.errors import InvalidInput, InvalidKey, with_article

U8_MAX = 0xFF
I32_MAX = 0x7FFF_FFFF
U32_MAX = 0xFFFF_FFFF
I64_MAX = 0x7FFF_FFFF_FFFF_FFFF
U64_MAX = 0xFFFF_FFFF_FFFF_FFFF
DIGEST_BYTES = 32


def is_whole(value: object) -> bool:
    """Whether Python takes the value as an index: an int, a numpy integer, but no float, text or array of several."""
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def integer(value: object) -> int | None:
    """Return an integer, such as numpy's, as an int; None for a bool and for what is no integer."""
    if type(value) is int:
        return value
    return None if isinstance(value, bool) or not is_whole(value) else operator.index(value)  # type: ignore[arg-type]


def integer_within(value: object, lowest: int, highest: int) -> int | None:
    """Return an integer from ``lowest`` to ``highest`` as an int; None for a bool and for everything else."""
    found = integer(value)
    return found if found is not None and lowest <= found <= highest else None


def items_of(value: object) -> list[object] | None:
    """Return the items of what holds some in order; None for text, bytes, sets, mappings, and whatever else holds none."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, bytearray, Mapping, AbstractSet)):
        return None
    try:
        return list(value)
    except TypeError:  # an array without axes
        return None


def check_text(name: str, given: object) -> None:
    """Check that what is to be a name is text; raises InvalidInput."""
    if not isinstance(given, str):
        raise InvalidInput(f"{name} is of type {type(given).__name__}, and must be text", fix=f"give {name} as text")


def whole_in_range(value: object, what: str, lowest: int, highest: int) -> int:
    """Return ``value`` as an int when it is a whole number of that range; raises InvalidInput 2201."""
    found = integer_within(value, lowest, highest)
    if found is None:
        raise InvalidInput(
            f"{what} is {value!r}, and may be {lowest} to {highest}", fix="give an integer in that range", value=value
        )
    return found


def key_integer(value: object, highest: int, field: str) -> int:
    """Return ``value`` as an int; raises InvalidKey for all but an integer from 0 to ``highest``. A bool is none."""
    if type(value) is int and 0 <= value <= highest:  # at once: a key is made in a microsecond
        return value
    found = integer_within(value, 0, highest)
    if found is None:
        raise InvalidKey(
            f"{field} is {value!r}, which is not an integer from 0 to {highest}",
            fix=f"give an integer from 0 to {highest}",
            field=field,
            value=value,
        )
    return found


def key_workgroup(value: object, field: str) -> tuple[int, int, int]:
    """Return three u32 as a tuple; raises InvalidKey if they are not three, or one is not a u32."""
    axes = value if isinstance(value, tuple) else items_of(value) or ()
    if len(axes) != 3:
        raise InvalidKey(f"{field} is {value!r}, which is not 3 numbers", fix="give (x, y, z)", field=field, value=value)
    x, y, z = axes
    return key_integer(x, U32_MAX, field), key_integer(y, U32_MAX, field), key_integer(z, U32_MAX, field)


def key_digest(value: object, field: str) -> bytes:
    """Return 32 bytes, copied unless they are ``bytes`` already; raises InvalidKey for all else."""
    data = value if isinstance(value, bytes) else _copied(value, field)
    if len(data) != DIGEST_BYTES:
        raise InvalidKey(
            f"{field} has {len(data)} bytes, not {DIGEST_BYTES}", fix="give a 32-byte digest", field=field, value=data
        )
    return data


def _copied(value: object, field: str) -> bytes:
    try:
        return memoryview(value).tobytes()  # type: ignore[arg-type]
    except TypeError as error:
        raise InvalidKey(
            f"{field} is {with_article(type(value).__name__)}, not bytes", fix="give a 32-byte digest", field=field, value=value
        ) from error


def key_text(value: object, field: str) -> bytes:
    """Return a text as UTF-8; raises InvalidKey if it is not a str, or has a lone surrogate and so no UTF-8."""
    if not isinstance(value, str):
        raise InvalidKey(f"{field} is {value!r}, which is not a str", fix="give a str", field=field, value=value)
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InvalidKey(
            f"{field} is {value!a}, which has a lone surrogate and so no UTF-8 form",
            fix="give well-formed Unicode",
            field=field,
            value=value,
        ) from error
