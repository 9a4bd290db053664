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


def test_a_source_without_a_version_of_compute_shaders_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "x.comp"
    path.write_text("// no version\nvoid main() {}\n")
    none = "has no #version line; without one GLSL is version 1.10, which has no compute shaders. "
    none += "Fix: make #version 450 its first line."
    old = "has '#version 400', a version without compute shaders. Fix: write #version 450."
    late = "int x;\n#version 450\nvoid main() {}\n"
    said = [
        refusal(lambda: SpirvModule.from_glsl("void main() {}\n")),
        refusal(lambda: SpirvModule.from_glsl("garbage", name="blur")),
        refusal(lambda: SpirvModule.from_glsl(path)),
        refusal(lambda: SpirvModule.from_glsl("/*\n#version 450\n*/\nvoid main() {}\n")),
        refusal(lambda: SpirvModule.from_glsl("#version 400\nvoid main() {}\n")),
    ]
    assert said == [
        (ShaderSyntaxError, 2302, one)
        for one in (f"<source> {none}", f"blur {none}", f"{path} {none}", f"<source> {none}", f"<source> {old}")
    ]
    assert refusal(lambda: SpirvModule.from_glsl(late))[2].endswith("Fix: move #version above all else but comments.")


def test_a_version_behind_a_comment_hides_no_other_mistake_and_a_byte_order_mark_is_told() -> None:
    said = [
        refusal(lambda text=text: SpirvModule.from_glsl(text))
        for text in (
            "/* a\n licence */ #version 450\nvoid main() { x = 1; }\n",
            "\ufeff#version 450\nvoid main() {}\n",
        )
    ]
    assert "'x' : undeclared identifier" in said[0][2]
    assert said[1] == (
        ShaderSyntaxError,
        2302,
        "<source> begins with a byte order mark, which is no GLSL. Fix: save it as UTF-8 without one.",
    )


def test_a_source_of_text_has_the_name_that_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "x.comp"
    source = "#version 450\nlayout(binding = 0) buffer X { float x[]; };\nvoid main() { x[0] = 1; }\n"
    path.write_text(source)
    made = [SpirvModule.from_glsl(source), SpirvModule.from_glsl(source, name="ones"), SpirvModule.from_glsl(path, name="ones")]
    assert [one.name for one in made] == ["<source>", "ones", "ones"]


def test_a_name_is_text_and_has_a_form_in_utf_8(tmp_path: Path) -> None:
    source = "#version 450\nlayout(binding = 0) buffer X { float x[]; };\nvoid main() { x[0] = 1; }\n"
    code = SpirvModule.from_glsl(source, name="a\udc80").code
    path = tmp_path / "\udc80.spv"
    path.write_bytes(code)
    made = (
        SpirvModule.from_glsl(source, name="a\udc80"),
        SpirvModule.from_bytes(code, name="b\ud800"),
        SpirvModule.from_file(path),
    )
    assert [one.name for one in made] == ["a\\udc80", "b\\ud800", f"{tmp_path}/\\udc80.spv"]
    for make in (SpirvModule.from_glsl, SpirvModule.from_bytes):
        with pytest.raises(InvalidInput, match="name is of type int, and must be text"):
            make(source, name=5)  # type: ignore[operator]


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
