"""Emit expressions: on demand, operands from left to right, and once as long as no write comes between.

Of a program's variables those never assigned become values, the others variables of the function. The size of a subgroup is
the device's choice.

Source: spec items 1.6 and 1.7; SPIR-V 1.6, 3.42.24 (non-uniform instructions).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vyre_driver.checks import U32_MAX
from vyre_driver.ir import expressions as ex
from vyre_driver.ir.arithmetic import Binary, LitBool, LitF32, LitI32, LitU32, OpaqueExpr, Unary, Var
from vyre_driver.ir.dtypes import WIDE_LITERALS
from vyre_driver.ir.extensions import EXTENSIONS, Application, application
from vyre_driver.ir.functions.bodies import body_of
from vyre_driver.ir.operators import SubgroupOp
from vyre_driver.ir.terms import Traits
from vyre_driver.lowering.emit import casts, floats, integers, operators, wide
from vyre_driver.lowering.emit.code import Code, Value, cannot
from vyre_driver.lowering.emit.floats import hidden_float, with_its_sign
from vyre_driver.lowering.emit.kinds import BOOL, F32, I32, U32, Form, Kind, kind_of
from vyre_driver.lowering.emit.memory import Memory, Place
from vyre_driver.spirv.opcodes import GROUP_REDUCE, BuiltIn, Capability, Ins, Op, Scope, StorageClass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_PART_BITS = 16
_BITS = {SubgroupOp.AND: Ins.GroupNonUniformBitwiseAnd, SubgroupOp.OR: Ins.GroupNonUniformBitwiseOr}
_BITS |= {SubgroupOp.XOR: Ins.GroupNonUniformBitwiseXor}
_WHOLE = _BITS | {SubgroupOp.ADD: Ins.GroupNonUniformIAdd, SubgroupOp.MUL: Ins.GroupNonUniformIMul}
_OF_FORM = {
    Form.U32: _WHOLE | {SubgroupOp.MIN: Ins.GroupNonUniformUMin, SubgroupOp.MAX: Ins.GroupNonUniformUMax},
    Form.I32: _WHOLE | {SubgroupOp.MIN: Ins.GroupNonUniformSMin, SubgroupOp.MAX: Ins.GroupNonUniformSMax},
    Form.F32: {
        SubgroupOp.ADD: Ins.GroupNonUniformFAdd,
        SubgroupOp.MUL: Ins.GroupNonUniformFMul,
        SubgroupOp.MIN: Ins.GroupNonUniformFMin,
        SubgroupOp.MAX: Ins.GroupNonUniformFMax,
    },
}
_REDUCTIONS = {(op, form): number for form, numbers in _OF_FORM.items() for op, number in numbers.items()}


def _reduce(code: Code, term: ex.SubgroupReduce, value: Value) -> Value:
    """Return the values of the active invocations, combined; of floats in the device's order."""
    code.module.capability(Capability.GroupNonUniform)
    code.module.capability(Capability.GroupNonUniformArithmetic)
    scope = code.const(Scope.SUBGROUP)
    form = value.kind.form
    instruction = _REDUCTIONS.get((term.op, form)) if value.kind.computes else None
    if value.kind == F32 and instruction is not None:
        clean = floats.flushed(code, value.id)
        result = code.result(instruction, code.f32, scope, GROUP_REDUCE, clean)
        return Value(floats.flushed(code, result), F32)
    if form is Form.WIDE and value.kind.computes and term.op is not SubgroupOp.MUL:
        return Value(_reduce_wide(code, term.op, value.id, scope), value.kind)
    if instruction is None:
        types = (
            "u32, i32 or f32"
            if term.op is SubgroupOp.MUL
            else "u32, i32 or u64"
            if term.op in _BITS
            else "u32, i32, u64 or f32"
        )
        cannot(term, f"a subgroup reduction by {term.op.name} of {value.kind.name}", types)
    return Value(code.result(instruction, code.type_of(form), scope, GROUP_REDUCE, value.id), value.kind)


def _reduce_wide(code: Code, op: SubgroupOp, operand: int, scope: int) -> int:
    """Return a reduction of u64 of those of their words; no subgroup instruction takes the pairs of words that they are."""

    def reduced(word: int) -> int:
        return code.result(_OF_FORM[Form.U32][op], code.u32, scope, GROUP_REDUCE, word)

    if op is SubgroupOp.ADD:
        return _add_wide(code, operand, scope)
    low, high = code.words_of(operand)
    best = reduced(high)
    if op in (SubgroupOp.MIN, SubgroupOp.MAX):  # the lower words of those whose upper word is the best decide
        is_best = code.op(Ins.IEqual, code.bool, high, best)
        low = code.op(Ins.Select, code.u32, is_best, low, code.const(0 if op is SubgroupOp.MAX else U32_MAX))
    return code.pair(reduced(low), best)


def _add_wide(code: Code, operand: int, scope: int) -> int:
    """Return a sum of u64 of four sums of 16 bits each: no subgroup is so large that one of them passes a word."""
    total = wide.constant(code, 0)
    mask, shift = code.const((1 << _PART_BITS) - 1), code.const(_PART_BITS)
    for place, word in enumerate(code.words_of(operand)):
        parts = code.op(Ins.BitwiseAnd, code.u32, word, mask), code.op(Ins.ShiftRightLogical, code.u32, word, shift)
        sums = [code.result(Ins.GroupNonUniformIAdd, code.u32, scope, GROUP_REDUCE, part) for part in parts]
        for upper, one in enumerate(sums):
            low = code.op(Ins.ShiftLeftLogical, code.u32, one, shift) if upper else one
            high = code.op(Ins.ShiftRightLogical, code.u32, one, shift) if upper else code.const(0)
            pair = (code.const(0), low) if place else (low, high)
            total = wide.add(code, total, code.pair(*pair))
    return total


def _ballot(code: Code, condition: int) -> Value:
    """Return a bit for each of the first 32 invocations whose condition holds."""
    code.module.capability(Capability.GroupNonUniform)
    code.module.capability(Capability.GroupNonUniformBallot)
    bits = code.result(Ins.GroupNonUniformBallot, code.vector(4), code.const(Scope.SUBGROUP), condition)
    return Value(code.op(Ins.CompositeExtract, code.u32, bits, 0), U32)


def _shuffle(code: Code, value: Value, lane: int, size: int) -> Value:
    """Return the value of another invocation; zero where the subgroup has none of that number, or none that is active.

    SPIR-V leaves the result of a shuffle from an inactive invocation undefined: a subgroup that its workgroup does not fill has
    such, and a compiler may take the result for any number.
    """
    code.module.capability(Capability.GroupNonUniform)
    code.module.capability(Capability.GroupNonUniformBallot)
    code.module.capability(Capability.GroupNonUniformShuffle)
    scope, zero = code.const(Scope.SUBGROUP), code.const(0)
    possible = code.op(Ins.ULessThan, code.bool, lane, size)
    safe = code.op(Ins.Select, code.u32, possible, lane, zero)
    active = code.result(Ins.GroupNonUniformBallot, code.vector(4), scope, code.const_bool(value=True))
    answers = code.result(Ins.GroupNonUniformBallotBitExtract, code.bool, scope, active, safe)
    inside = code.op(Ins.LogicalAnd, code.bool, possible, answers)
    words = casts.words_of(code, value)
    moved = [code.result(Ins.GroupNonUniformShuffle, code.u32, scope, word, safe) for word in words]
    kept = [code.op(Ins.Select, code.u32, inside, word, zero) for word in moved]
    form = value.kind.form
    if form is Form.BOOL:
        return Value(code.op(Ins.INotEqual, code.bool, kept[0], zero), value.kind)
    if form is Form.WIDE:
        return Value(code.pair(*kept), value.kind)
    if form in {Form.UVEC2, Form.UVEC4}:
        return Value(code.op(Ins.CompositeConstruct, code.type_of(form), *kept), value.kind)
    return Value(kept[0] if form is Form.U32 else code.op(Ins.Bitcast, code.type_of(form), kept[0]), value.kind)


@dataclass(slots=True)
class _Slot:
    """A variable of the function; ``version`` changes with its contents."""

    variable: int
    kind: Kind
    is_canonical: bool
    version: int = 0


class Variables:
    """The variables in sight, by name."""

    def __init__(self, code: Code) -> None:
        """Begin without any."""
        self._code = code
        self._in_sight: dict[str, Value | _Slot] = {}
        self._outside: list[dict[str, Value | _Slot | None]] = []
        self._versions = 0
        self._hides = False

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Take the variables that are declared inside out of sight at the end."""
        self._outside.append({})
        yield
        for name, before in self._outside.pop().items():
            if before is None:
                del self._in_sight[name]
            else:
                self._in_sight[name] = before

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide from the device's compiler what is read inside of variables that are assigned."""
        self._hides = True
        yield
        self._hides = False

    def declare(self, name: str, value: Value) -> None:
        """Declare a variable."""
        self._outside[-1].setdefault(name, self._in_sight.get(name))
        code = self._code
        if name not in code.uses.assigned:
            self._in_sight[name] = value
            return
        variable = code.module.name(code.variable(code.type_of(value.kind.form)), name)
        is_canonical = value.kind.form is Form.F32 and name not in code.uses.uncomputed and code.target.flushes_by_bits
        slot = self._in_sight[name] = _Slot(variable, value.kind, is_canonical=is_canonical)
        self._put(slot, value)

    def assign(self, name: str, value: Value) -> None:
        """Give a declared variable another value."""
        slot = self._in_sight[name]
        if not isinstance(slot, _Slot) or slot.kind != value.kind:
            cannot(None, f"an assignment of {value.kind.name} to {name!r}", f"a value of {slot.kind.name}")
        self._put(slot, value)

    def _put(self, slot: _Slot, value: Value) -> None:
        code, stored = self._code, value.id
        if value.kind.form is Form.F32 and code.target.strict:
            stored = hidden_float(code, with_its_sign(code, stored))  # or a compiler finds a constant when it unrolls a loop
        code.effect(Ins.Store, slot.variable, stored)
        self._renew(slot)
        code.remember((slot.variable, slot.version), stored)

    def read(self, name: str) -> Value:
        """Return the value of a variable."""
        slot = self._in_sight[name]
        if isinstance(slot, Value):
            return slot
        code, key = self._code, (slot.variable, slot.version)
        found = code.recall(key)
        if found is None:
            found = code.remember(key, code.result(Ins.Load, code.type_of(slot.kind.form), slot.variable))
            if slot.is_canonical:
                code.normal(found)
            if self._hides and code.loop_cuts is not None:
                found = code.remember(key, code.loop_cuts.hidden_value(slot.kind.form, found))
            if slot.kind.form is Form.F32 and code.target.strict:
                code.unfoldable.add(found)
        return Value(found, slot.kind)

    def forget(self) -> None:
        """Take every variable for changed, as at the head of a loop."""
        for slot in self._in_sight.values():
            if isinstance(slot, _Slot):
                self._renew(slot)

    def _renew(self, slot: _Slot) -> None:
        self._versions += 1
        slot.version = self._versions


_NOWHERE = LitU32(U32_MAX)  # no buffer has so many elements
_IDS = {
    ex.InvocationId: (BuiltIn.GLOBAL_INVOCATION_ID, "gl_GlobalInvocationID"),
    ex.WorkgroupId: (BuiltIn.WORKGROUP_ID, "gl_WorkGroupID"),
    ex.LocalId: (BuiltIn.LOCAL_INVOCATION_ID, "gl_LocalInvocationID"),
}


class Builtins:
    """The built-in inputs: declared when first used."""

    def __init__(self, code: Code) -> None:
        """Declare nothing yet."""
        self._code = code
        self.interface: dict[int, int] = {}

    def variable(self, built_in: BuiltIn, name: str, type_id: int) -> int:
        """Return an input variable."""
        found = self.interface.get(built_in)
        if found is None:
            module = self._code.module
            pointer = module.type(Op.TypePointer, StorageClass.INPUT, type_id)
            found = module.name(module.global_variable(pointer, StorageClass.INPUT), name)
            module.decorate(found, 11, built_in)
            self.interface[built_in] = found
        return found

    def axis(self, built_in: BuiltIn, name: str, axis: int) -> int:
        """Return one component of a vector of three."""
        code = self._code
        known = code.recall((name, axis))
        if known is not None:
            return known
        vector = self.variable(built_in, name, code.vector(3))
        pointer = code.module.type(Op.TypePointer, StorageClass.INPUT, code.u32)
        place = code.early((name, axis, "place"), Ins.AccessChain, pointer, vector, code.const(axis))
        return code.early((name, axis), Ins.Load, code.u32, place)

    def scalar(self, built_in: BuiltIn, name: str) -> int:
        """Return a number."""
        code = self._code
        known = code.recall(name)
        return code.early(name, Ins.Load, code.u32, self.variable(built_in, name, code.u32)) if known is None else known


class Expressions:
    """Gives the value of any expression."""

    def __init__(self, code: Code, memory: Memory, size: tuple[int, int, int]) -> None:
        """Emit into ``code``; ``size`` is the workgroup's."""
        self._code = code
        self._size = size
        self.memory = memory
        self.variables = Variables(code)
        self.builtins = Builtins(code)
        self._memo: dict[int, Value] = {}
        handlers: dict[type[ex.Expr], Callable[[Any], Value]] = {
            LitU32: lambda term: Value(code.const(term.value), U32),
            LitI32: lambda term: Value(code.const_i32(term.value), I32),
            LitF32: lambda term: Value(code.const_f32(term.bits), F32),
            LitBool: lambda term: Value(code.const_bool(value=term.value), BOOL),
            OpaqueExpr: self._opaque,
            Var: lambda term: self.variables.read(term.name),
            ex.BufLen: lambda term: Value(memory.buffers.length(term.buffer), U32),
            ex.Load: lambda term: memory.load(term, term.buffer, self.place(term.index)),
            ex.InvocationId: self._index,
            ex.WorkgroupId: self._index,
            ex.LocalId: self._index,
            Binary: self._binary,
            Unary: lambda term: operators.unary(code, term, term.op, self.value(term.operand)),
            ex.Select: self._select,
            ex.Cast: self._cast,
            ex.Fma: self._fma,
            ex.Atomic: self._atomic,
            ex.Call: self._call,
            ex.BufferRef: lambda term: cannot(term, f"the buffer {term.buffer!r} as a value", "a load of one of its elements"),
            ex.SubgroupReduce: lambda term: _reduce(code, term, self.value(term.value)),
            ex.SubgroupShuffle: self._shuffle,
            ex.SubgroupBallot: lambda term: _ballot(code, self.condition(term.cond)),
            ex.SubgroupLocalId: lambda _: self._subgroup_fact(BuiltIn.SUBGROUP_LOCAL_INVOCATION_ID, "gl_SubgroupInvocationID"),
            ex.SubgroupSize: lambda _: self._subgroup_fact(BuiltIn.SUBGROUP_SIZE, "gl_SubgroupSize"),
        }
        self._handlers = handlers

    def value(self, term: ex.Expr) -> Value:
        """Return the value of an expression."""
        found = self._memo.get(id(term))
        if found is not None:
            return found
        result = self._handlers[type(term)](term)
        if term.traits & Traits.NO_WRITES:
            self._memo[id(term)] = result
        else:
            self._memo.clear()
        return result

    def place(self, term: ex.Expr) -> Place:
        """Return an index, and the condition without which it is out of range: of a select of an index or the greatest u32."""
        if isinstance(term, ex.Select) and term.false_value == _NOWHERE:
            within = self.condition(term.cond)
            inside = self.value(term.true_value)
            if inside.kind is U32:
                return Place(inside.id, within)
        return Place(self.value(term).id)

    def condition(self, term: ex.Expr) -> int:
        """Return whether a u32 or a bool holds, as a bool."""
        return casts.truth(self._code, self.value(term))

    def forget(self) -> None:
        """Begin another statement: what this one emitted may stand in a branch."""
        self._memo.clear()

    def _binary(self, term: Binary) -> Value:
        left = self.value(term.left)
        return operators.binary(self._code, term, term.op, left, self.value(term.right))

    def _index(self, term: ex.InvocationId | ex.WorkgroupId | ex.LocalId) -> Value:
        built_in, name = _IDS[type(term)]
        result = self.builtins.axis(built_in, name, term.axis)
        if isinstance(term, ex.LocalId):
            self._code.ranges.setdefault(result, (0, self._size[term.axis] - 1))
        return Value(result, U32)

    def _opaque(self, term: OpaqueExpr) -> Value:
        dtype = WIDE_LITERALS.get(term.kind)
        kind = None if dtype is None else kind_of(dtype)
        if kind is None:
            cannot(term, f"an expression of kind {term.kind!r}", "an extension that lowers it")
        return Value(wide.constant(self._code, int.from_bytes(term.payload, "little")), kind)

    def _select(self, term: ex.Select) -> Value:
        condition = self.condition(term.cond)
        yes, no = self.value(term.true_value), self.value(term.false_value)
        if yes.kind != no.kind:
            cannot(term, f"a select of {yes.kind.name} and {no.kind.name}", "two values of one type")
        if yes.kind.form is Form.I32:
            return Value(integers.choose_signed(self._code, condition, yes.id, no.id), yes.kind)
        if yes.kind.form is Form.F32:
            result = floats.select(self._code, condition, yes.id, no.id)
            floats.note_select(self._code, result, condition, yes.id, no.id)
            return Value(result, yes.kind)
        result = self._code.select(yes.kind.form, condition, yes.id, no.id)
        if yes.kind.form is Form.U32:
            (low, high), (least, most) = self._code.range_of(yes.id), self._code.range_of(no.id)
            self._code.narrow(result, min(low, least), max(high, most))
            if low == high and least == most:
                result = self._code.hide_number(result)
        return Value(result, yes.kind)

    def _cast(self, term: ex.Cast) -> Value:
        found = application(term)
        if found is not None:
            return self._extension(term, found)
        target = kind_of(term.target)
        value = self.value(term.value)
        if target is None:
            cannot(term, f"a cast to {term.target}", "a type of 8, 16, 32, 64 or 128 bits")
        operator = EXTENSIONS.get(f"{value.kind.name}_to_{target.name}")  # of the table only halves have one
        if operator is not None:
            return operators.apply(self._code, term, operator, [value])
        return casts.cast(self._code, term, value, target)

    def _extension(self, term: ex.Cast, found: Application) -> Value:
        """Return an operator of ours: by its body, with its operands in the place of the parameters, or by itself."""
        operands = [self.value(one) for one in found.operands]
        body = body_of(found.operator.name)
        if body is None:
            return operators.apply(self._code, term, found.operator, operands)
        self._memo.update(zip(map(id, body.parameters), operands, strict=True))
        for part in body.parts:
            result = self.value(part)
        for one in (*body.parameters, *body.parts):  # they stand for other values the next time
            del self._memo[id(one)]
        return result

    def _fma(self, term: ex.Fma) -> Value:
        operands = [self.value(one).id for one in (term.a, term.b, term.c)]
        return Value(floats.fma(self._code, *operands), F32)

    def _atomic(self, term: ex.Atomic) -> Value:
        index = self.place(term.index)
        expected = None if term.expected is None else self.value(term.expected).id
        return self.memory.atomic(term, index, expected, self.value(term.value).id)

    def _shuffle(self, term: ex.SubgroupShuffle) -> Value:
        value, lane = self.value(term.value), self.value(term.lane)
        size = self._subgroup_fact(BuiltIn.SUBGROUP_SIZE, "gl_SubgroupSize")
        return _shuffle(self._code, value, lane.id, size.id)

    def _subgroup_fact(self, built_in: BuiltIn, name: str) -> Value:
        self._code.module.capability(Capability.GroupNonUniform)
        return Value(self.builtins.scalar(built_in, name), U32)

    def _call(self, term: ex.Call) -> Value:
        cannot(term, f"a call of {term.op_id!r}", "the operation's body in place of the call, which ir.inline_calls puts there")
