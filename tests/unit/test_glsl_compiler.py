"""GLSL made a module: files and definitions, what the compiler says where it dies, and which files a source may include."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from literals import refusal

from vyre_driver import SpirvModule
from vyre_driver.errors import FileUnusable, InvalidInput, ShaderSyntaxError
from vyre_driver.spirv import shipped

if TYPE_CHECKING:
    from collections.abc import Callable


HEAD = "#version 450\n#extension GL_GOOGLE_include_directive : require\nlayout(local_size_x = 64) in;\n"
MAIN = "layout(binding = 0) buffer B { uint b[]; };\nvoid main() { b[0] = VALUE; }\n"
NOWHERE = "/nowhere/that/is/there"


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Put a shell script in the place of glslangValidator, first on PATH and alone."""

    def put(script: str) -> None:
        tool = tmp_path / "glslangValidator"
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("vyre_driver.process.tools._PREFIX", "nowhere")  # no wheel's
    return put


def constant(defined: object, text: str) -> object:
    """The default of a specialization constant whose value is a definition."""
    source = f"{HEAD}layout(constant_id = 0) const {text};\n{MAIN.replace('VALUE', '1')}"
    (found,) = SpirvModule.from_glsl(source, defines={"K": defined}).interface.spec_constants
    return np.uint32(found.default_bits)


def test_a_source_without_files_needs_no_temporary_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "main.comp"
    path.write_text(HEAD + MAIN)
    expected = SpirvModule.from_glsl(HEAD + MAIN, defines={"VALUE": 3}).code
    monkeypatch.setattr(tempfile, "tempdir", NOWHERE)
    assert SpirvModule.from_glsl(HEAD + MAIN, defines={"VALUE": 3}).code == expected
    assert SpirvModule.from_glsl(path, defines={"VALUE": 3}).code == expected
    wrong = refusal(lambda: SpirvModule.from_glsl(HEAD + MAIN))
    assert wrong[:2] == (ShaderSyntaxError, 2302)
    assert "'VALUE' : undeclared identifier" in wrong[2]


def test_a_source_with_files_says_that_it_needs_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "main.comp"
    path.write_text(f'{HEAD}#include "value.glsl"\n{MAIN}')
    (tmp_path / "value.glsl").write_text("#define VALUE 3u\n")
    monkeypatch.setattr(tempfile, "tempdir", NOWHERE)
    message = f"cannot compile {path}: no temporary directory can be written to (No such file or directory). "
    message += "Fix: set TMPDIR to a directory that can be written to and has room, or pass a source without #include."
    assert refusal(lambda: SpirvModule.from_glsl(path)) == (FileUnusable, 2202, message)


def test_without_files_in_memory_the_temporary_directory_does(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = SpirvModule.from_glsl(HEAD + MAIN, defines={"VALUE": 3}).code
    monkeypatch.setattr("vyre_driver.spirv.glsl._WITHOUT_FILES", NOWHERE)  # as where /proc is not mounted
    assert SpirvModule.from_glsl(HEAD + MAIN, defines={"VALUE": 3}).code == expected


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("kill -SEGV $$", "11 (SIGSEGV)"),
        ("exit 139", "11 (SIGSEGV)"),
        ("exit 245", "11 (SIGSEGV)"),
        ("kill -KILL $$", "9 (SIGKILL)"),
    ],
)
def test_a_compiler_that_is_killed_is_said_to_be(play: Callable[[str], None], script: str, shown: str) -> None:
    play(f"cat >/dev/null; {script}")
    message = f"<source> does not compile: glslangValidator was killed by signal {shown}. Fix: split its longest and deepest "
    message += "expressions, or compile it elsewhere and pass a .spv file."
    assert refusal(lambda: SpirvModule.from_glsl(HEAD + MAIN)) == (ShaderSyntaxError, 2302, message)


def test_a_compiler_that_says_nothing_was_not_killed(play: Callable[[str], None]) -> None:
    play("cat >/dev/null; exit 5")
    message = "<source> does not compile: no reason given. Fix: correct the source at the line named."
    assert refusal(lambda: SpirvModule.from_glsl(HEAD + MAIN))[2] == message


@pytest.mark.parametrize(
    ("defined", "declaration", "expected"),
    [
        (True, "int X = K", 1),
        (False, "int X = K", 0),
        (np.True_, "bool X = bool(K)", 1),
        (2**31 - 1, "int X = K", 2**31 - 1),
        (-(2**31), "int X = K", 2**31),
        (2**31, "uint X = K", 2**31),
        (2**32 - 1, "uint X = K", 2**32 - 1),
        (np.uint32(2**32 - 1), "uint X = K", 2**32 - 1),
        (np.int64(-5), "int X = K", 2**32 - 5),
        (np.float32(0.5), "float X = K", 0x3F00_0000),
        (2**31, "float X = K", 0x4F00_0000),
        (np.float64(3.4028235e38), "float X = K", 0x7F7F_FFFF),
        (np.array(2.5), "float X = K", 0x4020_0000),
        ("-1", "int X = K", 2**32 - 1),
    ],
)
def test_definitions_are_what_glsl_writes(defined: object, declaration: str, expected: int) -> None:
    assert constant(defined, declaration) == expected


@pytest.mark.parametrize(("defined", "expected"), [(True, 1), (False, 2), (1, 1), (0, 2), (np.False_, 2)])
def test_truth_values_and_integers_are_taken_by_the_preprocessor(defined: object, expected: int) -> None:
    source = (
        f"{HEAD}#if K\n#define VALUE 1\n#else\n#define VALUE 2\n#endif\nlayout(constant_id = 0) const uint X = VALUE;\n{MAIN}"
    )
    (found,) = SpirvModule.from_glsl(source, defines={"K": defined}).interface.spec_constants
    assert found.default_bits == expected


LARGEST = "a float of GLSL is 3.4028235e+38 at most"


@pytest.mark.parametrize(
    ("defined", "problem", "fix"),
    [
        (2**32, "4294967296, and an integer of GLSL has 32 bits", "give one from -2147483648 to 4294967295, or text"),
        (
            np.int64(-(2**31) - 1),
            "-2147483649, and an integer of GLSL has 32 bits",
            "give one from -2147483648 to 4294967295, or text",
        ),
        (float("inf"), "inf, for which GLSL has no literal", "give an expression as text, such as '(1.0 / 0.0)'"),
        (1e39, f"1e+39, and {LARGEST}", "give a smaller number, or a double as text: '1e+39lf'"),
        (np.float64(-1e300), f"-1e+300, and {LARGEST}", "give a smaller number, or a double as text: '-1e+300lf'"),
        (
            3.4028235677973366e38,
            f"3.4028235677973366e+38, and {LARGEST}",
            "give a smaller number, or a double as text: '3.4028235677973366e+38lf'",
        ),
        (None, "of type NoneType", "give a number, True, False or text"),
        (b"1", "of type bytes", "give a number, True, False or text"),
        (1j, "of type complex", "give a number, True, False or text"),
        (np.arange(2), "of type ndarray", "give a number, True, False or text"),
        (np.float32("nan"), "nan, for which GLSL has no literal", "give an expression as text, such as '(1.0 / 0.0)'"),
    ],
)
def test_definitions_that_glsl_cannot_write_are_refused(defined: object, problem: str, fix: str) -> None:
    message = f"the value of 'K' is {problem}. Fix: {fix}."
    assert refusal(lambda: SpirvModule.from_glsl(HEAD + MAIN, defines={"K": defined})) == (InvalidInput, 2201, message)


WORD = "super_secret_word"
ELSEWHERE = "put what it includes in the shader's own directory, and pass the shader as a Path"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for shaders; a secret lies above it, and in the working directory."""
    shaders, working = tmp_path / "shaders", tmp_path / "working"
    for directory in (shaders, shaders / "sub", working):
        directory.mkdir()
    for path in (tmp_path / "secret.glsl", working / "secret.glsl", working / "here.glsl"):
        path.write_text(f"#define VALUE 7u\n{WORD} {WORD};\n")
    monkeypatch.chdir(working)
    return shaders


def shader(place: Path, *lines: str) -> Path:
    path = place / "main.comp"
    path.write_text(HEAD + "".join(f"{line}\n" for line in lines) + MAIN)
    return path


def test_our_own_shaders_compile_from_any_directory(place: Path) -> None:
    assert place.is_dir()
    ours = Path(shipped.__file__).parents[2] / "shaders"
    if not (ours / "reduce.comp").exists():
        pytest.skip("the shaders' sources are in a checkout only")
    assert SpirvModule.from_glsl(ours / "reduce.comp").code == (ours / "reduce.spv").read_bytes()


def test_a_file_includes_what_lies_beside_it_and_below(place: Path) -> None:
    (place / "value.glsl").write_text('#include "sub/half.glsl"\n')
    (place / "sub" / "half.glsl").write_text('#include "other.glsl"\n#include "third.glsl"\n')
    (place / "sub" / "other.glsl").write_text("#define VALUE (THIRD + 4u)\n")
    (place / "third.glsl").write_text("#define THIRD 3u\n")  # not beside the file that includes it, but beside the first
    module = SpirvModule.from_glsl(shader(place, '#include "./value.glsl"', '// #include "gone.glsl"'))
    assert module.code == SpirvModule.from_glsl(HEAD + MAIN, defines={"VALUE": "(3u + 4u)"}).code


def test_an_error_in_an_included_file_names_that_file(place: Path) -> None:
    (place / "sub" / "half.glsl").write_text("\noops oops;\n")
    message = refusal(lambda: SpirvModule.from_glsl(shader(place, '#include "sub/half.glsl"')))[2]
    assert "sub/half.glsl:2: '' :  syntax error" in message


def test_a_text_includes_nothing_of_the_working_directory(place: Path) -> None:
    for name in ("here.glsl", "sub/here.glsl"):
        kind, code, message = refusal(lambda one=name: SpirvModule.from_glsl(f'{HEAD}#include "{one}"\n{MAIN}'))
        assert (kind, code, WORD in message, message.endswith(f"Fix: {ELSEWHERE}.")) == (ShaderSyntaxError, 2302, False, True)
    path = shader(place, '#include "here.glsl"')
    assert WORD not in refusal(lambda: SpirvModule.from_glsl(path))[2]


@pytest.mark.parametrize(
    "directive",
    [
        '#include "../secret.glsl"',
        '#include "sub/../../secret.glsl"',
        '#include "./../secret.glsl"',
        r'#include "..\secret.glsl"',
        '#include "/etc/passwd"',
        '#include "//etc/passwd"',
        '# include\t"../secret.glsl"',
        '#/* why */include "../secret.glsl"',
        '#/* why\nnot */ include "../secret.glsl"',
        '/* // */ #include "../secret.glsl"',
        '/**/#include "../secret.glsl"',
        '#include/* why */"../secret.glsl"',
        '#inc\\\nlude "../secret.glsl"',
        '#\\\ninclude "../secret.glsl"',
        '#include "..\\\n/secret.glsl"',
        '#include "../sec\\\r\nret.glsl"',
        '// comment \\\n#include "../secret.glsl"',
        '// /*\n#include "../secret.glsl"\n// */',
        '#if 1\n#include "../secret.glsl"\n#endif',
        '\r#include "../secret.glsl"\r',
    ],
)
@pytest.mark.parametrize("version", ["450", "430", "310 es"])
def test_no_spelling_of_a_directive_leads_out_of_the_directory(place: Path, directive: str, version: str) -> None:
    path = shader(place)
    text = path.read_bytes().decode().replace("#version 450", f"#version {version}")
    path.write_bytes(text.replace("layout(local", f"{directive}\nlayout(local").encode())
    for source in (path, path.read_text()):
        kind, _, message = refusal(lambda one=source: SpirvModule.from_glsl(one))
        assert (kind, WORD in message, "does not compile: it " in message) == (ShaderSyntaxError, False, True)


def test_a_definition_of_several_lines_includes_nothing_either(place: Path) -> None:
    assert place.is_dir()
    defines = {"VALUE": '1u\n#extension GL_GOOGLE_include_directive : require\n#include "../secret.glsl"'}
    message = refusal(lambda: SpirvModule.from_glsl(HEAD + MAIN, defines=defines))[2]
    assert "it includes '../secret.glsl', which leads out of its directory" in message


def test_what_is_included_must_be_a_regular_file(place: Path) -> None:
    os.mkfifo(place / "endless.glsl")
    (place / "zero.glsl").symlink_to("/dev/zero")
    for name in ("endless.glsl", "zero.glsl", "sub"):
        kind, code, message = refusal(lambda one=name: SpirvModule.from_glsl(shader(place, f'#include "{one}"')))
        assert (kind, code, f"{place / name}, which a shader includes, is not a regular file" in message) == (
            FileUnusable,
            2202,
            True,
        )


def test_a_link_that_leads_out_of_the_directory_is_refused(place: Path) -> None:
    (place / "link.glsl").symlink_to("../secret.glsl")
    (place / "away").symlink_to("..")
    (place / "sub" / "up.glsl").symlink_to("../../secret.glsl")
    (place / "sub" / "first.glsl").write_text('#include "up.glsl"\n')
    for name, shown in (
        ("link.glsl", "link.glsl"),
        ("away/secret.glsl", "away/secret.glsl"),
        ("sub/first.glsl", "sub/up.glsl"),
    ):
        path = shader(place, f'#include "{name}"')
        message = f"{path} does not compile: it includes '{shown}', which leads out of its directory. "
        message += "Fix: include files in the shader's directory."
        assert refusal(lambda one=path: SpirvModule.from_glsl(one)) == (ShaderSyntaxError, 2302, message)


def test_a_link_within_the_directory_is_followed(place: Path, tmp_path: Path) -> None:
    (place / "sub" / "value.glsl").write_text("#define VALUE 7u\n")
    (place / "link.glsl").symlink_to("sub/value.glsl")
    (tmp_path / "linked").symlink_to(place)
    expected = SpirvModule.from_glsl(HEAD + MAIN, defines={"VALUE": "7u"}).code
    assert SpirvModule.from_glsl(shader(place, '#include "link.glsl"')).code == expected
    assert SpirvModule.from_glsl(tmp_path / "linked" / "main.comp").code == expected


def test_a_name_in_angle_brackets_and_a_byte_order_mark_are_told(place: Path) -> None:
    (place / "value.glsl").write_text("#define VALUE 7u\n")
    message = refusal(lambda: SpirvModule.from_glsl(shader(place, "#include <value.glsl>")))[2]
    assert message.endswith('Fix: write #include "value.glsl" with quotes, for no directory is searched for a name in <>.')
    (place / "value.glsl").write_bytes(b"\xef\xbb\xbf#define VALUE 7u\n")
    message = refusal(lambda: SpirvModule.from_glsl(shader(place, '#include "value.glsl"')))[2]
    assert message.endswith("Fix: save value.glsl, which it includes, as UTF-8 without a byte order mark.")


def test_a_file_that_includes_itself_is_refused(place: Path) -> None:
    (place / "a.glsl").write_text('#include "b.glsl"\n')
    (place / "b.glsl").write_text('#include "a.glsl"\n')
    message = refusal(lambda: SpirvModule.from_glsl(shader(place, '#include "a.glsl"')))[2]
    assert "it includes more than 16777216 bytes or 100 levels, or itself" in message


def test_files_that_double_what_they_include_are_refused(place: Path) -> None:
    for i in range(40):
        (place / f"{i}.glsl").write_text(f'#include "{i + 1}.glsl"\n' * 2)
    assert (
        "it includes more than 16777216 bytes" in refusal(lambda: SpirvModule.from_glsl(shader(place, '#include "0.glsl"')))[2]
    )


def test_more_than_a_thousand_files_are_refused(place: Path) -> None:
    for i in range(1001):
        (place / f"{i}.glsl").write_text("")
    path = shader(place, *(f'#include "{i}.glsl"' for i in range(1001)))
    assert "it includes more than 1000 files" in refusal(lambda: SpirvModule.from_glsl(path))[2]


def test_more_than_ten_thousand_directives_are_refused() -> None:
    for line in ('#include "gone.glsl"', "// */ include"):
        message = refusal(lambda one=line: SpirvModule.from_glsl(f"{one}\n" * 10_001))[2]
        assert "it and what it includes have more than 10000 #include" in message


def test_a_source_is_read_up_to_a_limit() -> None:
    message = "/dev/zero is larger than 16777216 bytes. Fix: name a GLSL text file, not other data."
    assert refusal(lambda: SpirvModule.from_glsl(Path("/dev/zero"))) == (FileUnusable, 2202, message)
    message = "a GLSL source of 16777217 bytes is over the limit of 16777216 bytes. Fix: pass a shorter one."
    assert refusal(lambda: SpirvModule.from_glsl(" " * (2**24 + 1))) == (InvalidInput, 2201, message)
