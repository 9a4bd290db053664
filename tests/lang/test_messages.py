"""What is said of a mistake: each message as a whole, in one text that a reviewer reads.

``python tests/lang/test_messages.py`` writes the text anew.
"""

from __future__ import annotations

import re
from pathlib import Path

from mistaken_kernels import MISTAKEN

from vyre_driver.errors import KernelSourceError
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


if __name__ == "__main__":
    GOLDEN.write_text(messages(), "utf-8")
