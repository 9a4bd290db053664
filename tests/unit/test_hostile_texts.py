"""Names and texts from outside that would break a line, steer a terminal, be run as code or spoil a file."""

from __future__ import annotations

import os
import resource
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vyre_driver.binding.arguments import as_array
from vyre_driver.cli import main, top
from vyre_driver.cli.top import Look, SeenDriver
from vyre_driver.display.line import one_line
from vyre_driver.errors import InvalidInput, KernelSyntaxError
from vyre_driver.lang import kernel
from vyre_driver.process.whole_files import write_whole

if TYPE_CHECKING:
    from conftest import RunChild


HEAD = "@kernel\ndef k(i: Index, x: In[f32], y: Out[f32]) -> None:\n"
METRICS: dict[str, dict[str, float]] = {
    "memory_bytes": {"": 40},
    "kernel_dispatches_total": {"k\r\nx": 0},
    "buffers": {"w\n    kernel x: 0": 1},
    "buffer_bytes": {"w\n    kernel x: 0": 40},
}
SEEN = SeenDriver(7, "7.sock", "1", "GPU", "a\n  1  init", METRICS)
DOUBLED = f"{HEAD}    y[i] = x[i] * 2.0\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


def test_what_repr_shows_is_one_line_that_steers_no_terminal() -> None:
    shown = one_line("Kernel", "a\n\x1b[31mb.spv", "caf\udce9", "grüße")
    assert shown == "<vyre_driver.Kernel a\\n\\x1b[31mb.spv, caf\\udce9, grüße>"


def test_a_name_makes_no_row_of_top(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(top, "_INTERVAL_S", 0.01)
    monkeypatch.setattr(top, "look_at_all", lambda _: Look(time.monotonic(), [SEEN], {}))
    assert main(["top", "--once"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), lines[2].split()[:2]) == (5, ["7", "a\\n"])
    assert lines[3:] == [
        "    kernel k\\r\\nx: 0 dispatches",
        "    memory w\\n    kernel x: 0: 40 bytes in 1 buffer",
    ]


@pytest.mark.device
def test_a_file_name_makes_no_row_of_a_verb(folder: Path, monkeypatch: pytest.MonkeyPatch, run_here: RunChild) -> None:
    monkeypatch.chdir(folder)
    Path("a\nb.comp").write_text(
        "#version 450\nlayout(binding = 0) buffer X { float x[]; };\nvoid main() { x[0] = 1.0; }\n", "utf-8"
    )
    Path("a\nb.py").write_text(f"from vyre_driver.lang import *\n{DOUBLED}", "utf-8")
    ran = run_here("run", "a\nb.comp", "--count", "x=1", "--workgroups", "1", "--out", "x=a\nb.npy", "--allow-software")
    assert ran.stdout.splitlines()[-1] == "x: float32 [1] -> a\\nb.npy"
    assert run_here("stub", "a\nb.comp").stdout == "a\\nb.pyi\n"
    assert run_here("kernel", "check", "a\nb.py").stdout == "a\\nb.py:k: ok\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{HEAD}    y[i] = {'-' * 20000}x[i]\n", "an expression of the source is nested too deeply for Python"),
        (f"{HEAD}    y[i] = {'(' * 5000}x[i]{')' * 5000}\n", "the source is no Python: too many nested parentheses"),
        (f"{HEAD}    y[i] = x[i]  # \ud800\n", "the source is no Python: 'utf-8' codec can't encode character"),
        (f"{HEAD}    y[i] = x[i]  # \0\n", "the source is no Python: source code string cannot contain null bytes"),
    ],
)
def test_a_source_that_python_cannot_parse_is_refused(text: str, says: str) -> None:
    with pytest.raises(KernelSyntaxError) as caught:
        kernel.from_source(text)
    assert caught.value.problem.startswith(says)


@pytest.mark.parametrize("error", [IndexError, KeyError, ZeroDivisionError, OSError, NotImplementedError, StopIteration])
@pytest.mark.parametrize("protocol", ["__dlpack_device__", "__array__"])
def test_what_an_array_raises_itself_is_told_as_invalid_input(protocol: str, error: type[Exception]) -> None:
    def refuse(*_: object, **_how: object) -> None:
        raise error("no")

    liar = type("Liar", (), {protocol: refuse})()
    with pytest.raises(InvalidInput, match="an input got something that is not an array"):
        as_array(liar, "an input")


def test_a_file_is_written_whole_with_its_mode_and_through_a_link(folder: Path) -> None:
    file, link = folder / "file", folder / "link"
    file.write_text("before")
    file.chmod(0o640)
    link.symlink_to(file)
    write_whole(link, b"after")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode), link.is_symlink()) == (b"after", 0o640, True)
    assert sorted(one.name for one in folder.iterdir()) == ["file", "link"]


def test_a_file_that_cannot_be_written_stays_as_it_was(folder: Path) -> None:
    file = folder / "file"
    file.write_text("before")
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3, most[1]))  # the write of more bytes fails, as on a full disk
    try:
        with pytest.raises(OSError, match="File too large"):
            write_whole(file, b"after")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert (file.read_text(), list(folder.iterdir())) == ("before", [file])


def test_what_is_no_regular_file_is_written_directly() -> None:
    reader, writer = os.pipe()
    try:
        write_whole(Path(f"/dev/fd/{writer}"), b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
        os.close(writer)
