"""GLSL where SPIR-V is wanted, a path where a text is, and nothing at all: what is said names what to call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from literals import refusal

from vyre_driver.errors import InvalidInput, InvalidModule, ShaderSyntaxError
from vyre_driver.spirv import SpirvModule
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """// a comment
#version 450
void main() {}
"""


@pytest.mark.parametrize("text", [TEXT, "void main() { }", TEXT + "  "])
def test_glsl_that_is_read_as_a_module_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.comp"
    path.write_text(text)
    fix = "Fix: compile it with SpirvModule.from_glsl; for the command line, name the file otherwise than .spv."
    for name, read in (
        (str(path), lambda: SpirvModule.from_file(path)),
        ("<bytes>", lambda: SpirvModule.from_bytes(text.encode())),
    ):
        said = f"{name} is not a valid SPIR-V module: it looks like GLSL source. {fix}"
        assert refusal(read) == (InvalidModule, 2101, said)


def test_a_module_that_holds_its_source_is_a_module() -> None:
    code = shipped_module("saxpy").code
    padded = code + b"#version 450\n   "
    assert "looks like GLSL" not in refusal(lambda: SpirvModule.from_bytes(padded))[2]
    assert "looks like GLSL" not in refusal(lambda: SpirvModule.from_bytes(b"abcd" * 9))[2]


@pytest.mark.parametrize("path", ["saxpy.comp", "/some where/shaders/x.glsl", " blur.comp\n"])
def test_a_path_that_is_given_as_text_is_told(path: str) -> None:
    shown = path.strip()
    assert refusal(lambda: SpirvModule.from_glsl(path)) == (
        InvalidInput,
        2201,
        (
            f"the GLSL source is {shown!r}, which is the path of a file and not its text. "
            f"Fix: call SpirvModule.from_glsl(pathlib.Path({shown!r}))."
        ),
    )


def test_a_module_that_is_given_as_glsl_is_read_otherwise() -> None:
    assert refusal(lambda: SpirvModule.from_glsl("x.spv"))[2].endswith("Fix: call SpirvModule.from_file('x.spv').")


def test_an_empty_source_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.comp"
    path.write_text("\n ")
    fix = "Fix: give the source of a compute shader."
    for name, source in (("<source>", ""), ("<source>", " \n"), (str(path), path)):
        assert refusal(lambda source=source: SpirvModule.from_glsl(source)) == (
            ShaderSyntaxError,
            2302,
            f"{name} is empty. {fix}",
        )
