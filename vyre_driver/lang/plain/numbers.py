"""Numbers of plain Python as kernels compute with them: scalars of numpy, and constants, which are Python's own numbers.

Each operator gives what the program of the kernel gives, bit for bit, but for subnormals that are loaded and only then computed
with. Functions of floats round an f32 once, from f64.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.lang.types import Kind, ScalarType

if TYPE_CHECKING:
    from collections.abc import Callable

Plain = Any
I32, U32, F32, BOOL = np.int32, np.uint32, np.float32, np.bool_
I64, U64, F64 = np.int64, np.uint64, np.float64
_NUMBERS = frozenset({I32, U32, F32, BOOL, I64, U64, F64})
WIDE = frozenset({I64, U64, F64})
_FLOATS = frozenset({F32, F64})
_LEAST_NORMAL = F32(2.0**-126)
_ZERO = F32(0)
_NAN = F32("nan")
_MOST_FACTORS = 64


def is_constant(value: Plain) -> bool:
    """Whether a value is a number of Python's, whose type is decided by what it meets."""
    return type(value) not in _NUMBERS


def canonical(value: Plain) -> Plain:
    """Return a float, and for NaN the one that programs have."""
    return value if value == value else type(value)("nan")  # noqa: PLR0124 -- NaN


def flushed(value: Plain) -> Plain:
    """Return an f32 that is no subnormal, and for NaN the one that programs have."""
    if -_LEAST_NORMAL < value < _LEAST_NORMAL:
        return np.copysign(_ZERO, value)
    return value if value == value else _NAN  # noqa: PLR0124 -- NaN


def to_f32(value: Plain) -> Plain:
    """Return a number as an f32."""
    if is_constant(value):
        return F32(value)
    return flushed(value.astype(F32)) if type(value) is F64 else value.astype(F32)


def to_f64(value: Plain) -> Plain:
    """Return a number as an f64."""
    return value if type(value) is F64 else F64(flushed(value)) if type(value) is F32 else F64(value)


def to_i32(value: Plain) -> Plain:
    """Return a number as an i32: of a u32 its bits, of a float the nearest towards zero, and 0 of NaN."""
    return _whole(value, I32, -0x8000_0000, 0x7FFF_FFFF)


def to_u32(value: Plain) -> Plain:
    """Return a number as a u32."""
    return _whole(value, U32, 0, 0xFFFF_FFFF)


def to_i64(value: Plain) -> Plain:
    """Return a number as an i64."""
    return _whole(value, I64, -(1 << 63), (1 << 63) - 1)


def to_u64(value: Plain) -> Plain:
    """Return a number as a u64."""
    return _whole(value, U64, 0, (1 << 64) - 1)


def _whole(value: Plain, kind: type, low: int, high: int) -> Plain:
    if type(value) is kind:
        return value
    if type(value) in _FLOATS:
        if value != value:  # noqa: PLR0124 -- NaN
            return kind(0)
        return kind(low if value <= low else high if value >= high else int(value))
    return np.asarray(int(value) & 0xFFFF_FFFF_FFFF_FFFF, U64).astype(kind)[()]


def to_bool(value: Plain) -> Plain:
    """Return whether a number is not 0."""
    return value if type(value) is BOOL else BOOL(value != 0)


TO: dict[str, Callable[[Plain], Plain]] = {
    "f32": to_f32,
    "i32": to_i32,
    "u32": to_u32,
    "bool": to_bool,
    "i64": to_i64,
    "u64": to_u64,
    "f64": to_f64,
}


def cast(scalar: ScalarType, value: Plain) -> Plain:
    """Return a number as a type; of the narrower ones an i32 or an f32 that it holds."""
    convert = TO.get(scalar.name)
    if convert is not None:
        return convert(value)
    return from_memory(scalar, to_memory(scalar, value))


def to_memory(scalar: ScalarType, value: Plain) -> Plain:
    """Return a number as an element of a narrower type."""
    if scalar.kind is not Kind.FLOAT:
        return np.asarray(int(to_i32(value))).astype(scalar.dtype)[()]
    number = to_f32(value)
    if scalar.name == "f16":
        return np.float16(number)
    bits = int(number.view(U32))
    word = 0x7FC0 if number != number else bits + 0x7FFF + (bits >> 16 & 1) >> 16  # noqa: PLR0124 -- NaN
    return np.asarray(np.uint16(word)).view(scalar.dtype)[()]


def from_memory(scalar: ScalarType, found: Plain) -> Plain:
    """Return an element of a narrower type as what kernels compute with."""
    if scalar.kind is not Kind.FLOAT:
        return I32(found)
    if scalar.name == "f16":
        return F32(found)
    return np.asarray(U32(int(np.asarray(found).view(np.uint16)) << 16)).view(F32)[()]


def typed(value: Plain) -> Plain:
    """Return a constant as the number that it is where nothing says more: an i32, an f32 or a bool."""
    if not is_constant(value):
        return value
    return BOOL(value) if isinstance(value, bool) else I32(value) if isinstance(value, int) else F32(value)


def alike(left: Plain, right: Plain) -> tuple[Plain, Plain]:
    """Return two operands as numbers of one type, not both of which are constants."""
    left, right = _beside(left, right), _beside(right, left)
    one, other = type(left), type(right)
    if one is other:
        return left, right
    for wider in (F64, F32, U64, I64):
        if wider in (one, other):
            return TO[_NAMES[wider]](left), TO[_NAMES[wider]](right)
    return (to_i32(left), to_i32(right)) if {one, other} == {BOOL, I32} else (to_u32(left), to_u32(right))


_NAMES: dict[type, str] = {F64: "f64", F32: "f32", U64: "u64", I64: "i64"}


def _beside(value: Plain, other: Plain) -> Plain:
    """Return a constant as it counts beside a number."""
    kind = type(other)
    if not is_constant(value) or is_constant(other):
        return value
    if kind in _FLOATS:
        return kind(value)
    if isinstance(value, float) or (kind is BOOL and not isinstance(value, bool)):
        return typed(value)
    return kind(int(value))


def _combined(of_numbers: Callable[[Plain, Plain], Plain], of_constants: Callable[[Plain, Plain], Plain]) -> Any:  # noqa: ANN401
    def combined(left: Plain, right: Plain) -> Plain:
        if is_constant(left) and is_constant(right):
            return of_constants(left, right)
        left, right = alike(left, right)
        if type(left) is BOOL:
            left, right = I32(left), I32(right)
        return of_numbers(left, right)

    return combined


def _rounded(compute: Callable[[Plain, Plain], Plain]) -> Any:  # noqa: ANN401 -- a function
    """Return an operator that goes the short way for two numbers of one type."""

    def of_numbers(left: Plain, right: Plain) -> Plain:
        found = compute(left, right)
        return flushed(found) if type(found) is F32 else canonical(found)

    mixed = _combined(of_numbers, compute)

    def combined(left: Plain, right: Plain) -> Plain:
        kind = type(left)
        if kind is type(right) and (kind is I32 or kind is U32):
            return compute(left, right)
        return mixed(left, right)

    return combined


def _of_bits(compute: Callable[[Plain, Plain], Plain]) -> Any:  # noqa: ANN401 -- a function
    def combined(left: Plain, right: Plain) -> Plain:
        if not (is_constant(left) and is_constant(right)):
            left, right = alike(left, right)
        return compute(left, right)

    return combined


def _floor_divide(left: Plain, right: Plain) -> Plain:
    return flushed(left // right) if type(left) is F32 else left // right


def _remainder(left: Plain, right: Plain) -> Plain:
    return flushed(left % right) if type(left) is F32 else left % right


def divide(left: Plain, right: Plain) -> Plain:
    """Return ``left / right``: an f32, and an f64 where one of them has 64 bits."""
    if is_constant(left) and is_constant(right):
        return left / right
    if type(left) in WIDE or type(right) in WIDE:
        left, right = alike(left, right)
        return canonical(to_f64(left) / to_f64(right))
    return flushed(to_f32(left) / to_f32(right))


def shift_left(left: Plain, right: Plain) -> Plain:
    """Return ``left << right``."""
    if is_constant(left) and is_constant(right):
        return left << right
    left = _shifted(left, right)
    return left << type(left)(int(right) & left.itemsize * 8 - 1)


def shift_right(left: Plain, right: Plain) -> Plain:
    """Return ``left >> right``."""
    if is_constant(left) and is_constant(right):
        return left >> right
    left = _shifted(left, right)
    return left >> type(left)(int(right) & left.itemsize * 8 - 1)


def _shifted(left: Plain, right: Plain) -> Plain:
    """Return what is shifted as a number: a constant of the type of a count of 64 bits, else an i32."""
    return type(right)(left) if is_constant(left) and type(right) in WIDE else typed(left)


def power(left: Plain, right: Plain) -> Plain:
    """Return ``left ** right``."""
    if is_constant(left) and is_constant(right):
        return left**right
    if is_constant(right) and type(right) is not bool and isinstance(right, int) and abs(right) <= _MOST_FACTORS:
        return _whole_power(typed(left), right)
    if is_constant(right) and right in {0.5, -0.5}:
        root = canonical(np.sqrt(left if type(left) is F64 else to_f32(left)))
        return root if right > 0 else divide(type(root)(1), root)
    return flushed(F32(np.power(np.float64(to_f32(left)), np.float64(to_f32(right)))))


def _whole_power(base: Plain, exponent: int) -> Plain:
    if exponent < 0:
        base = to_f64(base) if type(base) in WIDE else to_f32(base)
        return divide(type(base)(1), _whole_power(base, -exponent))
    base = I32(base) if type(base) is BOOL else base
    result = None
    while exponent:
        if exponent & 1:
            result = base if result is None else multiply(result, base)
        exponent >>= 1
        if exponent:
            base = multiply(base, base)
    return type(base)(1) if result is None else result


def negative(value: Plain) -> Plain:
    """Return ``-value``."""
    return -I32(value) if type(value) is BOOL else canonical(-value)


def positive(value: Plain) -> Plain:
    """Return ``+value``."""
    return I32(value) if type(value) is BOOL else value


def negation(value: Plain) -> Plain:
    """Return ``not value``."""
    return not value if is_constant(value) else BOOL(not value)


def _compared(compare: Callable[[Plain, Plain], Plain]) -> Any:  # noqa: ANN401 -- a function
    def compared(left: Plain, right: Plain) -> Plain:
        if type(left) is type(right) or (is_constant(left) and is_constant(right)):
            return compare(left, right)
        return compare(*alike(left, right))

    return compared


def equal(left: Plain, right: Plain) -> Plain:
    """Return ``left == right``."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        same = len(left) == len(right)
        return same and all(equal(one, other) for one, other in zip(left, right, strict=True))
    return _equal(left, right)


def contains(left: Plain, right: Plain) -> Plain:
    """Return ``left in right``."""
    return any(equal(left, one) for one in right)


def least(left: Plain, right: Plain) -> Plain:
    """Return the lesser of two; of floats the one that is a number."""
    if is_constant(left) and is_constant(right):
        return min(left, right)
    left, right = alike(left, right)
    return right if left != left or right < left else left  # noqa: PLR0124 -- NaN


def greatest(left: Plain, right: Plain) -> Plain:
    """Return the greater of two; of floats the one that is a number."""
    if is_constant(left) and is_constant(right):
        return max(left, right)
    left, right = alike(left, right)
    return right if left != left or right > left else left  # noqa: PLR0124 -- NaN


def magnitude(value: Plain) -> Plain:
    """Return a number without its sign."""
    return abs(I32(value)) if type(value) is BOOL else canonical(abs(value))


_equal = _compared(operator.eq)
add = _rounded(operator.add)
multiply = _rounded(operator.mul)
OPERATORS: dict[str, Callable[[Plain, Plain], Plain]] = {
    "+": lambda left, right: left + right if isinstance(left, tuple) else add(left, right),
    "-": _rounded(operator.sub),
    "*": multiply,
    "/": divide,
    "//": _combined(_floor_divide, operator.floordiv),
    "%": _combined(_remainder, operator.mod),
    "**": power,
    "<<": shift_left,
    ">>": shift_right,
    "&": _of_bits(operator.and_),
    "|": _of_bits(operator.or_),
    "^": _of_bits(operator.xor),
    "<": _compared(operator.lt),
    "<=": _compared(operator.le),
    ">": _compared(operator.gt),
    ">=": _compared(operator.ge),
    "==": equal,
    "!=": lambda left, right: negation(equal(left, right)),
    "in": contains,
    "not in": lambda left, right: negation(contains(left, right)),
    "is": operator.is_,
    "is not": operator.is_not,
}


def of_float(compute: Callable[[Plain], Plain]) -> Callable[[Plain], Plain]:
    """Return a function of one float, of an f32 rounded once from f64; a square root of an f32 is exact that way."""

    def computed(value: Plain) -> Plain:
        return canonical(compute(value)) if type(value) is F64 else flushed(F32(compute(np.float64(to_f32(value)))))

    return computed


def of_floats(compute: Callable[..., Plain]) -> Callable[..., Plain]:
    """Return a function of several f32, rounded once from f64."""
    return lambda *values: flushed(F32(compute(*(np.float64(to_f32(value)) for value in values))))


def of_f32(compute: Callable[[Plain], Plain]) -> Callable[[Plain], Plain]:
    """Return a function of one f32, each step of which is rounded to f32."""
    return lambda value: flushed(compute(to_f32(value)))


def predicate(compute: Callable[[Plain], Plain]) -> Callable[[Plain], Plain]:
    """Return a function that tests a float."""
    return lambda value: compute(value if type(value) is F64 else to_f32(value))


def to_whole(compute: Callable[[Plain], Plain]) -> Callable[[Plain], Plain]:
    """Return a function that rounds an f32 to an i32, and an f64 to an i64."""

    def computed(value: Plain) -> Plain:
        number = typed(value)
        if type(number) in {F32, BOOL}:
            return to_i32(compute(to_f32(number)))
        return to_i64(compute(number)) if type(number) is F64 else number

    return computed


def fused(a: Plain, b: Plain, c: Plain) -> Plain:
    """Return ``a * b + c``, rounded once."""
    if F64 not in {type(a), type(b), type(c)}:
        a, b, c = (np.float64(to_f32(value)) for value in (a, b, c))
        return flushed(F32(a * b + c))
    a, b, c = to_f64(a), to_f64(b), to_f64(c)
    if not all(map(np.isfinite, (a, b, c))):
        return canonical(a * b + c if np.isfinite(c) or not (np.isfinite(a) and np.isfinite(b)) else c)
    (top, below), (by, under), (more, over) = (float(value).as_integer_ratio() for value in (a, b, c))
    exact = top * by * over + more * below * under
    if not exact:
        return a * b + c
    try:
        return F64(exact / (below * under * over))
    except OverflowError:
        return F64(math.inf if exact > 0 else -math.inf)


def nan_or(of_two: Callable[[Plain, Plain], Plain]) -> Callable[[Plain, Plain], Plain]:
    """Return the lesser or greater of two, NaN where one of them is."""

    def computed(left: Plain, right: Plain) -> Plain:
        if not (is_constant(left) and is_constant(right)):
            left, right = alike(left, right)
        if left != left:  # noqa: PLR0124 -- NaN
            return left
        return right if right != right else of_two(left, right)  # noqa: PLR0124 -- the same

    return computed


def of_whole(compute: Callable[[int], int]) -> Callable[[Plain], Plain]:
    """Return a function of a whole number that gives an i32."""
    return lambda value: I32(compute(typed(value)))


def of_wholes(compute: Callable[[int, int], int]) -> Callable[[Plain, Plain], Plain]:
    """Return a function of two whole numbers that gives one of their type."""

    def computed(left: Plain, right: Plain) -> Plain:
        if is_constant(left) and is_constant(right):
            return compute(left, right)
        left, right = alike(typed(left), right)
        return TO[f"{left.dtype.kind}{left.itemsize * 8}"](compute(int(left), int(right)))

    return computed


def rotated(compute: Callable[[int, int], Plain]) -> Callable[[Plain, Plain], Plain]:
    """Return a function that moves the bits of a word."""

    def computed(word: Plain, by: Plain) -> Plain:
        word = U32(word) if is_constant(word) else word
        return compute(word, int(by)).astype(type(word))

    return computed
