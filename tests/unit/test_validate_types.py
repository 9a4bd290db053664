"""Every pair of types in a cast, every operator on every pair of types, against tables written here by hand."""

from __future__ import annotations

import itertools

import pytest
from rule_programs import program

from vyre_driver.ir import Problem, examine
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import binop, cast, let, load, unop
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import BinOp, OpaqueOp, UnOp
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint
from vyre_driver.ir.validation.expression_rules import ExpressionChecker
from vyre_driver.ir.validation.rules import Findings

TYPES = [value for value in vars(DataType).values() if isinstance(value, DataType)] + [
    DataType.array(4),
    DataType.handle(1),
    DataType.vec(DataType.U32, 2),
    DataType.tensor_shaped(DataType.F32, (2,)),
    DataType.sparse_csr(DataType.F32),
    DataType.sparse_coo(DataType.F32),
    DataType.sparse_bsr(DataType.F32, 1, 1),
    DataType.device_mesh((2,)),
    DataType.quantized(DataType.I4, QuantizationScale.per_tensor(), QuantizationZeroPoint.absent()),
    DataType.opaque(1),
]
NAMES = {str(one): one for one in TYPES if one != DataType.tensor_shaped(DataType.F32, (2,))}
# A buffer of every type, to load values of it from; their names are their places.
BUFFERS = {
    str(place): BufferDecl.read(str(place), place, dtype).with_bytes_extraction(True) for place, dtype in enumerate(TYPES)
}

# To the left of the colon a type, to the right what it is cast to, beside itself.
CAST_TABLE = """
u8: u16 u32 u64 i8 i16 i32 i64 bool
u16: u8 u32 u64 i8 i16 i32 i64 bool
u32: u8 u16 u64 i8 i16 i32 i64 bool vec2<u32> vec4<u32> f32
u64: u8 u16 u32 i8 i16 i32 i64 bool vec2<u32>
i8: u8 u16 u32 u64 i16 i32 i64 bool
i16: u8 u16 u32 u64 i8 i32 i64 bool
i32: u8 u16 u32 u64 i8 i16 i64 bool vec2<u32> vec4<u32> f32
i64: u8 u16 u32 u64 i8 i16 i32 bool
bool: u8 u16 u32 u64 i8 i16 i32 i64 vec2<u32> vec4<u32> f32
vec2<u32>: u32 i32 u64 bool
vec4<u32>: u32 i32 u64 bool vec2<u32>
f32: u32 i32 bool f16 bf16
f16: f32
bf16: f32
"""

# Operators: pairs that they take and what comes out, "T T -> T" for each type T behind the bar.
BINARY_TABLE = """
ADD SUB MUL DIV MIN MAX | u32 i32 f32 : same -> operand
ABS_DIFF | u32 f32 : same -> operand
SATURATING_ADD SATURATING_SUB SATURATING_MUL | u32 : same -> operand
MOD BIT_AND BIT_OR BIT_XOR | u32 i32 : same -> operand
SHL SHR ROTATE_LEFT ROTATE_RIGHT | u32 : same -> operand
WRAPPING_ADD WRAPPING_SUB | u32 i32 u64 : same -> operand
MUL_HIGH | u32 u64 : same -> operand
AND OR | u32 bool : each -> bool
EQ NE | * : same -> bool
LT GT LE GE | * but bool : same -> bool
SHUFFLE BALLOT WAVE_REDUCE WAVE_BROADCAST | : same -> operand
"""
UNARY_TABLE = """
NEGATE | u32 f32 -> operand
LOGICAL_NOT | u32 bool -> bool
BIT_NOT POPCOUNT CLZ CTZ REVERSE_BITS | u32 i32 u64 -> operand
COS SIN ABS SQRT FLOOR CEIL ROUND TRUNC SIGN EXP LOG LOG2 EXP2 TAN ACOS ASIN ATAN TANH SINH COSH | f32 -> operand
INVERSE_SQRT RECIPROCAL | f32 -> operand
IS_NAN IS_INF IS_FINITE | f32 -> bool
UNPACK4_LOW UNPACK4_HIGH UNPACK8_LOW UNPACK8_HIGH | u32 i32 -> u32
"""


def value(place: int) -> object:
    return load(str(place), 0)


def refused(*values: object) -> list[tuple[str, str]]:
    nodes = [let(f"x{place}", one) for place, one in enumerate(values)]  # type: ignore[arg-type]
    return [(one.rule, one.path) for one in examine(program(*nodes, buffers=list(BUFFERS.values()))).problems]


def result(expr: object) -> DataType | None:
    return ExpressionChecker(BUFFERS, Findings(), None).type_of(expr)  # type: ignore[arg-type]


def operator_lines(table: str) -> list[tuple[list[str], str]]:
    return [(names.split(), rest) for names, rest in (line.split("|") for line in table.strip().splitlines())]


def test_the_types_are_all_of_them() -> None:
    assert len({one.wire_tag for one in TYPES}) == len(TYPES) == 32


def test_casts_go_where_the_table_says_and_nowhere_else() -> None:
    rows = dict(line.split(": ") for line in CAST_TABLE.strip().splitlines())
    allowed = {(NAMES[source], NAMES[target]) for source, targets in rows.items() for target in targets.split()}
    pairs = list(itertools.product(range(len(TYPES)), repeat=2))
    values = [cast(TYPES[target], value(source)) for source, target in pairs]  # type: ignore[arg-type]
    expected = [
        ("V023" if TYPES[target] == DataType.Bytes else "V012", f"body[{place}].value")
        for place, (source, target) in enumerate(pairs)
        if source != target and (TYPES[source], TYPES[target]) not in allowed
    ]
    assert len(expected) == 32 * 31 - (9 * 8 + 3 * 3 + 1 + 4 + 5 + 3 + 2 + 2)
    assert refused(*values) == expected
    assert [result(one) for one in values] == [TYPES[target] for _, target in pairs]


def test_the_widths_of_integers_decide_what_narrows() -> None:
    widths = {"u8": 8, "i8": 8, "u16": 16, "i16": 16, "u32": 32, "i32": 32, "u64": 64, "i64": 64}
    pairs = list(itertools.product(widths, repeat=2))
    nodes = [
        let(f"x{place}", cast(NAMES[target], value(TYPES.index(NAMES[source]))))  # type: ignore[arg-type]
        for place, (source, target) in enumerate(pairs)
    ]
    warnings = examine(program(*nodes, buffers=list(BUFFERS.values()))).warnings
    narrowing = [place for place, (source, target) in enumerate(pairs) if widths[source] > widths[target]]
    assert [(one.rule, one.path) for one in warnings] == [("V035", f"body[{place}].value") for place in narrowing]


@pytest.mark.parametrize("op", BinOp, ids=lambda op: op.name)
def test_a_binary_operator_takes_what_the_table_says(op: BinOp) -> None:
    ((kinds, mode),) = [rest.split(":") for names, rest in operator_lines(BINARY_TABLE) if op.name in names]
    names = set(NAMES) if "*" in kinds else set(kinds.split())
    taken = {NAMES[name] for name in names if "but" not in kinds or name != "bool"}
    if "*" in kinds:
        taken.add(DataType.tensor_shaped(DataType.F32, (2,)))
    pairs = list(itertools.product(range(len(TYPES)), repeat=2))
    values = [binop(op, value(left), value(right)) for left, right in pairs]  # type: ignore[arg-type]
    fits = [
        TYPES[left] in taken and TYPES[right] in taken and (left == right or mode.split()[0] == "each") for left, right in pairs
    ]
    expected = [("R015", f"body[{place}].value") for place, one in enumerate(fits) if not one]
    assert examine_all(values) == expected
    results = [result(one) if one_fits else None for one, one_fits in zip(values, fits, strict=True)]
    given = mode.split()[-1]
    assert results == [
        None if not one_fits else DataType.Bool if given == "bool" else TYPES[left]
        for (left, _), one_fits in zip(pairs, fits, strict=True)
    ]


def examine_all(values: list[object]) -> list[tuple[str, str]]:
    """In programs small enough that no problem is left out."""
    found = []
    for start in range(0, len(values), 500):
        part = refused(*values[start : start + 500])
        found += [(rule, f"body[{int(path[5 : path.index(']')]) + start}].value") for rule, path in part]
    return found


@pytest.mark.parametrize("op", UnOp, ids=lambda op: op.name)
def test_a_unary_operator_takes_what_the_table_says(op: UnOp) -> None:
    ((kinds, given),) = [rest.split("->") for names, rest in operator_lines(UNARY_TABLE) if op.name in names]
    taken = {NAMES[name] for name in kinds.split()}
    values = [unop(op, value(place)) for place in range(len(TYPES))]  # type: ignore[arg-type]
    fits = [one in taken for one in TYPES]
    assert refused(*values) == [("R015", f"body[{place}].value") for place, one in enumerate(fits) if not one]
    assert [result(one) for one, one_fits in zip(values, fits, strict=True) if one_fits] == [
        NAMES.get(given.strip(), one) for one in TYPES if one in taken
    ]


def test_an_opaque_binary_operator_is_not_checked_and_an_opaque_unary_one_is_known_for_no_type() -> None:
    both = [binop(OpaqueOp(1), value(0), value(9)), unop(OpaqueOp(2), value(0))]  # type: ignore[arg-type]
    nodes = [let(f"x{place}", one) for place, one in enumerate(both)]
    assert examine(program(*nodes, buffers=list(BUFFERS.values()))).problems == (
        Problem(
            "R015",
            "body[1].value",
            "opaque operator 0x00000002 is not known for u32",
            "give it what an extension computes",
        ),
    )
