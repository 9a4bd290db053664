"""What is said of mistakes, and of what Python has and the kernel language has not; the limits of what is translated.

Each message is held against one text as a whole, which a reviewer reads.
``python tests/lang/test_refusals.py`` writes both texts anew.
"""

from __future__ import annotations

import pickle
import re
import time
from pathlib import Path

import numpy as np
import pytest
from both_ways import function_of, translated
from kernel_texts import NAMES
from mistaken_kernels import MISTAKEN
from refused_kernels import REFUSED

from vyre_driver.errors import KernelSourceError, KernelSyntaxError, KernelTypeError, LimitExceeded
from vyre_driver.lang import kernel
from vyre_driver.lang.frontend.translate import translate
from vyre_driver.lang.source.parameters import Specialization, signature_of

MESSAGES = Path(__file__).parents[1] / "golden" / "text" / "kernel_messages.txt"


def message(function: object) -> str:
    """Return what is said of a kernel; lines are counted from its first one, where they are in the kernel."""
    code = function.__code__  # type: ignore[attr-defined] # a function
    try:
        translate(function, signature_of(function), Specialization())  # type: ignore[arg-type] # the same
    except KernelSourceError as error:
        text = f"{type(error).__name__}: {error}".replace(code.co_filename, "kernels.py")
        return re.sub(r"\bline (\d+)", lambda found: f"line {int(found[1]) - code.co_firstlineno + 1}", text)
    return "nothing"


def messages() -> str:
    return "\n\n".join(f"{one.__name__}\n{message(one)}" for one in MISTAKEN) + "\n"


def test_each_mistake_is_told_with_its_place_and_a_fix() -> None:
    assert messages() == MESSAGES.read_text("utf-8")


@pytest.mark.parametrize("of", ["i32", "u32", "i64"])
@pytest.mark.parametrize("constant", [2**31, 2**32 - 1, 5 * 10**9, 2**63, 2**64 - 1])
@pytest.mark.parametrize(
    "expression",
    ["v + {}", "{} - v", "v * {}", "v & {}", "v ^ {}", "v // {}", "v > {}", "max({}, v)", "i + {}", "v if v > 0 else {}"],
)
def test_each_fix_of_a_constant_that_does_not_fit_works(of: str, constant: int, expression: str) -> None:
    def fixes(written: str) -> list[str]:
        text = f"def k(i: Index, x: In[{of}], o: Out[f32]):\n    v = x[i]\n    o[i] = f32({written})\n"
        try:
            kernel.from_source(text).program()
        except KernelSourceError as error:
            return error.fix.split(", or ")
        return []

    for fix in fixes(expression.format(constant)):
        write, convert = (
            re.fullmatch(r"write (\w+\(\d+\))", fix),
            re.fullmatch(r"convert the other side with (\w+)\(\.\.\.\)", fix),
        )
        assert write or convert
        mended = expression.format(write[1]) if write else re.sub(r"\bv\b", f"{convert[1]}(v)", expression.format(constant))
        assert fixes(mended) == []


def test_a_constant_for_what_has_a_type_is_to_be_in_its_range() -> None:
    for line in ("o[i] = 2147483648", "w = x[i]; w = 2147483648", "w: i32 = 2147483648"):
        text = "def k(i: Index, x: In[i32], o: Out[i32]):\n    " + line.replace("; ", "\n    ") + "\n"
        with pytest.raises(KernelTypeError) as refused:
            kernel.from_source(text).program()
        assert (refused.value.problem, refused.value.fix) == (
            "2147483648 does not fit i32, which goes from -2147483648 to 2147483647",
            "use a number in that range",
        )


REFUSALS = Path(__file__).parents[1] / "golden" / "text" / "kernel_refusals.txt"


def refusals() -> str:
    return "\n\n".join(f"{one.__name__}\n{message(one)}" for one in REFUSED) + "\n"


def test_each_refusal_has_its_place_and_a_fix() -> None:
    assert refusals() == REFUSALS.read_text("utf-8")


def _refusal(*lines: str, before: str = "") -> KernelSyntaxError:
    text = f"{before}def kernel(i: Index, a: In[i32], o: Out[i32]):\n" + "".join(f"    {line}\n" for line in lines)
    function = function_of(text, "kernel", NAMES)
    with pytest.raises(KernelSyntaxError) as found:
        translated(function)
    return found.value


def test_a_kernel_of_10000_lines_is_refused_by_the_number_of_its_statements() -> None:
    begun = time.process_time()
    refused = _refusal(*(f"o[i] = a[i] + {k}" for k in range(10_000)))
    assert time.process_time() - begun < 20  # measured: 2.1 s
    assert refused.problem == "the kernel and what it calls make over 8,192 statements, the most of a program"
    assert refused.frames[-1][2] == 8195


def test_statements_that_the_limits_of_a_loop_hide_are_counted_too() -> None:
    refused = _refusal("x = 0", *(line for k in range(2800) for line in (f"if a[i] > {k}:", "    x += 1")), "o[i] = x")
    assert refused.problem == "there are 14002 statements in the program, over the limit of 8192"


@pytest.mark.thorough
def test_functions_that_call_the_next_one_twice_are_bounded() -> None:
    functions = "".join(f"def f{k}(x):\n    return f{k + 1}(x) + f{k + 1}(x)\n\n" for k in range(20))
    begun = time.process_time()
    refused = _refusal("o[i] = f0(a[i])", before=functions + "def f20(x):\n    return x\n\n")
    assert time.process_time() - begun < 60  # measured: 4 s
    assert refused.problem == "the kernel and what it calls make over 32,768 statements to translate"


def test_ifs_that_nest_too_deep_are_told_at_the_innermost() -> None:
    refused = _refusal(*(" " * k + f"if a[i] > {k}:" for k in range(90)), " " * 90 + "o[i] = 1")
    assert refused.problem == "ifs and loops nest 93 deep, over the limit of 64"
    assert refused.frames[-1][2:4] == (92, " " * 94 + "o[i] = 1")


@pytest.mark.parametrize(
    "lines",
    [
        ["o[i] = " + "+".join(["a[i]"] * 2000)],
        ["o[i] = i32(" + "not " * 900 + "(a[i] > 0))"],
    ],
    ids=["sum", "not"],
)
def test_what_nests_deeper_than_python_follows_is_refused(lines: list[str]) -> None:
    try:
        refused = _refusal(*lines)
    except RecursionError:
        pytest.skip("this Python does not compile it either")
    assert refused.problem == "'kernel' is nested too deep to be translated"


@pytest.mark.device
def test_numbers_that_a_device_does_not_push_are_told_with_both_counts() -> None:
    names = [f"x{k}" for k in range(20)]
    sums = "".join(f"    o[i] += {name}[i, i, i, 0] + {name}.shape[0] + {name}.shape[3]\n" for name in names)
    given = ", ".join(f"{name}: In[i32, 4]" for name in names)
    made = kernel.from_source(f"def many(i: Index, o: InOut[i32], {given}):\n{sums}").over(1)
    with pytest.raises(LimitExceeded) as refused:
        made(np.zeros(1, np.int32), *[np.zeros((2, 2, 2, 2), np.int32)] * 20)
    found = re.fullmatch(
        r"many needs 81 lengths and other numbers: the program has (\d+) bytes to push, and the device allows (\d+)",
        refused.value.problem,
    )
    assert found is not None
    assert int(found[1]) >= 280 > int(found[2])
    assert refused.value.fix == "use fewer arrays of several axes"


def test_an_error_is_whole_in_another_process() -> None:
    refused = _refusal("o[i] = (n := a[i])")
    again = pickle.loads(pickle.dumps(refused))  # noqa: S301 -- our own
    assert (str(again), again.frames) == (str(refused), refused.frames)


if __name__ == "__main__":
    MESSAGES.write_text(messages(), "utf-8")
    REFUSALS.write_text(refusals(), "utf-8")
