"""Operators that stand as functions, of ``operator`` and numpy, written in Python: a kernel that calls one has these lines."""

# ruff: noqa: ANN001, ANN201, D103 -- of numbers of any type, as their names say
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import operator
from typing import Any

import numpy as np


def add(a, b):
    return a + b


def subtract(a, b):
    return a - b


def multiply(a, b):
    return a * b


def divide(a, b):
    return a / b


def floor_divide(a, b):
    return a // b


def remainder(a, b):
    return a % b


def power(a, b):
    return a**b


def bitwise_and(a, b):
    return a & b


def bitwise_or(a, b):
    return a | b


def bitwise_xor(a, b):
    return a ^ b


def left_shift(a, b):
    return a << b


def right_shift(a, b):
    return a >> b


def logical_and(a, b):
    return bool(a) and bool(b)


def logical_or(a, b):
    return bool(a) or bool(b)


def logical_xor(a, b):
    return bool(a) != bool(b)


def logical_not(a):
    return not bool(a)


def equal(a, b):
    return a == b


def not_equal(a, b):
    return a != b


def less(a, b):
    return a < b


def less_equal(a, b):
    return a <= b


def greater(a, b):
    return a > b


def greater_equal(a, b):
    return a >= b


def negative(a):
    return -a


def positive(a):
    return +a


def invert(a):
    return ~a


def square(a):
    return a * a


def minimum(a, b):
    return np.minimum(a, b)


def maximum(a, b):
    return np.maximum(a, b)


def least(a, b):
    return min(a, b)


def greatest(a, b):
    return max(a, b)


_OF_NUMPY = (
    *(add, subtract, multiply, divide, floor_divide, remainder, power, square, negative, positive, invert),
    *(bitwise_and, bitwise_or, bitwise_xor, left_shift, right_shift, logical_and, logical_or, logical_xor, logical_not),
    *(equal, not_equal, less, less_equal, greater, greater_equal, minimum, maximum),
)
_WRITTEN: dict[object, Any] = {
    **{getattr(np, one.__name__): one for one in _OF_NUMPY},
    **dict.fromkeys((min, np.fmin), least),
    **dict.fromkeys((max, np.fmax), greatest),
    operator.add: add,
    operator.sub: subtract,
    operator.mul: multiply,
    operator.truediv: divide,
    operator.floordiv: floor_divide,
    operator.mod: remainder,
    operator.pow: power,
    operator.and_: bitwise_and,
    operator.or_: bitwise_or,
    operator.xor: bitwise_xor,
    operator.lshift: left_shift,
    operator.rshift: right_shift,
    operator.not_: logical_not,
    operator.eq: equal,
    operator.ne: not_equal,
    operator.lt: less,
    operator.le: less_equal,
    operator.gt: greater,
    operator.ge: greater_equal,
    operator.neg: negative,
    operator.pos: positive,
    operator.invert: invert,
}


def as_written(function: Any) -> Any:  # noqa: ANN401 -- whatever is called
    """Return a function, which for an operator is one that is written in Python."""
    try:
        return _WRITTEN.get(function, function)
    except TypeError:  # nothing without a hash is an operator
        return function
