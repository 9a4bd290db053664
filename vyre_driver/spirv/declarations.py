"""The declarations of a SPIR-V module as tables: everything before its first function, uninterpreted.

The bytes are untrusted. Instruction framing is checked by the compiled scan; here each operand list is checked for its
length before it is read. interface.py makes sense of the tables.

Source: SPIR-V 1.6, sections 2.3 (physical layout), 2.4 (logical layout) and 3.42 (instructions).
"""

from __future__ import annotations

import array
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver import _fast
from vyre_driver.errors import InvalidModule
from vyre_driver.spirv import _scan, _shape
from vyre_driver.spirv.opcodes import GENERATORS_BY_ROWS, LANGUAGE_UNKNOWN, LANGUAGES_BY_ROWS, MODE_LOCAL_SIZE_ID, Op

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER_WORDS = 5
MAX_BOUND = 0x3FFFFF  # SPIR-V 2.17, universal limit on ids

_REBUILD = "rebuild the shader with its compiler and pass the whole .spv file"

_MAGICS = b"\x03\x02\x23\x07", b"\x07\x23\x02\x03"
_GLSL = re.compile(rb"^\s*#version\b|\bvoid\s+main\s*\(", re.MULTILINE)
_BEGINNING = 1 << 16

_FAULTS = {
    1: "it ends inside its five-word header",
    2: "its first word is not the SPIR-V magic number 0x07230203",
    4: "word {word} begins an instruction of length 0",
    5: "the instruction at word {word} runs past the end",
    6: "word {word} begins a function inside a function",
    7: "word {word} ends a function that never began",
    8: "its last function has no end, so the module was cut off",
}
_SWAPPED = 3
_TOO_FEW_OPERANDS, _ENDLESS_TEXT = 1, 2


class Instruction(NamedTuple):
    """One instruction: its opcode and its operand words."""

    op: int
    operands: tuple[int, ...]


class Constant(NamedTuple):
    """A constant or specialization constant: its opcode, its type's id, and its literal words or constituent ids."""

    op: int
    type_id: int
    operands: tuple[int, ...]


class Variable(NamedTuple):
    """A module-scope variable: its id, the id of its pointer type, and its storage class."""

    id: int
    pointer_type_id: int
    storage_class: int


class Declarations(_scan.Tables):
    """What a module declares, by result id where an instruction has one; nothing is interpreted."""

    def __init__(self, words: array.array[int], first_function: int) -> None:
        """Of a module with this header, and the word of its first function; ``read`` fills the tables."""
        self.version = words[1] >> 16 & 0xFF, words[1] >> 8 & 0xFF
        self.generator = words[2]
        self.first_function = first_function

    def type(self, type_id: int) -> Instruction | None:
        """Return the instruction that declares a type."""
        found = self.types.get(type_id)
        return None if found is None else Instruction(*found)

    def constant(self, constant_id: int) -> Constant | None:
        """Return a constant or specialization constant."""
        found = self.constants.get(constant_id)
        return None if found is None else Constant(*found)

    @property
    def source_language(self) -> int | None:
        """The language of the source by its number in SPIR-V, of HLSL and Slang before others; None where none is named."""
        named = [language for language in self.languages if language != LANGUAGE_UNKNOWN]
        by_rows = [language for language in named if language in LANGUAGES_BY_ROWS]
        return next(iter(by_rows + named), None)

    @property
    def stores_rows_as_columns(self) -> bool:
        """Whether matrices of the source are transposed in the module: as its language has them, else as its compiler has."""
        language = self.source_language
        return self.generator >> 16 in GENERATORS_BY_ROWS if language is None else language in LANGUAGES_BY_ROWS

    def parts_of_vectors(self) -> frozenset[int]:
        """Return the ids of the constants that composite specialization constants, or a LocalSizeId, are made of."""
        composites = (operands for op, _, operands in self.constants.values() if op == Op.SpecConstantComposite)
        sizes = (operands for _, mode, operands in self.modes if mode == MODE_LOCAL_SIZE_ID)
        return frozenset(one for operands in (*composites, *sizes) for one in operands)


def read_declarations(module: bytes, source: str) -> tuple[bytes, Declarations]:
    """Return the module in host byte order, and its declarations; ``source`` names it in errors.

    Raises
    ------
    InvalidModule
        If the bytes are not whole, well-framed SPIR-V.
    """
    code, first_function = _checked_code(module, source)
    words = array.array("I", code[: 4 * HEADER_WORDS])
    if not 0 < words[3] <= MAX_BOUND:
        raise invalid(source, f"its id bound is {words[3]}, not between 1 and {MAX_BOUND}")
    declarations = Declarations(words, first_function)
    fault, word, op, number = declarations.read(code, first_function)
    if fault:
        raise invalid(source, _complaint(fault, word, Op(op), number, words[3]))
    return code, declarations


def check_shape(code: bytes, source: str) -> None:
    """Check that every instruction of a framed module stands where it may and uses existing ids of the right kind.

    Raises
    ------
    InvalidModule
        If one does not.
    """
    fault, word, number = _shape.check(code)
    if fault:
        words = array.array("I", code[: 4 * (word + 1)])
        what = f"the instruction at word {word} (opcode {words[word] & 0xFFFF})"
        raise invalid(source, _shape.FAULTS[fault].format(what=what, number=number, bound=words[3]))


def _complaint(fault: int, word: int, op: Op, number: int, bound: int) -> str:
    what = f"the Op{op.name} at word {word}"
    if fault == _TOO_FEW_OPERANDS:
        return f"{what} has {number} operands, not {_scan.least_operands(op)} or more"
    return "a text in it has no end" if fault == _ENDLESS_TEXT else f"{what} makes %{number}, and its ids end before %{bound}"


def invalid(source: str, problem: str) -> InvalidModule:
    """Build the error that says why ``source`` is not a usable SPIR-V module."""
    return InvalidModule(f"{source} is not a valid SPIR-V module: {problem}", fix=_REBUILD, source=source)


def _checked_code(module: bytes, source: str) -> tuple[bytes, int]:
    """Return the module in host byte order and the word of its first function; its framing is whole."""
    if not module:
        raise invalid(source, "it is empty")
    if module[:4] not in _MAGICS and _GLSL.search(module[:_BEGINNING]):
        raise InvalidModule(
            f"{source} is not a valid SPIR-V module: it looks like GLSL source",
            fix="compile it with SpirvModule.from_glsl; for the command line, name the file otherwise than .spv",
            source=source,
        )
    if len(module) % 4:
        raise invalid(source, f"it has {len(module)} bytes, which is not a multiple of 4")
    fault, word, first_function, _ = _fast.scan_spirv(module)
    if fault == _SWAPPED:
        words = array.array("I", module)
        words.byteswap()
        module = words.tobytes()
        fault, word, first_function, _ = _fast.scan_spirv(module)
    if fault:
        raise invalid(source, _FAULTS[fault].format(word=word))
    return module, first_function


def places(words: array.array[int], at: int) -> Iterator[int]:
    """Yield where each instruction of a framed module begins, from one on."""
    while at < len(words):
        yield at
        at += words[at] >> 16


def read_string(operands: array.array[int], start: int, source: str) -> str:
    """Decode the NUL-terminated literal that begins at operand ``start`` (SPIR-V 2.2.1, "Literal").

    Raises
    ------
    InvalidModule
        If no NUL ends it inside the instruction.
    """
    words = operands[start:]
    if sys.byteorder == "big":
        words.byteswap()
    text, end, _ = words.tobytes().partition(b"\0")
    if not end:
        raise invalid(source, "a text in it has no end")
    return text.decode("utf-8", "replace")
