"""What is made of spirv-val's answers; the tool itself is played by scripts."""

from __future__ import annotations

import os
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from literals import refusal

from vyre_driver.errors import InvalidModule, ToolUnavailable
from vyre_driver.spirv import validator
from vyre_driver.spirv.validator import check_valid

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIX = "correct the shader, rebuild it with a newer compiler, or set VYRE_SPIRV_VAL=0 to run it unchecked"
API = [(1 << 22) | (minor << 12) for minor in range(5)]


def refused(problem: str) -> tuple[type[InvalidModule], int, str]:
    return InvalidModule, 2101, f"{problem}. Fix: {FIX}."


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Put a shell script in the place of spirv-val, first on PATH and alone; it runs in ``tmp_path``."""

    def put(script: str) -> None:
        tool = tmp_path / "spirv-val"
        tool.write_text(script if script.startswith("\0") else f"#!/bin/sh\ncd {tmp_path}\n{script}\n")
        tool.chmod(0o755)
        validator.verdicts.clear()  # a script is replaced under its name

    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("vyre_driver.process.tools._PREFIX", "nowhere")  # no wheel's
    return put


def test_what_is_accepted_passes(play: Callable[[str], None]) -> None:
    play("cat >/dev/null")
    check_valid(b"code", [1], API[1], "given")


def test_what_is_refused_is_an_invalid_module_with_the_first_complaint(play: Callable[[str], None]) -> None:
    play("cat >/dev/null; echo 'error: line 7: No such type.\n  %3 = OpLabel\nerror: line 8: No more.' >&2; exit 1")
    problem = "given is not a valid SPIR-V module: spirv-val says line 7: No such type"
    assert refusal(lambda: check_valid(b"code", [1], API[1], "given")) == refused(problem)


def test_what_the_validator_dies_on_is_an_invalid_module(play: Callable[[str], None]) -> None:
    play("kill -SEGV $$")
    problem = "given is not a valid SPIR-V module: spirv-val says nothing: it died of signal 11"
    assert refusal(lambda: check_valid(b"code", [1], API[1], "given")) == refused(problem)


@pytest.mark.parametrize("script", ["echo usage; exit 1", "echo 'option unknown' >&2; exit 1"])
def test_a_validator_that_does_not_take_our_options_is_no_judge(play: Callable[[str], None], script: str) -> None:
    play(f"cat >/dev/null; {script}")
    check_valid(b"code", [1], API[1], "given")


def test_a_validator_that_does_not_know_a_capability_of_the_device_is_no_judge(play: Callable[[str], None]) -> None:
    play("cat >/dev/null; echo 'error: line 1: Invalid capability operand: 6022' >&2; exit 1")
    check_valid(b"code", [1, 6022], API[1], "given")
    problem = "given is not a valid SPIR-V module: spirv-val says line 1: Invalid capability operand: 6022"
    assert refusal(lambda: check_valid(b"code", [1, 602], API[1], "given")) == refused(problem)


UNKNOWN = [
    "line 6: Invalid source language operand: 11",
    "line 6: Invalid source language operand: 99, if you are creating a new source language please use value 0 (Unknown)",
    "line 8: Invalid execution mode operand: 6023",
    "line 9: Invalid decoration operand: 6442",
    "line 9: Invalid built-in operand: 5436",
    "line 9: Invalid FP encoding operand: 4214",
    "line 9: Invalid memory access operand: 65538 has invalid mask component 65536",
    "line 9: Invalid opcode: 7000",
    "line 5: Invalid extended instruction import 'NonSemantic.Shader.DebugInfo.100'",
    "line 0: Invalid SPIR-V header",
    "Unrecognized target env: vulkan1.3",
]


@pytest.mark.parametrize("complaint", UNKNOWN)
def test_a_validator_that_does_not_know_what_a_module_uses_is_no_judge_and_that_is_logged_once(
    play: Callable[[str], None], caplog: pytest.LogCaptureFixture, tmp_path: Path, complaint: str
) -> None:
    play(f"cat >/dev/null; cat {tmp_path / 'said'} >&2; exit 1")
    (tmp_path / "said").write_text(f"error: {complaint}.\n  OpSource\n")
    for code in (b"code", b"more"):
        check_valid(code, [1], API[1], "given")
    said = complaint.partition(": ")[2] if complaint.startswith("line") else complaint
    logged = f"{tmp_path / 'spirv-val'} is older than a module, which runs unchecked: {said}. Install a newer one, or "
    assert caplog.messages == [logged + "pip install 'vyre-driver[glsl]'"]


@pytest.mark.parametrize(
    "complaint",
    [
        "line 8: Invalid execution mode operand: 16384",
        "line 8: Invalid storage class operand: 4294967295",
        "line 9: Invalid opcode: 65535",
        "line 2: Invalid extended instruction import 'GLSL.std.451'",
        "line 9: Invalid memory access operand: 2147483648 has invalid mask component 2147483648",
        "line 0: Invalid SPIR-V binary version 1.6 for target environment SPIR-V 1.3 (under Vulkan 1.1 semantics)",
        "line 9: Invalid instruction OpVariable starting at word 470: expected no more operands after 5 words",
    ],
)
def test_what_no_version_of_spirv_has_is_refused(play: Callable[[str], None], tmp_path: Path, complaint: str) -> None:
    play(f"cat >/dev/null; cat {tmp_path / 'said'} >&2; exit 1")
    (tmp_path / "said").write_text(f"error: {complaint}.\n")
    problem = f"given is not a valid SPIR-V module: spirv-val says {complaint}"
    assert refusal(lambda: check_valid(b"code", [1], API[1], "given")) == refused(problem)


def test_a_validator_that_cannot_be_run_is_said_to_be_unavailable(play: Callable[[str], None], tmp_path: Path) -> None:
    play("\0")
    text = f"{tmp_path / 'spirv-val'} cannot be run (Exec format error). Fix: install it anew, or set VYRE_SPIRV_VAL=0."
    assert refusal(lambda: check_valid(b"code", [1], API[1], "given")) == (ToolUnavailable, 2301, text)


def test_a_validator_that_does_not_end_is_given_up(play: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    play("exec sleep 600")
    monkeypatch.setattr(validator, "_TIMEOUT_S", 0.1)
    problem = "spirv-val did not judge a module of 4 bytes in 0.1 s"
    text = f"{problem}. Fix: make the shader smaller, or set VYRE_SPIRV_VAL=0."
    assert refusal(lambda: check_valid(b"code", [1], API[1], "given")) == (ToolUnavailable, 2301, text)


def test_a_module_is_shown_once_for_a_version_of_vulkan_as_it_is(play: Callable[[str], None], tmp_path: Path) -> None:
    play('echo "$@" >>asked; cat >>asked; echo >>asked')
    for version in (API[1], API[1], API[3], API[4]):
        check_valid(b"code", [1], version, "given")
    options = "--scalar-block-layout --allow-localsizeid -"
    expected = [f"--target-env vulkan1.1 {options}", "code", f"--target-env vulkan1.3 {options}", "code"]
    assert (tmp_path / "asked").read_text().splitlines() == expected


def test_nobody_is_asked_where_none_is_installed_or_wanted(
    play: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play("cat >/dev/null; echo 'error: no' >&2; exit 1")
    monkeypatch.setenv("VYRE_SPIRV_VAL", "0")
    check_valid(b"code", [1], API[1], "given")
    monkeypatch.delenv("VYRE_SPIRV_VAL")
    monkeypatch.setenv("PATH", str(tmp_path / "home"))
    check_valid(b"code", [1], API[1], "given")


def test_verdicts_are_kept_without_the_modules(play: Callable[[str], None], tmp_path: Path) -> None:
    play("cat >/dev/null; echo asked >> asked")
    tracemalloc.start()
    try:
        for number in range(70):
            check_valid(bytes([number]) * (1 << 20), [1], API[1], "given")
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 1 << 20
    asked = (tmp_path / "asked").read_text().count("asked")
    check_valid(bytes([69]) * (1 << 20), [1], API[1], "given")  # one of the last 64
    assert (asked, (tmp_path / "asked").read_text().count("asked")) == (70, 70)
    check_valid(bytes([5]) * (1 << 20), [1], API[1], "given")  # no more
    assert (tmp_path / "asked").read_text().count("asked") == 71
