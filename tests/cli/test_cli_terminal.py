"""What names and messages hold reaches a terminal as text: nothing in it is obeyed, and no encoding ends a verb."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vyre_driver import cli
from vyre_driver.cli.options import printable

if TYPE_CHECKING:
    from conftest import Refused, RunChild

ESCAPE = "\x1b]0;owned\x07\x1b[31m\u202e"
ESCAPED = "\\x1b]0;owned\\x07\\x1b[31m\\u202e"


def test_only_what_a_terminal_might_obey_is_escaped() -> None:
    assert printable(f"\u00e9{ESCAPE}'\\ \udcff\r\n") == f"\u00e9{ESCAPED}'\\ \\udcff\\r\\n"


def test_an_error_shows_the_escapes_of_a_file_name_as_text(refused_here: Refused) -> None:
    assert refused_here("spirv", f"a{ESCAPE}.spv") == (
        f"2202: cannot read a{ESCAPED}.spv (No such file or directory). Fix: name a .spv file."
    )


def test_an_error_shows_the_escapes_of_a_source_as_text(refused_here: Refused, work: Path) -> None:
    (work / "loud.comp").write_text(f"#version 450\n#error {ESCAPE}\n")
    assert "\x1b" not in refused_here("run", "loud.comp")


@pytest.mark.device
def test_a_result_in_a_file_of_any_name_is_told_as_text(run_saxpy: RunChild, work: Path) -> None:
    names = [f"a{ESCAPE}.npy", os.fsdecode(b"\xff.npy"), "\u00e9.npy"]
    for name, shown in zip(names, [f"a{ESCAPED}.npy", "\\udcff.npy", "\\xe9.npy"], strict=True):
        done = run_saxpy("--out", f"y={name}", env={"PYTHONIOENCODING": "ascii:strict"})
        assert (done.status, (work / name).exists(), done.stdout.splitlines()[-1]) == (
            0,
            True,
            f"y: float32 [8] -> {shown}",
        ), done.stderr


def test_verbs_print_by_say() -> None:
    printing = {
        path.name
        for path in Path(cli.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert printing == {"options.py"}
