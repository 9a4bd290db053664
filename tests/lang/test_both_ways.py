"""What a kernel gives as a program and as Python: what conditions prove, the order of effects, ifs and jumps, tuples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from both_ways import function_of, run_both, translated
from kernel_texts import NAMES
from refusals import refusal

from vyre_driver.errors import KernelNameError, KernelTypeError
from vyre_driver.lang import kernel as as_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

_MARKED = """
def marked(c, i, a):
    if a < 0:
        return
    c[i] = a

def least(a, b):
    return a if a < b else b
"""
# Each of these once gave something else as a program, or is a place where that is near.
_FACTS = {
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


@pytest.mark.parametrize("name", list(_FACTS))
def test_only_what_is_true_is_known(name: str) -> None:
    text = f"{_MARKED}\ndef kernel(i: Index, c: InOut[i32, 1], o: InOut[i32, 1]):\n{_FACTS[name].lstrip(chr(10))}"
    arguments = {"c": np.array([0, 5, -1, -8, 4, -3, 9, 100, -(2**31), 2**31 - 1], np.int32), "o": np.zeros(10, np.int32)}
    assert not run_both(function_of(text, "kernel", NAMES), arguments, (10,)).differences()


_RAISED = """
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
    text = f"{_RAISED}\ndef kernel(i: Index, c: InOut[u32], o: InOut[u32], n: InOut[u32]):\n    {statement}\n"
    arguments = {"c": np.arange(3, 10, dtype=np.uint32), "o": np.zeros(7, np.uint32), "n": np.zeros(1, np.uint32)}
    assert not run_both(function_of(text, "kernel", NAMES), arguments, (7,)).differences()


_HEAD_OF_MERGED = "def kernel(i: Index, x: In[i32], o: Out[i32]):\n    v, w = x[i], 3\n"
_TAIL = "    o[i] = v * 1000 + w\n"

# Each of these once gave something else as a program, or is a place where that is near.
_MERGED = {
    "a constant behind a continue": """
    for k in range(5):
        if v > k:
            continue
        w = 9
""",
    "a variable behind a nested continue": """
    for k in range(5):
        if k < 3:
            if v > k:
                continue
            v += w
        w += k
    v = w + v
""",
    "a constant behind a nested break": """
    for k in range(7):
        if k > 1:
            if v == k:
                w = 5
                break
            v = 2
""",
    "what is not read behind a nested continue": """
    for k in range(4):
        if k != 1:
            if (v ^ k) & 1 == 0:
                w = w * 2
                continue
            w += k
        else:
            w = -1
        v += 1
""",
    "jumps at several depths": """
    for k in range(4):
        j = 0
        while True:
            j += 1
            if j > 5:
                break
            if (v + j) % 3 == 0:
                v += 1
                continue
            if v > 9:
                w = j
                break
            v += 2
        if v % 4 == 1:
            continue
        w += v
        if w > 40:
            break
        v, w = w, v
""",
    "a swap of what a loop carries": """
    for k in range(6):
        v, w = w, v
        if k == v:
            v, w = w + 1, v - 1
            continue
        w, v = v + k, w
""",
    "a return in the loop of a function": """
    w = first(v, w)
    v = first(w, v) - first(v, 2)
""",
    "a tuple that a loop carries": """
    p = (v, 0.5, w)
    for k in range(3):
        if k == v:
            continue
        p = (p[2], p[1] * 2, p[0] + k)
    v, w = p[0], p[2] + int(p[1])
""",
    "the variable of a loop that had a value before an outer loop": """
    for u in (1, 5):
        v += u
    for k in range(4):
        if v % 3 == k:
            continue
        for u in range(k + 1):
            v = (v + u) ^ w
    q = (v, w)
    while v < 3:
        q = v + 2
        v += q * q
        for q in range(2):
            v += q
""",
}
_FIRST = """
def first(a, b):
    for k in range(6):
        if k < 4:
            if (a + k) % 5 == 3:
                return k
            b += k
        elif b > 9:
            return b
        a += b
    return -a
"""


@pytest.mark.parametrize("name", list(_MERGED))
def test_a_variable_is_the_same_as_in_python(name: str) -> None:
    kernel = function_of(_FIRST + _HEAD_OF_MERGED + _MERGED[name].lstrip("\n") + _TAIL, "kernel", NAMES)
    arguments = {"x": np.arange(-12, 25, dtype=np.int32), "o": np.zeros(37, np.int32)}
    assert not run_both(kernel, arguments, (37,)).differences()


@pytest.mark.parametrize(
    "turn",
    ["o[k] = v\n        for v in range(k): o[k] = v", "if k: v += 1\n        for v in range(k): o[k] = v"],
)
def test_a_turn_does_not_read_what_the_last_one_left_without_a_value(turn: str) -> None:
    text = f"def kernel(i: Index, x: In[i32], o: Out[i32]):\n    v = x[i]\n    for k in range(4):\n        {turn}\n"
    with pytest.raises(KernelNameError, match=r"'v' may have no value here: the loop in line \d may run no turn"):
        as_kernel(function_of(text, "kernel", NAMES)).program()


@pytest.mark.parametrize(
    "quotient", ["x[i] // 0", "x[i] % i32(0)", "int(x[i] / 0.0)", "int(1.0 / f32(0)) + x[i] // -(v % 1)", "int(f32(0) ** -2)"]
)
def test_a_divisor_that_is_certainly_nothing_is_divided_by_all_the_same(quotient: str) -> None:
    text = f"def kernel(i: Index, x: In[i32], o: Out[i32]):\n    v = x[i]\n    o[i] = {quotient}\n"
    arguments = {"x": np.arange(-3, 4, dtype=np.int32), "o": np.zeros(7, np.int32)}
    assert not run_both(function_of(text, "kernel", NAMES), arguments, (7,)).differences()


def test_a_parameter_keeps_the_type_that_it_is_declared_with() -> None:
    body = "    if i > 2:\n        a = i // 2\n    o[i] = a / 2\n    a = i\n    o[i] += a\n"
    text = f"def kernel(i: Index, o: InOut[f32], a: f32):\n{body}"
    arguments = {"o": np.zeros(7, np.float32), "a": np.float32(0.1)}
    assert not run_both(function_of(text, "kernel", NAMES), arguments, (7,)).differences()


def _chain(indent: str, count: int, side: Callable[[int], str], last: str) -> str:
    """Return a chain of tests of ``v``, of which each has a side."""
    lines = [f"{indent}{'elif' if k else 'if'} v + x[i] // 1000 == {k}:\n{indent}    {side(k)}\n" for k in range(count)]
    return "".join(lines) + (f"{indent}else:\n{indent}    {last}\n" if last else "")


X = np.array([-1, 0, 1, 2, 3, 46, 47, 48, 49, 95, 96, 97, 148, 149, 150, 151, 699, 700], np.int32)


@pytest.mark.parametrize("count", [48, 49, 500])
def test_a_chain_of_elifs_may_be_long(count: int) -> None:
    assigned = _chain("    ", count, lambda k: f"r = {k if k % 3 else k + 0.5}", "r = -1")
    text = f"def kernel(i: Index, x: In[i32], o: Out[f32]):\n    v = x[i]\n{assigned}    o[i] = r\n"
    found = run_both(function_of(text, "kernel", NAMES), {"x": X, "o": np.zeros(18, np.float32)}, (18,))
    assert not found.differences()
    assert found.program["o"].tolist() == [k + 0.5 * (k % 3 == 0) if 0 <= k < count else -1 for k in X.tolist()]


@pytest.mark.parametrize("count", [49, 150])
def test_a_long_chain_may_return_and_leave_loops(count: int) -> None:
    looped = _chain("        ", count, lambda k: ("break", "w += 1", "continue", "w -= 3")[k % 4], "")
    returned = _chain("    ", count, lambda k: "return" if k % 5 == 3 else f"w += {k}", "w = 7")
    text = f"""
def chosen(v, i, x):
{_chain("    ", count, lambda k: f"return {k} * v", "return i")}
def kernel(i: Index, x: In[i32], o: InOut[i32]):
    w = 0
    for v in range(146, 152):
{looped}        w *= 2
    v = x[i]
    o[i] = w
{returned}    o[i] += w + chosen(v, i, x)
"""
    found = run_both(function_of(text, "kernel", NAMES), {"x": X, "o": np.zeros(18, np.int32)}, (18,))
    assert not found.differences()


_HEAD_OF_TUPLES = "def kernel(i: Index, x: In[i32], o: Out[i32]):\n    w = (x[i], x[i] * 2, 7)\n"

_TUPLES = {
    "a star in a tuple": "    a, b, c, d = (*w, 5)\n    o[i] = a + b * c - d\n",
    "a slice of a tuple": "    a, b = w[1:]\n    o[i] = a - b\n",
    "a slice with a step from the end": "    a, b = w[::-2]\n    o[i] = a * 10 + b\n",
    "a tuple that is turned in a loop": """
    for k in static_range(4):
        w = (*w[1:], w[0] + k)
    o[i] = w[0] * 7 + w[2]
""",
    "a slice by a constant of a loop": """
    for k in static_range(3):
        w = w[:k] + (9,) + w[k + 1 :]
    o[i] = w[0] + w[2]
""",
}


@pytest.mark.parametrize("text", _TUPLES.values(), ids=_TUPLES)
def test_a_tuple_is_the_same_as_a_program_and_as_python(text: str) -> None:
    found = run_both(
        function_of(_HEAD_OF_TUPLES + text, "kernel", NAMES),
        {"x": np.array([-5, 0, 3, 40], np.int32), "o": np.zeros(4, np.int32)},
        (4,),
    )
    assert (found.differences(), found.program["o"].any()) == ([], True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("    o[i] = w[x[i] :][0]\n", "the bounds of a slice of a tuple must be constant"),
        ("    o[i] = w[::0][0]\n", "the step of a slice is 0"),
        ("    o[i] = (*x[i], 1)[0]\n", "only tuples are spread, and this is i32"),
    ],
    ids=["bounds of an array", "a step of 0", "a star of a number"],
)
def test_what_cannot_be_sliced_or_spread_is_refused(text: str, problem: str) -> None:
    function = function_of(_HEAD_OF_TUPLES + text, "kernel", NAMES)
    assert refusal(lambda: translated(function), KernelTypeError).problem == problem
