"""Build a SPIR-V module: sections in order, each id, type and constant declared once, words to bytes.

Source: SPIR-V 1.6, 2.2.1 (literals), 2.3 (physical layout), 2.4 (logical layout), 2.8 (types and variables: two declarations of
one type are not allowed, unless it is an aggregate).
"""

from __future__ import annotations

import array

from vyre_driver.spirv.opcodes import Decoration, Op

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
        self._memory_model = instruction(Op.MemoryModel, addressing, memory)

    def entry_point(self, model: int, function: int, name: str, interface: list[int]) -> None:
        """Declare an entry point with the variables of its interface."""
        self._entry_points += instruction(Op.EntryPoint, model, function, *literal_text(name), *interface)

    def execution_mode(self, function: int, mode: int, *operands: int) -> None:
        """Declare how an entry point runs."""
        self._modes += instruction(Op.ExecutionMode, function, mode, *operands)

    def string(self, text: str) -> int:
        """Declare a text, such as the name of a source file, once."""
        found = self._declared.get(text)
        if found is None:
            found = self._declared[text] = self.new_id()
            self._strings += instruction(Op.String, found, *literal_text(text))
        return found

    def name(self, target: int, text: str) -> int:
        """Give an id a name for people; returns the id."""
        self._names += instruction(Op.Name, target, *literal_text(text))
        return target

    def member_name(self, struct: int, member: int, text: str) -> None:
        """Give a member of a structure a name for people."""
        self._names += instruction(Op.MemberName, struct, member, *literal_text(text))

    def decorate(self, target: int, decoration: int, *operands: int) -> None:
        """Decorate an id."""
        self._decorations += instruction(Op.Decorate, target, decoration, *operands)

    def member_decorate(self, struct: int, member: int, decoration: int, *operands: int) -> None:
        """Decorate a member of a structure."""
        self._decorations += instruction(Op.MemberDecorate, struct, member, decoration, *operands)

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
                self.decorate(found, Decoration.ARRAY_STRIDE, stride)
        return found

    def struct_type(self, *members: int) -> int:
        """Declare a structure of its own, which may be decorated as no other."""
        result = self.new_id()
        self._globals += instruction(Op.TypeStruct, result, *members)
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
        self._globals += instruction(Op.Variable, pointer_type, result, storage_class, *initial)
        return result

    def build(self) -> bytes:
        """Return the module in the host's byte order."""
        words = [MAGIC, self.version, GENERATOR, self.bound, 0]
        for number in self._capabilities:
            words += instruction(Op.Capability, number)
        for name in self._extensions:
            words += instruction(Op.Extension, *literal_text(name))
        for name, result in self._imports.items():
            words += instruction(Op.ExtInstImport, result, *literal_text(name))
        words += self._memory_model + self._entry_points + self._modes + self._strings + self._names + self._decorations
        words += self._globals
        words += self.function
        return array.array("I", words).tobytes()
