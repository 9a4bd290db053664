"""The bits of a number as another type: as a program, as plain Python, and on a device."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from both_ways import function_of, run_both, run_on_device
from kernel_texts import NAMES

from vyre_driver.errors import KernelTypeError
from vyre_driver.lang import types
from vyre_driver.lang.frontend.intrinsics import bitcast
from vyre_driver.lang.frontend.translate import translate
from vyre_driver.lang.source.parameters import Specialization, signature_of

_WORDS = np.array([0, 1, 0x8000_0001, 0x807F_FFFF, 0x7FC1_2345, 0x3F80_0000, 0xFFFF_FFFF, 0x8000_0000], np.uint32)
_LONG = np.array([0, 1, 1 << 63, 0x7FF8_0000_0000_0001, 0x3FF0 << 48, (1 << 64) - 1, 0xFFF0 << 48], np.uint64)
_PAIRS = [*itertools.permutations(("u32", "i32", "f32"), 2), *itertools.permutations(("u64", "i64", "f64"), 2)]


def made(text: str) -> Any:  # noqa: ANN401 -- a function
    return function_of(text, "kernel", {**vars(types), **NAMES, "bitcast": bitcast})


@pytest.mark.parametrize(("source", "target"), _PAIRS)
def test_bits_stay_what_they_are(source: str, target: str) -> None:
    bits = _WORDS if source[1:] == "32" else _LONG
    function = made(f"def kernel(i: Index, x: In[{source}], o: Out[{target}]):\n    o[i] = bitcast({target}, x[i])\n")
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
    found = run_both(made(text), {"o": np.zeros(4, np.uint64)}, (1,))
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
    function = made(f"def kernel(i: Index, x: In[f32], o: Out[u32]):\n    {line}\n")
    with pytest.raises(KernelTypeError) as caught:
        translate(function, signature_of(function), Specialization())
    assert caught.value.problem == problem


@pytest.mark.device
def test_a_device_agrees() -> None:
    text = """def kernel(i: Index, x: In[f32], y: In[f64], o: Out[u32], p: Out[i64], q: Out[f64]):
    o[i] = bitcast(u32, x[i]) ^ bitcast(u32, x[i] * 2.0)
    p[i] = bitcast(i64, y[i])
    q[i] = bitcast(f64, bitcast(u64, y[i]) ^ (1 << 63)) + 1.0
"""
    x, y = np.linspace(-3, 4, 9).astype(np.float32), np.linspace(-1e9, 1e9, 9)
    outs = {"o": np.zeros(9, np.uint32), "p": np.zeros(9, np.int64), "q": np.zeros(9)}
    found = run_both(made(text), {"x": x, "y": y, **outs}, (9,))
    assert not found.differences()
    device = run_on_device(made(text), {"x": x, "y": y, **outs}, (9,))
    assert all(device[name].tobytes() == found.program[name].tobytes() for name in outs)
