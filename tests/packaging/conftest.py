"""An sdist, the wheel built from it on a machine without glslangValidator, and an environment it is installed in.

Built once a session, from a copy of the checkout, so that nothing is written into it; the network is never asked.
"""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
BUILDS_FOR_S = 300
TOOLS = ("as", "ld", "gcc", "cc", "g++", "c++", "clang")
BUILD_SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


def run(command: list[str], cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a build step; one that fails shows all it printed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("VYRE_", "PIP_", "PYTHON"))}
    env |= {"HOME": str(cwd), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INDEX": "1", **environment}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=BUILDS_FOR_S)
    if done.returncode:
        pytest.fail(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
    return done


@pytest.fixture(scope="session")
def tracked() -> frozenset[str]:
    """The files that git tracks or would track."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout, so what belongs into an sdist is not known")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = run(command, ROOT, HOME=os.environ.get("HOME", "/")).stdout  # whose git configuration may trust this checkout
    return frozenset(name for name in listed.split("\0") if name and (ROOT / name).is_file())


@pytest.fixture(scope="session")
def checkout(tracked: frozenset[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of those files, in which kompute was built."""
    copy = tmp_path_factory.mktemp("checkout")
    bundled = copy / "vyre_driver/kompute/bundled"
    bundled.mkdir(parents=True)
    for name in ("NOTICE", "kp.cpython-399-x86_64-linux-gnu.so"):
        (bundled / name).write_text("made here")
    for name in tracked:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="session")
def sdist(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of the checkout."""
    made = tmp_path_factory.mktemp("sdist")
    run([sys.executable, "-c", BUILD_SDIST, str(made)], checkout)
    return next(made.glob("*.tar.gz"))


@pytest.fixture(scope="session")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that the sdist unpacks to."""
    place = tmp_path_factory.mktemp("unpacked")
    run(["tar", "-xzf", str(sdist)], place)
    return next(place.iterdir())


@pytest.fixture(scope="session")
def wheel(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the unpacked sdist, built with a compiler and without glslangValidator on PATH."""
    tools, made = tmp_path_factory.mktemp("tools"), tmp_path_factory.mktemp("wheel")
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    for tool in {*TOOLS, Path(compiler).name}:
        found = shutil.which(tool)
        if found is not None:
            (tools / tool).symlink_to(found)
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--no-cache-dir", "--wheel-dir", str(made)]
    run([sys.executable, "-m", "pip", "wheel", *options, str(unpacked)], made, PATH=str(tools))
    return next(made.glob("*.whl"))


def needed(distribution: str) -> set[str]:
    """A distribution's name and those of all it requires, extras left out."""
    found, waiting = set(), [distribution]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            wanted = map(Requirement, metadata.requires(name) or [])
            waiting.extend(one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""}))
    return found


def offer(distribution: str, place: Path) -> None:
    """Link a distribution's files into a directory."""
    for file in metadata.files(distribution) or []:
        top = file.parts[0]
        if top not in {"..", "__pycache__"} and not (place / top).exists():
            (place / top).symlink_to(Path(str(file.locate())).parents[len(file.parts) - 1] / top)


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` of an environment with the wheel, its dependencies, and nothing else: no kp, no Pillow."""
    place = tmp_path_factory.mktemp("installed")
    environment, offered = place / "venv", place / "offered"
    offered.mkdir()
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)], place)
    python = environment / "bin" / "python"
    options = ["--no-deps", "--no-index", "--no-cache-dir", str(wheel)]
    run([sys.executable, "-m", "pip", "--python", str(python), "install", *options], place)
    for distribution in needed("vyre-driver") - {"vyre-driver"}:
        offer(distribution, offered)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    library = Path(run([str(python), "-c", code], place).stdout.strip())
    (library / "offered.pth").write_text(f"{offered}\n", "utf-8")
    return environment / "bin"


@pytest.fixture
def run_installed(installed: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program of that environment in an empty directory."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run_one(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(installed / program), *arguments]
        return subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False, timeout=BUILDS_FOR_S)

    return run_one


def repack(distribution: str, place: Path) -> None:
    """Make the wheel again that a distribution was installed from, for builds in isolation."""
    found = metadata.distribution(distribution)
    tag = email.message_from_string(str(found.read_text("WHEEL")))["Tag"]
    with zipfile.ZipFile(place / f"{distribution.lower()}-{found.version}-{tag}.whl", "w") as wheel:
        for file in found.files or []:
            if file.parts[0] != ".." and file.suffix != ".pyc":
                wheel.write(str(file.locate()), str(file))


@pytest.fixture(scope="session")
def build_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheels of setuptools and Cython."""
    place = tmp_path_factory.mktemp("tools")
    for distribution in ("setuptools", "Cython"):
        repack(distribution, place)
    return place


@pytest.fixture(scope="session")
def embedded(
    checkout: Path, installed: Path, build_tools: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], subprocess.CompletedProcess[str]]:
    """Run Python code of the environment with the wheel, into which pip has installed an example without a switch."""
    built: set[str] = set()

    def run_one(example: str, code: str) -> subprocess.CompletedProcess[str]:
        place = tmp_path_factory.mktemp(example)
        if example not in built:
            shutil.copytree(checkout / "examples" / example, place / example)
            command = [sys.executable, "-m", "pip", "--python", str(installed / "python"), "install", f"./{example}"]
            run(command, place, PIP_FIND_LINKS=str(build_tools))
            built.add(example)
        command = [str(installed / "python"), "-c", code]
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False, timeout=BUILDS_FOR_S)

    return run_one
