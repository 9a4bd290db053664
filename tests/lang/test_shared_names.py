"""Memory of a workgroup or an invocation goes by the name of its variable, in messages and in the program."""

from __future__ import annotations

import pytest
from both_ways import function_of, translated
from kernel_texts import NAMES
from refusals import refusal

from vyre_driver.errors import KernelSourceError


def buffers(*lines: str) -> list[str]:
    """Return the names of the buffers of a kernel."""
    text = "def kernel(g: Group[16], x: In[f32], o: Out[f32], n: Out[i32]):\n" + "".join(f"    {line}\n" for line in lines)
    function = function_of(text, "kernel", NAMES)
    return [one.name for one in translated(function).program.buffers]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["tile = g.shared(f32, 4, 4)", "o[g.index] = tile[1]"], "'tile' has 2 dimensions, and is given 1 index"),
        (["a, b = g.shared(f32, 4), g.shared(i32, 4, 4)", "b[1] = 1"], "'b' has 2 dimensions, and is given 1 index"),
        (["a, b = g.shared(f32, 4), g.shared(i32, 4)", "a[0.5] = 1"], "an index of 'a' is f32"),
        (["mine = local(i32, 4)", "mine[0] = x[0]"], "'mine' holds i32, and is given f32"),
        (["g.shared(i32, 4)[0] = 2.0"], "'shared' holds i32, and is given the float 2.0"),
    ],
)
def test_a_message_names_it_as_the_kernel_does(lines: list[str], problem: str) -> None:
    assert refusal(lambda: buffers(*lines), KernelSourceError).problem == problem


def test_the_program_does_so_too() -> None:
    names = buffers(
        "tile, x_1 = g.shared(f32, 16), g.shared(f32, 16)",
        "tile[g.local] = x[g.index]",
        "x_1[g.local] = 1.0",
        "g.barrier()",
        "o[g.index] = tile[15 - g.local] + x_1[0]",
    )
    assert names == ["x", "o", "n", "tile", "x_1"]


@pytest.mark.parametrize(
    ("line", "problem", "fix"),
    [
        ("n[0] = 2.5", "'n' holds i32, and is given the float 2.5", "convert: i32(...)"),
        ("n[0] = math.pi * 2", "'n' holds i32, and is given the float 6.283185307179586", "convert: i32(...)"),
        ("n[0] = x[0]", "'n' holds i32, and is given f32", "convert: i32(...)"),
    ],
)
def test_what_an_array_does_not_hold_is_converted_to_what_it_holds(line: str, problem: str, fix: str) -> None:
    with pytest.raises(KernelSourceError) as found:
        buffers(line)
    assert (found.value.problem, found.value.fix) == (problem, fix)
