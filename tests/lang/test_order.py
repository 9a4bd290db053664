"""The order of loads and effects within a statement: that of Python."""

from __future__ import annotations

import numpy as np
import pytest
from both_ways import function_of, run_both
from kernel_texts import NAMES

_FUNCTIONS = """
def raised(c, i):
    c[i] += 7
    return c[i]
"""


@pytest.mark.parametrize(
    "statement",
    [
        "o[i] = c[i] * 100 + raised(c, i)",
        "a, b = c[i], raised(c, i); o[i] = a * 100 + b",
        "o[i] = max(c[i] * 9, raised(c, i), c[i])",
        "o[i] = u32(c[i] < raised(c, i) < c[i] + 1)",
        "v = c[i]\n    if i > 2:\n        v = 7\n    c[i] = 50\n    c[i] += trunc_div(v, i + 1)",
        "c[i] += raised(c, i); o[i] = c[i]",
        "c[i ^ atomic_add(n, 0, 1) * 0] += 1; o[i] = c[i]",
    ],
)
def test_effects_come_in_the_order_of_python(statement: str) -> None:
    text = f"{_FUNCTIONS}\ndef kernel(i: Index, c: InOut[u32], o: InOut[u32], n: InOut[u32]):\n    {statement}\n"
    arguments = {"c": np.arange(3, 10, dtype=np.uint32), "o": np.zeros(7, np.uint32), "n": np.zeros(1, np.uint32)}
    assert not run_both(function_of(text, "kernel", NAMES), arguments, (7,)).differences()
