"""Emit expressions: on demand, operands from left to right, and once as long as no write comes between.

Source: spec items 1.6 and 1.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.arithmetic import Binary, LitBool, LitF32, LitI32, LitU32, OpaqueExpr, Unary, Var
from vyre_driver.ir.expressions import (
    Atomic,
    BufferRef,
    BufLen,
    Call,
    Cast,
    Fma,
    InvocationId,
    Load,
    LocalId,
    Select,
    SubgroupBallot,
    SubgroupLocalId,
    SubgroupReduce,
    SubgroupShuffle,
    SubgroupSize,
    WorkgroupId,
)
from vyre_driver.ir.extensions import EXTENSIONS, application
from vyre_driver.ir.functions.bodies import body_of
from vyre_driver.ir.literal_types import WIDE_LITERALS
from vyre_driver.ir.terms import Traits
from vyre_driver.lowering.emit import casts, extensions, floats, folding, integers, operators, subgroups, wide
from vyre_driver.lowering.emit.code import Code, Value, cannot
from vyre_driver.lowering.emit.hiding import hide_number
from vyre_driver.lowering.emit.kinds import BOOL, F32, I32, U32, Form, kind_of
from vyre_driver.lowering.emit.memory import Place
from vyre_driver.lowering.emit.variables import Variables
from vyre_driver.spirv.instructions import Ins
from vyre_driver.spirv.opcodes import BuiltIn, Capability, Op, StorageClass

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.extensions import Application
    from vyre_driver.lowering.emit.memory import Memory

_NOWHERE = LitU32(U32_MAX)  # no buffer has so many elements
_IDS = {
    InvocationId: (BuiltIn.GLOBAL_INVOCATION_ID, "gl_GlobalInvocationID"),
    WorkgroupId: (BuiltIn.WORKGROUP_ID, "gl_WorkGroupID"),
    LocalId: (BuiltIn.LOCAL_INVOCATION_ID, "gl_LocalInvocationID"),
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
        handlers: dict[type[Expr], Callable[[Any], Value]] = {
            LitU32: lambda term: Value(code.const(term.value), U32),
            LitI32: lambda term: Value(code.const_i32(term.value), I32),
            LitF32: lambda term: Value(code.const_f32(term.bits), F32),
            LitBool: lambda term: Value(code.const_bool(value=term.value), BOOL),
            OpaqueExpr: self._opaque,
            Var: lambda term: self.variables.read(term.name),
            BufLen: lambda term: Value(memory.buffers.length(term.buffer), U32),
            Load: lambda term: memory.load(term, term.buffer, self.place(term.index)),
            InvocationId: self._index,
            WorkgroupId: self._index,
            LocalId: self._index,
            Binary: self._binary,
            Unary: lambda term: operators.unary(code, term, term.op, self.value(term.operand)),
            Select: self._select,
            Cast: self._cast,
            Fma: self._fma,
            Atomic: self._atomic,
            Call: self._call,
            BufferRef: lambda term: cannot(term, f"the buffer {term.buffer!r} as a value", "a load of one of its elements"),
            SubgroupReduce: lambda term: subgroups.reduce(code, term, self.value(term.value)),
            SubgroupShuffle: self._shuffle,
            SubgroupBallot: lambda term: subgroups.ballot(code, self.condition(term.cond)),
            SubgroupLocalId: lambda _: self._subgroup_fact(BuiltIn.SUBGROUP_LOCAL_INVOCATION_ID, "gl_SubgroupInvocationID"),
            SubgroupSize: lambda _: self._subgroup_fact(BuiltIn.SUBGROUP_SIZE, "gl_SubgroupSize"),
        }
        self._handlers = handlers

    def value(self, term: Expr) -> Value:
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

    def place(self, term: Expr) -> Place:
        """Return an index, and the condition without which it is out of range: of a select of an index or the greatest u32."""
        if isinstance(term, Select) and term.false_value == _NOWHERE:
            within = self.condition(term.cond)
            inside = self.value(term.true_value)
            if inside.kind is U32:
                return Place(inside.id, within)
        return Place(self.value(term).id)

    def condition(self, term: Expr) -> int:
        """Return whether a u32 or a bool holds, as a bool."""
        return casts.truth(self._code, self.value(term))

    def forget(self) -> None:
        """Begin another statement: what this one emitted may stand in a branch."""
        self._memo.clear()

    def _binary(self, term: Binary) -> Value:
        left = self.value(term.left)
        return operators.binary(self._code, term, term.op, left, self.value(term.right))

    def _index(self, term: InvocationId | WorkgroupId | LocalId) -> Value:
        built_in, name = _IDS[type(term)]
        result = self.builtins.axis(built_in, name, term.axis)
        if isinstance(term, LocalId):
            self._code.ranges.setdefault(result, (0, self._size[term.axis] - 1))
        return Value(result, U32)

    def _opaque(self, term: OpaqueExpr) -> Value:
        dtype = WIDE_LITERALS.get(term.kind)
        kind = None if dtype is None else kind_of(dtype)
        if kind is None:
            cannot(term, f"an expression of kind {term.kind!r}", "an extension that lowers it")
        return Value(wide.constant(self._code, int.from_bytes(term.payload, "little")), kind)

    def _select(self, term: Select) -> Value:
        condition = self.condition(term.cond)
        yes, no = self.value(term.true_value), self.value(term.false_value)
        if yes.kind != no.kind:
            cannot(term, f"a select of {yes.kind.name} and {no.kind.name}", "two values of one type")
        if yes.kind.form is Form.I32:
            return Value(integers.choose_signed(self._code, condition, yes.id, no.id), yes.kind)
        if yes.kind.form is Form.F32:
            result = floats.select(self._code, condition, yes.id, no.id)
            folding.note_select(self._code, result, condition, yes.id, no.id)
            return Value(result, yes.kind)
        result = self._code.select(yes.kind.form, condition, yes.id, no.id)
        if yes.kind.form is Form.U32:
            (low, high), (least, most) = self._code.range_of(yes.id), self._code.range_of(no.id)
            self._code.narrow(result, min(low, least), max(high, most))
            if low == high and least == most:
                result = hide_number(self._code, result)
        return Value(result, yes.kind)

    def _cast(self, term: Cast) -> Value:
        found = application(term)
        if found is not None:
            return self._extension(term, found)
        target = kind_of(term.target)
        value = self.value(term.value)
        if target is None:
            cannot(term, f"a cast to {term.target}", "a type of 8, 16, 32, 64 or 128 bits")
        operator = EXTENSIONS.get(f"{value.kind.name}_to_{target.name}")  # of the table only halves have one
        if operator is not None:
            return extensions.apply(self._code, term, operator, [value])
        return casts.cast(self._code, term, value, target)

    def _extension(self, term: Cast, found: Application) -> Value:
        """Return an operator of ours: by its body, with its operands in the place of the parameters, or by itself."""
        operands = [self.value(one) for one in found.operands]
        body = body_of(found.operator.name)
        if body is None:
            return extensions.apply(self._code, term, found.operator, operands)
        self._memo.update(zip(map(id, body.parameters), operands, strict=True))
        for part in body.parts:
            result = self.value(part)
        for one in (*body.parameters, *body.parts):  # they stand for other values the next time
            del self._memo[id(one)]
        return result

    def _fma(self, term: Fma) -> Value:
        operands = [self.value(one).id for one in (term.a, term.b, term.c)]
        known = folding.fma(self._code, *operands)
        return Value(floats.fma(self._code, *operands) if known is None else known, F32)

    def _atomic(self, term: Atomic) -> Value:
        index = self.place(term.index)
        expected = None if term.expected is None else self.value(term.expected).id
        return self.memory.atomic(term, index, expected, self.value(term.value).id)

    def _shuffle(self, term: SubgroupShuffle) -> Value:
        value, lane = self.value(term.value), self.value(term.lane)
        size = self._subgroup_fact(BuiltIn.SUBGROUP_SIZE, "gl_SubgroupSize")
        return subgroups.shuffle(self._code, value, lane.id, size.id)

    def _subgroup_fact(self, built_in: BuiltIn, name: str) -> Value:
        self._code.module.capability(Capability.GroupNonUniform)
        return Value(self.builtins.scalar(built_in, name), U32)

    def _call(self, term: Call) -> Value:
        cannot(term, f"a call of {term.op_id!r}", "the operation's body in place of the call, which ir.inline_calls puts there")
