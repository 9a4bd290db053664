"""Files and lines in the code of a kernel that asks for them; without, no name and no line is in anything that is a key."""

# ruff: noqa: ANN001, ANN003, ANN201 -- kernels return nothing
# mypy: ignore-errors

from __future__ import annotations

import linecache
import re

from vyre_driver.identity.keys import program_digest
from vyre_driver.lang import Group, In, Index, InOut, Out, f32, kernel
from vyre_driver.lowering.emit.target import LoweringTarget
from vyre_driver.spirv.validator import check_valid
from vyre_driver.vulkan.version import API_1_2

_TEXT = """
def part(v):
    return v * 2 if v > 1 else v
{blank}
def {name}(i: Index, x: In[f32], y: InOut[f32]):
    for k in range(3):
        if x[i] > k:
            y[i] += part(x[i])
    while y[i] > 9:
        y[i] = y[i] - 4
"""


@kernel(debug=True)
def waits(g: Group[64], x: In[f32], y: Out[f32]):
    part = g.shared(f32, 64)
    part[g.local] = x[g.index]
    g.barrier()
    y[g.index] = part[63 - g.local] + part[0]


def _made(name: str, blank: str = "", **options) -> kernel:
    filename = f"<{name}{len(blank)}{options}>"
    text = _TEXT.format(name=name, blank=blank)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    names = {"Index": Index, "In": In, "InOut": InOut, "f32": f32}
    exec(compile(text, filename, "exec"), names)  # noqa: S102 -- a text of the test's own
    return kernel(**options)(names[name])


def _lines(made) -> list[int]:
    return [int(one) for one in re.findall(r"OpLine %\d+ (\d+) \d+", made.disassemble())]


def test_the_code_names_file_and_lines_where_it_is_asked_to() -> None:
    made = _made("first", debug=True)
    text = made.disassemble()
    assert f'OpString "{made.function.__code__.co_filename}"' in text
    assert set(_lines(made)) == {3, 6, 7, 8, 9, 10}
    assert text.index("OpString") < text.index("OpName")
    check_valid(made.spirv().code, made.spirv().reflection.capabilities, API_1_2, "made")
    first = waits.function.__code__.co_firstlineno
    assert set(_lines(waits)) == {first + 3, first + 4, first + 5}
    check_valid(waits.spirv().code, waits.spirv().reflection.capabilities, API_1_2, "waits")


def test_without_it_neither_name_nor_line_is_in_the_code_or_the_digest() -> None:
    one, other = _made("first"), _made("second", blank="\n\n")
    assert one.spirv().code == other.spirv().code
    assert program_digest(one.program()) == program_digest(other.program())
    assert one.definition.config(one.translated()).lines is None
    assert "OpLine" not in one.disassemble()


def test_lines_are_in_the_key_and_in_nothing_else() -> None:
    def options(made) -> dict:
        return LoweringTarget(lines=made.definition.config(made.translated()).lines).options()

    plain, lined, moved = _made("first"), _made("first", debug=True), _made("first", blank="\n", debug=True)
    assert program_digest(plain.program()) == program_digest(lined.program()) == program_digest(moved.program())
    assert "lines" not in options(plain)
    assert len({options(one)["lines"] for one in (lined, moved)}) == 2
