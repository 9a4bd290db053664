"""The declarations of a SPIR-V module as tables: everything before its first function, and nothing interpreted.

The bytes are untrusted. Instruction framing is checked by the compiled scan; here each operand list is checked for its
length before it is read. reflect.py makes sense of the tables.

Source: SPIR-V 1.6, sections 2.3 (physical layout), 2.4 (logical layout) and 3.42 (instructions).
"""

from __future__ import annotations

import array
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver import _fast
from vyre_driver.errors import InvalidModule
from vyre_driver.spirv.opcodes import CONSTANT_OPS, TYPE_OPS, Decoration, Op

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER_WORDS = 5
MAX_BOUND = 0x3FFFFF  # SPIR-V 2.17, universal limit on ids

_REBUILD = "rebuild the shader with its compiler and pass the whole .spv file"

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


class Instruction(NamedTuple):
    """One instruction: its opcode and its operand words."""

    op: int
    operands: array.array[int]


class Constant(NamedTuple):
    """A constant or specialization constant: its opcode, its type's id, and its literal words or constituent ids."""

    op: int
    type_id: int
    operands: array.array[int]


class Variable(NamedTuple):
    """A module-scope variable: its id, the id of its pointer type, and its storage class."""

    id: int
    pointer_type_id: int
    storage_class: int


class EntryPoint(NamedTuple):
    """An ``OpEntryPoint``: execution model, function id, name."""

    model: int
    function_id: int
    name: str


@dataclass(slots=True)
class Declarations:
    """The tables, by result id where an instruction has one."""

    version: tuple[int, int]
    bound: int
    first_function: int
    capabilities: list[int] = field(default_factory=list)
    extensions: list[str] = field(default_factory=list)
    entry_points: list[EntryPoint] = field(default_factory=list)
    modes: list[tuple[int, int, array.array[int]]] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    member_names: dict[tuple[int, int], str] = field(default_factory=dict)
    decorations: dict[int, dict[int, array.array[int]]] = field(default_factory=dict)
    member_decorations: dict[tuple[int, int], dict[int, array.array[int]]] = field(default_factory=dict)
    types: dict[int, Instruction] = field(default_factory=dict)
    constants: dict[int, Constant] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)


def read_declarations(module: bytes, source: str) -> tuple[bytes, Declarations]:
    """Return the module in host byte order, and its declarations; ``source`` names it in errors.

    Raises
    ------
    InvalidModule
        2101 if the bytes are not whole, well-framed SPIR-V.
    """
    words, first_function = _checked_words(module, source)
    declarations = Declarations((words[1] >> 16 & 0xFF, words[1] >> 8 & 0xFF), words[3], first_function)
    if not 0 < declarations.bound <= MAX_BOUND:
        raise invalid(source, f"its id bound is {declarations.bound}, not between 1 and {MAX_BOUND}")
    for word, op, operands in _instructions(words, first_function):
        shortest = _SHORTEST.get(op, 0)
        if len(operands) < shortest:
            raise invalid(source, f"the Op{Op(op).name} at word {word} has {len(operands)} operands, not {shortest} or more")
        _record(declarations, op, operands, source)
    return words.tobytes(), declarations


def invalid(source: str, problem: str) -> InvalidModule:
    """Build the error that says why ``source`` is not a usable SPIR-V module."""
    return InvalidModule(f"{source} is not a valid SPIR-V module: {problem}", fix=_REBUILD, source=source)


def _checked_words(module: bytes, source: str) -> tuple[array.array[int], int]:
    if not module:
        raise invalid(source, "it is empty")
    if len(module) % 4:
        raise invalid(source, f"it has {len(module)} bytes, which is not a multiple of 4")
    fault, word, first_function, _ = _fast.scan_spirv(module)
    words = array.array("I", module)
    if fault == _SWAPPED:
        words.byteswap()
        fault, word, first_function, _ = _fast.scan_spirv(words.tobytes())
    if fault:
        raise invalid(source, _FAULTS[fault].format(word=word))
    return words, first_function


def _instructions(words: array.array[int], stop: int) -> Iterator[tuple[int, int, array.array[int]]]:
    at = HEADER_WORDS
    while at < stop:
        length = words[at] >> 16
        yield at, words[at] & 0xFFFF, words[at + 1 : at + length]
        at += length


def read_string(operands: array.array[int], start: int, source: str) -> str:
    """Decode the NUL-terminated literal that begins at operand ``start`` (SPIR-V 2.2.1, "Literal").

    Raises
    ------
    InvalidModule
        2101 if no NUL ends it inside the instruction.
    """
    words = operands[start:]
    if sys.byteorder == "big":
        words.byteswap()
    text, end, _ = words.tobytes().partition(b"\0")
    if not end:
        raise invalid(source, "a text in it has no end")
    return text.decode("utf-8", "replace")


# Others are not kept, which bounds what a decoration group can multiply.
_READ_DECORATIONS = frozenset(Decoration)

_SHORTEST: dict[int, int] = {
    Op.Extension: 1,
    Op.EntryPoint: 3,
    Op.ExecutionMode: 2,
    Op.ExecutionModeId: 2,
    Op.Capability: 1,
    Op.Name: 2,
    Op.MemberName: 3,
    Op.Decorate: 2,
    Op.MemberDecorate: 3,
    Op.GroupDecorate: 1,
    Op.Variable: 3,
    Op.TypeInt: 3,
    Op.TypeFloat: 2,
    Op.TypeVector: 3,
    Op.TypeMatrix: 3,
    Op.TypeArray: 3,
    Op.TypeRuntimeArray: 2,
    Op.TypePointer: 3,
    Op.TypeStruct: 1,
    Op.ConstantTrue: 2,
    Op.ConstantFalse: 2,
    Op.Constant: 3,
    Op.ConstantComposite: 2,
    Op.SpecConstantTrue: 2,
    Op.SpecConstantFalse: 2,
    Op.SpecConstant: 3,
    Op.SpecConstantComposite: 2,
    Op.SpecConstantOp: 3,
}


def _record(into: Declarations, op: int, operands: array.array[int], source: str) -> None:  # noqa: C901, PLR0912 -- a table of instructions, one line each
    match op:
        case Op.Capability:
            into.capabilities.append(operands[0])
        case Op.Extension:
            into.extensions.append(read_string(operands, 0, source))
        case Op.EntryPoint:
            into.entry_points.append(EntryPoint(operands[0], operands[1], read_string(operands, 2, source)))
        case Op.ExecutionMode | Op.ExecutionModeId:
            into.modes.append((operands[0], operands[1], operands[2:]))
        case Op.Name:
            into.names[operands[0]] = read_string(operands, 1, source)
        case Op.MemberName:
            into.member_names[operands[0], operands[1]] = read_string(operands, 2, source)
        case Op.Decorate if operands[1] in _READ_DECORATIONS:
            into.decorations.setdefault(operands[0], {})[operands[1]] = operands[2:]
        case Op.MemberDecorate if operands[2] in _READ_DECORATIONS:
            into.member_decorations.setdefault((operands[0], operands[1]), {})[operands[2]] = operands[3:]
        case Op.GroupDecorate:
            for target in operands[1:]:
                into.decorations.setdefault(target, {}).update(into.decorations.get(operands[0], {}))
        case Op.Variable:
            into.variables.append(Variable(operands[1], operands[0], operands[2]))
        case _ if op in TYPE_OPS and operands:
            into.types[operands[0]] = Instruction(op, operands[1:])
        case _ if op in CONSTANT_OPS:
            into.constants[operands[1]] = Constant(op, operands[0], operands[2:])
