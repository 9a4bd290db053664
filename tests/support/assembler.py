"""A word assembler: SPIR-V modules that no compiler would write.

``BASE`` is a whole compute shader with one buffer, ``float[]`` at binding 0 of set 0, by parts. A test replaces or drops parts:
``assemble(BASE | {"float": op(22, 5, 64), "stride": op()})``. Parts named ``first``, ``decorations`` and ``declarations`` are
empty places at which to put more.

Ids: 1 void, 2 its function type, 3 main, 4 a label, 5 float, 6 the array, 7 the block, 8 the pointer, 9 the buffer, 10 uint;
new ones from 20.
"""

from __future__ import annotations

import array
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidModule, UnsupportedFeature
from vyre_driver.spirv.module import SpirvModule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_driver.spirv.reflection import Reflection

MAGIC = 0x07230203


def text(literal: str) -> list[int]:
    """A NUL-terminated literal as words (SPIR-V 2.2.1)."""
    data = literal.encode() + b"\0"
    data += bytes(-len(data) % 4)
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]


def op(opcode: int = 0, *operands: int) -> list[int]:
    """One instruction; without an opcode, none at all."""
    return [(len(operands) + 1) << 16 | opcode, *operands] if opcode else []


BASE: dict[str, list[int]] = {
    "first": op(),
    "capability": op(17, 1),
    "memory model": op(14, 0, 1),
    "entry point": op(15, 5, 3, *text("main")),
    "local size": op(16, 3, 17, 64, 1, 1),
    "stride": op(71, 6, 6, 4),
    "block": op(71, 7, 2),
    "offset": op(72, 7, 0, 35, 0),
    "set": op(71, 9, 34, 0),
    "binding": op(71, 9, 33, 0),
    "decorations": op(),
    "void": op(19, 1),
    "function type": op(33, 2, 1),
    "float": op(22, 5, 32),
    "uint": op(21, 10, 32, 0),
    "array": op(29, 6, 5),
    "struct": op(30, 7, 6),
    "pointer": op(32, 8, 12, 7),
    "variable": op(59, 8, 9, 12),
    "declarations": op(),
    "function": op(54, 1, 3, 0, 2),
    "label": op(248, 4),
    "return": op(253),
    "end": op(56),
}


def assemble(parts: Mapping[str, Sequence[int]] = BASE, *, bound: int = 100, version: int = 0x0001_0300) -> bytes:
    """The module's bytes in the host's byte order."""
    return array.array("I", [MAGIC, version, 0, bound, 0, *(word for part in parts.values() for word in part)]).tobytes()


def byte_swapped(module: bytes) -> bytes:
    """The same words in the other byte order."""
    words = array.array("I", module)
    words.byteswap()
    return words.tobytes()


def reflect(**parts: list[int]) -> Reflection:
    """What the package makes of ``BASE`` with these parts changed, their spaces as underscores."""
    changes = {name.replace("_", " "): words for name, words in parts.items()}
    assert changes.keys() <= BASE.keys()
    return SpirvModule.from_bytes(assemble(BASE | changes)).reflection


def invalid(problem: str) -> tuple[type[InvalidModule], int, str]:
    """The refusal of an assembled module, as ``literals.refusal`` gives it."""
    fix = "rebuild the shader with its compiler and pass the whole .spv file"
    return InvalidModule, 2101, f"<bytes> is not a valid SPIR-V module: {problem}. Fix: {fix}."


def unsupported(problem: str, fix: str, source: str = "<bytes>") -> tuple[type[UnsupportedFeature], int, str]:
    """The refusal of a module that kompute cannot run, as ``literals.refusal`` gives it."""
    return UnsupportedFeature, 1002, f"{source} cannot run through kompute: {problem}. Fix: {fix}."
