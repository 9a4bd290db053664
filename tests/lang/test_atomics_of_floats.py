"""Atomics on f32: what they leave and give back, as a program, as plain Python, and on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_ways import function_of, run_both, run_on_device, translated
from kernel_texts import NAMES
from printing.source import as_source
from refusals import refusal

from vyre_driver.errors import KernelTypeError
from vyre_driver.identity.keys import program_digest
from vyre_driver.lang import types

_EDGES = np.array([0.0, -0.0, 1.5, -2.25, 1e-40, np.inf, -np.inf, np.nan], np.float32)

EACH = """def kernel(i: Index, x: In[f32], sums: InOut[f32], lows: InOut[f32], highs: InOut[f32], o: InOut[f32, 2]):
    o[0, i] = atomic_add(sums, i, x[i])
    o[1, i] = atomic_min(lows, i, x[i])
    o[2, i] = atomic_max(highs, i, x[i])
"""
SWAPS = """def kernel(i: Index, x: In[f32], y: InOut[f32], z: InOut[f32], o: InOut[f32, 2]):
    o[0, i] = atomic_exchange(y, i, x[i])
    o[1, i] = atomic_cas(z, i, 1.5, x[i])
    o[2, i] = atomic_load(z, i)
    o[3, i] = atomic_add(y, i + 1000, 1.0)
"""
SHARED = """def kernel(g: Group[64], x: In[f32], o: InOut[f32]):
    total = g.shared(f32, 2)
    atomic_add(total, 0, x[g.index])
    atomic_max(total, 1, x[g.index])
    g.barrier()
    if g.local < 2:
        o[g.id * 2 + g.local] = total[g.local]
"""


def made(text: str) -> Any:  # noqa: ANN401 -- a function
    return function_of(text, "kernel", {**vars(types), **NAMES})


def edges() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    count = len(_EDGES)
    return np.repeat(_EDGES, count), np.tile(_EDGES, count)


def each_argument() -> dict[str, Any]:
    before, x = edges()
    return {"x": x, "sums": before, "lows": before.copy(), "highs": before.copy(), "o": np.zeros((3, len(x)), np.float32)}


def test_what_is_added_and_kept_is_told_alike_at_every_edge() -> None:
    found = run_both(made(EACH), each_argument(), (64,))
    assert not found.differences(), found.differences()
    before, x = edges()
    with np.errstate(all="ignore"):
        kept = ~((np.abs(before) < 1e-30) | (np.abs(x) < 1e-30))  # subnormals become zeros, and the signs of zeros count
        assert np.array_equal(found.program["sums"][kept], (before + x)[kept], equal_nan=True)
        assert np.array_equal(found.program["lows"][kept], np.fmin(before, x)[kept], equal_nan=True)
        assert np.array_equal(found.program["highs"][kept], np.fmax(before, x)[kept], equal_nan=True)
    assert np.array_equal(found.program["o"], np.stack([before] * 3), equal_nan=True)


def test_exchanges_take_the_bits() -> None:
    before, x = edges()
    arguments = {"x": x, "y": before, "z": before.copy(), "o": np.zeros((4, len(x)), np.float32)}
    found = run_both(made(SWAPS), arguments, (64,))
    assert not found.differences(), found.differences()
    assert np.array_equal(found.program["y"], x, equal_nan=True)
    replaced = np.where(before == 1.5, x, before)
    assert np.array_equal(found.program["z"], replaced, equal_nan=True)
    assert np.array_equal(found.program["o"], np.stack([before, before, replaced, np.zeros_like(x)]), equal_nan=True)


def test_workgroup_memory_has_them_too() -> None:
    x = np.arange(1, 129, dtype=np.float32)
    arguments = {"x": x, "o": np.zeros(4, np.float32)}
    found = run_both(made(SHARED), arguments, (2,))
    assert not found.differences()
    assert found.program["o"].tolist() == [2080.0, 64.0, 6176.0, 128.0]


@pytest.mark.parametrize(
    ("line", "element", "problem"),
    [
        ("atomic_or(y, 0, 1.0)", "f32", "'y' holds f32, and atomic_or works on u32 and i32"),
        ("atomic_add(y, 0, 1)", "i64", "'y' holds i64, and atomics work on u32, i32 and f32"),
        ("atomic_add(y, 0, 1.0)", "f16", "'y' holds f16, and atomics work on u32, i32 and f32"),
        ("atomic_add(y, 0, 1)", "u8", "'y' holds u8, and atomics work on u32, i32 and f32"),
    ],
)
def test_what_no_device_has_is_refused_by_name(line: str, element: str, problem: str) -> None:
    function = made(f"def kernel(i: Index, x: In[f32], y: InOut[{element}]):\n    {line}\n    z = x[i]\n")
    assert refusal(lambda: translated(function), KernelTypeError).problem == problem


@pytest.mark.device
def test_a_device_has_them_alike() -> None:
    for text, arguments, grid in (
        (EACH, each_argument(), (64,)),
        (SHARED, {"x": np.arange(1, 129, dtype=np.float32), "o": np.zeros(4, np.float32)}, (2,)),
    ):
        found = run_both(made(text), arguments, grid).program
        device = run_on_device(made(text), arguments, grid)
        assert all(np.array_equal(device[name], found[name], equal_nan=True) for name in found)


PRINTED = """@kernel
def program(i: Index, x: In[f32], a: InOut[f32], o: Out[f32], n: u32):
    old = atomic_add(a, 0, x[i])
    atomic_max(a, 1, x[i] * 2.0)
    s = atomic_exchange(a, 3, old + 1.0)
    c = atomic_cas(a, 4, f32(0.5), x[i])
    l = atomic_load(a, 5)
    atomic_exchange(a, 6, bitcast(f32, n))
    before_6 = bitcast(u32, atomic_min(a, 7, bitcast(f32, u32(5))))
    o[i] = old + s + c + l + f32(before_6)
"""


def test_they_are_printed_as_they_are_written() -> None:
    text = PRINTED.replace("f32(0.5)", "0.5").replace("f32, u32(5)", "f32, 5")
    function = function_of(text, "program", {**vars(types), **NAMES, "kernel": lambda one: one})
    program = translated(function).program
    assert as_source(program) == PRINTED
    again = function_of(PRINTED, "program", {**vars(types), **NAMES, "kernel": lambda one: one})
    assert program_digest(translated(again).program) == program_digest(program)
