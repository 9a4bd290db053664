"""Runs one invocation of a lowered program of words in plain Python, and watches every index.

Only what such programs are lowered to is known; anything else ends with a KeyError. Words are u32 and bools as Python has
them, whatever their sign, pointers are pairs of a variable and an index.
"""

from __future__ import annotations

import array
from typing import TYPE_CHECKING, Any

from vyre_driver.spirv.opcodes import Glsl, Ins, Op

if TYPE_CHECKING:
    from collections.abc import Callable

U32 = 0xFFFF_FFFF
LOCAL, GLOBAL = "gl_LocalInvocationID", "gl_GlobalInvocationID"


def signed(word: int) -> int:
    return (word ^ 0x80000000) - 0x80000000


def divided(left: int, right: int) -> int:
    """OpSDiv, which is defined for a divisor of 0, and the least number by -1, nowhere."""
    assert right != 0, "a signed quotient by 0"
    assert (left, right) != (0x80000000, U32), "a signed quotient that passes 32 bits"
    made = abs(signed(left)) // abs(signed(right))
    return (made if (left ^ right) >> 31 == 0 else -made) & U32


BINARY: dict[int, Callable[[int, int], int]] = {
    Ins.IAdd: lambda a, b: (a + b) & U32,
    Ins.ISub: lambda a, b: (a - b) & U32,
    Ins.IMul: lambda a, b: (a * b) & U32,
    Ins.SDiv: divided,
    Ins.UDiv: lambda a, b: a // b,
    Ins.UMod: lambda a, b: a % b,
    Ins.ShiftLeftLogical: lambda a, b: (a << b) & U32,
    Ins.ShiftRightLogical: lambda a, b: a >> b,
    Ins.ShiftRightArithmetic: lambda a, b: signed(a) >> b & U32,
    Ins.BitwiseAnd: lambda a, b: a & b,
    Ins.BitwiseOr: lambda a, b: a | b,
    Ins.BitwiseXor: lambda a, b: a ^ b,
    Ins.IEqual: lambda a, b: a == b,
    Ins.INotEqual: lambda a, b: a != b,
    Ins.ULessThan: lambda a, b: a < b,
    Ins.UGreaterThan: lambda a, b: a > b,
    Ins.ULessThanEqual: lambda a, b: a <= b,
    Ins.UGreaterThanEqual: lambda a, b: a >= b,
    Ins.SLessThan: lambda a, b: signed(a) < signed(b),
    Ins.SGreaterThan: lambda a, b: signed(a) > signed(b),
    Ins.SLessThanEqual: lambda a, b: signed(a) <= signed(b),
    Ins.SGreaterThanEqual: lambda a, b: signed(a) >= signed(b),
    Ins.LogicalAnd: lambda a, b: a and b,
    Ins.LogicalOr: lambda a, b: a or b,
}
UNARY: dict[int, Callable[[int], int]] = {
    Ins.LogicalNot: lambda a: not a,
    Ins.Bitcast: lambda a: a,
    Ins.Not: lambda a: a ^ U32,
    Ins.BitCount: int.bit_count,
}
EXTENDED = {Glsl.UMin: min, Glsl.UMax: max}


class OutOfRange(AssertionError):
    """An index that is not below its buffer's count."""


def decoded(code: bytes) -> list[tuple[int, list[int]]]:
    words, found, at = array.array("I", code), [], 5
    while at < len(words):
        found.append((words[at] & 0xFFFF, list(words[at + 1 : at + (words[at] >> 16)])))
        at += words[at] >> 16
    return found


class Machine:
    """A module, and the memory of one invocation: buffers by name, which it changes."""

    def __init__(self, code: bytes) -> None:
        self.names: dict[int, str] = {}
        self.constants: dict[int, Any] = {}
        self.blocks: dict[int, list[tuple[int, list[int]]]] = {}
        block: list[tuple[int, list[int]]] | None = None
        self.first = 0
        for opcode, operands in decoded(code):
            if opcode == Op.Name:
                text = array.array("I", operands[1:]).tobytes()
                self.names[operands[0]] = text[: text.index(0)].decode()
            elif opcode in {Op.Constant, Op.SpecConstant}:
                self.constants[operands[1]] = operands[2]
            elif opcode in {Op.ConstantTrue, Op.ConstantFalse}:
                self.constants[operands[1]] = opcode == Op.ConstantTrue
            elif opcode == Ins.Label:
                block = self.blocks[operands[0]] = []
                self.first = self.first or operands[0]
            elif block is not None:
                block.append((opcode, operands))

    def run(self, index: int, size: int, buffers: dict[str, list[int]], counts: list[int]) -> None:
        """Run the invocation ``index``; ``counts`` are what is pushed."""
        self.values: dict[int, Any] = dict(self.constants)
        self.memory: dict[Any, list[int]] = {"pushed": counts, LOCAL: [index % size], GLOBAL: [index], **buffers}
        block, came = self.first, 0
        while block:
            block, came = self._block(block, came), block

    def _block(self, block: int, came: int) -> int:
        for opcode, operands in self.blocks[block]:
            match opcode:
                case Ins.Branch:
                    return operands[0]
                case Ins.BranchConditional:
                    return operands[1] if self.values[operands[0]] else operands[2]
                case Ins.Return:
                    return 0
                case Ins.Store:
                    name, place = self.values[operands[0]]
                    self.memory[name][place] = self.values[operands[1]]
                case Ins.SelectionMerge | Ins.LoopMerge:
                    continue
                case _:
                    self.values[operands[1]] = self._result(opcode, operands[1], operands[2:], came)
        raise AssertionError("a block without an end")

    def _result(self, opcode: int, made: int, operands: list[int], came: int) -> Any:  # noqa: ANN401 -- a u32, a bool or a pointer
        values = self.values
        if opcode in {Ins.Variable, Ins.AccessChain, Ins.ArrayLength, Ins.Load}:
            return self._of_memory(opcode, made, operands)
        if opcode == Ins.Phi:
            return values[operands[operands.index(came, 1) - 1]]
        if opcode == Ins.Select:
            return values[operands[1] if values[operands[0]] else operands[2]]
        if opcode == Ins.BitFieldUExtract:
            word, first, count = (values[one] for one in operands)
            return word >> first & (1 << count) - 1
        if opcode == Ins.UMulExtended:
            product = values[operands[0]] * values[operands[1]]
            return product & U32, product >> 32
        if opcode == Ins.CompositeExtract:
            return values[operands[0]][operands[1]]
        if opcode in UNARY:
            return UNARY[opcode](values[operands[0]])
        if opcode == Ins.ExtInst:
            return EXTENDED[operands[1]](*(values[one] for one in operands[2:]))
        return BINARY[opcode](*(values[one] for one in operands))

    def _of_memory(self, opcode: int, made: int, operands: list[int]) -> Any:  # noqa: ANN401 -- a u32, a bool or a pointer
        if opcode == Ins.Variable:
            self.memory[made] = [0]
            return made, 0
        if opcode == Ins.Load:
            name, place = self.values[operands[0]]
            return self.memory[name][place]
        name = self.names[operands[0]]
        if opcode == Ins.AccessChain and self.values[operands[-1]] >= len(self.memory[name]):
            raise OutOfRange(f"{name}[{self.values[operands[-1]]}] of {len(self.memory[name])}")
        return (name, self.values[operands[-1]]) if opcode == Ins.AccessChain else len(self.memory[name])
