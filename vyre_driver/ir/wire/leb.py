"""LEB128 numbers."""

from __future__ import annotations


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
