"""Updates of one element by many invocations: refused where they certainly meet, warned of where they may, else left alone."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from vyre_driver import Driver
from vyre_driver.errors import KernelFault, KernelTypeError
from vyre_driver.lang import Kernel, RaceWarning, kernel

pytestmark = pytest.mark.device

X = np.arange(1, 101, dtype=np.float32)
IMAGE = X.reshape(10, 10)
ONE, TWO = "i: Index, x: In[f32], y: InOut[f32]", "i: Index, j: Index, x: In[f32, 2], y: InOut[f32]"
GROUP = "g: Group[64], x: In[f32], y: InOut[f32]"


def _kernel(head: str, *body: str) -> Kernel:
    return kernel.from_source(f"def k({head}):\n" + "".join(f"    {line}\n" for line in body))


def _y() -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.zeros(100, np.float32)


@pytest.mark.parametrize(
    ("head", "body", "element", "along", "fix"),
    [
        (ONE, ["y[0] += x[i]"], "y[0]", "100 along 'i'", "use atomic_add(y, 0, x[i])"),
        (ONE, ["y[0] = x[i] + y[0]"], "y[0]", "100 along 'i'", "use atomic_add(y, 0, x[i])"),
        (ONE, ["j = 3", "y[j] -= x[i]"], "y[j]", "100 along 'i'", "use atomic_add(y, j, -x[i])"),
        (ONE, ["y[len(x) // 2] -= x[i]"], "y[len(x) // 2]", "100 along 'i'", "use atomic_add(y, len(x) // 2, -x[i])"),
        (ONE, ["y[0] = max(y[0], x[i])"], "y[0]", "100 along 'i'", "use atomic_max(y, 0, x[i])"),
        (ONE, ["y[1] = min(x[i], y[1])"], "y[1]", "100 along 'i'", "use atomic_min(y, 1, x[i])"),
        (ONE, ["for j in range(3):", "    y[j] += x[i]"], "y[j]", "100 along 'i'", "use atomic_add(y, j, x[i])"),
        (ONE, ["for j in range(len(y)):", "    y[j] += x[i]"], "y[j]", "100 along 'i'", "use atomic_add(y, j, x[i])"),
        (ONE, ["if i < 3:", "    y[0] += x[i]"], "y[0]", "100 along 'i'", "use atomic_add(y, 0, x[i])"),
        (ONE, ["if i == 5:", "    return", "y[0] += x[i]"], "y[0]", "100 along 'i'", "use atomic_add(y, 0, x[i])"),
        (ONE, ["y[i // 2] += x[i]"], "y[i // 2]", "100 along 'i'", "use atomic_add(y, i // 2, x[i])"),
        (
            ONE,
            ["y[0 if i > 3 else 1] += x[i]"],
            *("y[0 if i > 3 else 1]", "100 along 'i'", "use atomic_add(y, 0 if i > 3 else 1, x[i])"),
        ),
        (ONE, ["v = x[i]", *["v = v * 1.5"] * 150, "y[0] += v"], "y[0]", "100 along 'i'", "use atomic_add(y, 0, v)"),
        (ONE, ["for j in static_range(300):", "    y[j] += x[i]"], "y[j]", "100 along 'i'", "use atomic_add(y, j, x[i])"),
        *(
            (ONE, [f"y[{index}] += x[i]"], f"y[{index}]", "100 along 'i'", f"use atomic_add(y, {index}, x[i])")
            for index in ("i64(i) // 2", "i64(i) % 7", "u64(i) // 4", "min(i64(i), 50)", "popcount(i)", "clz(i)", "i & ~1")
        ),
        (ONE, ["k = i", "if i > 49:", "    k -= 50", "y[k] += x[i]"], "y[k]", "100 along 'i'", "use atomic_add(y, k, x[i])"),
        (ONE, ["y[i % 4] += x[i]"], "y[i % 4]", "100 along 'i'", "use atomic_add(y, i % 4, x[i])"),
        (TWO, ["y[i] += x[i, j]"], "y[i]", "10 along 'j'", "use atomic_add(y, i, x[i, j])"),
        (TWO, ["y[i + j] += x[i, j]"], "y[i + j]", "10 along 'j' and 10 along 'i'", "use atomic_add(y, i + j, x[i, j])"),
        (
            TWO,
            ["y[i * 8 + j] += x[i, j]"],
            "y[i * 8 + j]",
            "10 along 'j' and 10 along 'i'",
            "use atomic_add(y, i * 8 + j, x[i, j])",
        ),
        (
            TWO,
            ["y[i + j * 9] += x[i, j]"],
            "y[i + j * 9]",
            "10 along 'j' and 10 along 'i'",
            "use atomic_add(y, i + j * 9, x[i, j])",
        ),
        (
            TWO,
            ["if i != j:", "    y[abs(i - j) * 2] -= x[i, j]"],
            *("y[abs(i - j) * 2]", "10 along 'j' and 10 along 'i'", "use atomic_add(y, abs(i - j) * 2, -x[i, j])"),
        ),
        (
            GROUP,
            ["y[g.local + g.id] += x[g.index]"],
            *("y[g.local + g.id]", "64 along g.local and 2 along g.id", "use atomic_add(y, g.local + g.id, x[g.index])"),
        ),
        (TWO, ["if j == 0:", "    y[0] += x[i, j]"], "y[0]", "10 along 'i'", "use atomic_add(y, 0, x[i, j])"),
        (GROUP, ["y[g.id] += x[g.index]"], "y[g.id]", "64 along g.local", "use atomic_add(y, g.id, x[g.index])"),
        (GROUP, ["y[g.local] += x[g.index]"], "y[g.local]", "2 along g.id", "use atomic_add(y, g.local, x[g.index])"),
        (
            GROUP,
            ["s = g.shared(f32, 2)", "s[0] += x[g.index]", "g.barrier()", "y[g.index] = s[0]"],
            *("s[0]", "64 along g.local", "use atomic_add(s, 0, x[g.index])"),
        ),
    ],
)
def test_an_update_that_certainly_meets_others_is_refused(
    head: str, body: list[str], element: str, along: str, fix: str
) -> None:
    made, x = _kernel(head, *body), IMAGE if head is TWO else X
    made = made.over(10, 10) if head is TWO else made
    y, problem = (
        _y(),
        f"invocations of 'k' load {element}, change it and store it, and lose what others store: there are {along}",
    )
    for run in (made, made.python):
        with pytest.raises(KernelTypeError) as refused:
            run(x, y)
        assert (refused.value.problem, refused.value.fix, y.any()) == (problem, f"{fix}, or a reduction", False)
    axes = " and ".join(part.split()[-1] for part in along.split(" and "))
    assert f"{element}: invocations along {axes} lose" in str(made.explain())
    assert fix in str(made.explain())


def test_what_has_no_atomic_is_refused_with_other_ways() -> None:
    fixes = []
    for head, line, of in (
        ("i: Index, x: In[f32], y: InOut[i64]", "y[0] += 1 if x[i] > 0.0 else 2", np.int64),
        (ONE, "y[0] *= x[i]", np.float32),
        ("i: Index, x: In[i32], y: InOut[i32]", "y[0] |= 1 << x[i]", np.int32),
        ("i: Index, x: In[i32], y: InOut[u32]", "y[0] -= 1", np.uint32),
        ("i: Index, x: In[i32], y: InOut[u32]", "y[0] += x[i] > 3", np.uint32),
        ("i: Index, x: In[i32], y: InOut[i32]", "y[0] -= not x[i] > 3", np.int32),
        ("i: Index, x: In[i32], y: InOut[i32]", "y[0] += y[1]", np.int32),
    ):
        with pytest.raises(KernelTypeError) as refused:
            _kernel(head, line).over(100)(X.astype(np.int32) if "In[i32]" in head else X, np.zeros(2, of))
        fixes.append(refused.value.fix)
    assert fixes == [
        "use a reduction, or an array of u32, i32 or f32 and atomic_add",
        "use an atomic, as atomic_add, a reduction, or let one invocation do it",
        "use atomic_or(y, 0, 1 << x[i]), or a reduction",
        "use atomic_add(y, 0, -u32(1)), or a reduction",
        "use atomic_add(y, 0, u32(x[i] > 3)), or a reduction",
        "use atomic_add(y, 0, -i32(not x[i] > 3)), or a reduction",
        "use an atomic, as atomic_add, a reduction, or let one invocation do it",
    ]


@pytest.mark.parametrize(
    ("head", "body", "numbers"),
    [
        (ONE, ["if x[i] > 50.0:", "    y[0] += 1.0"], ()),
        (ONE, ["if x[i] > y[0]:", "    y[0] = x[i]"], ()),
        (ONE, ["if i >= len(x) - 2:", "    y[0] += x[i]"], ()),
        (ONE, ["if i >= len(x) // 2:", "    y[0] += x[i]"], ()),
        (ONE, ["if i < len(x) - 69:", "    y[0] += x[i]"], ()),
        (ONE + ", n: i32", ["if i < n:", "    y[0] += x[i]"], (50,)),
        (ONE + ", n: i32", ["if i >= n - 1:", "    y[0] += x[i]"], (50,)),
        (ONE + ", n: i32", ["j = 0", "while j < n:", "    y[j] += x[i]", "    j += 1"], (2,)),
        (ONE + ", n: i32", ["for j in range(n):", "    y[j] += x[i]"], (2,)),
        ("i: Index, x: In[f32], y: InOut[f32], at: In[i32]", ["y[at[i]] += x[i]"], (np.zeros(100, np.int32),)),
        (ONE + ", n: i32", ["y[i // n] += x[i]"], (2,)),
        (ONE + ", n: u32", ["y[i % n] += x[i]"], (2,)),
        (ONE + ", n: i32", ["y[(i + n) % 4] += x[i]"], (2,)),
        (ONE + ", n: i32", ["y[max(i, n)] += x[i]"], (2,)),
        (ONE + ", n: i32", ["j = i >> n", "y[j] = y[j] + x[i]"], (2,)),
        (ONE + ", n: i32, m: i32", ["y[(i + m) % n] += x[i]"], (5, 1)),
        (ONE + ", n: i32", ["if i < n:", "    y[i % 4] += x[i]"], (50,)),
        (ONE + ", n: i32", ["for k in range(n):", "    y[i // 2 + k] += x[i]"], (2,)),
    ],
)
def test_an_update_that_may_meet_others_is_warned_of_at_its_line(head: str, body: list[str], numbers: tuple[Any, ...]) -> None:
    made = _kernel(head, *body)
    with pytest.warns(
        RaceWarning, match=r"invocations of 'k' may load y\[.*\], change it and store it at once.*Fix: use "
    ) as seen:
        made(X, _y(), *numbers)
    line = next(at for at, text in enumerate(body, 2) if "y[" in text and "=" in text.replace(">", ""))
    assert [(one.filename, one.lineno) for one in seen] == [(made.function.__code__.co_filename, line)]


@pytest.mark.parametrize("index", ["n, i % 2", "i % 2, n", "i // n, 0"])
def test_an_update_in_one_of_two_axes_that_a_number_decides_is_warned_of(index: str) -> None:
    made = _kernel("i: Index, x: In[f32], y: InOut[f32, 2], n: i32", f"y[{index}] += x[i]")
    with pytest.warns(RaceWarning, match=r"there are 100 along 'i'\. Fix: use atomic_add\(y, "):
        made(X, np.zeros((100, 100), np.float32), 2)


def test_warnings_of_updates_are_filtered_as_others() -> None:
    made = _kernel("i: Index, x: In[f32], y: InOut[f32], at: In[i32]", "y[at[i]] += x[i]")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "invocations of 'k' may load", RaceWarning)
        assert made(X, _y(), np.arange(100, dtype=np.int32)).tolist() == X.tolist()


def test_a_driver_that_compiles_a_kernel_warns_whatever_its_calls_are() -> None:
    with Driver() as driver:
        with pytest.warns(RaceWarning) as seen:
            driver.compile(_kernel(GROUP, "y[g.id] += x[g.index]", "if g.index < 64:", "    y[0] += 1"))
        told = [str(one.message) for one in seen]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            driver.compile(_kernel(ONE, "y[i] += x[i]"))
    middle = "change it and store it at once, and lose updates: where there are 2 or more along g.local. Fix: use atomic_add"
    assert told == [
        f"invocations of 'k' may load y[g.id], {middle}(y, g.id, x[g.index]), or a reduction.",
        f"invocations of 'k' may load y[0], {middle}(y, 0, 1), or a reduction.",
    ]


@pytest.mark.parametrize(
    ("head", "body", "numbers"),
    [
        (ONE, ["if i == 0:", "    for k in range(len(x)):", "        y[0] += x[k]"], ()),
        (ONE, ["if i > 0:", "    return", "y[0] += x[i]"], ()),
        (ONE, ["if i < 1:", "    y[0] += x[i]"], ()),
        (ONE, ["if not i:", "    y[0] += x[i]"], ()),
        (ONE, ["if i == len(x) - 1:", "    y[0] += x[i]"], ()),
        (ONE, ["if i >= len(x)-1:", "    y[0] += x[i]"], ()),
        (ONE, ["if i > x.size - 2:", "    y[0] += x[i]"], ()),
        (ONE, ["last = len(x) - 1", "if not i < last:", "    y[0] += x[i]"], ()),
        (ONE, ["if i < x.shape[0] - 1:", "    return", "y[0] += x[i]"], ()),
        (ONE, ["if len(x) - i == 1:", "    y[0] += x[i]"], ()),
        (ONE, ["if x[i] > 0.5 and 0 == i:", "    y[0] += x[i]"], ()),
        (ONE + ", n: i32", ["if i + 1 == n:", "    y[0] += x[i]"], (5,)),
        (ONE + ", n: i32", ["y[i + n] += x[i]"], (0,)),
        (ONE + ", n: i32", ["y[n - i] += x[i]"], (99,)),
        (ONE + ", n: i32", ["y[i ^ n] += x[i]"], (1,)),
        (ONE + ", n: i32", ["y[(i + n) % len(y)] += x[i]"], (3,)),
        (ONE + ", n: i32", ["if i % n == 0:", "    y[i // n] += x[i]"], (2,)),
        (ONE + ", n: i32", ["if i < n:", "    y[i % n] += x[i]"], (100,)),
        (ONE + ", n: i32, m: i32", ["y[(i % n) * m + i // n] += x[i]"], (10, 10)),
        (TWO + ", n: i32", ["y[i * n + j] += x[i, j]"], (10,)),
        (TWO, ["y[i * x.shape[1] + j] += x[i, j]"], ()),
        (ONE, ["y[i] += x[i]", "y[99 - i] = 1.0"], ()),
        (ONE, ["if i % 2 == 0:", "    y[i // 2] += x[i]"], ()),
        (ONE, ["if i < 4:", "    y[i % 4] += x[i]"], ()),
        (ONE, ["y[i % 200] += x[i]"], ()),
        (ONE, ["y[i ^ 1] += x[i]"], ()),
        (ONE, ["y[99 + ~i] += x[i]"], ()),
        (ONE, ["y[i64(i) - 5] += x[i]"], ()),
        (ONE, ["y[-i64(i)] += x[i]"], ()),
        (ONE, ["y[i64(99) - i] += x[i]"], ()),
        (ONE, ["y[i64(i) // 2 + 50 * i64(i % 2)] += x[i]"], ()),
        (ONE, ["if i64(i) < 1:", "    y[0] += x[i]"], ()),
        (ONE, ["k = i", "if i > 49:", "    k = 149 - i", "y[k] += x[i]"], ()),
        (ONE, ["k = 0", "if i % 2 == 0:", "    k = i // 2", "else:", "    k = 50 + i // 2", "y[k] += x[i]"], ()),
        (
            ONE,
            [
                "k = i",
                "for t in range(3):",
                "    if i > 3:",
                "        break",
                "    k = i // 2",
                "if i > 3:",
                "    y[k] += x[i]",
            ],
            (),
        ),
        (ONE, ["v = x[i]", *["v = v * 1.5"] * 250, "y[0] += v"], ()),  # of more variables than are looked at
        (ONE, ["j = i", *["j = 1 + (j * 3 - (j + (j + (j + j))))"] * 150, "y[j] += x[i]"], ()),  # deeper than is looked at
        (ONE, ["y[0] = max(y[0], f32(len(x)))"], ()),
        (ONE, ["y[0] = x[i]"], ()),
        (ONE, ["a = local(f32, 4)", "a[0] += x[i]", "y[i] = a[0]"], ()),
        (TWO, ["if j == 0:", "    for k in range(x.shape[1]):", "        y[i] += x[i, k]"], ()),
        (TWO, ["if i == 1 and j == 1:", "    y[0] += x[i, j]"], ()),
        (TWO, ["if i >= x.shape[0] - 1 and j + 1 >= x.shape[1]:", "    y[0] += x[i, j]"], ()),
        (TWO, ["y[i * 10 + j] += x[i, j]"], ()),
        (TWO, ["if j < 8:", "    y[i * 8 + j] += x[i, j]"], ()),
        (TWO, ["if i == j:", "    y[i + j] += x[i, j]"], ()),
        (TWO, ["if i == 0:", "    y[i + j] += x[i, j]"], ()),
        (GROUP, ["y[g.id * 64 + g.local] += x[g.index]"], ()),
        (GROUP, ["y[g.index] += x[g.index]"], ()),
        (GROUP, ["if g.index == 0:", "    y[0] += x[g.index]"], ()),
        (GROUP, ["if g.local == 0:", "    y[g.id] += x[g.index]"], ()),
        ("g: Group[64], x: In[f32], y: InOut[f32], c: InOut[u32]", ["if atomic_add(c, 0, 1) == 3:", "    y[0] += 1.0"], ()),
    ],
)
def test_updates_that_meet_no_other_run_without_a_word(head: str, body: list[str], numbers: tuple[Any, ...]) -> None:
    is_two = head.startswith(TWO)
    made, x = _kernel(head, *body), IMAGE if is_two else X
    made = made.over(10, 10) if is_two else made.groups(2) if "Group" in head else made.over(100)
    more = (np.zeros(1, np.uint32),) if "c: " in head else numbers
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(x, _y(), *more)


def test_rows_that_overlap_are_refused_where_they_are_long_enough() -> None:
    made = _kernel(TWO, "y[i * 8 + j] += x[i, j]")
    assert made.over(10, 8)(IMAGE, _y()).sum() == IMAGE[:, :8].sum()
    assert made.over(1, 10)(IMAGE, _y()).sum() == IMAGE[0].sum()
    with pytest.raises(KernelTypeError, match=r"there are 9 along 'j' and 2 along 'i'"):
        made.over(2, 9)(IMAGE, _y())
    assert "invocations along 'j' and 'i' lose what others store where there are 9 and 2: use" in str(made.explain())


def test_one_invocation_may_update_any_element() -> None:
    made = _kernel(ONE, "y[0] += x[i]")
    assert made(X[2:3], _y())[0] == 3.0
    assert made.over(1)(X, _y())[0] == 1.0
    grouped = _kernel("g: Group[1], x: In[f32], y: InOut[f32]", "for k in range(len(x)):", "    y[0] += x[k]")
    assert grouped.groups(1)(X, _y())[0] == 5050.0
    with pytest.raises(KernelTypeError, match=r"there are 2 along g\.id"):
        grouped.groups(2)(X, _y())


def test_an_update_in_a_function_is_refused_at_its_line_with_its_names() -> None:
    text = "def add(total, by):\n    total[0] += by\n\ndef k(i: Index, x: In[f32], y: InOut[f32]):\n    add(y, x[i])\n"
    with pytest.raises(KernelTypeError) as refused:
        kernel.from_source(text, name="k")(X, _y())
    assert refused.value.fix == "use atomic_add(total, 0, by), or a reduction"
    assert [(name, line) for name, _, line, _, _, _ in refused.value.frames] == [("k", 5), ("add", 2)]


def test_the_interpreter_names_the_race_and_the_atomic() -> None:
    with pytest.raises(KernelFault, match=r"stores to y\[0\] in line 2") as found:
        _kernel(ONE, "y[0] += x[i]").interpret(X, _y())
    assert found.value.fix == "use atomic_add(y, 0, x[i]), or a reduction"
