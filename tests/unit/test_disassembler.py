"""Modules as text, by spirv-dis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vyre_driver.errors import InvalidModule, ToolUnavailable
from vyre_driver.process.tools import SPIRV_DIS, find_tool
from vyre_driver.spirv.disassembler import disassemble
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from pathlib import Path

CODE = shipped_module("saxpy").code
needs_tool = pytest.mark.skipif(find_tool(SPIRV_DIS) is None, reason="spirv-dis is not installed")


@needs_tool
def test_a_module_becomes_text_an_instruction_a_line() -> None:
    lines = disassemble(CODE).splitlines()
    assert (lines[0], [line.split()[-1] for line in lines if "OpCapability" in line]) == ("; SPIR-V", ["Shader"])
    assert sum("OpFunctionEnd" in line for line in lines) == 1


@needs_tool
@pytest.mark.parametrize(
    ("code", "why"),
    [
        (b"", "Missing module"),
        (bytes(20), "Invalid SPIR-V magic number '0'"),
        (CODE[:-6], "file size should be a multiple of 4"),
    ],
)
def test_what_is_no_module_is_refused(code: bytes, why: str) -> None:
    with pytest.raises(InvalidModule, match=f"spirv-dis cannot disassemble x: {why}"):
        disassemble(code, "x")


@pytest.mark.usefixtures("system_tools_only")
def test_without_the_tool_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ToolUnavailable, match=r"spirv-dis is not installed.*vyre-driver\[glsl\]") as caught:
        disassemble(CODE)
    assert caught.value.context == {"tool": SPIRV_DIS}


@pytest.mark.usefixtures("system_tools_only")
@pytest.mark.parametrize(
    ("script", "error", "told"),
    [
        ("kill -9 $$", InvalidModule, "died of signal 9"),
        ("exit 3", InvalidModule, "no reason given"),
        ("sleep 60", ToolUnavailable, "did not finish the module of "),
    ],
)
def test_a_tool_that_dies_or_hangs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, error: type[Exception], told: str
) -> None:
    tool = tmp_path / SPIRV_DIS
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr("vyre_driver.spirv.disassembler._TIMEOUT_S", 0.2 if "sleep" in script else 60)
    with pytest.raises(error, match=told):
        disassemble(CODE)
