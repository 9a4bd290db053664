"""What is said of a mistake: each message as a whole, in one text that a reviewer reads.

``python tests/lang/test_messages.py`` writes the text anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mistaken_kernels import MISTAKEN

from vyre_driver.errors import KernelSourceError, KernelTypeError
from vyre_driver.lang import kernel
from vyre_driver.lang.frontend.translate import translate
from vyre_driver.lang.source.parameters import Specialization, signature_of

GOLDEN = Path(__file__).parents[1] / "golden" / "text" / "kernel_messages.txt"


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
    assert messages() == GOLDEN.read_text("utf-8")


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


if __name__ == "__main__":
    GOLDEN.write_text(messages(), "utf-8")
