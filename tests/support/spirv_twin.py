"""Plain twins of the compiled walks over SPIR-V modules (vyre_driver/spirv/_scan.pyx)."""

from __future__ import annotations

import array
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Opcode -> operands at least, of what is read (SPIR-V 1.6, 3.42).
LEAST = {
    **dict.fromkeys((10, 17, 19, 20, 26, 30, 74, 5341), 1),
    **dict.fromkeys((3, 5, 14, 16, 22, 27, 29, 41, 42, 44, 48, 49, 51, 71, 331), 2),
    **dict.fromkeys((6, 15, 21, 23, 24, 28, 32, 43, 50, 52, 59, 72), 3),
    25: 8,
}
TYPES = {*range(19, 31), 32, 5341}
CONSTANTS = {*range(41, 45), *range(48, 53)}
DECORATIONS = {1, 2, 3, 4, 6, 7, 11, 19, 24, 25, 33, 34, 35}
TEXT_AT = {5: 1, 6: 2, 10: 0, 15: 2}
LISTS = ("capabilities", "extensions", "entry_points", "modes", "languages")
LITERALS_ONLY = {8, 79, 81, 82, *range(246, 252), 317}
MOST_IDS = 0x400000


def instructions(words: array.array[int], start: int, stop: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    at = start
    while at < stop and 0 < words[at] >> 16 <= stop - at:
        length = words[at] >> 16
        yield at, words[at] & 0xFFFF, tuple(words[at + 1 : at + length])
        at += length


def text_of(operands: tuple[int, ...]) -> str | None:
    data = b"".join(word.to_bytes(4, "little") for word in operands)
    text, end, _ = data.partition(b"\0")
    return text.decode("utf-8", "replace") if end else None


def read(module: bytes, stop: int) -> tuple[tuple[int, int, int, int], dict[str, Any]]:
    """What ``Tables().read`` answers, and what the tables hold then."""
    words = array.array("I", module)
    found: dict[str, Any] = {name: [] for name in (*LISTS, "variables")}
    found |= {name: {} for name in ("names", "member_names", "decorations", "member_decorations", "types", "constants")}
    found["memory_model"] = (0, 0)
    for at, op, operands in instructions(words, 5, stop):
        fault = record(found, op, operands, words[3])
        if fault is not None:
            return (fault[0], at, op, fault[1]), found
    declared = {*found["types"], *found["constants"], *(one for one, _, _ in found["variables"])}
    for _, op, operands in instructions(words, 5, stop):
        if op == 74 and operands[0] in found["decorations"]:
            for target in declared.intersection(operands[1:]):
                own = found["decorations"].get(target, {})
                found["decorations"][target] = own | found["decorations"][operands[0]]
    return (0, 0, 0, 0), found


def record(found: dict[str, Any], op: int, operands: tuple[int, ...], bound: int) -> tuple[int, int] | None:
    if len(operands) < LEAST.get(op, 0):
        return 1, len(operands)
    text = text_of(operands[TEXT_AT[op] :]) if op in TEXT_AT else ""
    if text is None:
        return 2, len(operands)
    result = operands[0] if op in TYPES else operands[1] if op in CONSTANTS or op == 59 else 1
    if not 0 < result < bound and (op in TYPES or op in CONSTANTS or op == 59):
        return 3, result
    record_whole(found, op, operands, text)
    return None


def record_whole(found: dict[str, Any], op: int, operands: tuple[int, ...], text: str) -> None:  # noqa: C901 -- a table
    if op == 5:
        found["names"][operands[0]] = text
    elif op == 6:
        found["member_names"][operands[0], operands[1]] = text
    elif op == 10:
        found["extensions"].append(text)
    elif op == 14:
        found["memory_model"] = operands[:2]
    elif op == 15:
        found["entry_points"].append((operands[0], operands[1], text))
    elif op in {16, 331}:
        found["modes"].append((operands[0], operands[1], operands[2:]))
    elif op in {3, 17}:
        found["languages" if op == 3 else "capabilities"].append(operands[0])
    elif op == 59:
        found["variables"].append((operands[1], operands[0], operands[2]))
    elif op == 71 and operands[1] in DECORATIONS:
        found["decorations"].setdefault(operands[0], {})[operands[1]] = operands[2:]
    elif op == 72 and operands[2] in DECORATIONS:
        found["member_decorations"].setdefault(operands[:2], {})[operands[2]] = operands[3:]
    elif op in TYPES:
        found["types"][operands[0]] = (op, operands[1:])
    elif op in CONSTANTS:
        found["constants"][operands[1]] = (op, operands[0], operands[2:])


def functions(module: bytes, start: int) -> set[int]:
    words = array.array("I", module)
    found, at = set(), start
    while at < len(words) and words[at] >> 16:
        if words[at] & 0xFFFF == 54 and at + 2 < len(words):
            found.add(words[at + 2])
        at += words[at] >> 16
    return found


def function_uses(module: bytes, start: int, wanted: Iterable[int]) -> dict[int, set[int]]:
    words = array.array("I", module)
    looked_for = {one for one in wanted if one < MOST_IDS}
    found: dict[int, set[int]] = {}
    uses: set[int] = set()
    for _, op, operands in instructions(words, start, len(words)):
        if op == 54:
            uses = found.setdefault(operands[1] if len(operands) > 1 else 0, set())
            continue
        ids = {61: operands[2:3], 62: operands[:2], 12: operands[4:]}.get(op, () if op in LITERALS_ONLY else operands)
        uses |= looked_for.intersection(ids)
    return found
