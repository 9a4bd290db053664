"""What forms are made of: the emitter's instructions, shorter, and the zero that no compiler can know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.spirv.emit import casts, integers, wide
from vyre_driver.spirv.emit.blocks import when
from vyre_driver.spirv.instructions import Ins
from vyre_driver.spirv.opcodes import Op

if TYPE_CHECKING:
    from collections.abc import Callable

    from forms.formed import FormedCode, Rule

    from vyre_driver.spirv.emit.code import Code

ONES, SIGN = 0xFFFFFFFF, 0x80000000
JOINED = wide.joined  # as it is without forms


def u(code: Code, opcode: int, *operands: int) -> int:
    return code.op(opcode, code.u32, *operands)


def words(code: Code, operand: int) -> int:
    """An i32 as a u32."""
    return u(code, Ins.Bitcast, operand)


def signed(code: Code, word: int) -> int:
    return code.op(Ins.Bitcast, code.i32, word)


def turned(code: Code, operand: int) -> int:
    """An i32 as a u32 of the same order."""
    return u(code, Ins.BitwiseXor, words(code, operand), code.const(SIGN))


def truth(code: Code, word: int) -> int:
    return code.op(Ins.INotEqual, code.bool, word, code.const(0))


def mask(code: Code, condition: int) -> int:
    """All ones where a condition holds, made of 1 and 0."""
    return u(code, Ins.ISub, code.const(0), casts.as_number(code, condition))


def either(code: Code, bits: int, yes: int, no: int) -> int:
    """One word or another, by a mask."""
    return u(code, Ins.BitwiseXor, no, u(code, Ins.BitwiseAnd, bits, u(code, Ins.BitwiseXor, yes, no)))


def borrowed(code: Code, left: int, right: int) -> tuple[int, int]:
    """A difference of u32, and 1 where it borrows."""
    both = code.op(Ins.ISubBorrow, integers.pair_struct(code), left, right)
    return u(code, Ins.CompositeExtract, both, 0), u(code, Ins.CompositeExtract, both, 1)


def hidden(code: FormedCode, type_id: int, made: int) -> int:
    """The same value, of which no compiler knows anything."""
    zero = code.hidden_zero()
    if type_id == code.bool:
        return code.op(Ins.LogicalNotEqual, code.bool, made, truth(code, zero))
    if type_id == code.u32:
        return u(code, Ins.BitwiseXor, made, zero)
    if code.has_wide and code.module.declares(Op.TypeInt, 64, 0) and type_id == code.u64:
        return code.op(Ins.BitwiseXor, code.u64, made, JOINED(code, zero, zero))
    return code.op(Ins.Bitcast, type_id, u(code, Ins.BitwiseXor, u(code, Ins.Bitcast, made), zero))


def hides(opcode: int, *kinds: str) -> Rule:
    """Hide the result of an instruction, of these types only."""

    def rule(code: FormedCode, type_id: int, *operands: int) -> int | None:
        if not is_of(code, type_id, *kinds):
            return None
        return hidden(code, type_id, code.op(opcode, type_id, *operands))

    return rule


def is_of(code: Code, type_id: int, *kinds: str) -> bool:
    """Whether a type is one of those named; none is declared for being asked about."""
    declared = {"bool": (Op.TypeBool,), "u32": (Op.TypeInt, 32, 0), "i32": (Op.TypeInt, 32, 1), "u64": (Op.TypeInt, 64, 0)}
    return any(code.module.declares(*declared[one]) and type_id == code.module.type(*declared[one]) for one in kinds)


def of(kind: str, function: Callable[..., int]) -> Rule:
    """A rule for results of one type."""
    return lambda code, type_id, *operands: function(code, *operands) if is_of(code, type_id, kind) else None


def by_branches(type_name: str) -> Rule:
    def rule(code: FormedCode, type_id: int, condition: int, yes: int, no: int) -> int | None:
        if not is_of(code, type_id, type_name):
            return None
        before = code.block
        with when(code, condition):
            inside = code.block
        return code.result(Ins.Phi, type_id, yes, inside, no, before)

    return rule
