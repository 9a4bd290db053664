# ruff: noqa: ANN401 -- terms and values of any kind are what it is about
"""The semantics of programs a second time, in plain Python: one invocation after the other, one number after the other.

Nothing is shared with the product but the terms of a program. f32 are held as their bits; sums, products, quotients and square
roots are computed in Python's f64 and rounded, which is exact for these (53 >= 2 * 24 + 2 bits), fma in fractions.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.ir.dtypes import DataType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vyre_driver.ir.program import Program

INTEGERS = {"U8": (8, False), "U16": (16, False), "U32": (32, False), "U64": (64, False)}
INTEGERS |= {"I8": (8, True), "I16": (16, True), "I32": (32, True), "I64": (64, True)}
NAMES = {getattr(DataType, name): name for name in (*INTEGERS, "F32", "Bool", "Vec2U32", "Vec4U32")}
NAMES |= {DataType.F16: "U16", DataType.F64: "U64"}  # moved by their bits, and nothing is computed of them
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
        sides = (number(left), number(right)) if name == "F32" else (left, right)
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


ATOMICS = {
    "ADD": lambda old, new: (old + new) & 0xFFFFFFFF,
    "OR": lambda old, new: old | new,
    "AND": lambda old, new: old & new,
    "XOR": lambda old, new: old ^ new,
    "MIN": min,
    "MAX": max,
    "LRU_UPDATE": max,
    "EXCHANGE": lambda _old, new: new,
}


class Ended(Exception):
    """The invocation has returned."""


class Invocation:
    """One invocation; ``memory`` holds lists of plain values."""

    def __init__(self, memory: dict[str, list[Any]], types: dict[str, str], ids: dict[str, tuple[int, ...]]) -> None:
        self.memory = memory
        self.types = types
        self.ids = ids
        self.scopes: list[dict[str, Any]] = []

    def run(self, nodes: Sequence[Any]) -> Iterator[None]:
        try:
            yield from self.body(nodes)
        except Ended:
            return

    def body(self, nodes: Sequence[Any], **variables: Any) -> Iterator[None]:
        self.scopes.append(variables)
        for node in nodes:
            steps = getattr(self, f"do_{type(node).__name__.lower()}")(node)
            if steps is not None:
                yield from steps
        self.scopes.pop()

    def do_let(self, node: Any) -> None:
        self.scopes[-1][node.name] = self.value(node.value)

    def do_assign(self, node: Any) -> None:
        value = self.value(node.value)
        next(scope for scope in reversed(self.scopes) if node.name in scope)[node.name] = value

    def do_store(self, node: Any) -> None:
        index, value = self.value(node.index)[1], self.value(node.value)[1]
        if index < len(self.memory[node.buffer]):
            self.memory[node.buffer][index] = int(value) if self.types[node.buffer] == "Bool" else value

    def do_if(self, node: Any) -> Iterator[None]:
        yield from self.body(node.then if self.value(node.cond)[1] else node.otherwise)

    def do_loop(self, node: Any) -> Iterator[None]:
        for turn in range(self.value(node.start)[1], self.value(node.stop)[1]):
            yield from self.body(node.body, **{node.var: ("U32", turn)})

    def do_block(self, node: Any) -> Iterator[None]:
        return self.body(node.body)

    do_region = do_block

    def do_return(self, _node: Any) -> None:
        raise Ended

    def do_barrier(self, _node: Any) -> Iterator[None]:
        yield

    def do_trap(self, node: Any) -> None:
        raise Fault(node.tag)

    def value(self, expr: Any) -> tuple[str, Any]:
        return getattr(self, f"of_{type(expr).__name__.lower()}")(expr)

    def of_litu32(self, expr: Any) -> tuple[str, Any]:
        return "U32", expr.value

    def of_liti32(self, expr: Any) -> tuple[str, Any]:
        return "I32", expr.value

    def of_litbool(self, expr: Any) -> tuple[str, Any]:
        return "Bool", expr.value

    def of_litf32(self, expr: Any) -> tuple[str, Any]:
        return "F32", expr.bits

    def of_opaqueexpr(self, expr: Any) -> tuple[str, Any]:
        name = expr.kind.rpartition(".")[2].upper().replace("F64", "U64")
        return name, int.from_bytes(expr.payload, "little", signed=name == "I64")

    def of_var(self, expr: Any) -> tuple[str, Any]:
        return next(scope[expr.name] for scope in reversed(self.scopes) if expr.name in scope)

    def of_load(self, expr: Any) -> tuple[str, Any]:
        index, name = self.value(expr.index)[1], self.types[expr.buffer]
        found = self.memory[expr.buffer]
        value = found[index] if index < len(found) else (0,) * int(name[3]) if name.startswith("Vec") else 0
        return name, value != 0 if name == "Bool" else value

    def of_buflen(self, expr: Any) -> tuple[str, Any]:
        return "U32", len(self.memory[expr.buffer])

    def of_invocationid(self, expr: Any) -> tuple[str, Any]:
        return "U32", self.ids["invocation"][expr.axis]

    def of_workgroupid(self, expr: Any) -> tuple[str, Any]:
        return "U32", self.ids["workgroup"][expr.axis]

    def of_localid(self, expr: Any) -> tuple[str, Any]:
        return "U32", self.ids["local"][expr.axis]

    def of_binary(self, expr: Any) -> tuple[str, Any]:
        (name, left), (other, right) = self.value(expr.left), self.value(expr.right)
        return binary(expr.op.name, name, left, right, other)

    def of_unary(self, expr: Any) -> tuple[str, Any]:
        return unary(expr.op.name, *self.value(expr.operand))

    def of_select(self, expr: Any) -> tuple[str, Any]:
        chosen, one, other = (self.value(part) for part in (expr.cond, expr.true_value, expr.false_value))
        return one if chosen[1] else other

    def of_cast(self, expr: Any) -> tuple[str, Any]:
        name, value = self.value(expr.value)
        return NAMES[expr.target], cast(name, NAMES[expr.target], value)

    def of_fma(self, expr: Any) -> tuple[str, Any]:
        return "F32", fused(*(number(self.value(part)[1]) for part in (expr.a, expr.b, expr.c)))

    def of_atomic(self, expr: Any) -> tuple[str, Any]:
        index = self.value(expr.index)[1]
        expected = None if expr.expected is None else self.value(expr.expected)[1]
        value, words = self.value(expr.value)[1], self.memory[expr.buffer]
        if index >= len(words):
            return "U32", 0
        old = words[index]
        op = expr.op.name
        words[index] = (value if old == expected else old) if op == "COMPARE_EXCHANGE" else ATOMICS[op](old, value)
        return "U32", old


def elements(data: np.ndarray, name: str) -> list[Any]:
    """The elements of a buffer's array as plain values."""
    raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    if name.startswith("Vec"):
        return [tuple(row) for row in raw.view(np.uint32).reshape(-1, int(name[3])).tolist()]
    if name == "Bool":
        return raw.view(np.uint32).tolist()  # words, which stay as they are where nothing is stored
    kind = "u4" if name == "F32" else f"{'i' if INTEGERS[name][1] else 'u'}{INTEGERS[name][0] // 8}"
    return raw.view(kind).tolist()


def packed(values: list[Any], name: str) -> bytes:
    """Plain values as the bytes of a buffer."""
    if name.startswith("Vec"):
        return np.array(values, np.uint32).tobytes()
    kind = "u4" if name in {"F32", "Bool"} else f"{'i' if INTEGERS[name][1] else 'u'}{INTEGERS[name][0] // 8}"
    return np.array([int(one) for one in values], kind).tobytes()


def run_slowly(program: Program, inputs: Sequence[np.ndarray], grid: tuple[int, int, int]) -> dict[str, bytes]:
    """Run a program; returns the bytes of every buffer that may be written and outlives it.

    ``inputs`` are for the buffers that are neither outputs nor in workgroup memory, in the order of the declarations.
    """
    types = {buffer.name: NAMES[buffer.element] for buffer in program.buffers}
    given = iter(inputs)
    memory: dict[str, list[Any]] = {}
    shared = [one for one in program.buffers if one.access.name == "WORKGROUP"]
    for buffer in program.buffers:
        if buffer not in shared:
            size = buffer.element.size_bytes or 0
            data = np.zeros(buffer.count * size, np.uint8) if buffer.is_output else next(given)
            memory[buffer.name] = elements(data, types[buffer.name])
    for group in product(*(range(size) for size in reversed(grid))):
        for one in shared:
            memory[one.name] = elements(np.zeros(one.count * (one.element.size_bytes or 0), np.uint8), types[one.name])
        _run_group(program, memory, types, group[::-1])
    written = {one.name for one in program.buffers if one.access.name == "READ_WRITE"}
    return {name: packed(memory[name], types[name]) for name in memory if name in written}


def _run_group(program: Program, memory: dict[str, list[Any]], types: dict[str, str], group: tuple[int, ...]) -> None:
    waiting = []
    for local in product(*(range(size) for size in reversed(program.workgroup_size))):
        own = local[::-1]
        at = tuple(one * size + place for one, size, place in zip(group, program.workgroup_size, own, strict=True))
        waiting.append(Invocation(memory, types, {"invocation": at, "workgroup": group, "local": own}).run(program.entry))
    while waiting:
        stopped = [one for one in waiting if next(one, waiting) is not waiting]
        assert len(stopped) in {0, len(waiting)}
        waiting = stopped
