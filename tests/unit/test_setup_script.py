"""What scripts/setup says of interpreters and of what a system lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "scripts/setup"
ALL = "libvulkan1 libvulkan-dev mesa-vulkan-drivers glslang-tools spirv-tools vulkan-validationlayers libfmt-dev g++"
FEDORA = (
    "sudo dnf install vulkan-loader vulkan-loader-devel mesa-vulkan-drivers glslang spirv-tools "
    "vulkan-validation-layers fmt-devel gcc-c++ python3 python3-devel"
)
ARCH = (
    "sudo pacman -S --needed vulkan-icd-loader vulkan-headers vulkan-swrast glslang spirv-tools "
    "vulkan-validation-layers fmt gcc python"
)
LACKING = f"""
can_install() {{ false; }}
packages=() missing=() runs=
for one in {ALL} python3-venv python3-dev; do need "$one" a-thing false; done
report_missing
"""


def in_setup(commands: str, setup: Path = SETUP) -> tuple[int, str, list[str]]:
    """Run commands among the functions of scripts/setup: status, output, and lines of errors."""
    command = ["bash", "-c", f"source {setup}\n{commands}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("release", "family"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian', "debian"),
        ("ID=ubuntu\nID_LIKE=debian", "debian"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"', "debian"),
        ("ID=fedora", "fedora"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"', "fedora"),
        ("ID=arch", "arch"),
        ("ID=manjaro\nID_LIKE=arch", "arch"),
        ("ID=alpine", ""),
        ("", ""),
    ],
)
def test_the_family_of_a_system_is_what_it_says_that_it_is_or_is_like(release: str, family: str, tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text(release)
    assert in_setup(f"system_family {tmp_path}/os-release") == (0, f"{family}\n" if family else "", [])


def test_a_system_that_does_not_say_what_it_is_has_no_family(tmp_path: Path) -> None:
    assert in_setup(f"system_family {tmp_path}/nothing") == (0, "", [])


@pytest.mark.parametrize(
    ("family", "fix"),
    [
        ("debian", f"sudo apt-get install --no-install-recommends {ALL} python3-venv python3-dev"),
        ("fedora", FEDORA),
        ("arch", ARCH),
        ("", "install these with this system's package manager (in brackets: Debian's names); then run again."),
    ],
)
def test_what_is_missing_comes_with_the_command_of_the_system(family: str, fix: str) -> None:
    status, output, lines = in_setup(f"family={family}{LACKING}")
    assert (status, output, lines[-2:]) == (2, "", ["setup: the system lacks what is named above.", f"Fix: {fix}"])
    if family == "fedora":
        assert lines[:2] == ["setup: missing: a-thing (vulkan-loader)", "setup: missing: a-thing (vulkan-loader-devel)"]


def test_what_no_package_source_has_is_named() -> None:
    lines = in_setup(f"family=debian; has_no[libfmt-dev]=yes{LACKING}")[2]
    assert lines[-1] == "Fix: add a package source that has libfmt-dev; then run again."


def of_version(version: str, place: Path) -> Path:
    """Make an interpreter that says that it is of another version."""
    code = f"import sys; sys.version_info = tuple(map(int, '{version}'.split('.'))); sys.version = '{version} (made up)'; "
    python = place / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -c "{code}exec(sys.argv[1])" "$3"\n')
    python.chmod(0o755)
    return python


@pytest.mark.parametrize("version", ["3.9.2", "3.15.0"])
def test_a_python_out_of_the_range_is_refused(version: str, tmp_path: Path) -> None:
    python = of_version(version, tmp_path)
    said = [f"setup: {python} is Python {version}, and vyre_driver is for 3.10 to 3.14.", "Fix: set PYTHON=/path/to/python3.12"]
    assert in_setup(f"PYTHON={python} choose_python") == (2, "", said)


@pytest.mark.parametrize("version", ["3.10.0", "3.14.8"])
def test_a_python_in_the_range_is_taken(version: str, tmp_path: Path) -> None:
    python = of_version(version, tmp_path)
    assert in_setup(f'PYTHON={python} choose_python; echo "$python"') == (0, f"{python}\n", [])


def test_an_unknown_goal_is_refused() -> None:
    done = subprocess.run([SETUP, "test"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr.splitlines()) == (
        2,
        ["setup: test is not known.", "Fix: run scripts/setup, or scripts/setup demo."],
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return scripts/setup in a checkout of few files, of which all was compiled and the project installed long ago."""
    for name in (
        *(
            "scripts/setup",
            "pyproject.toml",
            "setup.py",
            "MANIFEST.in",
            ".venv/setup.log",
            "vyre_driver/_a.pyx",
            "vyre_driver/_a.c",
        ),
        *("vyre_driver/deep/b.c", "vyre_driver/deep/b.h", "shaders/c.comp", "shaders/d.glsl"),
        *("scripts/vulkan_tables.py", "vyre_driver/vulkan/features.py"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(SETUP.read_text("utf-8") if name == "scripts/setup" else f"{name} as it was\n", "utf-8")
    setup = tmp_path / "scripts/setup"
    code = 'python_id=P; stamp sources "$(sources_key)"; stamp package "$(package_key)"'
    assert in_setup(code, setup) == (0, "", [])
    for path in tmp_path.rglob("*"):
        os.utime(path, (1, 1))
    return setup


COMPILE = """
python_id=P
run_step() { echo "$@"; [[ ! -e broken ]]; }
step_failed() { echo "failed $1"; exit 1; }
has_stamp package "$(package_key)" || { echo "the project has to be installed"; exit; }
has_stamp sources "$(sources_key)" || compile_sources
"""
COMPILES = (
    "setup: compiling what has changed\nthe compiled parts {0}/.venv/bin/python -I setup.py build_shaders build_ext --inplace\n"
)


def edited(checkout: Path) -> list[str]:
    """Return the files that look newer than what was compiled."""
    root = checkout.parents[1]
    return sorted(str(path.relative_to(root)) for path in root.glob("[vs]*/**/*.*") if path.stat().st_mtime > 1)


@pytest.mark.parametrize(
    "name",
    [
        *("vyre_driver/_a.pyx", "vyre_driver/deep/b.c", "vyre_driver/deep/b.h", "shaders/c.comp", "shaders/d.glsl"),
        *("scripts/vulkan_tables.py", "vyre_driver/vulkan/features.py"),
    ],
)
def test_an_edited_source_is_compiled_and_nothing_is_installed(checkout: Path, name: str) -> None:
    root = checkout.parents[1]
    (root / name).write_text("as it is", "utf-8")
    os.utime(root / name, (1, 1))  # as if it came with a time that is older than what was compiled
    assert in_setup(COMPILE, checkout) == (0, COMPILES.format(root), [])
    assert edited(checkout) == [name]
    assert in_setup(COMPILE, checkout) == (0, "", [])


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.py", "MANIFEST.in", "scripts/setup"])
def test_the_project_is_installed_anew_when_what_says_how_has_changed(checkout: Path, name: str) -> None:
    with (checkout.parents[1] / name).open("a", encoding="utf-8") as file:
        file.write("# edited\n")
    assert in_setup(COMPILE, checkout) == (0, "the project has to be installed\n", [])


@pytest.mark.parametrize("name", ["vyre_driver/_a.c", "vyre_driver/plain.py"])
def test_what_is_not_compiled_leaves_the_project_as_it_is(checkout: Path, name: str) -> None:
    (checkout.parents[1] / name).write_text("as it is", "utf-8")
    assert in_setup(COMPILE, checkout) == (0, "", [])


def test_a_source_that_is_put_back_after_a_failure_is_compiled_again(checkout: Path) -> None:
    root = checkout.parents[1]
    source = root / "vyre_driver/_a.pyx"
    before = source.read_text("utf-8")
    source.write_text("wrong", "utf-8")
    (root / "broken").touch()
    assert in_setup(COMPILE, checkout) == (1, f"{COMPILES.format(root)}failed compiling the project\n", [])
    (root / "broken").unlink()
    source.write_text(before, "utf-8")
    os.utime(source, (1, 1))
    assert in_setup(COMPILE, checkout) == (0, COMPILES.format(root), [])
    assert edited(checkout) == ["vyre_driver/_a.pyx"]
    assert in_setup(COMPILE, checkout) == (0, "", [])
