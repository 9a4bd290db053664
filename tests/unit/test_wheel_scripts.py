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


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A system without headers and glslangValidator, whose Python on PATH is this one."""
    asked = '{"include": ["/nowhere"], "suffix": ".so", "version": "3.11"}'
    monkeypatch.setattr(build_kp, "ASK", f"print({asked!r})")
    monkeypatch.setattr(build_kp, "INCLUDE", (tmp_path,))
    monkeypatch.setattr(wheels.shutil, "which", {"python3.11": sys.executable}.get)
    monkeypatch.setattr(wheels.Path, "home", lambda: Path("/nowhere"))
    monkeypatch.setattr(wheels, "git", lambda *_: "")
    return tmp_path


def make_headers(place: Path, *names: str) -> None:
    for name in names:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).touch()


APT = "Fix: sudo apt-get install --no-install-recommends"
OTHERS = "(Debian's names; or name other interpreters)."


def test_a_python_without_headers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_kp, "ASK", 'print(\'{"include": ["/nowhere"]}\')')
    with pytest.raises(SystemExit) as caught:
        build_kp.python_facts(sys.executable)
    lacking = f"build_kp: {sys.executable} has no Python.h in /nowhere."
    assert refusal(caught) == [lacking, "Fix: install its headers (Debian: python3-dev)."]


def test_all_that_wheels_lack_is_named_at_once_with_one_command(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        wheels.check_system([])
    lacking = "Python.h of a Python from 3.10 on (python3-dev), vulkan/vulkan.hpp (libvulkan-dev), fmt/format.h (libfmt-dev)"
    assert refusal(caught) == [
        f"build_kp: the system lacks {lacking}, glslangValidator (glslang-tools).",
        f"{APT} python3-dev libvulkan-dev libfmt-dev glslang-tools {OTHERS}",
    ]
    assert capsys.readouterr().out == f"wheels: {sys.executable} is left out: it has no Python.h in /nowhere\n"
    make_headers(bare, "vulkan/vulkan.hpp", "fmt/format.h")
    with pytest.raises(SystemExit) as caught:
        wheels.check_system([sys.executable])
    assert refusal(caught) == [
        f"build_kp: the system lacks Python.h of {sys.executable} (python3.11-dev), glslangValidator (glslang-tools).",
        f"{APT} python3.11-dev glslang-tools {OTHERS}",
    ]


def test_a_python_without_pip_is_named_too(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_headers(bare, "vulkan/vulkan.hpp", "fmt/format.h")
    monkeypatch.setattr(wheels.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(wheels, "has_headers", lambda _: True)
    monkeypatch.setattr(wheels.shutil, "which", lambda name: sys.executable if name == "python3.11" else name)
    with pytest.raises(SystemExit) as caught:
        wheels.check_system([])
    lacking = f"build_kp: the system lacks ensurepip of {sys.executable} (python3-venv)."
    assert refusal(caught) == [lacking, f"{APT} python3-venv {OTHERS}"]


@pytest.mark.usefixtures("bare")
def test_an_sdist_needs_no_glslang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "git", lambda *_: None)
    monkeypatch.setattr(wheels, "has_headers", lambda _: True)
    monkeypatch.setattr(wheels, "missing_headers", list)
    assert wheels.check_system([]) == {".so": sys.executable}


def test_a_step_of_making_wheels_says_what_it_is_before_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert wheels.run([sys.executable, "-c", "print('made')"], "making it", "see above") == "made\n"
    assert capsys.readouterr().out == "wheels: making it\n"


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        (["vulkan/vulkan.hpp"], ("vulkan/vulkan.hpp is not", "libvulkan-dev")),
        (["fmt/format.h"], ("fmt/format.h is not", "libfmt-dev")),
        (["vulkan/vulkan.hpp", "fmt/format.h"], ("vulkan/vulkan.hpp and fmt/format.h are not", "libvulkan-dev libfmt-dev")),
    ],
)
def test_headers_that_are_missing_are_named_with_their_packages(
    lacks: list[str], said: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_headers(tmp_path, *{"vulkan/vulkan.hpp", "fmt/format.h"} - set(lacks))
    monkeypatch.setattr(build_kp, "INCLUDE", (tmp_path,))
    with pytest.raises(SystemExit) as caught:
        build_kp.find_headers()
    fix = f"Fix: install what is missing (Debian: apt-get install {said[1]})."
    assert refusal(caught) == [f"build_kp: {said[0]} in {tmp_path}.", fix]


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
