"""The types that upstream 0.7 gives expressions, and what it refuses of the operands of operators.

Types differ from ours where upstream's are not those of the values: remainders, bit operators and distances are u32 whatever
the operands are, functions are f32, and arithmetic between types is u32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import BinOp, OpaqueOp, UnOp
from vyre_driver.ir.validation.rules import spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    Finding = tuple[str, str]  # a code and a message

_U32, _I32, _F32, _BOOL = DataType.U32, DataType.I32, DataType.F32, DataType.Bool
_WIDE = frozenset({DataType.U64, DataType.I64})
_INTEGERS = frozenset({_U32, _I32})
_NUMBERS = frozenset({_U32, _I32, _F32})
_WAVE = frozenset({BinOp.SHUFFLE, BinOp.BALLOT, BinOp.WAVE_REDUCE, BinOp.WAVE_BROADCAST})
_SATURATING = frozenset({BinOp.SATURATING_ADD, BinOp.SATURATING_SUB, BinOp.SATURATING_MUL})
_NUMERIC = frozenset({BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.DIV, BinOp.MIN, BinOp.MAX, BinOp.ABS_DIFF}) | _SATURATING
_TYPED_BY_OPERANDS = _NUMERIC - {BinOp.ABS_DIFF}
_BITS = frozenset({BinOp.BIT_AND, BinOp.BIT_OR, BinOp.BIT_XOR})
_SHIFTS = frozenset({BinOp.SHL, BinOp.SHR, BinOp.ROTATE_LEFT, BinOp.ROTATE_RIGHT})
_LOGIC = frozenset({BinOp.AND, BinOp.OR})
_COMPARISONS = frozenset({BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE})
_COUNTING = frozenset({UnOp.BIT_NOT, UnOp.POPCOUNT, UnOp.CLZ, UnOp.CTZ, UnOp.REVERSE_BITS})
_UNPACKING = frozenset({UnOp.UNPACK4_LOW, UnOp.UNPACK4_HIGH, UnOp.UNPACK8_LOW, UnOp.UNPACK8_HIGH})
_TRUTHS = frozenset({UnOp.LOGICAL_NOT, UnOp.IS_NAN, UnOp.IS_INF, UnOp.IS_FINITE})


def binary_type(op: BinOp | OpaqueOp, left: DataType | None, right: DataType | None) -> DataType:
    """Return the type that upstream gives ``left op right``."""
    if op in _COMPARISONS or op in _LOGIC:
        return _BOOL
    return left if op in _TYPED_BY_OPERANDS and left is not None and left == right else _U32


def unary_type(op: UnOp | OpaqueOp, operand: DataType | None) -> DataType | None:
    """Return the type that upstream gives ``op operand``, None where it has none."""
    if op in _TRUTHS:
        return _BOOL
    if op is UnOp.NEGATE or op in _COUNTING:
        return operand
    return None if isinstance(op, OpaqueOp) or op in _UNPACKING else _F32


def binary_findings(op: BinOp | OpaqueOp, left: DataType | None, right: DataType | None) -> Iterator[Finding]:
    """Yield what upstream refuses of operands of these types."""
    if isinstance(op, OpaqueOp):
        return
    name, pair = op.name, f"{spelled(left)} and {spelled(right)}"
    known = [dtype for dtype in (left, right) if dtype is not None]
    both, alike = len(known) == 2, left == right
    if op in _NUMERIC:
        yield from _numeric_findings(op, known)
    elif op is BinOp.MOD or (op in _BITS and both):
        codes = ("V089", "V089", "V090") if op is BinOp.MOD else ("V091", "V092", "V093")
        sides = zip(codes, known, strict=False)
        yield from ((code, f"{name} takes u32 or i32, and got {dtype}") for code, dtype in sides if dtype not in _INTEGERS)
        if both and not alike and (op in _BITS or _INTEGERS.issuperset(known)):
            yield codes[2], f"{name} takes operands of one type, and got {pair}"
    elif op in _SHIFTS:
        yield from (("V094", f"{name} takes u32, and got {dtype}") for dtype in known if dtype != _U32)
    elif op in _LOGIC:
        yield from (("V095", f"{name} takes u32 or bool, and got {dtype}") for dtype in known if dtype not in {_U32, _BOOL})
    elif op in _COMPARISONS and both and not alike:
        yield "V096", f"{name} compares operands of one type, and got {pair}"
    elif op in _WAVE:
        yield "V097", f"{name} is not an operator of two operands"


def _numeric_findings(op: BinOp, known: list[DataType]) -> Iterator[Finding]:
    if len(known) == 2:
        pair = f"{spelled(known[0])} and {spelled(known[1])}"
        if not _WIDE.isdisjoint(known):
            yield "V084", f"{op.name} does not take 64 bits, and got {pair}"
        if op in _SATURATING and any(dtype != _U32 for dtype in known):
            yield "V085", f"{op.name} takes u32, and got {pair}"
        if op is BinOp.ABS_DIFF and _I32 in known:
            yield "V086", f"{op.name} does not take i32, whose distances may not fit, and got {pair}"
    yield from (("V087", f"{op.name} takes u32, i32 or f32, and got {dtype}") for dtype in known if dtype == _BOOL)
    if len(known) == 2 and known[0] != known[1] and _NUMBERS.issuperset(known):
        yield "V088", f"{op.name} takes operands of one type, and got {spelled(known[0])} and {spelled(known[1])}"


def unary_finding(op: UnOp | OpaqueOp, operand: DataType | None) -> Finding | None:
    """Return what upstream refuses of an operand of this type."""
    if operand is None:
        return None
    if isinstance(op, OpaqueOp):
        return "V104", f"upstream knows no opaque operator {op.extension_id:#010x} of one operand"
    text = f"{op.name} does not take {spelled(operand)}"
    if op is UnOp.NEGATE:
        code = "V098" if operand == _I32 else "V099"
        return None if operand in {_U32, _F32} else (code, text)
    for code, ops, types in _TAKES:
        if op in ops:
            return None if operand in types else (code, text)
    return None if operand == _F32 else ("V102", text)


_TAKES: tuple[tuple[str, frozenset[UnOp], frozenset[DataType]], ...] = (
    ("V100", frozenset({UnOp.LOGICAL_NOT}), frozenset({_U32, _BOOL})),
    ("V101", _COUNTING, _INTEGERS | {DataType.U64}),
    ("V103", _UNPACKING, _INTEGERS),
)
