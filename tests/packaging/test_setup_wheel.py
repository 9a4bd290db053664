"""scripts/setup where nothing can be compiled: the demo's .venv is made of a wheel, and counts for nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.packaging, pytest.mark.device]

ROOT = Path(__file__).parents[2]
TOOLS = "awk bash cat comm cut dirname env find flock grep mkdir mv nproc realpath rm sed setpriv"
TOOLS += " setsid sha256sum sleep sort tail touch wc"
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
FLAGS = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
WHEEL = f"vyre_driver-7.8.9-{TAG}-{TAG}{FLAGS}-linux_{os.uname().machine}.whl"
METADATA = "Metadata-Version: 2.1\nName: vyre-driver\nVersion: 7.8.9\nProvides-Extra: demo\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As much of a checkout as scripts/setup reads, of a version that no index has."""
    copy = tmp_path / "checkout"
    for name in ("scripts/setup", "scripts/build_kp.py", "pyproject.toml", "setup.py"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    (copy / "vyre_driver").mkdir()
    (copy / "vyre_driver/_version.py").write_text('__version__ = "7.8.9"\n')
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS.split():
        (tools / tool).symlink_to(shutil.which(tool) or tool)
    return copy


def make_wheel(dist: Path) -> None:
    dist.mkdir()
    with zipfile.ZipFile(dist / WHEEL, "w") as archive:
        for name in ("__init__", "cli", "kompute/__init__", "kompute/bundled/__init__", "kompute/bundled/kp"):
            archive.writestr(f"vyre_driver/{name}.py", "")
        archive.writestr("vyre_driver-7.8.9.dist-info/METADATA", METADATA)
        tag = WHEEL.removeprefix("vyre_driver-7.8.9-").removesuffix(".whl")
        archive.writestr("vyre_driver-7.8.9.dist-info/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
        archive.writestr("vyre_driver-7.8.9.dist-info/RECORD", "")


def set_up(checkout: Path, goal: str) -> tuple[int, list[str], list[str]]:
    """Run it as who may not install packages, without a compiler on PATH."""
    python = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    env = {"PATH": str(checkout.parent / "tools"), "HOME": str(checkout.parent), "PYTHON": str(python), "PIP_NO_INDEX": "1"}
    command = [
        "bash",
        "-c",
        f"source scripts/setup {goal}\ncan_install() {{ false; }}\nsystem_family() {{ echo debian; }}\nmain",
    ]
    done = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, check=False, timeout=110)
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


def test_without_a_compiler_the_demo_is_set_up_from_the_wheel_and_nothing_else_is(checkout: Path) -> None:
    make_wheel(checkout / "dist")
    status, lines, errors = set_up(checkout, "demo")
    assert (status, errors, lines[-1]) == (
        0,
        [],
        "setup: It runs the demo and your programs. It has no tests and no linters, and does not see changes to the sources.",
    )
    assert f".venv holds dist/{WHEEL}" in lines[-2]
    stamps = {path.name for path in (checkout / ".venv").glob(".setup-*")}
    assert stamps == {".setup-whole", ".setup-wheel"}

    again = set_up(checkout, "demo")  # says what it is each time, and makes nothing
    assert again == (0, lines[-2:], [])

    status, lines, errors = set_up(checkout, "all")
    assert (status, lines, "setup: missing: C++ compiler, c++ (g++)" in errors) == (2, [], True)
    assert errors[-1] == f"     Without that, only `make demo` runs: from dist/{WHEEL}."


def test_without_a_compiler_and_a_wheel_of_this_version_it_says_which_wheel_would_do(checkout: Path) -> None:
    make_wheel(checkout / "dist")
    (checkout / "vyre_driver/_version.py").write_text('__version__ = "7.9.0"\n')
    status, lines, errors = set_up(checkout, "demo")
    pattern = WHEEL.replace("7.8.9", "7.9.0").replace("linux_", "*_")
    assert (status, lines, errors[-1]) == (
        2,
        [],
        f"     Or, without a compiler: put the wheel {pattern} into dist (`make wheels` makes it, on a machine that has one).",
    )
