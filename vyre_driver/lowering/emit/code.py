"""The function being emitted: its instructions, each value once, what is known of values, and their blocks.

A value is known where the block that computed it dominates: scopes follow the program's nesting, and closing one forgets what
it computed (a value numbering over the dominator tree). A value read from memory is known until its epoch ends.

Source: SPIR-V 1.6, 2.11 (structured control flow), 2.16.1 (universal validation rules).
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias

from vyre_driver.checks import U32_MAX
from vyre_driver.lowering.emit.kinds import Form, Kind
from vyre_driver.lowering.emit.orders import MADE, Orders
from vyre_driver.spirv.body import FunctionBody
from vyre_driver.spirv.instructions import Ins
from vyre_driver.spirv.opcodes import FEATURE_OF_CAPABILITY, Capability, Op

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.ir.terms import Term
    from vyre_driver.lowering.emit.loop_cuts import LoopCuts
    from vyre_driver.lowering.emit.survey import Survey
    from vyre_driver.lowering.emit.target import LoweringTarget
    from vyre_driver.spirv.builder import ModuleBuilder

FULL = (0, U32_MAX)
_LEAST = 0x8000_0000


class Value(NamedTuple):
    """A computed value: its id, and how it is held."""

    id: int
    kind: Kind


class Choice(NamedTuple):
    """An f32 known by a condition: one value where it holds, another where it does not."""

    condition: int
    yes: Known
    no: Known


Known: TypeAlias = "int | Choice"
"""What is known of an f32: its bits, or what decides between several."""


class CannotLower(Exception):
    """Raised inside the emitter: this term cannot be lowered, and why; the entry makes an UnsupportedFeature of it."""

    def __init__(self, term: Term | None, problem: str, needs: str) -> None:
        """Keep the term whose path is wanted (None: the statement), what is wrong, and what would be needed."""
        super().__init__(problem)
        self.term = term
        self.problem = problem
        self.needs = needs


def cannot(term: Term | None, problem: str, needs: str) -> NoReturn:
    """Refuse a term."""
    raise CannotLower(term, problem, needs)


class Code(FunctionBody):
    """The body of ``main``; see the module."""

    def __init__(self, module: ModuleBuilder, target: LoweringTarget, uses: Survey) -> None:
        """Begin with an empty block."""
        super().__init__(module)
        self.target = target
        self.uses = uses
        self.features: set[str] = set()
        self.prologue: list[int] = []
        self.line: tuple[int, ...] = ()  # the instruction that says where in a source each block goes on
        self.ranges: dict[int, tuple[int, int]] = {}
        self.unfoldable: set[int] = set()  # f32 of which no compiler knows the value
        self.canonical: set[int] = set()  # floats that are not subnormals
        self.floats: dict[int, Known] = {}  # those that are known; a specialization constant is not
        self._known: dict[object, int] = {}
        self.made: dict[int, tuple[int, ...]] = {}  # how u32 were computed: opcode, type, operands
        self.orders = Orders(self)
        self._conditions: dict[int, tuple[int, ...]] = {}
        self._words: dict[int, int] = {}
        self._signed: dict[int, int] = {}
        self.measured = 0  # the variable of a buffer that has an element for certain
        self.is_specialized = False
        self.loops = 0  # that the block is in
        self.loop_cuts: LoopCuts | None = None  # where the driver may cut one of the program's loops
        self.hidden: dict[int, int] = {}  # what a word or an i32 that is hidden is made of, a word (hiding.py)
        # What the scopes have to forget, the innermost last: keys of _known, and what facts were before.
        self._keys: list[object] = []
        self._facts: list[tuple[int, tuple[int, int] | None]] = []

    # Types and constants

    @cached_property
    def f64(self) -> int:
        """The type of double floats."""
        self.require(Capability.Float64)
        return self.module.type(Op.TypeFloat, 64)

    def vector(self, count: int, component: int | None = None) -> int:
        """Return the type of vectors, of u32 unless another component is given."""
        return self.module.type(Op.TypeVector, self.u32 if component is None else component, count)

    @cached_property
    def has_wide(self) -> bool:
        """Whether the device has integers of 64 bits of its own, by which it divides."""
        return "shaderInt64" in self.target.features

    @cached_property
    def u64(self) -> int:
        """The type of 64-bit integers, where the device has them."""
        self.require(Capability.Int64)
        return self.module.type(Op.TypeInt, 64, 0)

    def type_of(self, form: Form) -> int:
        """Return the type of what a form holds."""
        match form:
            case Form.U32:
                return self.u32
            case Form.I32:
                return self.i32
            case Form.F32:
                return self.f32
            case Form.BOOL:
                return self.bool
            case Form.UVEC4:
                return self.vector(4)
        return self.vector(2)

    def const(self, value: int) -> int:
        """Return a u32."""
        result = self._words.get(value)
        if result is None:
            result = self._words[value] = self.module.constant(Op.Constant, self.u32, value)
            self.ranges[result] = (value, value)
        return result

    def const_vector(self, *values: int) -> int:
        """Return a vector of u32, of which :meth:`words_of` gives the constants."""
        words = [self.const(value) for value in values]
        result = self.module.constant(Op.ConstantComposite, self.vector(len(words)), *words)
        for place, word in enumerate(words):
            self.keep((Ins.CompositeExtract, self.u32, result, place), word)
        return result

    def const_i32(self, value: int) -> int:
        """Return an i32, by its bits or as a negative number."""
        result = self.module.constant(Op.Constant, self.i32, value & U32_MAX)
        self._signed[result] = (value & U32_MAX ^ _LEAST) - _LEAST
        return result

    def signed_value(self, operand: int) -> int | None:
        """Return the number that an i32 is, None where it is not a constant or one that may be specialized."""
        return self._signed.get(operand)

    def const_f32(self, bits: int) -> int:
        """Return an f32 by its bits."""
        result = self.module.constant(Op.Constant, self.f32, bits)
        self.floats[result] = bits
        return self.normal(result) if bits & 0x7F80_0000 or not bits & 0x7FFF_FFFF else result

    def const_bool(self, *, value: bool) -> int:
        """Return a bool."""
        return self.module.constant(Op.ConstantTrue if value else Op.ConstantFalse, self.bool)

    def zero(self, form: Form) -> int:
        """Return the zero of a form."""
        if form is Form.BOOL:
            return self.const_bool(value=False)
        if form is Form.F32:
            return self.const_f32(0)
        if form in {Form.WIDE, Form.UVEC2, Form.UVEC4}:
            return self.const_vector(*(0,) * (4 if form is Form.UVEC4 else 2))
        return self.const(0) if form is Form.U32 else self.const_i32(0)

    def require(self, capability: Capability) -> None:
        """Declare a capability, and note the device feature that the code relies on with it."""
        self.features.add(FEATURE_OF_CAPABILITY[capability])
        self.module.capability(capability)

    # Instructions

    def op(self, opcode: int, type_id: int, *operands: int) -> int:
        """Return the result of an instruction without side effects; one that was computed already is not again."""
        key = (opcode, type_id, *operands)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.result(opcode, type_id, *operands)
            self._keys.append(key)
            if opcode in MADE and type_id == self.u32:
                self.made[found] = key
        return found

    def remember(self, key: object, made: int) -> int:
        """Note a value under a key as long as the scope is open; returns it."""
        self._keys.append(key)
        self._known[key] = made
        return made

    def keep(self, key: object, made: int) -> int:
        """Note what is declared outside the function under a key; returns it."""
        self._known[key] = made
        return made

    def recall(self, key: object) -> int | None:
        """Return the value that is known under a key."""
        return self._known.get(key)

    def bits(self, operand: int) -> int:
        """Return the bits of an i32 or f32 as a u32."""
        return self.op(Ins.Bitcast, self.u32, operand)

    def words_of(self, vector: int, count: int = 2) -> list[int]:
        """Return the u32 that a vector, or a structure, is made of."""
        return [self.op(Ins.CompositeExtract, self.u32, vector, place) for place in range(count)]

    def pair(self, low: int, high: int) -> int:
        """Return a vector of two u32, which :meth:`words_of` gives again."""
        result = self.op(Ins.CompositeConstruct, self.vector(2), low, high)
        for place, word in enumerate((low, high)):
            self.remember((Ins.CompositeExtract, self.u32, result, place), word)
        return result

    def early(self, key: object, opcode: int, type_id: int, *operands: int) -> int:
        """Return a value that is loaded at the function's head, once, and known everywhere."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.module.new_id()
            self.prologue += [len(operands) + 3 << 16 | opcode, type_id, found, *operands]
        return found

    def select(self, form: Form, condition: int, yes: int, no: int) -> int:
        """Return one value or the other; a vector takes a condition for each component before SPIR-V 1.4."""
        type_id = self.type_of(form)
        count = 4 if form is Form.UVEC4 else 2 if form in {Form.UVEC2, Form.WIDE} else 1
        if count > 1:
            condition = self.op(Ins.CompositeConstruct, self.vector(count, self.bool), *(condition,) * count)
        return self.op(Ins.Select, type_id, condition, yes, no)

    # What is known of values

    def range_of(self, value: int) -> tuple[int, int]:
        """Return the least and the greatest that a u32 can be here."""
        return self.ranges.get(value, FULL)

    def narrow(self, value: int, low: int, high: int) -> int:
        """Note bounds of a u32 that hold as long as the scope is open; returns it."""
        old = self.ranges.get(value)
        least, most = old or FULL
        new = max(low, least), min(high, most)
        if new != old and new[0] <= new[1]:
            self._facts.append((value, old))
            self.ranges[value] = new
        return value

    def normal(self, value: int) -> int:
        """Note that a float is not a subnormal; returns it."""
        self.canonical.add(value)
        return value

    def note_condition(self, condition: int, *facts: int) -> None:
        """Remember what a condition compares, for :meth:`assume`: an opcode and its operands."""
        self._conditions[condition] = facts

    def assume(self, condition: int, *, holds: bool) -> None:
        """Take a condition for true, or false, as long as the scope is open."""
        opcode, *operands = self._conditions.get(condition, (0,))
        if opcode == Ins.LogicalNot:
            self.assume(operands[0], holds=not holds)
        elif opcode == (Ins.LogicalAnd if holds else Ins.LogicalOr):
            for one in operands:
                self.assume(one, holds=holds)
        elif opcode == Ins.IEqual and holds:
            self.narrow(operands[0], *self.range_of(operands[1]))
            self.orders.know_below(operands[0], operands[1], 1)
            self.orders.know_below(operands[1], operands[0], 1)
        elif opcode in _ORDERS:
            swapped, strict = _ORDERS[opcode]
            low, high = operands if swapped != holds else operands[::-1]
            self.orders.know_below(low, high, 0 if strict == holds else 1)

    # Blocks

    def at_line(self, file: str, line: int, column: int) -> None:
        """Say where in a source what follows comes from."""
        self.line = (4 << 16 | Ins.Line, self.module.string(file), line, column)
        self.words += self.line

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget at the end what was computed and noted inside."""
        outer, self._keys = self._keys, []
        facts, self._facts = self._facts, []
        changes, self.orders.changes = self.orders.changes, []
        try:
            yield
        finally:
            for key in self._keys:
                self._known.pop(key, None)
            for value, old in reversed(self._facts):
                if old is None:
                    self.ranges.pop(value, None)
                else:
                    self.ranges[value] = old
            self.orders.forget(self.orders.changes)
            self._keys, self._facts, self.orders.changes = outer, facts, changes

    def label(self, block: int) -> None:
        """Begin a block."""
        super().label(block)
        self.words += self.line

    def end(self, function: int = 0) -> int:
        """End the function, and define it in the module with this id or a new one; returns the id."""
        self.words[:0] = self.prologue
        return super().end(function)


# Whether the greater stands first, and whether the two may not be equal.
_ORDERS = {
    int(Ins.ULessThan): (False, True),
    int(Ins.UGreaterThan): (True, True),
    int(Ins.ULessThanEqual): (False, False),
    int(Ins.UGreaterThanEqual): (True, False),
}
