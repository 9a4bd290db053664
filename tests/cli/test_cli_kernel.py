"""``vyre-driver kernel``: what is said of the kernels of a file, without a device."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Refused, RunChild

GOOD = """
from typing import TypeVar
from vyre_driver.lang import Const, In, Index, InOut, Out, f32, i32, kernel
from scales import scaled

T = TypeVar("T", f32, i32)

@kernel
def twice(i: Index, x: In[T], y: Out[T], *, N: Const[int] = 2):
    y[i] = x[i] * N

@kernel
def shifted(i: Index, x: In[f32], y: InOut[f32]):
    y[i] = scaled(x[i + 1])
"""
BAD = (
    GOOD
    + """
@kernel
def typo(i: Index, x: In[f32], y: Out[f32]):
    y[i] = z
"""
)


@pytest.fixture
def files(work: Path) -> Path:
    (work / "scales.py").write_text("def scaled(v):\n    return v * 2\n")
    (work / "good.py").write_text(GOOD)
    (work / "bad.py").write_text(BAD)
    (work / "worse.py").write_text("from vyre_driver.lang import *\n@kernel\ndef none(i: Index, x):\n    pass\n")
    (work / "broken.py").write_text("import nowhere_at_all\n")
    return work


def test_kernels_are_checked_without_a_device(run_here: RunChild, files: Path) -> None:
    assert files
    done = run_here("kernel", "check", "good.py")
    assert (done.status, done.stdout) == (0, "good.py:twice: ok\ngood.py:shifted: ok\n")


def test_what_is_wrong_is_told_with_its_line(run_here: RunChild, files: Path) -> None:
    done = run_here("kernel", "check", "good.py", "bad.py", "worse.py")
    assert done.status == 1
    assert done.stdout.splitlines()[-10:] == [
        "bad.py:typo: there is no name 'z'",
        f'  File "{files / "bad.py"}", line 18, in typo',
        "    y[i] = z",
        "           ^",
        "Fix: pass it as a parameter, or define it before the kernel",
        "worse.py: parameter 'x' has no type",
        f'  File "{files / "worse.py"}", line 3, in none',
        "    def none(i: Index, x):",
        "                       ^",
        "Fix: write x: In[f32], Out[f32], InOut[f32], f32, i32, Index or Const[int]",
    ]
    found = json.loads(run_here("kernel", "check", "bad.py", "--json").stdout)["kernels"]
    assert [(one["kernel"], one["problem"] is None) for one in found] == [("twice", True), ("shifted", True), ("typo", False)]


def test_a_kernel_is_shown(run_here: RunChild, files: Path) -> None:
    assert files
    program = run_here("kernel", "show", "good.py:twice", "--with", "T=i32", "--with", "N=3").stdout
    assert "buffer x: i32[] at 0, read_only" in program
    assert "* 3" in program
    explained = run_here("kernel", "show", "good.py:shifted", "--explain").stdout
    assert "    line 14: x[i + 1]: nothing proves i + 1 < len(x)\n" in explained
    assert "OpEntryPoint" in run_here("kernel", "show", "good.py:shifted", "--spirv").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "broken.py"), "2202: broken.py cannot be imported (ModuleNotFoundError: No module named 'nowhere_at_all')."),
        (("check", "none.py"), "2202: none.py does not exist. Fix: name a Python file that is there."),
        (("show", "good.py"), "2501: 'good.py' is not FILE:NAME."),
        (("show", "good.py:twise"), "2501: good.py has no kernel 'twise'. Fix: name twice."),
        (("show", "good.py:twice", "--with", "T=q"), "2501: --with T=q is neither a number nor a type."),
        (("show", "good.py:twice"), "2201: twice was not given its type 'T'. Fix: give T=f32 or another."),
    ],
)
def test_what_cannot_be_shown_is_refused(refused_here: Refused, files: Path, arguments: tuple[str, ...], said: str) -> None:
    assert files
    assert refused_here("kernel", *arguments).startswith(said)
