"""What the scripts that build kompute and wheels say when they cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import build_kp
import pytest
import wheels


@pytest.fixture(autouse=True)
def called_build_kp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["scripts/build_kp.py"])


def refusal(caught: pytest.ExceptionInfo[SystemExit]) -> list[str]:
    return str(caught.value).splitlines()


def test_a_python_that_is_not_there_is_refused() -> None:
    with pytest.raises(SystemExit) as caught:
        build_kp.python_facts("/nowhere/python3")
    assert refusal(caught) == [
        "build_kp: asking /nowhere/python3 for its headers: /nowhere/python3 cannot be run (No such file or directory).",
        "Fix: name a Python.",
    ]


def test_a_python_without_headers_is_left_out_unless_it_was_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build_kp, "ASK", 'print(\'{"include": ["/nowhere"], "suffix": ".so"}\')')
    with pytest.raises(SystemExit) as caught:
        wheels.find_interpreters([sys.executable])
    lacking = f"build_kp: {sys.executable} has no Python.h in /nowhere."
    assert refusal(caught) == [lacking, "Fix: install its headers (Debian: python3-dev)."]
    monkeypatch.setattr(wheels.shutil, "which", {"python3.11": sys.executable}.get)
    monkeypatch.setattr(wheels.Path, "home", lambda: Path("/nowhere"))
    with pytest.raises(SystemExit) as caught:
        wheels.find_interpreters([])
    assert capsys.readouterr().out == f"wheels: {sys.executable} is left out: {lacking}\n"
    assert refusal(caught)[0] == "build_kp: there is no Python from 3.10 on with its headers."


@pytest.mark.parametrize(("lacks", "package"), [("vulkan/vulkan.hpp", "libvulkan-dev"), ("fmt/format.h", "libfmt-dev")])
def test_a_header_that_is_missing_is_named_with_its_package(
    lacks: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in {"vulkan/vulkan.hpp", "fmt/format.h"} - {lacks}:
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    monkeypatch.setattr(build_kp, "INCLUDE", (tmp_path,))
    with pytest.raises(SystemExit) as caught:
        build_kp.find_headers()
    fix = f"Fix: install it (Debian: apt-get install {package})."
    assert refusal(caught) == [f"build_kp: {lacks} is not in {tmp_path}.", fix]


def test_an_archive_of_another_digest_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(command: list[str], *_: str) -> str:
        Path(command[command.index("--dest") + 1], "kp-0.9.0.tar.gz").write_bytes(b"changed on the way")
        return ""

    monkeypatch.setattr(build_kp, "run", download)
    with pytest.raises(SystemExit) as caught:
        build_kp.fetch("kp", "0.9.0", build_kp.KP_SHA256, tmp_path)
    assert refusal(caught)[0] == "build_kp: pip downloaded no kp 0.9.0 of the pinned digest."


def test_a_step_that_fails_shows_its_last_lines() -> None:
    with pytest.raises(SystemExit) as caught:
        build_kp.run([sys.executable, "-c", "print('what went wrong'); raise SystemExit(3)"], "compiling", "repair it")
    assert refusal(caught)[1:] == ["what went wrong", "Fix: repair it."]


@pytest.mark.parametrize(("tags", "said"), [("", None), ("v1.2.3", None), ("v1.2.3 nightly", None), ("v1.2.4", "v1.2.4")])
def test_a_tag_that_is_not_the_version_is_refused(
    tags: str, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vyre_driver").mkdir()
    (tmp_path / "vyre_driver/_version.py").write_text('__version__ = "1.2.3"\n')
    monkeypatch.setattr(wheels, "ROOT", tmp_path)
    monkeypatch.setattr(wheels, "git", lambda *_: tags)
    if said is None:
        wheels.check_tag()
        return
    with pytest.raises(SystemExit) as caught:
        wheels.check_tag()
    assert refusal(caught) == [
        f"build_kp: this commit is tagged {said} and its version is 1.2.3.",
        "Fix: tag what _version.py says.",
    ]
