"""Instructions and texts as words.

Source: SPIR-V 1.6, 2.2.1 (literals), 2.3 (physical layout).
"""

from __future__ import annotations


def instruction(opcode: int, *operands: int) -> list[int]:
    """Return an instruction: its length in words above its opcode, then its operands."""
    return [(len(operands) + 1) << 16 | opcode, *operands]


def literal_text(text: str) -> list[int]:
    """Return a text as the words of a literal: UTF-8, ended and filled up with zero bytes."""
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 4)
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
