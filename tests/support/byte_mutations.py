"""Bytes with something changed; by default those of the bodies of wire containers."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

LARGEST_BYTES = 65536
HOSTILE = [
    b"\xff" * 4,
    b"\xff" * 9 + b"\x01",
    b"\x80",
    b"\0",
    b"\6\1\0\0\0" * 70,  # blocks in blocks
    b"\x0a\1" * 140,  # negations
    b"\x16" * 70,  # types of types, references to buffers
    b"\x09" * 40,  # negated predicates
    b"\x11\x07" * 20,  # subgroup reductions
]
NUMBERS = [struct.pack("<I", number) for number in (0, 1, 2, 65, 129, 4097, 0x7FFF_FFFF, 0xFFFF_FFFF)]


def mutated(
    rng: random.Random,
    inputs: Sequence[bytes],
    hostile: Sequence[bytes] = HOSTILE,
    replacements: Sequence[bytes] = NUMBERS,
) -> bytes:
    """Return an input with bytes changed, inserted, removed, doubled, or joined with another's."""
    data = bytearray(rng.choice(inputs))
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data) + 1)
        length = rng.choice([1, 1, 2, 4, 8, 64])
        match rng.randrange(6):
            case 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                data[at:at] = rng.choice(hostile)
            case 2:
                del data[at : at + length]
            case 3:
                data[at : at + length] = data[at : at + length] * 2
            case 4:
                data[at:] = rng.choice(inputs)[at:]
            case _:
                replacement = rng.choice(replacements)
                data[at : at + len(replacement)] = replacement
    return bytes(data[:LARGEST_BYTES])
