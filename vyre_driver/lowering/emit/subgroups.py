"""Emit subgroup operations; the size of a subgroup is the device's choice.

Source: spec item 1.7 (parallelism); SPIR-V 1.6, 3.42.24 (non-uniform instructions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.operators import SubgroupOp
from vyre_driver.lowering.emit import casts, floats, wide
from vyre_driver.lowering.emit.code import Value, cannot
from vyre_driver.lowering.emit.kinds import F32, U32, Form
from vyre_driver.spirv.instructions import GROUP_REDUCE, Ins, Scope
from vyre_driver.spirv.opcodes import Capability

if TYPE_CHECKING:
    from vyre_driver.ir.expressions import SubgroupReduce
    from vyre_driver.lowering.emit.code import Code

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


def reduce(code: Code, term: SubgroupReduce, value: Value) -> Value:
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
    low, high = wide.halves(code, operand)
    best = reduced(high)
    if op in (SubgroupOp.MIN, SubgroupOp.MAX):  # the lower words of those whose upper word is the best decide
        is_best = code.op(Ins.IEqual, code.bool, high, best)
        low = code.op(Ins.Select, code.u32, is_best, low, code.const(0 if op is SubgroupOp.MAX else U32_MAX))
    return wide.joined(code, reduced(low), best)


def _add_wide(code: Code, operand: int, scope: int) -> int:
    """Return a sum of u64 of four sums of 16 bits each: no subgroup is so large that one of them passes a word."""
    total = wide.constant(code, 0)
    mask, shift = code.const((1 << _PART_BITS) - 1), code.const(_PART_BITS)
    for place, word in enumerate(wide.halves(code, operand)):
        parts = code.op(Ins.BitwiseAnd, code.u32, word, mask), code.op(Ins.ShiftRightLogical, code.u32, word, shift)
        sums = [code.result(Ins.GroupNonUniformIAdd, code.u32, scope, GROUP_REDUCE, part) for part in parts]
        for upper, one in enumerate(sums):
            low = code.op(Ins.ShiftLeftLogical, code.u32, one, shift) if upper else one
            high = code.op(Ins.ShiftRightLogical, code.u32, one, shift) if upper else code.const(0)
            pair = (code.const(0), low) if place else (low, high)
            total = wide.add(code, total, wide.joined(code, *pair))
    return total


def ballot(code: Code, condition: int) -> Value:
    """Return a bit for each of the first 32 invocations whose condition holds."""
    code.module.capability(Capability.GroupNonUniform)
    code.module.capability(Capability.GroupNonUniformBallot)
    bits = code.result(Ins.GroupNonUniformBallot, code.vector(4), code.const(Scope.SUBGROUP), condition)
    return Value(code.op(Ins.CompositeExtract, code.u32, bits, 0), U32)


def shuffle(code: Code, value: Value, lane: int, size: int) -> Value:
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
        return Value(wide.joined(code, *kept), value.kind)
    if form in {Form.UVEC2, Form.UVEC4}:
        return Value(code.op(Ins.CompositeConstruct, code.type_of(form), *kept), value.kind)
    return Value(kept[0] if form is Form.U32 else code.op(Ins.Bitcast, code.type_of(form), kept[0]), value.kind)
