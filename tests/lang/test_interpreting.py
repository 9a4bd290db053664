"""Calls without a device: the same result, and what is wrong with a kernel told at its line."""

# ruff: noqa: ANN001, ANN201, ANN202, T201 -- kernels return nothing, and their functions take any number
# mypy: ignore-errors

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from vyre_driver.errors import InvalidInput, InvalidSetting, KernelAssertionError, KernelFault
from vyre_driver.lang import (
    Const,
    Group,
    In,
    Index,
    InOut,
    Out,
    atomic_add,
    atomic_cas,
    atomic_load,
    bool_,
    f32,
    i32,
    kernel,
    u32,
)
from vyre_driver.lang.launch.choices import Choices
from vyre_driver.lang.launch.launcher import Launcher
from vyre_driver.lang.launch.off_device import run_on_reference

HERE = Path(__file__)


@kernel
def saxpy(i: Index, x: In[f32], y: InOut[f32], a: f32):
    y[i] = a * x[i] + y[i]


@kernel
def tiles(g: Group[4, 8], x: In[f32], y: Out[f32], *, TURN: Const[bool] = True):  # noqa: N803 -- a constant
    tile = g.shared(f32, 4, 8)
    row, col = g.index
    j, i = g.local
    tile[j, i] = x[row, col]
    g.barrier()
    y[row, col] = tile[3 - j, 7 - i] if TURN else tile[j, i]


@kernel
def positive(i: Index, x: In[i32], y: Out[bool_], n: Out[u32]):
    y[i] = x[i] > 0
    n[i] = u32(abs(x[i]))


@pytest.mark.parametrize("how", ["interpret", "python"])
def test_a_call_writes_in_place_and_returns_as_one_on_a_device(how: str) -> None:
    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    assert getattr(saxpy, how)(x, y, 2) is y
    assert y.tolist() == [1, 3, 5, 7, 9]
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    turned = np.concatenate([x[:4][::-1, ::-1], x[4:][::-1, ::-1]])
    assert np.array_equal(getattr(tiles.groups(2, 1), how)(x, np.zeros_like(x)), turned)
    assert np.array_equal(getattr(tiles.with_(TURN=False).groups(2, 1), how)(x, np.zeros_like(x)), x)
    assert np.array_equal(getattr(tiles.groups(2, 1), how)(x, y=np.zeros_like(x), TURN=False), x)
    flags, sizes = getattr(positive, how)(np.array([-1, 0, 7], np.int32))
    assert (flags.dtype, flags.tolist(), sizes.tolist()) == (np.bool_, [False, False, True], [1, 0, 7])
    assert getattr(saxpy, how)(x[0][:0], y[:0], 1.0).size == 0


@pytest.mark.parametrize("how", ["interpret", "python"])
def test_a_call_that_does_not_fit_is_refused_as_one_on_a_device(how: str) -> None:
    with pytest.raises(InvalidInput, match=r"index 'i' goes over 5 .* and 4"):
        getattr(saxpy, how)(np.zeros(5, np.float32), np.zeros(4, np.float32), 2.0)


@kernel
def shifted(i: Index, x: In[f32], y: Out[f32]):
    y[i] = x[i + 1]


@kernel
def stores_two(i: Index, x: In[f32], out: InOut[f32]):
    if x[i] == 3 or x[i] == 7:
        out[0] = x[i]


@kernel
def in_place(i: Index, x: InOut[f32]):
    if i + 1 < len(x):
        x[i] = x[i + 1]


@kernel
def without_barrier(g: Group[8], x: InOut[f32]):
    part = g.shared(f32, 8)
    part[g.local] = x[g.index]
    x[g.index] = part[7 - g.local]


@kernel
def above(i: Index, j: Index, x: In[f32], y: Out[f32]):
    y[i, j] = x[i - 1, j]


def _looked_up(table, k):
    return table[k * 2]


@kernel
def by_a_function(i: Index, x: In[u32], table: In[f32], y: Out[f32]):
    y[i] = _looked_up(table, i32(x[i]))


@kernel
def beside_shared(g: Group[8], y: Out[f32]):
    part = g.shared(f32, 2, 8)
    part[g.local, 0] = 1.0
    y[g.index] = 1.0


@kernel
def asserts(i: Index, x: In[f32], y: Out[f32]):
    assert x[i] < 5, "too large"
    y[i] = x[i]


@kernel
def too_far(i: Index, x: In[f32], counts: InOut[u32]):
    if x[i] > 1:
        atomic_add(counts, i + 1, 1)


@kernel
def endless(i: Index, x: InOut[f32]):
    while x[i] > 5:
        x[i] = x[i] + 1


FLOATS = np.arange(8, dtype=np.float32)
FAULTS = [
    (
        lambda: shifted.over(4096).interpret(np.zeros(4096, np.float32), np.zeros(4096, np.float32)),
        "invocation (4095,): x[4096] is out of range: x has 4096 elements",
        [("shifted", "y[i] = x[i + 1]", "i + 1")],
        "guard it: i + 1 < len(x)",
    ),
    (
        lambda: stores_two.interpret(FLOATS, np.zeros(1, np.float32)),
        "invocations 3 and 7 store different values to out[0] in line 3",
        [("stores_two", "out[0] = x[i]", "out[0] = x[i]")],
        "let one of them store, or use an atomic",
    ),
    (
        lambda: in_place.interpret(FLOATS.copy()),
        "invocation 1 stores to x[1] in line 3, which 0 reads in line 3, with no barrier between",
        [("in_place", "x[i] = x[i + 1]", "x[i] = x[i + 1]")],
        "store to another array than is read",
    ),
    (
        lambda: without_barrier.interpret(FLOATS.copy()),
        "invocation 0 reads part[7] in line 4, which 7 stores to in line 3, with no barrier between",
        [("without_barrier", "x[g.index] = part[7 - g.local]", "x[g.index] = part[7 - g.local]")],
        "put g.barrier() between them",
    ),
    (
        lambda: above.interpret(np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float32)),
        "invocation (0, 0): index -1 along axis 0 of x is out of range: x has the shape (4, 3)",
        [("above", "y[i, j] = x[i - 1, j]", "i - 1, j")],
        "guard it: i - 1 >= 0",
    ),
    (
        lambda: by_a_function.interpret(np.array([0, 1, 2, 3], np.uint32), np.zeros(5, np.float32)),
        "invocation (3,): table[6] is out of range: table has 5 elements",
        [
            ("by_a_function", "y[i] = _looked_up(table, i32(x[i]))", "_looked_up(table, i32(x[i]))"),
            ("_looked_up", "return table[k * 2]", "k * 2"),
        ],
        "guard it: k * 2 < len(table)",
    ),
    (
        lambda: beside_shared.interpret(np.zeros(8, np.float32)),
        "invocation (2,): index 2 along axis 0 of part is out of range: part has the shape (2, 8)",
        [("beside_shared", "part[g.local, 0] = 1.0", "g.local, 0")],
        "guard it: g.local < part.shape[0]",
    ),
    (
        lambda: asserts.interpret(FLOATS),
        "invocation (5,): x[i] < 5 does not hold: too large",
        [("asserts", 'assert x[i] < 5, "too large"', 'assert x[i] < 5, "too large"')],
        "pass values for which it holds, or correct the assert",
    ),
    (
        lambda: too_far.interpret(FLOATS, np.zeros(3, np.uint32)),
        "invocation (2,): counts[3] is out of range: counts has 3 elements",
        [("too_far", "atomic_add(counts, i + 1, 1)", "i + 1")],
        "guard it: i + 1 < len(counts)",
    ),
    (
        lambda: run_on_reference(Launcher(endless.definition), Choices(), (FLOATS.copy(),), {}, 100),
        "invocation (6,) ran more than 100 statements",
        [("endless", "while x[i] > 5:", "while x[i] > 5:")],
        "make sure that something ends this loop",
    ),
]


@pytest.mark.parametrize(("call", "problem", "frames", "fix"), FAULTS, ids=[one[1][:24] for one in FAULTS])
def test_a_fault_is_told_at_its_line(call, problem: str, frames: list[tuple[str, str, str]], fix: str) -> None:
    with pytest.raises(KernelFault) as found:
        call()
    lines = HERE.read_text("utf-8").splitlines()
    told, first = [], 0
    for name, text, marked in frames:
        def_line = next(at for at, one in enumerate(lines, 1) if one.startswith(f"def {name}("))
        first = first or def_line
        number = next(at for at, one in enumerate(lines[def_line:], def_line + 1) if one.strip() == text)
        told += [f'  File "{HERE}", line {number}, in {name}', f"    {text}"]
        told += ["    " + " " * text.index(marked) + "^" * len(marked)]
    problem = re.sub(r"in line (\d+)", lambda one: f"in line {first + int(one[1]) - 1}", problem)
    assert str(found.value).splitlines() == [problem, *told, f"Fix: {fix}"]


def test_a_failed_assert_is_an_assertion_error_too() -> None:
    with pytest.raises(AssertionError) as found:
        asserts.interpret(FLOATS)
    assert isinstance(found.value, KernelAssertionError)
    assert (found.value.code, found.value.context["invocation"]) == (2308, (5,))


@kernel
def guarded(i: Index, x: In[f32], y: Out[f32]):
    y[i] = (x[i + 1] if i + 1 < len(x) else 0.0) + (x[i - 1] if i > 0 else 0.0)
    if i + 2 < len(x) and x[i + 2] > 0.0:
        y[i] = 1.0


@kernel
def counted(i: Index, x: In[u32], counts: InOut[u32], slots: Out[u32]):
    slots[i] = atomic_add(counts, x[i] % 4, 1)
    k = atomic_load(counts, 0)
    while k < 10:
        k = atomic_cas(counts, 0, k, k + 1)


@kernel
def marks(i: Index, x: In[f32], found: InOut[u32]):
    for k in range(i + 1):
        if x[k] > 3:
            found[0] = 1


def test_nothing_is_said_of_what_is_right() -> None:
    assert guarded.interpret(-FLOATS, np.zeros(8, np.float32)).shape == (8,)
    counts = np.zeros(4, np.uint32)
    counted.interpret(np.arange(64, dtype=np.uint32), counts)
    assert counts[1:].tolist() == [16, 16, 16]
    assert marks.over(8).interpret(FLOATS, np.zeros(1, np.uint32)).tolist() == [1]  # all store the same


@pytest.mark.parametrize("how", ["interpret", "python"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_numbers_of_a_type_variable_have_the_type_of_the_arrays(how: str, dtype) -> None:
    made = kernel.from_source("def k(i: Index, x: In[T], out: Out[T], a: T): out[i] = x[i] * a", {"T": TypeVar("T", f32, i32)})
    found = getattr(made, how)(np.arange(3, dtype=dtype), 3)
    assert (found.dtype, found.tolist()) == (dtype, [0, 3, 6])


def test_a_setting_sends_calls_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("VYRE_INTERPRET", "1")
    with pytest.raises(KernelFault, match="out of range"):
        shifted.over(4)(np.zeros(4, np.float32), np.zeros(4, np.float32))

    @kernel
    def loud(i: Index, y: Out[i32]):
        print("at", i)
        y[i] = i

    monkeypatch.setenv("VYRE_INTERPRET", "python")
    assert loud.over(2)(np.zeros(2, np.int32)).tolist() == [0, 1]
    assert capsys.readouterr().out == "at 0\nat 1\n"
    monkeypatch.setenv("VYRE_INTERPRET", "2")
    with pytest.raises(InvalidSetting, match="VYRE_INTERPRET is '2'"):
        loud(np.zeros(2, np.int32))


_DEBUGGED = """
import numpy as np
from vyre_driver.lang import Group, Index, In, Out, f32, kernel

def halved(value):
    half = value / 2
    {in_helper}
    return half

@kernel
def halves(i: Index, x: In[f32], y: Out[f32]):
    half = halved(x[i])
    {in_kernel}
    y[i] = half

@kernel
def of_groups(g: Group[1], x: In[f32], y: Out[f32]):
    half = x[g.id] / 2
    g.barrier()
    {in_group}
    y[g.id] = half

x = np.array([3], np.float32)
print({call})
"""


@pytest.mark.parametrize(
    ("where", "name", "call"),
    [
        ("in_kernel", "halves", "halves.python(x)"),
        ("in_helper", "halved", "halves.python(x)"),
        ("in_group", "of_groups", "of_groups.groups(1).python(x, np.zeros(1, np.float32))"),
    ],
)
def test_pdb_stops_first_at_the_line_of_the_kernel(tmp_path: Path, where: str, name: str, call: str) -> None:
    script = tmp_path / "debugged.py"
    places = dict.fromkeys(("in_kernel", "in_helper", "in_group"), "pass") | {where: "breakpoint()", "call": call}
    script.write_text(_DEBUGGED.format(**places))
    found = subprocess.run(
        [sys.executable, script], input="p float(half)\ncontinue\n", capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    stops = re.findall(r"^(?:\(Pdb\) )?> (.+)\((\d+)\)(\w+)\(\)", found.stdout, re.MULTILINE)
    line = 1 + next(at for at, text in enumerate(script.read_text().splitlines()) if text.strip() == "breakpoint()")
    assert [(file, function) for file, _, function in stops] == [(str(script), name)]
    assert int(stops[0][1]) in {line, line + 1}  # the call itself from Python 3.13 on
    assert "(Pdb) 1.5\n" in found.stdout
    assert found.stdout.endswith("[1.5]\n")


@kernel
def spares(i: Index, x: In[f32], y: Out[f32]):
    if x[i] != 2.0:
        y[i] = 10.0 * x[i]


@pytest.mark.parametrize("how", ["interpret", "python"])
def test_what_is_read_and_written_in_one_memory_is_as_on_a_device(how: str) -> None:
    values = np.arange(5, dtype=np.float32)
    found = getattr(spares, how)(values[:4], values[1:])
    assert found.base is values
    assert values.tolist() == [0, 0, 10, 0, 30]  # an output holds zeros where nothing is written
