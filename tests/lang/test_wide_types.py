"""Numbers of 64, 16 and 8 bits, and the bits of numbers as another type: as a program, as plain Python, and on a device."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from both_ways import function_of, run_both, run_on_device, translated
from kernel_texts import NAMES
from refusals import refusal

from vyre_driver.errors import KernelTypeError
from vyre_driver.lang import types
from vyre_driver.lang.frontend.intrinsics import bitcast

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_EDGES = (0, 1, -1, 2, -2, 3, 7, 31, 32, 63, 64, 1 << 31, (1 << 32) - 1, 1 << 32, -(1 << 32), (1 << 63) - 1, -(1 << 63), 12345)
_F64 = (0.0, -0.0, 1.0, -1.5, 1e300, -1e300, 5e-324, 0.1, 2.0**53 + 2, math.inf, -math.inf, math.nan)


def kernel(signature: str, line: str) -> Any:  # noqa: ANN401 -- a function
    return function_of(f"def kernel(i: Index, {signature}):\n    {line}\n", "kernel", {**vars(types), **NAMES})


def pairs(element: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return two arrays that have every pair of edges of a type."""
    if element == "f64":
        values = np.array(_F64)
    else:
        words = np.array([value & (1 << 64) - 1 for value in _EDGES], np.uint64)
        values = words.view(types.SCALARS[element].dtype)
    left, right = (np.array(side) for side in zip(*itertools.product(values, values), strict=True))
    return left.astype(values.dtype), right.astype(values.dtype)


def computed(signature: str, line: str, out: NDArray[Any], **given: Any) -> NDArray[Any]:  # noqa: ANN401 -- arrays, numbers
    """Return what a kernel leaves in ``o``, both ways."""
    found = run_both(kernel(signature, line), {**given, "o": out}, (len(out),))
    assert not found.differences(), found.differences()
    return found.program["o"]


def same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    words = f"u{one.itemsize}"
    alike = one.view(words) == other.view(words)
    return bool((alike | (np.isnan(one) & np.isnan(other)) if one.dtype.kind == "f" else alike).all())


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "x[i] + y[i]": np.add,
    "x[i] - y[i]": np.subtract,
    "x[i] * y[i]": np.multiply,
    "x[i] // y[i]": np.floor_divide,
    "x[i] % y[i]": np.remainder,
    "x[i] & y[i]": np.bitwise_and,
    "x[i] | y[i]": np.bitwise_or,
    "x[i] ^ y[i]": np.bitwise_xor,
    "min(x[i], y[i])": np.minimum,
    "max(x[i], y[i])": np.maximum,
    "x[i] << y[i]": lambda x, y: x << (y & y.dtype.type(63)),
    "x[i] >> y[i]": lambda x, y: x >> (y & y.dtype.type(63)),
    "-x[i] ^ ~y[i]": lambda x, y: -x ^ ~y,
    "abs(x[i]) + x[i] ** 3": lambda x, _: np.abs(x) + x**3,
    "x[i] if x[i] < y[i] else 7": lambda x, y: np.where(x < y, x, x.dtype.type(7)),
    "x[i] + 5 if not x[i] >= y[i] and x[i] != y[i] else y[i]": lambda x, y: np.where(x < y, x + x.dtype.type(5), y),
    "x[i] // 3 + y[i] % 10": lambda x, y: x // x.dtype.type(3) + y % y.dtype.type(10),
}


@pytest.mark.parametrize("element", ["i64", "u64"])
@pytest.mark.parametrize("line", list(_OPERATORS))
def test_whole_numbers_of_64_bits_are_those_of_numpy(line: str, element: str) -> None:
    x, y = pairs(element)
    found = computed(f"x: In[{element}], y: In[{element}], o: Out[{element}]", f"o[i] = {line}", np.zeros_like(x), x=x, y=y)
    with np.errstate(all="ignore"):
        assert same(found, _OPERATORS[line](x, y))


_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "x[i] + y[i] * 1.5": lambda x, y: x + y * 1.5,
    "x[i] - y[i]": np.subtract,
    "x[i] / y[i]": np.divide,
    "-x[i] + 2": lambda x, _: -x + 2,
    "abs(x[i])": lambda x, _: np.abs(x),
    "math.sqrt(x[i])": lambda x, _: np.sqrt(x),
    "np.floor(x[i]) + np.ceil(y[i])": lambda x, y: np.floor(x) + np.ceil(y),
    "x[i] ** 2": lambda x, _: x * x,
    "x[i] ** 0.5": lambda x, _: np.sqrt(x),
    "1.0 if math.isnan(x[i]) or math.isinf(y[i]) else 0.0": lambda x, y: (np.isnan(x) | np.isinf(y)) * 1.0,
    "max(x[i], y[i])": np.fmax,
    "fma(x[i], x[i], -1.0)": lambda x, _: x * x - 1.0,  # whose products are exact here
}


@pytest.mark.parametrize("line", list(_FLOATS))
def test_floats_of_64_bits_are_those_of_numpy(line: str) -> None:
    x, y = pairs("f64")
    if "fma" in line:
        x = y = np.array([0.0, 1.5, -2.0, 1e300, math.inf, -math.inf, math.nan])
    if "max" in line:
        kept = ~((x == 0) & (y == 0))
        x, y = x[kept], y[kept]
    found = computed("x: In[f64], y: In[f64], o: Out[f64]", f"o[i] = {line}", np.zeros_like(x), x=x, y=y)
    with np.errstate(all="ignore"):
        assert same(found, _FLOATS[line](x, y))


def test_an_fma_of_f64_is_rounded_once() -> None:
    x = np.array([1 + 2.0**-52, 1 / 3])
    found = computed("x: In[f64], o: Out[f64]", "o[i] = fma(x[i], x[i], -(x[i] * x[i]))", np.zeros(2), x=x)
    assert found[0] == 2.0**-104
    assert found[1] != 0


_WHOLE_TYPES = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")


@pytest.mark.parametrize(
    ("source", "target"), [pair for pair in itertools.product(_WHOLE_TYPES, _WHOLE_TYPES) if pair[0] != pair[1]]
)
def test_a_cast_of_whole_numbers_is_numpys(source: str, target: str) -> None:
    words = np.array([value & (1 << 64) - 1 for value in _EDGES], np.uint64)
    x = words.astype(types.SCALARS[source].dtype)
    dtype = types.SCALARS[target].dtype
    found = computed(f"x: In[{source}], o: Out[{target}]", f"o[i] = {target}(x[i])", np.zeros(len(x), dtype), x=x)
    assert same(found, x.astype(dtype))


@pytest.mark.parametrize("target", ["f32", "f64"])
@pytest.mark.parametrize("source", ["i32", "u32", "i64", "u64", "f32", "f64", "i8", "bool_"])
def test_a_cast_to_floats_is_numpys(source: str, target: str) -> None:
    words = np.array([value & (1 << 64) - 1 for value in _EDGES], np.uint64)
    scalar = getattr(types, source)
    x = words.view(np.int64).astype(scalar.dtype) if source[0] != "f" else np.array([0.1, -2.5, 1e30], scalar.dtype)
    given = x.astype(np.uint32) if source == "bool_" else x
    dtype = types.SCALARS[target].dtype
    found = computed(f"x: In[{source}], o: Out[{target}]", f"o[i] = {target}(x[i])", np.zeros(len(x), dtype), x=given)
    assert same(found, x.astype(dtype))


@pytest.mark.parametrize("target", ["i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_a_float_is_cut_and_held_within_the_range(source: str, target: str) -> None:
    x = np.array([0.0, 1.9, -1.9, 1e5, -7e4, math.nan, 1e30, -1e30], types.SCALARS[source].dtype)
    scalar = types.SCALARS[target]
    low, high = scalar.bounds
    found = computed(f"x: In[{source}], o: Out[{target}]", f"o[i] = {target}(x[i])", np.zeros(len(x), scalar.dtype), x=x)
    assert found.tolist() == [min(max(int(value), low), high) if not math.isnan(value) else 0 for value in x.tolist()]


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [("i32", "i64", "i64"), ("u32", "u64", "u64"), ("u32", "i64", "i64"), ("f32", "f64", "f64"), ("i32", "f64", "f64")],
)
def test_types_that_hold_each_other_meet_in_the_wider(left: str, right: str, result: str) -> None:
    x = np.array([3, 7, 250], types.SCALARS[left].dtype)
    y = np.array([1 << 40, 5, 1], types.SCALARS[right].dtype)
    dtype = types.SCALARS[result].dtype
    text = f"x: In[{left}], y: In[{right}], o: Out[{result}]"
    for sign in ("x[i] + y[i]", "y[i] - x[i]", "x[i] * 3 + y[i]"):
        found = computed(text, f"o[i] = {sign}", np.zeros(3, dtype), x=x, y=y)
        assert same(found, eval(sign.replace("[i]", ""), {"x": x.astype(dtype), "y": y.astype(dtype)}))  # noqa: S307


_REFUSED = [
    ("x: In[i64], y: In[u64], o: Out[u64]", "o[i] = x[i] + y[i]", "'+' between i64 and u64"),
    ("x: In[i32], y: In[u64], o: Out[u64]", "o[i] = x[i] + y[i]", "'+' between i32 and u64"),
    ("x: In[i64], y: In[f64], o: Out[f64]", "o[i] = x[i] * y[i]", "'*' between i64 and f64"),
    ("x: In[u64], y: In[f32], o: Out[f32]", "o[i] = x[i] * y[i]", "'*' between u64 and f32"),
    ("x: In[i64], y: In[i64], o: Out[f32]", "o[i] = x[i] * 0.5", "the float 0.5 stands beside i64"),
    ("x: In[i64], y: In[i64], o: Out[i32]", "o[i] = x[i]", "'o' holds i32, and is given i64"),
    ("x: In[f64], y: In[f64], o: Out[f64]", "o[i] = math.sin(x[i])", "math.sin of f64"),
    ("x: In[f64], y: In[f64], o: Out[f64]", "o[i] = x[i] % y[i]", "'%' of f64"),
    ("x: In[i64], y: In[i64], o: Out[f64]", "o[i] = math.sqrt(x[i])", "math.sqrt of i64"),
    ("x: In[f64], y: In[f64], o: Out[f64]", "o[i] = x[i] ** y[i]", "'**' of f64, but by a constant"),
    ("x: In[f64], y: In[f64], o: Out[f16]", "o[i] = x[i]", "'o' holds f16, and is given f64"),
    ("x: In[i64], y: In[i64], o: Out[i64]", "o[i] = x[i] << 64", "'<<' by 64"),
    ("x: In[i64], y: In[i64], o: Out[i64]", "o[i] = x[i] + 9223372036854775808", "9223372036854775808 does not fit i64"),
]


@pytest.mark.parametrize(("signature", "line", "problem"), _REFUSED)
def test_what_would_lose_or_is_not_there_is_refused_by_name(signature: str, line: str, problem: str) -> None:
    made = kernel(signature, line)
    with pytest.raises(KernelTypeError) as caught:
        translated(made)
    assert caught.value.problem.startswith(problem)
    assert caught.value.fix
    assert caught.value.frames


def test_quotients_of_64_bits_are_f64() -> None:
    x = np.array([7, -(1 << 62), 1], np.int64)
    y = np.array([2, 3, 0], np.int64)
    with np.errstate(all="ignore"):
        expected = x / y
    assert same(computed("x: In[i64], y: In[i64], o: Out[f64]", "o[i] = x[i] / y[i]", np.zeros(3), x=x, y=y), expected)


def test_scalars_of_64_bits_are_pushed() -> None:
    line = "o[i] = f64(n) + a * x[i] + f64(m) * 0.5"
    x = np.array([1.0, 2.0])
    found = computed("x: In[f64], o: Out[f64], n: i64, a: f64, m: u64", line, np.zeros(2), x=x, n=-5, a=0.1, m=1 << 63)
    assert same(found, -5.0 + 0.1 * x + 2.0**63 * 0.5)


def test_variables_loops_and_choices_have_64_bits() -> None:
    text = """def kernel(i: Index, x: In[u64], o: Out[u64]):
    h = u64(14695981039346656037)
    word = x[i]
    for k in range(8):
        h = (h ^ (word & 0xFF)) * 1099511628211
        word >>= 8
    if h > 1 << 63:
        h += 1
    n: i64 = 0
    while n < 3:
        n += 1
    o[i] = rotl(h, 13) + u64(n)
"""
    made = function_of(text, "kernel", {**vars(types), **NAMES})
    x = np.array([0, 1, 2**64 - 1, 0x0123_4567_89AB_CDEF], np.uint64)
    found = run_both(made, {"x": x, "o": np.zeros_like(x)}, (4,))
    assert not found.differences()

    def hashed(word: int) -> int:
        h = 14695981039346656037
        for byte in word.to_bytes(8, "little"):
            h = (h ^ byte) * 1099511628211 % 2**64
        h += h > 1 << 63
        return ((h << 13 | h >> 51) + 3) % 2**64

    assert found.program["o"].tolist() == [hashed(int(word)) for word in x]


def test_bits_of_64_are_counted_and_turned() -> None:
    x, _ = pairs("i64")
    line = "o[i] = popcount(x[i]) * 10000 + clz(x[i]) * 100 + ctz(x[i])"
    found = computed("x: In[i64], o: Out[i32]", line, np.zeros(len(x), np.int32), x=x)
    words = [int(value) % 2**64 for value in x]
    assert found.tolist() == [
        w.bit_count() * 10000 + (64 - w.bit_length()) * 100 + ((w & -w).bit_length() - 1 if w else 64) for w in words
    ]
    turned = computed("x: In[u64], o: Out[u64]", "o[i] = rotr(x[i], i)", np.zeros(len(x), np.uint64), x=x.view(np.uint64))
    assert turned.tolist() == [(w >> k % 64 | w << (64 - k % 64)) % 2**64 for k, w in enumerate(words)]


def test_quotients_of_64_bits_round_to_zero() -> None:
    x, y = pairs("i64")
    found = computed(
        "x: In[i64], y: In[i64], o: Out[i64]",
        "o[i] = trunc_div(x[i], y[i]) ^ trunc_rem(x[i], y[i])",
        np.zeros_like(x),
        x=x,
        y=y,
    )
    for a, b, got in zip(x.tolist(), y.tolist(), found.tolist(), strict=True):
        quotient = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        rest = a - quotient * b if b else 0
        assert (quotient ^ rest) % 2**64 == got % 2**64


@pytest.mark.parametrize("kind", ["i64", "u64"])
def test_cdiv_of_64_bits_rounds_up(kind: str) -> None:
    x, y = (one.view(types.SCALARS[kind].dtype) for one in pairs("i64"))
    found = computed(f"x: In[{kind}], y: In[{kind}], o: Out[{kind}]", "o[i] = cdiv(x[i], y[i])", np.zeros_like(x), x=x, y=y)
    for a, b, got in zip(x.tolist(), y.tolist(), found.tolist(), strict=True):
        assert (-(-a // b) if b else 0) % 2**64 == got % 2**64, (a, b)


def test_indices_of_64_bits_are_out_of_range_where_they_are() -> None:
    x = np.arange(1, 5, dtype=np.int32)
    at = np.array([0, 3, 4, -1, 1 << 32, (1 << 32) + 1, -(1 << 63)], np.int64)
    found = computed(
        "x: In[i32], at: In[i64], o: Out[i32]", "o[i] = x[at[i]] + 10 * x[u64(at[i])]", np.zeros(7, np.int32), x=x, at=at
    )
    assert found.tolist() == [11, 44, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("element", ["i8", "u8", "i16", "u16"])
def test_narrow_whole_numbers_load_as_i32_and_wrap_when_stored(element: str) -> None:
    dtype = types.SCALARS[element].dtype
    x = np.array([0, 1, 127, 128, 255, 256, 32767, 32768, 65535, -1, -128], np.int64).astype(dtype)
    found = computed(f"x: In[{element}], o: Out[{element}]", "o[i] = x[i] * 3 - 200", np.zeros(len(x), dtype), x=x)
    assert same(found, (x.astype(np.int32) * 3 - 200).astype(dtype))


def halves(element: str) -> NDArray[Any]:
    values = [
        0.0,
        -0.0,
        1.0,
        1 + 2.0**-11,
        1 + 2.0**-8,
        1.00390625,
        1.01171875,
        65504.0,
        65520.0,
        1e-8,
        -3e-6,
        math.inf,
        math.nan,
    ]
    with np.errstate(all="ignore"):
        return np.array(values, np.float32).astype(types.SCALARS[element].dtype)


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_halves_load_as_f32_and_round_to_the_nearest_even_when_stored(element: str) -> None:
    dtype = types.SCALARS[element].dtype
    x = np.array(
        [1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 65519.0, 65520.0, 1e-8, -3e-6, 0.1, math.inf], np.float32
    )
    found = computed(f"x: In[f32], o: Out[{element}]", "o[i] = x[i]", np.zeros(len(x), dtype), x=x)
    with np.errstate(all="ignore"):
        assert found.tobytes() == x.astype(dtype).tobytes()
    h = halves(element)
    loaded = computed(f"x: In[{element}], o: Out[f32]", "o[i] = x[i] * 2.0", np.zeros(len(h), np.float32), x=h)
    assert same(loaded, h.astype(np.float32) * np.float32(2))
    rounded = computed("x: In[f32], o: Out[f32]", f"o[i] = {element}(x[i])", np.zeros(len(x), np.float32), x=x)
    with np.errstate(all="ignore"):
        assert same(rounded, x.astype(dtype).astype(np.float32))


def test_bools_are_words_in_memory() -> None:
    x = np.array([0, 1, 5], np.uint32)
    assert computed("x: In[bool_], o: Out[bool_]", "o[i] = not x[i]", np.zeros(3, np.uint32), x=x).tolist() == [1, 0, 0]


def test_captured_scalars_of_numpy_keep_their_types() -> None:
    text = "def kernel(i: Index, o: Out[f64]):\n    o[i] = BIG + SMALL * 0.5\n"
    made = function_of(text, "kernel", {**vars(types), **NAMES, "BIG": np.float64(0.1), "SMALL": np.float64(3)})
    found = run_both(made, {"o": np.zeros(1)}, (1,))
    assert found.program["o"][0] == 0.1 + 1.5
    assert not found.differences()


@pytest.mark.device
@pytest.mark.parametrize("element", ["i64", "u64"])
def test_a_device_computes_whole_numbers_of_64_bits_alike(element: str) -> None:
    x, y = pairs(element)
    lines = [line for line in _OPERATORS if not line.startswith("x[i] //")] + ["x[i] // y[i]", "rotl(x[i], y[i])"]
    text = f"def kernel(i: Index, x: In[{element}], y: In[{element}], o: InOut[{element}, 2], n: {element}):\n"
    text += "".join(f"    o[{k}, i] = ({line}) ^ n\n" for k, line in enumerate(lines))
    made = function_of(text, "kernel", {**vars(types), **NAMES})
    arguments = {"x": x, "y": y, "o": np.zeros((len(lines), len(x)), x.dtype), "n": 1 << 40}
    found = run_both(made, arguments, (len(x),))
    assert not found.differences()
    assert same(run_on_device(made, arguments, (len(x),))["o"], found.program["o"])


@pytest.mark.device
def test_a_device_computes_and_converts_floats_of_64_and_16_bits_alike() -> None:
    text = """def kernel(i: Index, x: In[f64], h: In[f16], b: In[bf16], o: InOut[f64, 2], p: Out[f16], q: Out[bf16], a: f64):
    o[0, i] = x[i] * a + 0.1
    o[1, i] = math.sqrt(abs(x[i])) if x[i] < a else f64(i64(np.floor(x[i])))
    o[2, i] = max(x[i], -x[i]) + h[i]
    p[i] = h[i] * 1.1 + b[i]
    q[i] = b[i] / 3.0
"""
    made = function_of(text, "kernel", {**vars(types), **NAMES})
    x = np.array([0.0, 1.5, -1e10, 0.1, 3e8, -7.7])
    small = np.array([0.5, 1.0, -2.0, 3.14, 100.0, 1e-3], np.float32)
    arguments = {
        "x": x,
        "h": small.astype(types.f16.dtype),
        "b": small.astype(types.bf16.dtype),
        "o": np.zeros((3, 6)),
        "p": np.zeros(6, types.f16.dtype),
        "q": np.zeros(6, types.bf16.dtype),
        "a": 0.3,
    }
    found = run_both(made, arguments, (6,))
    assert not found.differences()
    device = run_on_device(made, arguments, (6,))
    assert all(device[name].tobytes() == found.program[name].tobytes() for name in ("o", "p", "q"))


@pytest.mark.device
def test_a_device_loads_and_stores_narrow_numbers_alike() -> None:
    text = """def kernel(i: Index, x: In[i8], y: In[u16], o: InOut[u8], p: InOut[i16]):
    o[i] = x[i] * 7
    p[i] = p[i] + y[i] * x[i]
"""
    made = function_of(text, "kernel", {**vars(types), **NAMES})
    numbers = np.arange(-70, 70)
    given = {"x": numbers.astype(np.int8), "y": (numbers * 999).astype(np.uint16), "o": np.zeros(140, np.uint8)}
    arguments = {**given, "p": (numbers * 300).astype(np.int16)}
    found = run_both(made, arguments, (140,))
    assert not found.differences()
    device = run_on_device(made, arguments, (140,))
    assert all(same(device[name], found.program[name]) for name in ("o", "p"))


_WORDS = np.array([0, 1, 0x8000_0001, 0x807F_FFFF, 0x7FC1_2345, 0x3F80_0000, 0xFFFF_FFFF, 0x8000_0000], np.uint32)
_LONG = np.array([0, 1, 1 << 63, 0x7FF8_0000_0000_0001, 0x3FF0 << 48, (1 << 64) - 1, 0xFFF0 << 48], np.uint64)
_PAIRS = [*itertools.permutations(("u32", "i32", "f32"), 2), *itertools.permutations(("u64", "i64", "f64"), 2)]


def function_of_text(text: str) -> Any:  # noqa: ANN401 -- a function
    return function_of(text, "kernel", {**vars(types), **NAMES, "bitcast": bitcast})


@pytest.mark.parametrize(("source", "target"), _PAIRS)
def test_bits_stay_what_they_are(source: str, target: str) -> None:
    bits = _WORDS if source[1:] == "32" else _LONG
    function = function_of_text(
        f"def kernel(i: Index, x: In[{source}], o: Out[{target}]):\n    o[i] = bitcast({target}, x[i])\n"
    )
    arguments = {"x": bits.view(types.SCALARS[source].dtype), "o": np.zeros(len(bits), types.SCALARS[target].dtype)}
    found = run_both(function, arguments, (len(bits),))
    assert found.program["o"].tobytes() == bits.tobytes()
    assert found.python["o"].tobytes() == bits.tobytes()


def test_constants_are_as_wide_as_the_target() -> None:
    text = """def kernel(i: Index, o: InOut[u64]):
    o[0] = u64(bitcast(u32, 1.5)) + u64(bitcast(u32, -1))
    o[1] = bitcast(u64, 1.5)
    o[2] = bitcast(u64, bitcast(f64, 0x3FF0000000000000) + 1.0)
    o[3] = u64(bitcast(u32, bitcast(f32, 0x80000000)))
"""
    found = run_both(function_of_text(text), {"o": np.zeros(4, np.uint64)}, (1,))
    assert not found.differences()
    assert found.program["o"].tolist() == [0x3FC0_0000 + 0xFFFF_FFFF, 0x3FF8 << 48, 0x4000 << 48, 0x8000_0000]
    assert bitcast(types.u32, 1.5) == 0x3FC0_0000
    assert bitcast(types.f64, np.uint64(0x3FF8 << 48)) == 1.5


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("o[i] = bitcast(u32, u64(1))", "bitcast of u64, which has 64 bits, to u32"),
        ("o[i] = u32(bitcast(u64, x[i]))", "bitcast of f32, which has 32 bits, to u64"),
        ("o[i] = bitcast(u32, x[i] > 0.0)", "bitcast of bool, which has 1 bit, to u32"),
        ("o[i] = bitcast(f16, x[i])", "bitcast gives a number, and got the type f16"),
        ("o[i] = bitcast(x[i], u32)", "bitcast gives a number, and got f32"),
    ],
)
def test_other_widths_are_refused(line: str, problem: str) -> None:
    function = function_of_text(f"def kernel(i: Index, x: In[f32], o: Out[u32]):\n    {line}\n")
    assert refusal(lambda: translated(function), KernelTypeError).problem == problem


@pytest.mark.device
def test_a_device_agrees() -> None:
    text = """def kernel(i: Index, x: In[f32], y: In[f64], o: Out[u32], p: Out[i64], q: Out[f64]):
    o[i] = bitcast(u32, x[i]) ^ bitcast(u32, x[i] * 2.0)
    p[i] = bitcast(i64, y[i])
    q[i] = bitcast(f64, bitcast(u64, y[i]) ^ (1 << 63)) + 1.0
"""
    x, y = np.linspace(-3, 4, 9).astype(np.float32), np.linspace(-1e9, 1e9, 9)
    outs = {"o": np.zeros(9, np.uint32), "p": np.zeros(9, np.int64), "q": np.zeros(9)}
    found = run_both(function_of_text(text), {"x": x, "y": y, **outs}, (9,))
    assert not found.differences()
    device = run_on_device(function_of_text(text), {"x": x, "y": y, **outs}, (9,))
    assert all(device[name].tobytes() == found.program[name].tobytes() for name in outs)
