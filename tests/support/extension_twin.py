# ruff: noqa: ANN401 -- values of any kind are what it is about
"""The operators that the package adds to the IR a second time, in plain Python: f32 and f64 as their bits."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from arithmetic_twin import NAN, bits, exact_bits, number, wrap

if TYPE_CHECKING:
    from collections.abc import Callable

MASK = 0xFFFFFFFF


def raw(word: int) -> float:
    """The f32 of bits, subnormals too."""
    return struct.unpack("<f", struct.pack("<I", word))[0]


def double(word: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", word))[0]


def double_bits(value: float) -> int:
    return 0x7FF8 << 48 if math.isnan(value) else struct.unpack("<Q", struct.pack("<d", value))[0]


def half_bits(word: int) -> int:
    value = raw(word)
    if math.isnan(value):
        return 0x7E00
    try:
        return struct.unpack("<H", struct.pack("<e", value))[0]
    except OverflowError:
        return 0xFC00 if value < 0 else 0x7C00


def of_half(word: int) -> int:
    value = struct.unpack("<e", struct.pack("<H", word & 0xFFFF))[0]
    return NAN if math.isnan(value) else struct.unpack("<I", struct.pack("<f", value))[0]


def brain_bits(word: int) -> int:
    if math.isnan(raw(word)):
        return 0x7FC0
    upper, lower = word >> 16, word & 0xFFFF
    return upper + (lower > 0x8000 or (lower == 0x8000 and upper % 2 == 1))


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def cut(value: float, name: str) -> int:
    if math.isnan(value):
        return 0
    width, signed = int(name[1:]), name[0] == "i"
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    return high if value > high else low if value < low else math.trunc(value)


WIDE: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": quotient,
    "mod": lambda a, b: a - b * quotient(a, b) if b else 0,
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
    "shl": lambda a, b: a << b % 64,
    "shr": lambda a, b: a >> b % 64,
}


def divided(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def lesser(a: float, b: float) -> float:
    return b if math.isnan(a) else a if math.isnan(b) else min(a, b)


def greater(a: float, b: float) -> float:
    return b if math.isnan(a) else a if math.isnan(b) else max(a, b)


def kept(function: Callable[[float], float], a: float) -> float:
    return math.copysign(function(a), a) if math.isfinite(a) else a


def fused(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact) if exact else a * b + c
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


DOUBLES: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": divided,
    "min": lesser,
    "max": greater,
    "negate": lambda a: -a,
    "abs": abs,
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "floor": lambda a: kept(math.floor, a),
    "ceil": lambda a: kept(math.ceil, a),
    "trunc": lambda a: kept(math.trunc, a),
    "fma": fused,
}


def remainder(a: float, b: float) -> float:
    return math.fmod(a, b) if math.isfinite(a) and b != 0 else math.nan


def converted(source: str, target: str, value: Any) -> Any:
    """A conversion between numbers."""
    if source in {"f16", "bf16"}:
        return of_half(value) if source == "f16" else value << 16
    if target in {"f16", "bf16"}:
        return half_bits(value) if target == "f16" else brain_bits(value)
    if target == "f64":
        return double_bits(number(value) if source == "f32" else float(value))
    if source == "f64":
        return bits(double(value)) if target == "f32" else cut(double(value), target)
    return exact_bits(Fraction(value), 0.0) if target == "f32" else cut(number(value), target)


def extended(name: str, values: list[Any]) -> Any:
    """What an operator makes of values, whose types its name says."""
    if name.startswith("bitcast") and "64" in name:
        return wrap(values[0], "I64") if "i64" in name else values[0] & 0xFFFF_FFFF_FFFF_FFFF
    if name.startswith("bitcast"):
        return wrap(values[0] & MASK, "I32" if "i32" in name else "U32")
    if "_to_" in name:
        source, target = name.split("_to_")
        return converted(source, target, *values)
    if name.startswith(("pack_", "unpack_")):
        kind, half = name.split("_")
        return converted(half, "f32", values[0] & 0xFFFF) if kind == "unpack" else converted("f32", half, *values)
    if name == "round_half_even":
        x = number(*values)
        return bits(math.copysign(round(x), x) if math.isfinite(x) else x)
    if name == "fmod":
        return bits(remainder(*map(number, values)))
    op, kind = name.removesuffix(">").split("<")
    if kind == "f64":
        return double_bits(DOUBLES[op](*map(double, values)))
    return wrap(WIDE[op](*values), kind.upper())


def exchanged(op: str, name: str, old: int, new: int) -> int:
    """What an atomic leaves of an element with these bits."""
    if name == "F32" and op == "ADD":
        return bits(number(old) + number(new))
    if op in {"MIN", "MAX"} and name != "U32":
        if name == "I32":
            pair = sorted((old, new), key=lambda word: wrap(word, "I32"))
        elif math.isnan(raw(new)) or math.isnan(raw(old)):
            return old if math.isnan(raw(new)) else new
        else:
            pair = sorted((old, new), key=lambda word: (raw(word), word < 1 << 31))
        return pair[0] if op == "MIN" else pair[1]
    return {
        "ADD": (old + new) & MASK,
        "OR": old | new,
        "AND": old & new,
        "XOR": old ^ new,
        "MIN": min(old, new),
        "MAX": max(old, new),
        "LRU_UPDATE": max(old, new),
        "EXCHANGE": new,
    }[op]
