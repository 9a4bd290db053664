"""Arithmetic on u64, i64 and f64 in the reference, held to Python's own numbers; what lowering needs for it."""

from __future__ import annotations

import math
import operator
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver.backends.reference import run
from vyre_driver.backends.reference.extensions import DOUBLES
from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir import (
    BufferDecl,
    DataType,
    Program,
    convert,
    floor_divide,
    floor_modulo,
    fma,
    gid_x,
    load,
    operation,
    select,
    sqrt,
    store,
    var,
)
from vyre_driver.ir.extensions import extension
from vyre_driver.ir.operators import BinOp, TernaryOp, UnOp
from vyre_driver.lowering.emit.target import LoweringTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from conftest import Lower

    from vyre_driver.ir.expressions import Expr

U32, U64, I64, F32, F64 = DataType.U32, DataType.U64, DataType.I64, DataType.F32, DataType.F64
NUMPY = {U32: np.uint32, U64: np.uint64, I64: np.int64, F32: np.float32, F64: np.float64}
COUNT = 400


def whole(dtype: DataType, seed: int) -> list[int]:
    """Numbers of every length, of either sign where there are signs, and the edges."""
    rng = random.Random(seed)  # noqa: S311 -- numbers, no secrets
    signed = dtype == I64
    edges = [0, 1, 2**63 - 1, 2**32, *([-1, -(2**63), -(2**63) + 1] if signed else [2**64 - 1, 2**63])]
    made = [rng.getrandbits(rng.randint(1, 63)) * (rng.choice((1, -1)) if signed else 1) for _ in range(COUNT - 80)]
    return [*(rng.choice(edges) for _ in range(80)), *made]


def computed(make: Callable[..., Expr], result: DataType, **columns: tuple[DataType, Sequence[float]]) -> list[float]:
    """What the reference makes of columns of numbers."""
    buffers = [BufferDecl.read(name, place, dtype) for place, (name, (dtype, _)) in enumerate(columns.items())]
    count = len(next(iter(columns.values()))[1])
    out = BufferDecl.output("out", len(buffers), result).with_count(count)
    program = Program.wrapped([*buffers, out], (1, 1, 1), [store(out, gid_x(), make(*(load(one, gid_x()) for one in buffers)))])
    arrays = [np.array(numbers, NUMPY[dtype]) for dtype, numbers in columns.values()]
    return run(program, arrays, grid=(count, 1, 1))[0].view(NUMPY[result]).tolist()


def wrapped(dtype: DataType, value: int) -> int:
    low = value & (2**64 - 1)
    return low - 2**64 if dtype == I64 and low >> 63 else low


def truncated(left: int, right: int) -> int:
    return 0 if not right else abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def rest(left: int, right: int) -> int:
    return 0 if not right else left - right * truncated(left, right)


OPERATORS: dict[BinOp, Callable[[int, int], int]] = {
    BinOp.ADD: operator.add,
    BinOp.SUB: operator.sub,
    BinOp.MUL: operator.mul,
    BinOp.DIV: truncated,
    BinOp.MOD: rest,
    BinOp.BIT_AND: operator.and_,
    BinOp.BIT_OR: operator.or_,
    BinOp.BIT_XOR: operator.xor,
    BinOp.MIN: min,
    BinOp.MAX: max,
    BinOp.SHL: lambda left, right: left << right % 64,
    BinOp.SHR: lambda left, right: left >> right % 64,
}


@pytest.mark.parametrize("dtype", [U64, I64], ids=str)
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_an_operator_on_64_bits_is_that_of_whole_numbers_which_wraps(op: BinOp, dtype: DataType) -> None:
    left, right = whole(dtype, 1), whole(dtype, 2)
    kind = U32 if op in {BinOp.SHL, BinOp.SHR} else dtype
    right = [one & 0xFFFF_FFFF for one in right] if kind == U32 else right
    found = computed(lambda a, b: operation(op, dtype, a, b), dtype, a=(dtype, left), b=(kind, right))
    assert found == [wrapped(dtype, OPERATORS[op](one, other)) for one, other in zip(left, right, strict=True)]


@pytest.mark.parametrize("dtype", [U64, I64], ids=str)
def test_floor_division_is_pythons_and_0_by_0(dtype: DataType) -> None:
    left, right = whole(dtype, 3), whole(dtype, 4)
    pairs = list(zip(left, right, strict=True))
    for make, wanted in ((floor_divide, operator.floordiv), (floor_modulo, operator.mod)):
        found = computed(lambda a, b, make=make: make(dtype, a, b), dtype, a=(dtype, left), b=(dtype, right))
        assert found == [wrapped(dtype, wanted(one, other)) if other else 0 for one, other in pairs]


@pytest.mark.parametrize(
    ("op", "dtype", "wanted"),
    [
        (UnOp.NEGATE, U64, operator.neg),
        (UnOp.NEGATE, I64, operator.neg),
        (UnOp.BIT_NOT, U64, operator.invert),
        (UnOp.BIT_NOT, I64, operator.invert),
        (UnOp.ABS, I64, abs),
    ],
)
def test_operators_of_one_number_of_64_bits(op: UnOp, dtype: DataType, wanted: Callable[[int], int]) -> None:
    numbers = whole(dtype, 5)
    found = computed(lambda a: operation(op, dtype, a), dtype, a=(dtype, numbers))
    assert found == [wrapped(dtype, wanted(one)) for one in numbers]


def test_a_number_beside_an_operand_becomes_a_literal_of_its_type() -> None:
    assert computed(lambda a: operation(BinOp.SHL, U64, a, 40), U64, a=(U64, [3])) == [3 << 40]
    assert computed(lambda a: operation(BinOp.MUL, F64, a, 0.1), F64, a=(F64, [3.0])) == [3.0 * 0.1]


@pytest.mark.parametrize("source", [U64, I64], ids=str)
@pytest.mark.parametrize("target", [F32, F64], ids=str)
def test_a_whole_number_becomes_the_nearest_float_and_a_float_is_cut(source: DataType, target: DataType) -> None:
    numbers = [*whole(source, 6), 2**24 + 1, 2**40 + 2**16, 2**40 + 2**16 + 1, 2**53 + 1, 2**63 - 1]
    found = computed(lambda a: convert(target, a), target, a=(source, numbers))
    with np.errstate(all="ignore"):
        assert found == [float(NUMPY[target](one)) for one in numbers]
    floats = [0.0, 1.9, -1.9, 3e9, -3e9, 1e18, -1e18, 9.3e18, -9.3e18, 1.9e19, 1e30, -1e30, math.inf, -math.inf, math.nan]
    given = [float(NUMPY[target](one)) for one in floats]
    low, high = (-(2**63), 2**63 - 1) if source == I64 else (0, 2**64 - 1)
    whole_ones = [0 if math.isnan(one) else max(low, min(high, one if math.isinf(one) else math.trunc(one))) for one in given]
    assert computed(lambda a: convert(source, a), source, a=(target, given)) == whole_ones


def test_an_operation_is_the_irs_own_where_it_has_one() -> None:
    a, b = var("a", F32), var("b", F32)
    assert operation(BinOp.ADD, F32, a, 2.0) == a + 2.0
    assert operation(UnOp.SQRT, F32, a) == sqrt(a)
    assert operation(TernaryOp.FMA, F32, a, b, 1.0) == fma(a, b, 1.0)
    assert operation(TernaryOp.SELECT, F32, a < b, a, b) == select(a < b, a, b)
    assert operation(BinOp.LT, U64, var("c", U64), 3) == (var("c", U64) < 3)


def test_an_fma_of_f64_rounds_once() -> None:
    near = 1 + 2.0**-52
    cases = [(near, near, -(1 + 2.0**-51), 2.0**-104), (1e308, 10.0, -math.inf, -math.inf), (1e308, 10.0, 0.0, math.inf)]
    columns = {name: (F64, [case[place] for case in cases]) for place, name in enumerate("abc")}
    found = computed(lambda a, b, c: operation(TernaryOp.FMA, F64, a, b, c), F64, **columns)
    assert found == [case[3] for case in cases]


DOUBLE = BufferDecl.read_write("double", 0, F64).with_count(4)


def program(value: Expr) -> Program:
    return Program.wrapped([DOUBLE], (4, 1, 1), [store(DOUBLE, gid_x(), value)])


def test_f64_is_computed_with_where_the_device_has_it(lower: Lower) -> None:
    root = program(operation(UnOp.SQRT, F64, load(DOUBLE, 0)))
    assert lower(root, (), LoweringTarget(frozenset({"shaderFloat64"}))).features == {"shaderFloat64"}
    with pytest.raises(UnsupportedFeature, match=r"sqrt<f64>, at body\[0\]\.value; it would need shaderFloat64\. Fix: "):
        lower(root)
    chosen = program(operation(BinOp.MIN, F64, load(DOUBLE, 0), load(DOUBLE, 1)))
    compared = Program.wrapped([DOUBLE], (4, 1, 1), [store(DOUBLE, 0, load(DOUBLE, 0))])
    assert (chosen.stats().capabilities, lower(compared).features) == (compared.stats().capabilities, frozenset())


def test_an_fma_of_f64_wants_a_device_that_rounds_once(lower: Lower) -> None:
    fused = program(extension("fma<f64>", load(DOUBLE, 0), load(DOUBLE, 1), load(DOUBLE, 2)))
    features = frozenset({"shaderFloat64"})
    with pytest.raises(UnsupportedFeature, match="an fma of f64 that rounds once"):
        lower(fused, (), LoweringTarget(features, fuses=False))
    for target in (LoweringTarget(features), LoweringTarget(features, fuses=False, strict=False)):
        assert lower(fused, (), target).features == features


def test_every_operator_on_f64_has_one_in_the_reference() -> None:
    assert [name for name in DOUBLES if "f64" not in name] == []
