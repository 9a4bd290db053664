"""Where modules come from: bytes, files, GLSL, the package itself."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest
from assembler import assemble
from literals import refusal

from vyre_driver.errors import FileUnusable, InvalidInput, InvalidModule, ShaderSyntaxError, ToolUnavailable
from vyre_driver.spirv import glsl
from vyre_driver.spirv.interface import LocalSize
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from pathlib import Path

SHADER = """#version 450
layout(local_size_x = SIZE) in;
layout(set = 0, binding = 0) buffer Out { float NAME[]; };
void main() { NAME[0] = 1.0; }
"""
BROKEN = """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Out { float result[]; };
void main() { result[0] = missing; }
"""
UNDECLARED = "'missing' : undeclared identifier"
TERMINATED = "'' : compilation terminated"
MIB_64 = 64 * 1024 * 1024


def write_tool(directory: Path, script: str) -> None:
    """Put a compiler of our own into ``directory``."""
    tool = directory / "glslangValidator"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(stat.S_IRWXU)


def test_a_module_from_bytes_is_named_bytes() -> None:
    assert SpirvModule.from_bytes(assemble()).name == "<bytes>"


@pytest.mark.parametrize("wrap", [bytearray, memoryview])
def test_a_module_is_read_from_any_kind_of_bytes(wrap: type) -> None:
    assert SpirvModule.from_bytes(wrap(assemble())) == SpirvModule.from_bytes(assemble())


@pytest.mark.parametrize("as_text", [True, False])
def test_a_file_gives_the_module_of_its_bytes_under_its_path(tmp_path: Path, as_text: bool) -> None:  # noqa: FBT001 -- a column
    path = tmp_path / "good.spv"
    path.write_bytes(assemble())
    given = str(path) if as_text else path
    assert SpirvModule.from_file(given) == SpirvModule.from_bytes(assemble(), name=str(path))


def test_a_broken_file_is_refused_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "broken.spv"
    path.write_bytes(b"")
    assert refusal(lambda: SpirvModule.from_file(path)) == (
        InvalidModule,
        2101,
        (
            f"{path} is not a valid SPIR-V module: it is empty. "
            "Fix: rebuild the shader with its compiler and pass the whole .spv file."
        ),
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [("absent.spv", "No such file or directory"), ("", "Is a directory"), ("a\0b.spv", "embedded null byte")],
    ids=["not there", "a directory", "a NUL"],
)
def test_what_is_no_file_cannot_be_read(tmp_path: Path, name: str, reason: str) -> None:
    path = tmp_path / name
    message = f"cannot read {path} ({reason}). Fix: name a .spv file."
    assert refusal(lambda: SpirvModule.from_file(path)) == (FileUnusable, 2202, message)


def test_a_file_of_one_byte_over_64_mib_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.spv"
    path.touch()
    os.truncate(path, MIB_64 + 1)
    message = f"{path} is larger than 67108864 bytes. Fix: name a .spv file, not other data."
    assert refusal(lambda: SpirvModule.from_file(path)) == (FileUnusable, 2202, message)


def test_a_file_of_exactly_64_mib_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.spv"
    path.touch()
    os.truncate(path, MIB_64)
    assert refusal(lambda: SpirvModule.from_file(path)) == (
        InvalidModule,
        2101,
        (
            f"{path} is not a valid SPIR-V module: its first word is not the SPIR-V magic number 0x07230203. "
            "Fix: rebuild the shader with its compiler and pass the whole .spv file."
        ),
    )


def test_an_endless_file_is_refused_at_the_limit() -> None:
    message = "/dev/zero is larger than 67108864 bytes. Fix: name a .spv file, not other data."
    assert refusal(lambda: SpirvModule.from_file("/dev/zero")) == (FileUnusable, 2202, message)


def test_a_shader_from_text_is_compiled_with_its_defines() -> None:
    module = SpirvModule.from_glsl(SHADER, defines={"SIZE": 96, "NAME": "values"})
    found = module.reflection
    assert (module.name, found.buffers[0].name, found.local_size[0]) == ("<source>", "values", LocalSize(96))


def test_a_shader_from_a_path_is_the_file_and_named_by_it(tmp_path: Path) -> None:
    path = tmp_path / "shader.comp"
    path.write_text(SHADER)
    defines = {"SIZE": 96, "NAME": "values"}
    from_path, from_text = SpirvModule.from_glsl(path, defines=defines), SpirvModule.from_glsl(SHADER, defines=defines)
    assert (from_path.name, from_path.code) == (str(path), from_text.code)


def test_a_syntax_error_in_a_text_names_its_line() -> None:
    assert refusal(lambda: SpirvModule.from_glsl(BROKEN)) == (
        ShaderSyntaxError,
        2302,
        (
            f"<source> does not compile: <source>:4: {UNDECLARED}; <source>:4: {TERMINATED}. "
            "Fix: correct the source at the line named."
        ),
    )


@pytest.mark.parametrize("name", ["broken.comp", "with space.comp", "back\\qslash\\1.comp", "stdin"])
def test_a_syntax_error_in_a_file_names_the_file_and_its_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(BROKEN)
    assert refusal(lambda: SpirvModule.from_glsl(path)) == (
        ShaderSyntaxError,
        2302,
        (
            f"{path} does not compile: {path}:4: {UNDECLARED}; {path}:4: {TERMINATED}. "
            "Fix: correct the source at the line named."
        ),
    )


@pytest.mark.parametrize(
    ("name", "reason"), [("absent.comp", "No such file or directory"), ("a\0b.comp", "embedded null byte")]
)
def test_a_shader_that_is_no_file_cannot_be_read(tmp_path: Path, name: str, reason: str) -> None:
    path = tmp_path / name
    message = f"cannot read {path} ({reason}). Fix: name a GLSL text file."
    assert refusal(lambda: SpirvModule.from_glsl(path)) == (FileUnusable, 2202, message)


def test_a_shader_file_that_is_no_text_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "binary.comp"
    path.write_bytes(b"\xff\xfe\0")
    reason = "line 1 has the byte 0xff outside a comment, which is not UTF-8"
    message = f"cannot read {path} ({reason}). Fix: name a GLSL text file, and save it as UTF-8."
    assert refusal(lambda: SpirvModule.from_glsl(path)) == (FileUnusable, 2202, message)


@pytest.mark.parametrize(
    "comment",
    [
        b"// \xa9 2020",
        b"/* \x83\x5c */",
        b"/* \xe9\n * // \xe8 */",
        b"// \x83\x5c\n and its next line \x83",  # a backslash that ends a line of Shift-JIS continues the comment
        b"/**/ // \xff",
        b"#define HALF 1 / 2 // \xfc",
        b"/\\\n/ \xe9",
        b"/\\\r\n* \xe9\n *\\\n/",
    ],
)
def test_comments_of_a_file_may_have_any_bytes(tmp_path: Path, comment: bytes) -> None:
    path = tmp_path / "old.comp"
    head, rest = SHADER.encode().split(b"\n", 1)
    path.write_bytes(head + b"\n" + comment + b"\n" + rest + b"/* \xff */\n")
    defines = {"SIZE": 96, "NAME": "values"}
    assert SpirvModule.from_glsl(path, defines=defines).signature == SpirvModule.from_glsl(SHADER, defines=defines).signature


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"#version 450\n// \xe9\nfloat caf\xe9;\n", "line 3 has the byte 0xe9 outside a comment, which is not UTF-8"),
        (b"#version 450\n/* \xe9 */ \xe8\n", "line 2 has the byte 0xe8 outside a comment, which is not UTF-8"),
        (b"#version 450\n/* *\\\n/ \xe8\n*/", "line 3 has the byte 0xe8 outside a comment, which is not UTF-8"),
        (b"#version 450\r\n// a\r\n\x83\x5c\r\n", "line 3 has the byte 0x83 outside a comment, which is not UTF-8"),
        (b"#version 450\n// a \0 in a comment\n", "line 2 has the byte 0x00"),
        ("#version 450\n".encode("utf-16-le"), "line 1 has the byte 0x00"),
    ],
)
def test_other_bytes_outside_comments_are_refused_by_their_line(tmp_path: Path, text: bytes, reason: str) -> None:
    path = tmp_path / "old.comp"
    path.write_bytes(text)
    message = f"cannot read {path} ({reason}). Fix: name a GLSL text file, and save it as UTF-8."
    assert refusal(lambda: SpirvModule.from_glsl(path)) == (FileUnusable, 2202, message)


@pytest.mark.parametrize("name", ["", "1A", "A B", "A-B", "A=1", "A\n", "é", "-o"])
def test_a_define_whose_name_is_no_identifier_is_refused(name: str) -> None:
    message = f"{name!r} is not a preprocessor name. Fix: use letters, digits and underscores."
    assert refusal(lambda: SpirvModule.from_glsl(SHADER, defines={name: 1})) == (InvalidInput, 2201, message)


def test_a_define_whose_value_holds_a_nul_is_refused() -> None:
    assert refusal(lambda: SpirvModule.from_glsl(SHADER, defines={"NAME": "a\0b"}))[:2] == (InvalidInput, 2201)


def test_a_define_is_one_argument_whatever_it_holds() -> None:
    defines = {"SIZE": "(32 + 32) /* -o nowhere; `x` */", "NAME": "values"}
    assert SpirvModule.from_glsl(SHADER, defines=defines).reflection.local_size[0].value == 64


@pytest.mark.usefixtures("system_tools_only")
def test_a_missing_compiler_is_said_with_the_package_that_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    message = (
        "glslangValidator is not installed, and GLSL is compiled with it. "
        "Fix: pip install 'vyre-driver[glsl]', or install glslang-tools (Debian, Ubuntu), glslang (Fedora, Arch)."
    )
    assert refusal(lambda: SpirvModule.from_glsl(SHADER)) == (ToolUnavailable, 2301, message)


@pytest.mark.usefixtures("system_tools_only")
def test_a_compiler_that_does_not_finish_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "nobody writes here")
    write_tool(tmp_path, f"exec <'{tmp_path}/nobody writes here'")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(glsl, "_TIMEOUT_S", 0.1)
    message = "glslangValidator did not finish <source> in 0.1 s. Fix: simplify the shader, or pass a .spv file."
    assert refusal(lambda: SpirvModule.from_glsl(SHADER)) == (ToolUnavailable, 2301, message)


@pytest.mark.usefixtures("system_tools_only")
@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("exit 1", "no reason given"),
        ("exit 0", "no reason given"),
        ("echo out of memory; exit 1", "out of memory"),
        ("echo out of memory >&2; exit 1", "out of memory"),
        ("echo 'ERROR: 0:7: bad'; echo 'ERROR: 1 compilation errors.  No code generated.'; exit 1", "<source>:7: bad"),
        ("printf 'ERROR: stdin:7: \\377'; exit 1", "<source>:7: \N{REPLACEMENT CHARACTER}"),
    ],
)
def test_what_the_compiler_says_is_in_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, complaint: str
) -> None:
    write_tool(tmp_path, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    message = f"<source> does not compile: {complaint}. Fix: correct the source at the line named."
    assert refusal(lambda: SpirvModule.from_glsl(SHADER)) == (ShaderSyntaxError, 2302, message)


def test_compiling_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    SpirvModule.from_glsl(SHADER, defines={"SIZE": 1, "NAME": "values"})
    refusal(lambda: SpirvModule.from_glsl(BROKEN))
    assert list(place.iterdir()) == []


def test_a_shipped_module_is_named_by_its_file() -> None:
    assert shipped_module("saxpy").name == "saxpy.spv"


def test_a_shipped_module_that_does_not_exist_is_a_file_not_found() -> None:
    with pytest.raises(FileNotFoundError, match=r"no such shader\.spv"):
        shipped_module("no such shader")
