# ruff: noqa: ANN401 -- terms and values of any kind are what it is about
"""Numbers of programs a second time, in plain Python: f32 as their bits, integers without numpy, each operator by itself."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

from vyre_driver.ir.dtypes import DataType

INTEGERS = {"U8": (8, False), "U16": (16, False), "U32": (32, False), "U64": (64, False)}
INTEGERS |= {"I8": (8, True), "I16": (16, True), "I32": (32, True), "I64": (64, True)}
NAMES = {getattr(DataType, name): name for name in (*INTEGERS, "F32", "Bool", "Vec2U32", "Vec4U32")}
NAMES |= {DataType.F16: "U16", DataType.BF16: "U16", DataType.F64: "F64"}  # held as their bits
NAN = 0x7FC00000


class Fault(Exception):
    """An i32 division that has no result, or a trap."""


def wrap(value: int, name: str) -> int:
    width, signed = INTEGERS[name]
    value &= (1 << width) - 1
    return value - (1 << width) if signed and value >> (width - 1) else value


def bits(value: float) -> int:
    """A float as canonical f32 bits: the nearest, one NaN, no subnormals."""
    if math.isnan(value):
        return NAN
    try:
        found = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        found = 0x7F800000 | (0x80000000 if value < 0 else 0)
    return found & 0x80000000 if found & 0x7FFFFFFF < 0x00800000 else found


def number(word: int) -> float:
    """Canonical f32 bits as a float; a subnormal operand is a zero."""
    if word & 0x7FFFFFFF < 0x00800000:
        word &= 0x80000000
    return struct.unpack("<f", struct.pack("<I", word))[0]


def exact_bits(value: Fraction, zero: float) -> int:
    """The f32 nearest to a fraction, ties to even, found by trying the neighbours of a guess."""
    if value == 0:
        return bits(zero)
    if abs(value) > Fraction(3.5e38):
        return bits(math.copysign(math.inf, value))
    guess = struct.unpack("<I", struct.pack("<f", min(3.4028234663852886e38, float(abs(value)))))[0]
    best = min((guess - 1, guess, guess + 1), key=lambda word: (abs(_fraction(max(word, 0)) - abs(value)), word & 1))
    return (
        bits(math.copysign(float(_fraction(max(best, 0))), value))
        if best < 0x7F800000
        else bits(math.copysign(math.inf, value))
    )


def _fraction(word: int) -> Fraction:
    return Fraction(2) ** 128 if word >= 0x7F800000 else Fraction(struct.unpack("<f", struct.pack("<I", word))[0])


def divided(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def of_f32(op: str, left: int, right: int) -> int:
    a, b = number(left), number(right)
    if op in {"MIN", "MAX"}:
        if math.isnan(a):
            return bits(b)
        return bits(b) if (b < a if op == "MIN" else b > a) else bits(a)
    return bits(
        {
            "ADD": lambda: a + b,
            "SUB": lambda: a - b,
            "MUL": lambda: a * b,
            "DIV": lambda: divided(a, b),
            "ABS_DIFF": lambda: abs(number(bits(a - b))),
        }[op]()
    )


def fused(a: float, b: float, c: float) -> int:
    if not all(map(math.isfinite, (a, b, c))):
        return bits(a * b + c)
    return exact_bits(Fraction(a) * Fraction(b) + Fraction(c), a * b + c if a * b == 0 and c == 0 else 0.0)


def of_integers(op: str, name: str, a: int, b: int) -> int:
    width, signed = INTEGERS[name]
    ones, count = (1 << width) - 1, b & (width - 1)
    if op in {"DIV", "MOD"}:
        if signed:
            if b == 0 or (b == -1 and a == -(1 << (width - 1))):
                raise Fault
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return quotient if op == "DIV" else a - quotient * b
        return (a // b if op == "DIV" else a % b) if b else (ones if op == "DIV" else 0)
    result = {
        "ADD": lambda: a + b,
        "WRAPPING_ADD": lambda: a + b,
        "SUB": lambda: a - b,
        "WRAPPING_SUB": lambda: a - b,
        "MUL": lambda: a * b,
        "MIN": lambda: min(a, b),
        "MAX": lambda: max(a, b),
        "BIT_AND": lambda: a & b,
        "BIT_OR": lambda: a | b,
        "BIT_XOR": lambda: a ^ b,
        "SHL": lambda: a << count,
        "SHR": lambda: a >> count,
        "ROTATE_LEFT": lambda: a << count | a >> (width - count),
        "ROTATE_RIGHT": lambda: a >> count | a << (width - count),
        "ABS_DIFF": lambda: abs(a - b),
        "SATURATING_ADD": lambda: min(ones, a + b),
        "SATURATING_SUB": lambda: max(0, a - b),
        "SATURATING_MUL": lambda: min(ones, a * b),
        "MUL_HIGH": lambda: a * b >> width,
    }[op]()
    return wrap(result, name)


COMPARE = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "GT": lambda a, b: a > b,
    "LE": lambda a, b: a <= b,
    "GE": lambda a, b: a >= b,
}


def binary(op: str, name: str, left: Any, right: Any, other: str) -> tuple[str, Any]:
    if op in {"AND", "OR"}:
        sides = bool(left), bool(right)
        return "Bool", all(sides) if op == "AND" else any(sides)
    assert name == other
    if op in COMPARE:
        sides = (left, right)
        if name in {"F32", "F64"}:
            sides = tuple(number(one) if name == "F32" else struct.unpack("<d", struct.pack("<Q", one))[0] for one in sides)
        return "Bool", COMPARE[op](*sides)
    return name, of_f32(op, left, right) if name == "F32" else of_integers(op, name, left, right)


def rounded(x: float) -> float:
    if not math.isfinite(x):
        return x
    whole = math.trunc(x)
    away = whole + (1 if x > 0 else -1) if abs(x - whole) >= 0.5 else whole
    return math.copysign(away, x)


def whole(function: Any, x: float) -> float:
    return math.copysign(function(x), x) if math.isfinite(x) else x


def guarded(function: Any, x: float) -> float:
    try:
        return function(x)
    except OverflowError:
        return math.inf if function is not math.sinh or x > 0 else -math.inf
    except ValueError:
        return -math.inf if function in {math.log, math.log2} and x == 0 else math.nan


FUNCTIONS = {
    "COS": math.cos,
    "SIN": math.sin,
    "TAN": math.tan,
    "ACOS": math.acos,
    "ASIN": math.asin,
    "ATAN": math.atan,
    "EXP": math.exp,
    "EXP2": lambda x: math.pow(2.0, x),
    "LOG": math.log,
    "LOG2": math.log2,
    "SINH": math.sinh,
    "COSH": math.cosh,
    "TANH": math.tanh,
    "SQRT": math.sqrt,
}


def float_unary(op: str, x: float) -> float:
    if op in FUNCTIONS:
        return guarded(FUNCTIONS[op], x)
    if op == "INVERSE_SQRT":
        return divided(1.0, number(bits(guarded(math.sqrt, x))))
    return {
        "NEGATE": lambda: -x,
        "ABS": lambda: abs(x),
        "FLOOR": lambda: whole(math.floor, x),
        "CEIL": lambda: whole(math.ceil, x),
        "TRUNC": lambda: whole(math.trunc, x),
        "ROUND": lambda: rounded(x),
        "SIGN": lambda: x if math.isnan(x) else (x > 0) - (x < 0),
        "RECIPROCAL": lambda: divided(1.0, x),
    }[op]()


def unary(op: str, name: str, value: Any) -> tuple[str, Any]:
    if op == "LOGICAL_NOT":
        return "Bool", not value
    if name == "F32":
        x = number(value)
        tests = {"IS_NAN": math.isnan, "IS_INF": math.isinf, "IS_FINITE": math.isfinite}
        return ("Bool", tests[op](x)) if op in tests else (name, bits(float(float_unary(op, x))))
    width, _ = INTEGERS[name]
    text = f"{value & ((1 << width) - 1):0{width}b}"
    digits = {"UNPACK4_LOW": text[-4:], "UNPACK4_HIGH": text[-8:-4], "UNPACK8_LOW": text[-8:], "UNPACK8_HIGH": text[:8]}
    if op in digits:
        return "U32", int(digits[op], 2)
    found = {
        "NEGATE": lambda: -value,
        "BIT_NOT": lambda: ~value,
        "POPCOUNT": lambda: text.count("1"),
        "CLZ": lambda: len(text) - len(text.lstrip("0")),
        "CTZ": lambda: len(text) - len(text.rstrip("0")),
        "REVERSE_BITS": lambda: int(text[::-1], 2),
    }[op]()
    return name, wrap(found, name)


def cast(source: str, target: str, value: Any) -> Any:
    if source == target:
        return value
    if target == "Bool":
        return any(value) if isinstance(value, tuple) else number(value) != 0 if source == "F32" else value != 0
    if target.startswith("Vec"):
        words = (
            value
            if isinstance(value, tuple)
            else (int(value) & 0xFFFFFFFF, int(value) >> 32 & 0xFFFFFFFF if source == "U64" else 0)
        )
        return (*words, 0, 0, 0, 0)[: int(target[3])]
    if isinstance(value, tuple):
        return wrap(value[0] | value[1] << 32, target)
    if target == "F32":
        return exact_bits(Fraction(int(value)), 0.0)
    if source == "F32":
        x, (width, signed) = number(value), INTEGERS[target]
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
        return 0 if math.isnan(x) else high if x > high else low if x < low else math.trunc(x)
    return wrap(int(value), target)
