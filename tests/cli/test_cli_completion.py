"""The completion scripts, in the shells that are here."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import time
from typing import TYPE_CHECKING

import pytest

from vyre_driver.cli import main
from vyre_driver.cli.parser import VERBS

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

BASH = """
source {script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
complete -p vyre-driver | grep -o '[^ ]* vyre-driver$' | cut -d' ' -f1 > {script}.function
$(cat {script}.function)
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
FISH = "source {script}; complete -C '{line}' | string split -f 1 \\t"
ZSH = "fpath=({folder} $fpath); autoload -Uz compinit; compinit -D -u; PS1=; echo rea''dy\n"
PATIENCE_S = 20.0
LINES = {
    "vyre-driver d": ({"devices", "demo", "doctor"}, {"metrics", "--version"}),
    "vyre-driver cache ex": ({"export"}, {"list"}),
    "vyre-driver tune run saxpy --is": ({"--isolate"}, {"--force"}),
    "vyre-driver completion f": ({"fish"}, {"bash"}),
}


@pytest.fixture
def script(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Path:
    """The script for a shell, or no test where that is not here."""
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"not installed: {shell}")
    status, told = main(["completion", shell]), capsys.readouterr()
    assert (status, told.err) == (0, "")
    place = tmp_path / f"vyre-driver.{shell}"
    place.write_text(told.out)
    return place


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash_completes(script: Path, line: str, run_program: RunChild) -> None:
    done = run_program("bash", "-c", BASH.format(script=script, words=line))
    there, absent = LINES[line]
    found = set(done.stdout.split())
    assert (found >= there, found & absent) == (True, set()), done.stderr


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("script", ["fish"], indirect=True)
def test_fish_completes(script: Path, line: str, run_program: RunChild) -> None:
    done = run_program("fish", "--no-config", "-c", FISH.format(script=script, line=line))
    there, absent = LINES[line]
    found = set(done.stdout.split())
    assert (found >= there, found & absent) == (True, set()), done.stderr


def typed_into_zsh(folder: Path, line: str, until: set[str]) -> str:
    """What zsh shows when a line is typed on its terminal and completed, until these words are all there, or for a while."""
    child, terminal = pty.fork()
    if not child:
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "vt100"})  # noqa: S606, S607 -- whichever is there
    shown = ""

    def read(until: set[str]) -> None:
        nonlocal shown
        latest = time.monotonic() + PATIENCE_S
        while not until <= set(re.split(r"[\s\x00-\x1f]+", shown)) and time.monotonic() < latest:
            if select.select([terminal], [], [], 0.1)[0]:
                shown += re.sub(r"\x1b\[[0-9?;]*[A-Za-z]|\x00", "", os.read(terminal, 65536).decode())

    try:
        os.write(terminal, ZSH.format(folder=folder).encode())
        read({"ready"})
        shown = ""
        os.write(terminal, f"{line}\t\t".encode())
        read(until)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)
    return shown


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("script", ["zsh"], indirect=True)
def test_zsh_completes(script: Path, line: str) -> None:
    script.rename(script.parent / "_vyre-driver")
    there, absent = LINES[line]
    shown = typed_into_zsh(script.parent, line, there)
    found = set(shown.split())
    assert (found >= there, found & absent) == (True, set()), shown


def test_the_script_is_data_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["shell"], [verb for verb in VERBS if verb not in found["script"]]) == ("bash", [])


def test_without_shtab_it_says_what_to_install(run_python: RunChild) -> None:
    code = "import sys; sys.modules['shtab'] = None; from vyre_driver.cli import main; sys.exit(main(['completion', 'bash']))"
    done = run_python("-c", code)
    line = "vyre-driver: error 2701: shtab is not installed, and vyre_driver needs it. Fix: pip install shtab."
    assert (done.status, done.stdout, done.complaint) == (2, "", [line])
