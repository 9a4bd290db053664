"""What from_glsl needs around the compiler: files, a temporary directory, definitions, and what is said where it dies."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
from literals import refusal

from vyre_driver import SpirvModule
from vyre_driver.errors import FileUnusable, InvalidInput, ShaderSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
