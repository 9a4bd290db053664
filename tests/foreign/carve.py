"""SPIR-V modules that lie somewhere in a file: an executable, a library, an archive's member."""

from __future__ import annotations

import array
import struct

MAGIC = struct.pack("<I", 0x07230203)
MOST_WORDS = 1 << 22
HEADER = 5
FUNCTION, FUNCTION_END, ENTRY_POINT, GL_COMPUTE = 54, 56, 15, 5
LINES = {8, 317}  # OpLine, OpNoLine: may stand between functions


def carve(data: bytes) -> list[bytes]:
    """Return every different compute module of at least one function in ``data``, in the order of the places."""
    found: dict[bytes, None] = {}
    at = data.find(MAGIC)
    while at >= 0:
        words = array.array("I", data[at : at + 4 * min(MOST_WORDS, (len(data) - at) // 4)])
        end = end_of_module(words)
        if end and is_compute(words, end):
            found[words[:end].tobytes()] = None
        at = data.find(MAGIC, at + 4 * max(1, end))
    return list(found)


def end_of_module(words: array.array[int]) -> int:
    """Return the word after the last function, 0 where no module begins: it ends where no other function follows."""
    if len(words) < HEADER or words[1] >> 16 != 1 or words[1] & 0xFF or not 0 < words[3] < 0x400000 or words[4]:
        return 0
    at, ended = HEADER, 0
    while at < len(words):
        length, op = words[at] >> 16, words[at] & 0xFFFF
        if length == 0 or at + length > len(words) or (ended and op not in {FUNCTION, *LINES} and ended == at):
            break
        at += length
        if op == FUNCTION_END or (op in LINES and ended == at - length):
            ended = at
    return ended


def is_compute(words: array.array[int], end: int) -> bool:
    """Whether one of its entry points is of a compute shader."""
    at = HEADER
    while at < end and words[at] & 0xFFFF != FUNCTION:
        if words[at] & 0xFFFF == ENTRY_POINT and words[at + 1] == GL_COMPUTE:
            return True
        at += words[at] >> 16
    return False
