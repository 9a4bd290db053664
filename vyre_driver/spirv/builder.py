"""Build a SPIR-V module: sections in order, each id, type and constant declared once, functions instruction by instruction.

Source: SPIR-V 1.6, 2.2.1 (literals), 2.3 (physical layout), 2.4 (logical layout), 2.8 (types and variables: two declarations of
one type are not allowed, unless it is an aggregate), 2.11 (structured control flow).
"""

from __future__ import annotations

import array
from functools import cached_property
from typing import NamedTuple

from vyre_driver.spirv import opcodes

MAGIC = 0x0723_0203
GENERATOR = 0  # no registered tool

_VERSION_1_3 = 0x0001_0300


def instruction(opcode: int, *operands: int) -> list[int]:
    """Return an instruction: its length in words above its opcode, then its operands."""
    return [(len(operands) + 1) << 16 | opcode, *operands]


def literal_text(text: str) -> list[int]:
    """Return a text as the words of a literal: UTF-8, ended and filled up with zero bytes."""
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 4)
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]


class ModuleBuilder:
    """A module that grows; each method appends to its section, and ``build`` gives the bytes.

    Methods that declare a value return its id. ``function`` holds the words of the function definitions.
    """

    def __init__(self, version: int = _VERSION_1_3) -> None:
        """Begin an empty module of a packed version, for example 0x00010300."""
        self.version = version
        self.function: list[int] = []
        self.bound = 1  # the least id that nothing has; FunctionBody.result takes it in place
        self._capabilities: list[int] = []
        self._extensions: list[str] = []
        self._imports: dict[str, int] = {}
        self._memory_model: list[int] = []
        self._entry_points: list[int] = []
        self._modes: list[int] = []
        self._strings: list[int] = []
        self._names: list[int] = []
        self._decorations: list[int] = []
        self._globals: list[int] = []
        self._declared: dict[object, int] = {}

    def new_id(self) -> int:
        """Return an id that nothing has yet."""
        result = self.bound
        self.bound = result + 1
        return result

    @property
    def capabilities(self) -> tuple[int, ...]:
        """The capabilities declared, in the order in which they were wanted."""
        return tuple(self._capabilities)

    def capability(self, number: int) -> None:
        """Declare a capability, once."""
        if number not in self._capabilities:
            self._capabilities.append(number)

    def extension(self, name: str) -> None:
        """Declare an extension of SPIR-V, once."""
        if name not in self._extensions:
            self._extensions.append(name)

    def ext_inst_import(self, name: str) -> int:
        """Import a set of extended instructions, once."""
        found = self._imports.get(name)
        if found is None:
            found = self._imports[name] = self.new_id()
        return found

    def memory_model(self, addressing: int, memory: int) -> None:
        """Choose the addressing and the memory model."""
        self._memory_model = instruction(opcodes.Op.MemoryModel, addressing, memory)

    def entry_point(self, model: int, function: int, name: str, interface: list[int]) -> None:
        """Declare an entry point with the variables of its interface."""
        self._entry_points += instruction(opcodes.Op.EntryPoint, model, function, *literal_text(name), *interface)

    def execution_mode(self, function: int, mode: int, *operands: int) -> None:
        """Declare how an entry point runs."""
        self._modes += instruction(opcodes.Op.ExecutionMode, function, mode, *operands)

    def string(self, text: str) -> int:
        """Declare a text, such as the name of a source file, once."""
        found = self._declared.get(text)
        if found is None:
            found = self._declared[text] = self.new_id()
            self._strings += instruction(opcodes.Op.String, found, *literal_text(text))
        return found

    def name(self, target: int, text: str) -> int:
        """Give an id a name for people; returns the id."""
        self._names += instruction(opcodes.Op.Name, target, *literal_text(text))
        return target

    def member_name(self, struct: int, member: int, text: str) -> None:
        """Give a member of a structure a name for people."""
        self._names += instruction(opcodes.Op.MemberName, struct, member, *literal_text(text))

    def decorate(self, target: int, decoration: int, *operands: int) -> None:
        """Decorate an id."""
        self._decorations += instruction(opcodes.Op.Decorate, target, decoration, *operands)

    def member_decorate(self, struct: int, member: int, decoration: int, *operands: int) -> None:
        """Decorate a member of a structure."""
        self._decorations += instruction(opcodes.Op.MemberDecorate, struct, member, decoration, *operands)

    def type(self, opcode: int, *operands: int) -> int:
        """Declare a type that is not an aggregate, once."""
        key = (int(opcode), *operands)
        return self._declared.get(key) or self._declare(key, opcode, *operands)

    def _declare(self, key: object, opcode: int, *operands: int) -> int:
        result = self._declared[key] = self.new_id()
        self._globals += instruction(opcode, result, *operands)
        return result

    def declares(self, opcode: int, *operands: int) -> bool:
        """Return whether a type or constant is declared."""
        return (int(opcode), *operands) in self._declared

    def array_type(self, opcode: int, *operands: int, stride: int | None = None) -> int:
        """Declare an array, once for each stride in bytes (None: without layout)."""
        key = (int(opcode), *operands, "stride", stride)
        found = self._declared.get(key)
        if found is None:
            found = self._declare(key, opcode, *operands)
            if stride is not None:
                self.decorate(found, opcodes.Decoration.ARRAY_STRIDE, stride)
        return found

    def struct_type(self, *members: int) -> int:
        """Declare a structure of its own, which may be decorated as no other."""
        result = self.new_id()
        self._globals += instruction(opcodes.Op.TypeStruct, result, *members)
        return result

    def block(self, *members: tuple[str, int, int], name: str = "") -> int:
        """Declare the structure of a buffer or of push constants: the name, the type and the offset of each member."""
        result = self.struct_type(*(type_id for _, type_id, _ in members))
        if name:
            self.name(result, name)
        self.decorate(result, opcodes.Decoration.BLOCK)
        for place, (member, _, offset) in enumerate(members):
            self.member_name(result, place, member)
            self.member_decorate(result, place, opcodes.Decoration.OFFSET, offset)
        return result

    def bound_variable(self, pointer_type: int, binding: int) -> int:
        """Declare a storage buffer at a binding of descriptor set 0."""
        result = self.global_variable(pointer_type, opcodes.StorageClass.STORAGE_BUFFER)
        self.decorate(result, opcodes.Decoration.DESCRIPTOR_SET, 0)
        self.decorate(result, opcodes.Decoration.BINDING, binding)
        return result

    def constant(self, opcode: int, type_id: int, *operands: int) -> int:
        """Declare a constant, once; not for specialization constants."""
        key = (int(opcode), type_id, *operands)
        found = self._declared.get(key)
        if found is None:
            found = self._declared[key] = self.spec_constant(opcode, type_id, *operands)
        return found

    def spec_constant(self, opcode: int, type_id: int, *operands: int) -> int:
        """Declare a specialization constant of its own."""
        result = self.new_id()
        self._globals += instruction(opcode, type_id, result, *operands)
        return result

    def global_variable(self, pointer_type: int, storage_class: int, *initial: int) -> int:
        """Declare a variable outside the functions, which begins as a constant where one is given."""
        result = self.new_id()
        self._globals += instruction(opcodes.Op.Variable, pointer_type, result, storage_class, *initial)
        return result

    def build(self) -> bytes:
        """Return the module in the host's byte order."""
        words = [MAGIC, self.version, GENERATOR, self.bound, 0]
        for number in self._capabilities:
            words += instruction(opcodes.Op.Capability, number)
        for name in self._extensions:
            words += instruction(opcodes.Op.Extension, *literal_text(name))
        for name, result in self._imports.items():
            words += instruction(opcodes.Op.ExtInstImport, result, *literal_text(name))
        words += self._memory_model + self._entry_points + self._modes + self._strings + self._names + self._decorations
        words += self._globals
        words += self.function
        return array.array("I", words).tobytes()


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
        self.void = module.type(opcodes.Op.TypeVoid)
        self.bool = module.type(opcodes.Op.TypeBool)
        self.u32 = module.type(opcodes.Op.TypeInt, 32, 0)
        self.variables: list[int] = []
        self.words: list[int] = []
        self.first_block = module.new_id()
        self.block = self.first_block
        self.terminated = False

    @cached_property
    def i32(self) -> int:
        """The type of signed words."""
        return self.module.type(opcodes.Op.TypeInt, 32, 1)

    @cached_property
    def f32(self) -> int:
        """The type of floats."""
        return self.module.type(opcodes.Op.TypeFloat, 32)

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
        return self.op(opcodes.Ins.ExtInst, type_id, self.module.ext_inst_import(opcodes.GLSL_STD_450), number, *operands)

    # Memory

    def pointer(self, storage: int, type_id: int) -> int:
        """Return the type of pointers to a type."""
        return self.module.type(opcodes.Op.TypePointer, storage, type_id)

    def variable(self, type_id: int, initial: int = 0, number: int = 0) -> int:
        """Return a variable of the function, which begins as a constant where one is given, with this id or a new one."""
        pointer = self.pointer(opcodes.StorageClass.FUNCTION, type_id)
        result = number or self.module.new_id()
        self.variables += instruction(
            opcodes.Ins.Variable, pointer, result, opcodes.StorageClass.FUNCTION, *([initial] if initial else [])
        )
        return result

    # Blocks

    def label(self, block: int) -> None:
        """Begin a block."""
        self.words += (2 << 16 | opcodes.Ins.Label, block)
        self.block = block
        self.terminated = False

    def branch(self, block: int) -> None:
        """End the block, unless it has ended already, and go on in another."""
        if not self.terminated:
            self.effect(opcodes.Ins.Branch, block)
            self.terminated = True

    def leave(self) -> None:
        """End the invocation."""
        self.effect(opcodes.Ins.Return)
        self.terminated = True

    def split(self, condition: int, yes: int, no: int, merge: int) -> None:
        """End the block with a selection that joins again in ``merge``."""
        self.effect(opcodes.Ins.SelectionMerge, merge, opcodes.SELECTION_CONTROL_NONE)
        self.effect(opcodes.Ins.BranchConditional, condition, yes, no)
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
        self.words += instruction(opcodes.Ins.Phi, self.u32, loop.counter, start, before, loop.following, loop.follow)
        self.effect(opcodes.Ins.LoopMerge, loop.merge, loop.follow, control)
        self.branch(loop.test)
        self.label(loop.test)

    def enter_loop(self, loop: Loop, goes_on: int) -> None:
        """End the test of a loop, and begin what it repeats."""
        self.effect(opcodes.Ins.BranchConditional, goes_on, loop.body, loop.merge)
        self.label(loop.body)

    def end_loop(self, loop: Loop, step: int) -> None:
        """End what a loop repeats, count on by ``step``, and begin the block behind the loop."""
        self.branch(loop.follow)
        self.label(loop.follow)
        self.words += instruction(opcodes.Ins.IAdd, self.u32, loop.following, loop.counter, step)
        self.branch(loop.header)
        self.label(loop.merge)

    def end(self, function: int = 0) -> int:
        """End the function, and define it in the module with this id or a new one; returns the id."""
        if not self.terminated:
            self.leave()
        function_type = self.module.type(opcodes.Op.TypeFunction, self.void)
        number = function or self.module.new_id()
        words = self.module.function
        words += instruction(opcodes.Ins.Function, self.void, number, opcodes.FUNCTION_CONTROL_NONE, function_type)
        words += instruction(opcodes.Ins.Label, self.first_block) + self.variables + self.words
        words += instruction(opcodes.Ins.FunctionEnd)
        return number
