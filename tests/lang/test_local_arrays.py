"""Arrays of an invocation's own: as a program, as plain Python, and on a device."""

# ruff: noqa: ANN001, ANN201, ANN202 -- kernels return nothing, and their functions take any number

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_ways import function_of, run_both, run_on_device, translated
from kernel_texts import NAMES
from refusals import refusal

from vyre_driver.errors import KernelTypeError, LimitExceeded
from vyre_driver.lang import types
from vyre_driver.lang.frontend.intrinsics import local, static_range
from vyre_driver.lang.frontend.translate import check_shared
from vyre_driver.lang.types import Group, In, Index, InOut, Out, bf16, bool_, f16, f32, f64, i16, i32, u8, u64


def median(i: Index, x: In[f32], o: Out[f32]):
    """Sort the five numbers around each place."""
    near = local(f32, 5)
    for k in range(5):
        near[k] = x[i + k - 2]
    for k in range(1, 5):
        value = near[k]
        j = k
        while j > 0 and near[j - 1] > value:
            near[j] = near[j - 1]
            j -= 1
        near[j] = value
    o[i] = near[2]


def unrolled(i: Index, x: In[f32], o: Out[f32]):
    part = local(f32, 4)
    for k in static_range(4):
        part[k] = x[i] * (k + 1.0)
    for k in static_range(4):
        part = local(f32, 4) if k < 0 else part
        part[k] += part[3 - k]
    o[i] = part[0] + part[1] * 10.0 + part[2] * 100.0 + part[3] * 1000.0


def several_axes(i: Index, x: In[i32], o: InOut[i32, 2]):
    grid = local(i32, 3, 4)
    for r in range(3):
        for c in range(4):
            grid[r, c] = x[i] * (r * 4 + c)
    o[i, 0] = grid[x[i] % 5, x[i] % 6]
    o[i, 1] = grid[2, 3] + grid.size * 1000 + grid.shape[0]
    o[i, 2] = grid[-1 * x[i], 2]
    o[i, 3] = grid[0, 4 + x[i]]


def out_of_range(i: Index, at: In[i32], o: InOut[i32, 2]):
    kept = local(i32, 4)
    other = local(i32, 4)
    kept[at[i]] = 7
    other[at[i] + 1] = 9
    o[i, 0] = kept[at[i]]
    o[i, 1] = kept[0] + kept[1] * 10 + kept[2] * 100 + kept[3] * 1000
    o[i, 2] = other[0] + other[1] * 10 + other[2] * 100 + other[3] * 1000


def in_a_loop(i: Index, o: InOut[i32]):
    total = 0
    for k in range(4):
        seen = local(i32, 3)
        seen[k % 3] += k + 1
        total = total * 10 + seen[0] + seen[1] + seen[2]
    o[i] = total


def _digits(n):
    counts = local(u8, 10)
    while n > 0:
        counts[n % 10] += 1
        n //= 10
    return counts


def _most(counts):
    best = 0
    for k in range(10):
        if counts[k] > counts[best]:
            best = k
    return best


def in_functions(i: Index, x: In[i32], o: Out[i32]):
    o[i] = _most(_digits(x[i])) + 10 * _most(_digits(x[i] * 7))


def every_type(i: Index, o: InOut[f64]):
    a, b, c = local(u8, 2), local(i16, 2), local(u64, 2)
    d, e, f = local(f16, 2), local(bf16, 2), local(f64, 2)
    g = local(bool_, 2)
    k = i % 2
    a[k] = i * 100
    b[k] = i * -20000
    c[k] = u64(i) << 40
    d[k] = 0.1
    e[k] = 0.1
    f[k] = 0.1
    g[k] = i > 1
    o[i] = f64(a[k]) + f64(b[k]) + f64(c[k]) + d[k] + e[k] + f[k] + (1.0 if g[k] and not g[1 - k] else 0.0)


def long_arrays(i: Index, x: In[i32], o: Out[i32]):
    """Read elements that no line wrote: they are zeros, also where earlier invocations wrote to the same memory."""
    kept, others = local(i32, 300), local(u64, 257)
    at = x[i] * 37
    kept[at % 300] = x[i]
    others[at % 257] = u64(i + 1)
    total = kept.size
    for k in range(8):
        total = total * 3 + kept[(at + k * 75) % 300] + i32(others[(at + k * 64) % 257])
    o[i] = total


def beside_barriers(g: Group[8], x: In[i32], o: Out[i32]):
    shared = g.shared(i32, 8)
    own = local(i32, 4)
    for k in range(4):
        own[k] = x[g.index] * (k + 1)
        shared[g.local] = own[k]
        g.barrier()
        own[(k + 1) % 4] += shared[7 - g.local]
        g.barrier()
    o[g.index] = own[0] + own[1] * 3 + own[2] * 5 + own[3] * 7


def _arguments() -> dict[str, tuple[Any, dict[str, Any], tuple[int, ...]]]:
    numbers = np.arange(-5, 11, dtype=np.int32)
    floats = np.random.default_rng(3).normal(size=70).astype(np.float32)
    zeros = np.zeros((16, 4), np.int32)
    return {
        "median": (median, {"x": floats, "o": np.zeros_like(floats)}, (70,)),
        "unrolled": (unrolled, {"x": floats, "o": np.zeros_like(floats)}, (70,)),
        "several_axes": (several_axes, {"x": numbers, "o": zeros}, (16,)),
        "out_of_range": (out_of_range, {"at": numbers, "o": zeros}, (16,)),
        "in_a_loop": (in_a_loop, {"o": np.zeros(3, np.int32)}, (3,)),
        "in_functions": (in_functions, {"x": np.array([0, 7, 1223, 99881, 5050], np.int32), "o": np.zeros(5, np.int32)}, (5,)),
        "every_type": (every_type, {"o": np.zeros(4)}, (4,)),
        "long_arrays": (long_arrays, {"x": np.arange(-99, 901, dtype=np.int32), "o": np.zeros(1000, np.int32)}, (1000,)),
        "beside_barriers": (beside_barriers, {"x": numbers, "o": np.zeros_like(numbers)}, (2,)),
    }


@pytest.mark.parametrize("name", list(_arguments()))
def test_the_program_and_python_agree(name: str) -> None:
    function, arguments, grid = _arguments()[name]
    found = run_both(function, arguments, grid)
    assert not found.differences(), found.differences()
    assert not found.order_mattered


def test_results_are_right() -> None:
    def of(name: str) -> Any:  # noqa: ANN401 -- an array
        function, arguments, grid = _arguments()[name]
        return run_both(function, arguments, grid).program["o"]

    x = np.concatenate([np.zeros(2, np.float32), _arguments()["median"][1]["x"], np.zeros(2, np.float32)])
    assert np.array_equal(of("median"), np.median(np.lib.stride_tricks.sliding_window_view(x, 5), axis=1))
    assert of("in_a_loop").tolist() == [1234] * 3
    digits = [(str(n) * (n > 0), str(7 * n) * (n > 0)) for n in (0, 7, 1223, 99881, 5050)]
    most = [[max(range(10), key=lambda d: text.count(str(d))) for text in pair] for pair in digits]
    assert of("in_functions").tolist() == [one + 10 * other for one, other in most]
    ranges = of("out_of_range")
    assert ranges[0].tolist() == [0, 0, 0, 0]
    assert ranges[5].tolist() == [7, 7, 90, 0]
    assert ranges[8].tolist() == [7, 7000, 0, 0]
    assert ranges[4].tolist() == [0, 0, 9, 0]
    d, e = np.float16(0.1).astype(np.float64), float(np.array(0.1, bf16.dtype))
    halves = float(np.float32(np.float64(d)))  # what is loaded is an f32
    expected = [a + b + c + halves + e + 0.1 + g for a, b, c, g in ((0, 0, 0, 0), (100, -20000, 1 << 40, 0))]
    assert of("every_type")[:2].tolist() == pytest.approx(expected, rel=1e-15)


def test_it_is_no_buffer_of_the_program_and_no_word_of_the_workgroup() -> None:
    own = [one for one in translated(median).program.buffers if one.is_local]
    assert [(one.count, one.element) for one in own] == [(5, f32.element)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a = local(f32, n)", "the shape of a local array must be constant"),
        ("a = local(f32, 0)", "the shape of a local array is (0,)"),
        ("a = local(8, 4)", "a local array has a type and a shape, and got the constant 8"),
        ("a = local(f32, 5, 4096)", "the local arrays of an invocation take 81920 bytes, and 65536 are the most"),
        ("atomic_add(local(i32, 4), 0, 1)", "'local' is an array of the invocation's own, which no other one changes"),
        ("y[i] = local(f32, 2, 2)[1]", "'local' has 2 dimensions, and is given 1 index"),
    ],
)
def test_mistakes_are_told(line: str, problem: str) -> None:
    text = f"def kernel(i: Index, y: Out[f32], n: i32):\n    {line}\n    y[i] = 1.0\n"
    made = function_of(text, "kernel", {**vars(types), **NAMES, "local": local})
    assert refusal(lambda: translated(made), KernelTypeError).problem == problem


@pytest.mark.device
@pytest.mark.parametrize("name", list(_arguments()))
def test_a_device_agrees(name: str) -> None:
    function, arguments, grid = _arguments()[name]
    expected = run_both(function, arguments, grid).program["o"]
    assert np.array_equal(run_on_device(function, arguments, grid)["o"], expected)


def test_outside_of_kernels_it_is_numpys() -> None:
    found = local(f32, 2, 3)
    assert (found.shape, found.dtype, found.any()) == ((2, 3), np.float32, False)


def test_they_are_no_part_of_what_a_workgroup_shares():
    def held(g: Group[32], o: Out[f32]):
        own, tile = local(f32, 1 << 14), g.shared(f32, 32)
        tile[g.local] = own[g.local]
        g.barrier()
        o[g.index] = tile[31 - g.local]

    found = translated(held)
    check_shared(found, 128)
    with pytest.raises(LimitExceeded, match="'tile' shares 128 bytes, and the device allows 127"):
        check_shared(found, 127)
