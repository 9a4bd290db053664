"""What kernels do as Python does: each body as a program and as Python, and what plain Python gives for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_ways import function_of, run_both
from kernel_texts import NAMES

A = np.array([0, 1, -1, 2, -7, 100, 2**31 - 1, -(2**31)], np.int32)
FUNCTIONS = """
def store(o, i, value):
    o[i] = value
    return i

def pair(x, y=5, *, z=1):
    return x * 100 + y * 10 + z

def total(x, *more):
    for one in more:
        x += one
    return x + len(more)

def without_end(x):
    for k in range(10):
        if k * k >= x:
            return k
    return 99

twice, thrice = lambda x: 2 * x, lambda x: 3 * x

def changes_its_own(x):
    x += 5
    x *= 2
    return x

"""


def _run(*body: str, arguments: dict[str, Any] | None = None) -> list[int]:
    """Return what both ways give of a body that works on ``a`` and ``o``."""
    text = FUNCTIONS + "def kernel(i: Index, a: In[i32], o: InOut[i32]):\n" + "".join(f"    {line}\n" for line in body)
    function = function_of(text, "kernel", NAMES)
    found = run_both(function, {"a": A, "o": np.zeros(8, np.int32)} if arguments is None else arguments, (8,))
    assert not found.differences()
    result: list[int] = found.program["o"].tolist()
    return result


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(["o[store(o, i, 7)] = o[i]"], [0] * 8, id="a value is taken before an index that changes it"),
        pytest.param(["o[i] = pair(o[i], y=store(o, i, 7))"], [10 * k + 1 for k in range(8)], id="arguments by name come last"),
        pytest.param(["o[i] = 5", "o[i] += store(o, i, 100)"], [5 + k for k in range(8)], id="the target of += is read first"),
        pytest.param(["o[i] = 0 or 3"], [3] * 8, id="or of constants"),
        pytest.param(["o[i] = 2 and 3"], [3] * 8, id="and of constants"),
        pytest.param(["o[i] = 3 or a[i] > 0"], [3] * 8, id="a constant decides"),
        pytest.param(["o[i] = True and a[i]"], A.tolist(), id="a constant is left out"),
        pytest.param(["q = (1, a[i])", "o[i] = (*q, 3)[1]"], A.tolist(), id="a spread tuple"),
        pytest.param(["o[i] = total(1, 2, 3)"], [8] * 8, id="any number of arguments"),
        pytest.param(["o[i] = pair(2) + pair(x=1, z=0)"], [251 + 150] * 8, id="defaults and names"),
        pytest.param(["for f in (twice, thrice):", "    o[i] += f(i)"], [5 * k for k in range(8)], id="lambdas in a tuple"),
        pytest.param(["p = q = i", "q += 1", "o[i] = p * 10 + q"], [11 * k + 1 for k in range(8)], id="two targets"),
        pytest.param(["p, q = i, 3", "p, q = q, p", "o[i] = p * 10 + q"], [30 + k for k in range(8)], id="a swap"),
        pytest.param(["o[i], o[7 - i] = a[7 - i], a[i]"], A.tolist()[::-1], id="a swap of elements"),
        pytest.param(
            ["x = i", "y = changes_its_own(x)", "o[i] = y * 10 + x"], [20 * k + 100 + k for k in range(8)], id="locals"
        ),
        pytest.param(["o[i] = without_end(i * 20)"], [0, 5, 7, 8, 9, 99, 99, 99], id="a return in a loop"),
        pytest.param(
            ["k = 0", "while True:", "    k += 1", "    if k > i:", "        o[i] = k", "        return"],
            [k + 1 for k in range(8)],
            id="a loop that only a return ends",
        ),
        pytest.param(
            ["for k in range(4):", "    o[i] += k", "    k = 10", "    o[i] += k"], [46] * 8, id="the variable of a loop"
        ),
        pytest.param(["n = i", "for k in range(n):", "    n = 9", "    o[i] += 1"], list(range(8)), id="a bound that changes"),
        pytest.param(["for k in range(5, 0, -2):", "    o[i] = o[i] * 10 + k"], [531] * 8, id="backwards"),
        pytest.param(
            ["t = (0, 1)", "for k in range(i):", "    t = (t[1], t[0] + t[1])", "o[i] = t[0]"], [0, 1, 1, 2, 3, 5, 8, 13]
        ),
        pytest.param(["len = 3", "o[i] = len + i"], [3 + k for k in range(8)], id="a variable of a builtin's name"),
        pytest.param(["x = 1; x += i; o[i] = x \\", "  + 1"], [2 + k for k in range(8)], id="semicolons and continued lines"),
        pytest.param(["'text'", "...", "pass", "o[i] = 1  # type: int"], [1] * 8, id="what does nothing"),
        pytest.param(["return", "o[i] = unknown"], [0] * 8, id="behind a return"),
        pytest.param(["if 0:", "    o[i] = unknown", "else:", "    o[i] = 4"], [4] * 8, id="a side that constants exclude"),
        pytest.param(["größe = i", "变量 = größe + 1", "o[i] = 变量"], [k + 1 for k in range(8)], id="names beyond ASCII"),
        pytest.param(["o[i] = " + "(" * 150 + "a[i]" + ")" * 150], A.tolist(), id="150 parentheses"),
        pytest.param(["o[i] = i - " + " - ".join(["1"] * 150)], [k - 150 for k in range(8)], id="a sum of 150 terms"),
    ],
)
def test_it_is_what_python_gives(body: list[str], expected: list[int]) -> None:
    assert _run(*body) == expected


@pytest.mark.parametrize(
    "name",
    ["main", "gl_GlobalInvocationID", "buffer", "layout", "OpFAdd", "gid", "void", "float", "_0", "__x", "__x__", "x__y"],
)
def test_any_name_can_be_that_of_a_variable_an_array_or_a_number(name: str) -> None:
    text = f"def kernel(i: Index, {name}: In[i32], o: InOut[i32]):\n    o[i] = {name}[i] * 2\n"
    found = run_both(function_of(text, "kernel", NAMES), {name: A, "o": np.zeros(8, np.int32)}, (8,))
    assert not found.differences()
    text = f"def kernel(i: Index, o: InOut[i32], {name}: i32):\n    o[i] = {name} + i\n"
    found = run_both(function_of(text, "kernel", NAMES), {name: 3, "o": np.zeros(8, np.int32)}, (8,))
    assert found.program["o"].tolist() == [3 + k for k in range(8)]
    assert _run(f"{name} = i", f"{name} += 2", f"o[i] = {name} * {name}") == [(k + 2) ** 2 for k in range(8)]


def test_f_strings_are_printed_by_plain_python(capsys: pytest.CaptureFixture[str]) -> None:
    from vyre_driver.lang.interpret.as_python import run_as_python
    from vyre_driver.lang.source.parameters import Specialization, signature_of

    function = function_of("def kernel(i: Index, o: InOut[i32]):\n    print(f'{i} has {o[i] + 1:03}')\n", "kernel", NAMES)
    run_as_python(function, signature_of(function), Specialization(), {"o": np.zeros(2, np.int32)}, (2,))
    assert capsys.readouterr().out == "0 has 001\n1 has 001\n"
