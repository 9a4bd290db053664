"""Zeros that a compiler can know, in arithmetic on floats: a device gives what the reference interpreter gives, bit for bit."""

from __future__ import annotations

import linecache
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver import lang

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.device

SPECIALS = np.array(
    [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3.4028234e38, -3.4028234e38, 2.5, 1.1754944e-38], np.float32
)
X, Y = (grid.ravel() for grid in np.meshgrid(SPECIALS, SPECIALS))
CONSTANTS = {
    "0": "0.0",
    "-0": "(-0.0)",
    "1": "1.0",
    "-1": "(-1.0)",
    "infinity": "math.inf",
    "-infinity": "(-math.inf)",
    "nan": "math.nan",
    "a subnormal": "1e-40",
    "-a subnormal": "(-1e-40)",
    "the largest": "3.4028234e38",
}
OPERATORS = [
    *("x[i] + C", "C + x[i]", "x[i] - C", "C - x[i]", "x[i] * C", "C * x[i]", "x[i] / C", "C / x[i]"),
    *("x[i] % C", "C % x[i]", "x[i] // C", "C // x[i]", "math.fmod(x[i], C)", "math.fmod(C, x[i])"),
    *("fma(x[i], C, y[i])", "fma(C, x[i], y[i])", "fma(x[i], y[i], C)", "fma(x[i], C, C)", "fma(C, C, x[i])"),
    *("x[i] * C + y[i]", "x[i] + y[i] * C", "y[i] * (C * x[i])", "abs(x[i] * C)", "-(x[i] * C)", "math.sqrt(x[i] * C)"),
    *("x[i] * (C if i > 3 else 0.0)", "(x[i] if i > 3 else 0.0) * C", "x[i] * (C - C)", "(x[i] - x[i]) * C"),
]
BODIES = {
    "a counter of a loop": "t = 1.0\nfor k in range(3): t += x[i] * f32(k)\no[i] = t",
    "a counter of a long loop": "t = 1.0\nfor k in range(20): t = x[i] * f32(k) + t\no[i] = t",
    "a counter in an fma": "t = 1.0\nfor k in range(3): t = fma(x[i], f32(k), t)\no[i] = t",
    "a divisor that is a counter": "t = 0.0\nfor k in range(2): t += x[i] / f32(k)\no[i] = t",
    "a counter less one": "t = 1.0\nfor k in range(3): t += x[i] * (f32(k) - 1.0)\no[i] = t",
    "Horner's scheme": "t = 0.0\nfor k in range(4): t = t * x[i] + 1.0\no[i] = t",
    "a sum from 0": "t = 0.0\nfor k in range(20): t += x[i]\no[i] = t",
    "differences from 0": "t = 0.0\nfor k in range(4): t = t - x[i]\no[i] = t",
    "a product from 0": "t = 0.0\nfor k in range(20): t = t * x[i]\no[i] = t",
    "an fma from 0": "t = 0.0\nfor k in range(3): t = fma(t, x[i], t)\no[i] = t",
    "a while loop": "t = 0.0\nk = 0\nwhile k < 2:\n    t = t + x[i] * t\n    k += 1\no[i] = t",
    "one less one": "t = 1.0\nfor k in range(2): t = (t - 1.0) * x[i]\no[i] = t",
    "an integer that a loop makes 0": "k = 0\nwhile k < 3: k += 1\no[i] = x[i] * f32(k - 3)",
    "an array's first zeros": "w = local(f32, 4)\nw[1] = 2.0\no[i] = x[i] * w[0] + w[1] * x[i]",
    "a sum with an array's first zero": "w = local(f32, 4)\no[i] = x[i] + w[0]",
    "a choice by a counter": "t = 1.0\nfor k in range(3):\n    w = 0.0 if k == 0 else x[i]\n    t += x[i] * w\no[i] = t",
    "a condition that never holds": "o[i] = x[i] * (1.0 if i < 0 else 0.0)",
    "-1 or 0": "o[i] = -1.0 if x[i] > 0.0 else 0.0",
    "1 or -0": "o[i] = 1.0 if x[i] > 0.0 else -0.0",
    "0 or -1": "o[i] = 0.0 if x[i] > 0.0 else -1.0",
    "-0 or 1": "o[i] = -0.0 if x[i] > 0.0 else 1.0",
    "-1 or -0": "o[i] = -1.0 if x[i] > 0.0 else -0.0",
    "0 or -0": "o[i] = 0.0 if x[i] > 0.0 else -0.0",
    "1 or -0 by a branch": "t = 1.0\nif not x[i] > 0.0: t = -0.0\no[i] = t",
    "a negated choice": "o[i] = -(-1.0 if x[i] > 0.0 else 0.0)",
    "1 or -0 by a pushed number": "o[i] = 1.0 if n > 0 else -0.0",
    "1 or -0 of f64": "o[i] = f32(f64(1.0) if x[i] > 0.0 else f64(-0.0))",
    "-1 or 0 by a branch": "t = -1.0\nif x[i] > 0.0: t = 0.0\no[i] = t",
    "a sine of 0": "o[i] = x[i] * math.sin(0.0)",
    "a floor": "o[i] = x[i] * math.floor(0.5)",
    "a half": "o[i] = f32(f16(0.0)) * x[i]",
    "a product of halves": "o[i] = f32(f16(x[i]) * f16(0.0))",
    "a product of bfloat16": "o[i] = f32(bf16(x[i]) * bf16(0.0))",
    "an element just stored": "o[i] = 0.0\no[i] = o[i] * x[i]",
    "a number that is pushed": "o[i] = x[i] * f32(n)",
    "a product of f64": "o[i] = f32(f64(x[i]) * 0.0)",
    "a sum of f64": "o[i] = f32(f64(x[i]) + 0.0)",
    "0 less an f64": "o[i] = f32(0.0 - f64(x[i]))",
    "an f64 less -0": "o[i] = f32(f64(x[i]) - -0.0)",
    "a sum of f64 in a loop": "t = f64(0.0)\nfor k in range(3): t = t + f64(x[i]) * f64(k)\no[i] = f32(t)",
}
QUOTIENTS = {
    "x / 0": "o[i] = x[i] / 0.0",
    "x / -0": "o[i] = x[i] / -0.0",
    "0 / x": "o[i] = 0.0 / x[i]",
    "x / C": "o[i] = x[i] / C",
    "x / a counter": "t = 0.0\nfor k in range(2): t += x[i] / f32(k)\no[i] = t",
    "a counter / x": "t = 0.0\nfor k in range(2): t += f32(k) / x[i]\no[i] = t",
    "1 / (x * 0 + 0)": "t = 0.0\nif n > 0: t = x[i]\no[i] = 1.0 / (t * 0.0)",
}


def kernel_of(lines: list[str], options: str, element: str = "f32") -> Any:  # noqa: ANN401 -- a kernel
    """Return the kernel of these lines."""
    arguments = f"i: Index, x: In[{element}], y: In[{element}], o: InOut[{element}{', 2' if 'o[i, ' in lines[0] else ''}]"
    constant = ", *, C: Const[float] = 0.0"
    text = "\n".join(
        [f"@kernel(over='x', {options})", f"def made({arguments}, n: i32{constant}):", *(f"    {line}" for line in lines)]
    )
    filename = f"<zeros {hash(text) & 0xFFFF_FFFF:x}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    names: dict[str, Any] = {**vars(lang), "math": math}
    exec(compile(text, filename, "exec", dont_inherit=True), names)  # noqa: S102 -- a text of the test's own
    return names["made"]


def differences(found: NDArray[np.float32], expected: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return where two arrays differ, bit for bit but for the bits of a NaN."""
    return (found.view(np.uint32) != expected.view(np.uint32)) & ~(np.isnan(found) & np.isnan(expected))


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("is_specialized", [False, True])
def test_every_operator_with_a_constant_is_the_references(constant: str, *, is_specialized: bool) -> None:
    text = CONSTANTS[constant]
    lines = [f"o[i, {k}] = {line if is_specialized else line.replace('C', text)}" for k, line in enumerate(OPERATORS)]
    made = kernel_of(lines, "floats='exact'")
    value = {"C": float(eval(text, {"math": math}))} if is_specialized else {}  # noqa: S307 -- a text of the test's own
    out = np.zeros((len(X), len(OPERATORS)), np.float32)
    differ = differences(made(X, Y, out.copy(), 0, **value), made.interpret(X, Y, out.copy(), 0, **value))
    assert [line for line, some in zip(OPERATORS, differ.any(axis=0), strict=True) if some] == []


@pytest.mark.parametrize("name", BODIES)
def test_a_zero_that_a_compiler_finds_late_is_not_used_to_leave_arithmetic_out(name: str) -> None:
    made = kernel_of(BODIES[name].splitlines(), "floats='exact'")
    zeros = np.zeros_like(X)
    found, expected = made(X, Y, zeros.copy(), 0), made.interpret(X, Y, zeros.copy(), 0)
    assert not differences(found, expected).any(), (X[differences(found, expected)], found, expected)


@pytest.mark.parametrize("name", QUOTIENTS)
@pytest.mark.parametrize("floats", ["device", "exact", "fast"])
def test_quotients_by_and_of_a_constant_zero_are_those_of_numpy(name: str, floats: str) -> None:
    made = kernel_of(QUOTIENTS[name].splitlines(), f"floats='{floats}'")
    given = np.array([1.0, -1.0, 2.5, np.inf, -np.inf, np.nan], np.float32)
    zeros = np.zeros_like(given)
    found, expected = made(given, given, zeros.copy(), 0), made.interpret(given, given, zeros.copy(), 0)
    assert np.array_equal(found, expected, equal_nan=True), (found, expected)
