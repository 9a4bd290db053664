"""The body of one function, written instruction by instruction: values, variables and structured blocks.

Source: SPIR-V 1.6, 2.11 (structured control flow).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.spirv.builder import instruction
from vyre_driver.spirv.instructions import FUNCTION_CONTROL_NONE, GLSL_STD_450, SELECTION_CONTROL_NONE, Ins
from vyre_driver.spirv.opcodes import Op, StorageClass

if TYPE_CHECKING:
    from vyre_driver.spirv.builder import ModuleBuilder

MAX_WORDS = 1 << 22


class BodyTooLong(Exception):
    """Raised where a function passes ``MAX_WORDS`` words."""


class Loop(NamedTuple):
    """The blocks of a loop that counts, the u32 that counts, and its value for the next iteration."""

    header: int
    test: int
    body: int
    follow: int
    merge: int
    counter: int
    following: int


class FunctionBody:
    """A function of no parameters and no result, which grows by an instruction a call."""

    def __init__(self, module: ModuleBuilder) -> None:
        """Begin with an empty block."""
        self.module = module
        self.void = module.type(Op.TypeVoid)
        self.bool = module.type(Op.TypeBool)
        self.u32 = module.type(Op.TypeInt, 32, 0)
        self.variables: list[int] = []
        self.words: list[int] = []
        self.first_block = module.new_id()
        self.block = self.first_block
        self.terminated = False

    @cached_property
    def i32(self) -> int:
        """The type of signed words."""
        return self.module.type(Op.TypeInt, 32, 1)

    @cached_property
    def f32(self) -> int:
        """The type of floats."""
        return self.module.type(Op.TypeFloat, 32)

    # Values

    def result(self, opcode: int, type_id: int, *operands: int) -> int:
        """Return the result of an instruction that is always emitted."""
        module, words = self.module, self.words
        result = module.bound
        module.bound = result + 1
        words += (len(operands) + 3 << 16 | opcode, type_id, result, *operands)
        if len(words) > MAX_WORDS:
            raise BodyTooLong
        return result

    def op(self, opcode: int, type_id: int, *operands: int) -> int:
        """Return the result of an instruction without side effects."""
        return self.result(opcode, type_id, *operands)

    def effect(self, opcode: int, *operands: int) -> None:
        """Emit an instruction without result."""
        self.words += (len(operands) + 1 << 16 | opcode, *operands)

    def glsl(self, number: int, type_id: int, *operands: int) -> int:
        """Return the result of an extended instruction."""
        return self.op(Ins.ExtInst, type_id, self.module.ext_inst_import(GLSL_STD_450), number, *operands)

    # Memory

    def pointer(self, storage: int, type_id: int) -> int:
        """Return the type of pointers to a type."""
        return self.module.type(Op.TypePointer, storage, type_id)

    def variable(self, type_id: int, initial: int = 0, number: int = 0) -> int:
        """Return a variable of the function, which begins as a constant where one is given, with this id or a new one."""
        pointer = self.pointer(StorageClass.FUNCTION, type_id)
        result = number or self.module.new_id()
        self.variables += instruction(Ins.Variable, pointer, result, StorageClass.FUNCTION, *([initial] if initial else []))
        return result

    # Blocks

    def label(self, block: int) -> None:
        """Begin a block."""
        self.words += (2 << 16 | Ins.Label, block)
        self.block = block
        self.terminated = False

    def branch(self, block: int) -> None:
        """End the block, unless it has ended already, and go on in another."""
        if not self.terminated:
            self.effect(Ins.Branch, block)
            self.terminated = True

    def leave(self) -> None:
        """End the invocation."""
        self.effect(Ins.Return)
        self.terminated = True

    def split(self, condition: int, yes: int, no: int, merge: int) -> None:
        """End the block with a selection that joins again in ``merge``."""
        self.effect(Ins.SelectionMerge, merge, SELECTION_CONTROL_NONE)
        self.effect(Ins.BranchConditional, condition, yes, no)
        self.terminated = True

    def begin_branch(self, condition: int) -> int:
        """Begin a block that is run where a condition holds; returns the one in which it joins again."""
        yes, merge = self.module.new_id(), self.module.new_id()
        self.split(condition, yes, merge, merge)
        self.label(yes)
        return merge

    def end_block(self, merge: int) -> None:
        """End the block, and begin the one behind it."""
        self.branch(merge)
        self.label(merge)

    def new_loop(self) -> Loop:
        """Return the ids of a loop that counts."""
        return Loop(*(self.module.new_id() for _ in Loop._fields))

    def begin_loop(self, loop: Loop, start: int, control: int) -> None:
        """Begin the block that tests whether a loop goes on, which counts from ``start``; ``control`` is a hint."""
        before = self.block
        self.branch(loop.header)
        self.label(loop.header)
        self.words += instruction(Ins.Phi, self.u32, loop.counter, start, before, loop.following, loop.follow)
        self.effect(Ins.LoopMerge, loop.merge, loop.follow, control)
        self.branch(loop.test)
        self.label(loop.test)

    def enter_loop(self, loop: Loop, goes_on: int) -> None:
        """End the test of a loop, and begin what it repeats."""
        self.effect(Ins.BranchConditional, goes_on, loop.body, loop.merge)
        self.label(loop.body)

    def end_loop(self, loop: Loop, step: int) -> None:
        """End what a loop repeats, count on by ``step``, and begin the block behind the loop."""
        self.branch(loop.follow)
        self.label(loop.follow)
        self.words += instruction(Ins.IAdd, self.u32, loop.following, loop.counter, step)
        self.branch(loop.header)
        self.label(loop.merge)

    def end(self, function: int = 0) -> int:
        """End the function, and define it in the module with this id or a new one; returns the id."""
        if not self.terminated:
            self.leave()
        function_type = self.module.type(Op.TypeFunction, self.void)
        number = function or self.module.new_id()
        words = self.module.function
        words += instruction(Ins.Function, self.void, number, FUNCTION_CONTROL_NONE, function_type)
        words += instruction(Ins.Label, self.first_block) + self.variables + self.words
        words += instruction(Ins.FunctionEnd)
        return number
