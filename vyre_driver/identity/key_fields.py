"""What a field of a key or fingerprint may hold, checked where the value is made, so that nothing wrong is ever hashed."""

from __future__ import annotations

from vyre_driver.checks import U32_MAX, integer_within, items_of
from vyre_driver.errors import InvalidKey, with_article

DIGEST_BYTES = 32


def whole(value: object, highest: int, field: str) -> int:
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


def workgroup(value: object, field: str) -> tuple[int, int, int]:
    """Return three u32 as a tuple; raises InvalidKey if they are not three, or one is not a u32."""
    axes = value if isinstance(value, tuple) else items_of(value) or ()
    if len(axes) != 3:
        raise InvalidKey(f"{field} is {value!r}, which is not 3 numbers", fix="give (x, y, z)", field=field, value=value)
    x, y, z = axes
    return whole(x, U32_MAX, field), whole(y, U32_MAX, field), whole(z, U32_MAX, field)


def digest(value: object, field: str) -> bytes:
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


def encoded(value: object, field: str) -> bytes:
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
