"""The function being emitted: its instructions, each value once, what is known of values, and what compilers may not know.

A value is known where the block that computed it dominates: scopes follow the program's nesting, and closing one forgets what
it computed (a value numbering over the dominator tree). A value read from memory is known until its epoch ends.

Which u32 is certainly below which is what conditions on the way prove, and what follows from it (docs/lowering.md, "Bounds"). A
u32 is looked at as a base and a distance from it, ``i`` and -1 of ``i - 1``, where that cannot wrap; what is known of two bases
is how far one of them is below the other.

Source: SPIR-V 1.6, 2.11 (structured control flow), 2.16.1 (universal validation rules).
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias

from vyre_driver.checks import U32_MAX
from vyre_driver.lowering.emit.kinds import Form, Kind
from vyre_driver.spirv.builder import FunctionBody, ModuleBuilder
from vyre_driver.spirv.opcodes import FEATURE_OF_CAPABILITY, Capability, Glsl, Ins, Op

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.ir.terms import Term
    from vyre_driver.lowering.emit.blocks import LoopCuts
    from vyre_driver.lowering.emit.survey import Survey
    from vyre_driver.lowering.emit.target import LoweringTarget


FULL = (0, U32_MAX)
_LEAST = 0x8000_0000
_ALTERNATING, _PAIRS = 0x5555_5555, 0x3333_3333  # what differs from all ones, and from each other: equal zeros would cancel
# Instructions whose results are remembered with their operands.
_MADE = frozenset({Ins.IAdd, Ins.ISub, Ins.IMul, Ins.UMod, Ins.ExtInst})
_DEEPEST = 8  # of derivations; each axis of an array takes two


class Orders:
    """What is known of the order of u32 in the scope at hand."""

    def __init__(self, code: Code) -> None:
        """Know nothing."""
        self._code = code
        self._below: dict[int, dict[int, int]] = {}  # by the base above: bases with m where base + m < base above
        self.changes: list[tuple[int, int, int | None]] = []  # of the scope at hand: two bases, and what was known before

    def know_below(self, left: int, right: int, slack: int = 0) -> None:
        """Note that ``left < right + slack`` as long as the scope is open, and what that says of their ranges."""
        code = self._code
        (one, add), (other, plus) = self._parts(left), self._parts(right)
        known, margin = self._below.setdefault(other, {}), add - plus - slack
        before = known.get(one)
        if one != other and (before is None or before < margin):
            self.changes.append((one, other, before))
            known[one] = margin
        least, most = code.range_of(left)[0], code.range_of(right)[1]
        for value, high in ((left, most + slack - 1), (one, most + slack - 1 - add)):
            if high >= 0:
                code.narrow(value, 0, min(high, U32_MAX))
        for value, low in ((right, least + 1 - slack), (other, least + 1 - slack - plus)):
            if 0 < low <= U32_MAX:
                code.narrow(value, low, U32_MAX)

    def forget(self, changes: list[tuple[int, int, int | None]]) -> None:
        """Take back what a scope has noted."""
        for one, other, before in reversed(changes):
            if before is None:
                del self._below[other][one]
            else:
                self._below[other][one] = before

    def is_below(self, left: int, right: int, depth: int = 0) -> bool:
        """Return whether one u32 is certainly less than another."""
        code = self._code
        if code.range_of(left)[1] < code.range_of(right)[0] or self._is_apart(left, right):
            return True
        depth += 1
        return depth <= _DEEPEST and (self._is_made_below(left, right, depth) or self._is_place_below(left, right, depth))

    def _is_apart(self, left: int, right: int) -> bool:
        """Whether what is known of the bases proves it, at once or over one other base."""
        (one, add), (other, plus) = self._parts(left), self._parts(right)
        wanted = add - plus
        if one == other:
            return wanted < 0
        above = self._below.get(other, {})
        if above.get(one, wanted - 1) >= wanted:
            return True
        # one + first < middle and middle + second < other
        between = ((self._below.get(middle, {}).get(one), second) for middle, second in above.items())
        return any(first is not None and first + second + 1 >= wanted for first, second in between)

    def _is_made_below(self, left: int, right: int, depth: int) -> bool:
        """Whether it follows from the operator that made the lesser one, or its base."""
        base, add = self._parts(left)
        if add < 0 and self.is_below(base, right, depth):
            return True
        opcode, operands = self._made(left)
        if opcode == Ins.ExtInst and operands[1] == Glsl.UMin:
            return any(self.is_below(one, right, depth) for one in operands[2:])
        if opcode == Ins.UMod and self._code.range_of(operands[1])[0]:
            return operands[1] == right or self.is_below(operands[1], right, depth)
        return False

    def _is_place_below(self, left: int, right: int, depth: int) -> bool:
        """Whether one is ``a * c + b``, and the other no less than ``r * c``, which does not wrap, with a < r and b < c."""
        code = self._code
        row_and_column = self._row_and_column(left)
        if row_and_column is None:
            return False
        (row, count), column = row_and_column
        for product in (right, *(one for one, margin in self._below.get(right, {}).items() if margin >= -1)):
            opcode, sides = self._made(product)
            if opcode != Ins.IMul or not self._is_exact(*sides):
                continue
            for factor, rows, columns in (
                (factor, rows, columns)
                for factor, columns in ((row, count), (count, row))
                for rows, width in (sides, sides[::-1])
                if width == columns
            ):
                fits = code.range_of(columns)[0] > 0 if column is None else self.is_below(column, columns, depth)
                if fits and self.is_below(factor, rows, depth):
                    return True
        return False

    def _row_and_column(self, place: int) -> tuple[tuple[int, int], int | None] | None:
        """Return the factors of the product in a place, and what is added to it."""
        opcode, operands = self._made(place)
        if opcode == Ins.IMul:
            return (operands[0], operands[1]), None
        if opcode == Ins.IAdd:
            for product, column in (operands, operands[::-1]):
                inner, factors = self._made(product)
                if inner == Ins.IMul:
                    return (factors[0], factors[1]), column
        return None

    def _is_exact(self, left: int, right: int) -> bool:
        """Whether a product does not wrap: by the ranges, or because its upper word is known to be 0."""
        code = self._code
        if code.range_of(left)[1] * code.range_of(right)[1] <= U32_MAX:
            return True
        uppers = (code.recall(("upper word", *sides)) for sides in ((left, right), (right, left)))
        return any(upper is not None and not code.range_of(upper)[1] for upper in uppers)

    def _made(self, value: int) -> tuple[int, tuple[int, ...]]:
        opcode, _, *operands = self._code.made.get(value, (0, 0))
        return opcode, tuple(operands)

    def _parts(self, value: int) -> tuple[int, int]:
        """Return a base, and the distance of a u32 from it, where the sum or difference does not wrap."""
        code, distance = self._code, 0
        while True:
            opcode, operands = self._made(value)
            if opcode not in {Ins.IAdd, Ins.ISub}:
                return value, distance
            base, by = operands
            if opcode == Ins.IAdd and code.range_of(base)[0] == code.range_of(base)[1]:
                base, by = by, base
            (low, high), (step, most) = code.range_of(base), code.range_of(by)
            if step != most or (high + step > U32_MAX if opcode == Ins.IAdd else low < step):
                return value, distance
            value, distance = base, distance + (step if opcode == Ins.IAdd else -step)


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
        self.hidden: dict[int, int] = {}  # what a word or an i32 that is hidden is made of, a word
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
            if opcode in _MADE and type_id == self.u32:
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
        elif opcode in _COMPARISONS:
            swapped, strict = _COMPARISONS[opcode]
            low, high = operands if swapped != holds else operands[::-1]
            self.orders.know_below(low, high, 0 if strict == holds else 1)

    # What no compiler is to know: docs/lowering.md, "Drivers"; SPIR-V 1.6, OpArrayLength

    def hide(self, word: int) -> int:
        """Return a u32 of which no compiler knows anything.

        It is an exclusive or with the zero that says whether a buffer without elements is bound, which none is.
        """
        return self._hidden_by(word, U32_MAX)

    def hide_number(self, word: int) -> int:
        """Return a u32 that is made of a bool, hidden by a zero of its own; twice the same zero would cancel.

        So is one of two constants. NVIDIA's compiler (580.159.04 on an H200) takes the bool for -1 where a comparison of the
        number leads, or a borrow.
        """
        return self._hidden_by(word, _ALTERNATING)

    def hide_flag(self, word: int) -> int:
        """Return a u32, hidden if it can be 0 or 1 only: it may be made of a bool."""
        return self.hide(word) if self.range_of(word)[1] <= 1 else word

    def hidden_constant(self, value: int) -> int:
        """Return a u32 that no compiler knows, where the program has a buffer to hide it by."""
        return self._hidden_constant(value, 0 if value else U32_MAX)

    def hidden_float_bits(self, bits: int) -> int:
        """Return the bits of an f32 constant as a u32 that no compiler knows, nor when it is hidden once more."""
        return self._hidden_constant(bits, bits ^ _PAIRS)

    def _hidden_constant(self, value: int, otherwise: int) -> int:
        """Return a constant, which would be ``otherwise`` in a buffer without elements."""
        if not self.measured:
            return self.const(value)
        key, other = ("hidden constant", value, otherwise), self.const(otherwise)
        return self.early(key, Ins.Select, self.u32, self._is_empty(), other, self.const(value))

    def hide_form(self, form: Form, value: int, hide: Callable[[int], int] | None = None) -> int:
        """Return a number of 32 or 64 bits of which no compiler knows anything, its words hidden as by :meth:`hide`."""
        hidden = hide or self.hide
        if form in {Form.WIDE, Form.UVEC2}:
            low, high = self.words_of(value)
            return self.pair(hidden(low), hidden(high))
        if form is Form.U32:
            return hidden(value)
        return self.op(Ins.Bitcast, self.type_of(form), hidden(self.bits(value)))

    def _hidden_by(self, word: int, otherwise: int) -> int:
        """Return a u32 exclusive or a zero, which would be ``otherwise`` in a buffer without elements."""
        low, high = self.range_of(word)
        if low == high or word in self.hidden or not self.measured:
            return word
        zero = self.early(
            ("hidden zero", otherwise), Ins.Select, self.u32, self._is_empty(), self.const(otherwise), self.const(0)
        )
        result = self.op(Ins.BitwiseXor, self.u32, word, zero)
        self.hidden[result] = word
        return self.narrow(result, low, high)

    def _is_empty(self) -> int:
        """Return whether a buffer has no elements: it has some, which no compiler can know."""
        length = self.early("length of a buffer", Ins.ArrayLength, self.u32, self.measured, 0)
        return self.early("a buffer is empty", Ins.IEqual, self.bool, length, self.const(0))

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
_COMPARISONS = {
    Ins.ULessThan: (False, True),
    Ins.UGreaterThan: (True, True),
    Ins.ULessThanEqual: (False, False),
    Ins.UGreaterThanEqual: (True, False),
}
