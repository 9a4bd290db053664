"""The operators of whole numbers, at the edges of every range: programs compute them, and what is proven of them holds."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from both_ways import function_of, run_both
from kernel_texts import NAMES

from vyre_driver.backends.reference.dispatch import interpret
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, MemoryKind
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import InvocationId, Load
from vyre_driver.ir.nodes import Store
from vyre_driver.ir.program import Program
from vyre_driver.lang.frontend import integers
from vyre_driver.lang.frontend.draft import Draft, finished
from vyre_driver.lang.frontend.values import Number
from vyre_driver.lang.types import ScalarType, i32, u32

if TYPE_CHECKING:
    from collections.abc import Callable

    Operator = Callable[[Draft, Number, Number], Number]
    Exact = Callable[[int, int], int]

_OPERANDS = 64
_EDGES = (0, 1, 2, 3, 5, 16, 31, 32, 33, 255, 2**16, 2**30, 2**31 - 2, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)


def _towards_zero(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_OPERATORS: dict[str, tuple[Operator, Exact]] = {
    "add": (lambda _, a, b: integers.add(a, b), lambda a, b: a + b),
    "subtract": (lambda _, a, b: integers.subtract(a, b), lambda a, b: a - b),
    "multiply": (lambda _, a, b: integers.multiply(a, b), lambda a, b: a * b),
    "negative": (lambda _, a, __: integers.negative(a), lambda a, _: -a),
    "magnitude": (lambda draft, a, _: integers.magnitude(draft, a), lambda a, _: abs(a)),
    "bit_and": (lambda _, a, b: integers.bit_and(a, b), lambda a, b: a & b),
    "bit_or": (lambda _, a, b: integers.bit_or(a, b), lambda a, b: a | b),
    "bit_xor": (lambda _, a, b: integers.bit_xor(a, b), lambda a, b: a ^ b),
    "invert": (lambda _, a, __: integers.invert(a), lambda a, _: ~a),
    "shift_left": (lambda _, a, b: integers.shift_left(a, b), lambda a, b: a << (b & 31)),
    "shift_right": (integers.shift_right, lambda a, b: a >> (b & 31)),
    "floor_divide": (integers.floor_divide, lambda a, b: a // b if b else 0),
    "remainder": (integers.remainder, lambda a, b: a % b if b else 0),
    "ceiling_divide": (integers.ceiling_divide, lambda a, b: -(-a // b) if b else 0),
    "truncate_divide": (integers.truncate_divide, _towards_zero),
    "truncate_remainder": (
        integers.truncate_remainder,
        lambda a, b: a - _towards_zero(a, b) * b if b else 0,
    ),
}


def _wrapped(value: int, scalar: ScalarType) -> int:
    low = scalar.bounds[0]
    return (value - low & 0xFFFF_FFFF) + low


def _range(draw: random.Random, scalar: ScalarType) -> tuple[int, int]:
    """Return bounds of which many are edges."""
    least, most = scalar.bounds
    edges = [value for edge in _EDGES for value in (edge, -edge) if least <= value <= most] + [least, most]
    low, high = sorted(draw.choice([*edges, draw.randint(least, most)]) for _ in range(2))
    return (low, low) if draw.random() < 0.2 else (low, high)


def _operands(draw: random.Random, bounds: tuple[int, int]) -> list[int]:
    low, high = bounds
    near = [value for value in (low, high, low + 1, high - 1, 0, 1, -1, 2, -2) if low <= value <= high]
    return near + [draw.randint(low, high) for _ in range(_OPERANDS - len(near))]


def _computed(
    operator: Operator, left: list[int], right: list[int], numbers: tuple[Number, Number]
) -> tuple[Number, list[int]]:
    """Return what the operator says of its result, and what the program gives."""
    draft = Draft()
    result = operator(draft, *(draft.let(name, number) for name, number in zip("ab", numbers, strict=True)))
    draft.add(Store("o", InvocationId(0), result.expr))
    buffers = [BufferDecl.read("x", 0, DataType.U32), BufferDecl.read("y", 1, DataType.U32)]
    buffers.append(BufferDecl("o", 2, BufferAccess.WRITE_ONLY, MemoryKind.GLOBAL, DataType.U32))
    program = Program.wrapped(buffers, (_OPERANDS, 1, 1), finished(draft.body, "body", {}))
    given = [np.array([value & 0xFFFF_FFFF for value in values], np.uint32) for values in (left, right)]
    (found,) = interpret(program, given, grid=(1, 1, 1), element_counts={"o": _OPERANDS}).outputs
    return result, [_wrapped(int(word), result.type) for word in found]


@pytest.mark.parametrize("scalar", [i32, u32], ids=str)
@pytest.mark.parametrize("name", list(_OPERATORS))
def test_bounds_hold_and_results_are_exact(name: str, scalar: ScalarType) -> None:
    operator, exact = _OPERATORS[name]
    draw = random.Random(f"{name} {scalar}")  # noqa: S311 -- operands are no secrets
    for _ in range(40):
        bounds = _range(draw, scalar), _range(draw, scalar)
        left, right = _operands(draw, bounds[0]), _operands(draw, bounds[1])
        draw.shuffle(right)
        a, b = (Number(scalar, Load(array, InvocationId(0), DataType.U32), *of) for array, of in zip("xy", bounds, strict=True))
        result, found = _computed(operator, left, right, (a, b))
        for one, other, word in zip(left, right, found, strict=True):
            assert word == _wrapped(exact(one, other), result.type), f"{name} of {one} and {other}, within {bounds}"
            assert result.low <= word <= result.high, f"{name} of {one} and {other} within {bounds} is {word}: {result}"


def test_cdiv_of_constants_is_one() -> None:
    text = "def kernel(i: Index, o: InOut[i32]):\n    for k in static_range(cdiv(7, 2)):\n        o[i] += cdiv(-7, 2) + k\n"
    arguments = {"o": np.zeros(1, np.int32)}
    found = run_both(function_of(text, "kernel", NAMES), arguments, (1,))
    assert not found.differences()
    assert found.program["o"].tolist() == [4 * -3 + 6]
