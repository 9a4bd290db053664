"""What a condition proves, and where it does so no more: each text is run as a program and as Python."""

from __future__ import annotations

import numpy as np
import pytest
from both_ways import function_of, run_both
from kernel_texts import NAMES

_FUNCTION = """
def marked(c, i, a):
    if a < 0:
        return
    c[i] = a

def least(a, b):
    return a if a < b else b
"""
# Each of these once gave something else as a program, or is a place where that is near.
_TEXTS = {
    "an element that is stored to": """
    if c[i] >= 0:
        c[i] = -7
        o[i] = c[i] // 2
""",
    "an element behind a condition that is kept": """
    is_natural = c[i] >= 0
    c[i] = -9
    if is_natural:
        o[i] = c[i] >> 1
""",
    "a variable behind a function that left early": """
    v = c[i]
    marked(c, i, v)
    o[i] = v // 2
""",
    "a variable that gets another value": """
    v = c[i]
    if v >= 0:
        v = v - 20
        o[i] = v // 3 + v % 4
""",
    "a variable that a loop changes": """
    v = c[i] % 50 - 9
    while v >= 0:
        v -= 3
        o[i] = v // 2
        if v == 4:
            break
    o[i] += v // 2
""",
    "a variable behind a continue": """
    v = c[i]
    for k in range(4):
        if v < 0:
            v += 5
            continue
        v -= 7
        o[i] += v // 2
    o[i] += v >> 1
""",
    "a condition that is tested again within": """
    v, w = c[i] % 50, c[i] % 7 - 4
    if v > w:
        if v >= 0:
            o[i] = 1 if v > w else 2
    else:
        o[i] = w // 2
    n = v - 40
    if n > w:
        if n >= 0:
            o[i] += 1 if n > w else 2
    else:
        o[i] += w // 2
""",
    "a swap": """
    v, w = c[i], -5
    if v > 0 and i > 2:
        v, w = w, v
        o[i] = v // 2 * 10 + w // 2
""",
    "a part of an or": """
    v = c[i]
    if v >= 0 or i > 4:
        o[i] = v // 2
    if not (v >= 0 or i > 4):
        o[i] = v // 2
    o[i] += v // 3 if v >= 0 and v < 5 else v // 7
""",
    "a lesser number": """
    v = least(c[i], i)
    if v < i:
        o[i] = (v - i) // 2
    else:
        o[i] = (i - v) // 2 - v // 2
""",
    "bits of another type": """
    v = u32(c[i])
    if v < 5:
        o[i] = i32(v) // 2 - 1
    else:
        o[i] = i32(v) // 2
""",
    "a difference that wraps": """
    v = c[i]
    w = v - 2147483647 - 2
    if w > 0:
        o[i] = v // 2
    else:
        o[i] = v // 3 + w // 5
""",
}


@pytest.mark.parametrize("name", list(_TEXTS))
def test_only_what_is_true_is_known(name: str) -> None:
    text = f"{_FUNCTION}\ndef kernel(i: Index, c: InOut[i32, 1], o: InOut[i32, 1]):\n{_TEXTS[name].lstrip(chr(10))}"
    arguments = {"c": np.array([0, 5, -1, -8, 4, -3, 9, 100, -(2**31), 2**31 - 1], np.int32), "o": np.zeros(10, np.int32)}
    assert not run_both(function_of(text, "kernel", NAMES), arguments, (10,)).differences()
