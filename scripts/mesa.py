"""Fetch lavapipe of a newer Mesa, a CPU device with cooperative matrices, and let the Python of .venv run on it.

    mesa.py         # fetch it where it is not kept yet, and write .venv/bin/python-mesa
    mesa.py --kept  # do not fetch: say so and end with status 3 where it is not kept

Nothing is installed. apt-get downloads Debian packages of a newer suite from the mirrors that this machine's sources name, with
lists and a state of its own, and checks signatures as ever. Their libraries, libc among them, are kept in ~/.cache/vyre-build.
.venv/bin/python-mesa runs Python with those, and so run the children that it starts by sys.executable.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from build_kp import A_DAY_S, CACHE, refuse

PYTHON = Path(__file__).resolve().parents[1] / ".venv/bin/python"
LAUNCHER = PYTHON.with_name("python-mesa")
FORMAT = 1  # of the kept folder: another number fetches anew
# Debian's name of a machine, and the program that loads its programs.
MACHINES = {"x86_64": ("amd64", "ld-linux-x86-64.so.2"), "aarch64": ("arm64", "ld-linux-aarch64.so.1")}
SUITES = (("trixie", "trixie-backports"), ("sid",))  # sid also serves systems whose libc is newer than trixie's
PACKAGES = ("mesa-vulkan-drivers", "libvulkan1")
LEAST_MESA = 26
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
NOT_KEPT = 3  # exit status
MANIFEST = """{"file_format_version": "1.0.1", "ICD": {"library_path": "./lib/libvulkan_lvp.so", "api_version": "1.4.0"}}"""
CHECK = """from vyre_driver.vulkan import enumerate_devices, select_device
device = select_device(enumerate_devices(), allow_software=True)
assert device.has_cooperative_matrices, f"{device.name} ({device.driver_info}) has no cooperative matrices"
print(f"{device.name}, {device.driver_info}")"""


class Unavailable(Exception):
    """A suite does not give what is needed; the text says why."""


def step(command: list[str], env: dict[str, str]) -> str:
    """Run a step, and return what it printed.

    Raises
    ------
    Unavailable
        If it fails; with the first of apt's errors, or its last line.
    """
    name = Path(command[0]).name
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Unavailable(f"{name} cannot be run ({error.strerror})") from error
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        said = [line for line in lines if line.startswith("E: ")] or lines[-1:]
        raise Unavailable(f"{name} ended with {done.returncode}: {' | '.join(said[:3])}")
    return done.stdout


def configure(place: Path, mirror: str, suites: tuple[str, ...], architecture: str) -> dict[str, str]:
    """Return the environment of an apt of its own below a folder; the system's says only how the network is reached."""
    env = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    env.pop("APT_CONFIG", None)
    acquire = [line for line in step(["apt-config", "dump"], os.environ.copy()).splitlines() if line.startswith("Acquire::")]
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (place / folder).mkdir(parents=True)
    (place / "status").touch()
    stanza = [f"URIs: {mirror}", f"Suites: {' '.join(suites)}", "Components: main", f"Architectures: {architecture}"]
    (place / "mesa.sources").write_text("\n".join(["Types: deb", *stanza, f"Signed-By: {KEYRING}\n"]), "utf-8")
    options = {
        "APT::Architecture": architecture,
        "APT::Sandbox::User": "root",  # only root changes the user, and ours may not enter the folder
        "APT::Update::Error-Mode": "any",
        "Acquire::Languages": "none",
        "Acquire::Retries": "1",
        "Acquire::http::Timeout": "20",
        "Dir::State": str(place / "state"),
        "Dir::State::status": str(place / "status"),
        "Dir::Cache": str(place / "cache"),
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": "/dev/null",
        "Dir::Etc::sourcelist": str(place / "mesa.sources"),
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
    }
    text = [*acquire, *(f'{name} "{value}";' for name, value in options.items())]
    (place / "apt.conf").write_text("\n".join(text) + "\n", "utf-8")
    return {**env, "APT_CONFIG": str(place / "apt.conf")}


def download(place: Path, mirror: str, suites: tuple[str, ...], architecture: str) -> list[Path]:
    """Return the packages that lavapipe needs, libc among them, downloaded from a mirror.

    Raises
    ------
    Unavailable
        If the mirror lacks the suite, its Mesa is too old, a signature is wrong, or a download fails.
    """
    env = configure(place, mirror, suites, architecture)
    step(["apt-get", "-qq", "update"], env)
    rows = [row.split("|") for row in step(["apt-cache", "madison", PACKAGES[0]], env).splitlines()]
    versions = [row[1].strip() for row in rows]
    if not any(int(version.partition(".")[0]) >= LEAST_MESA for version in versions):
        raise Unavailable(f"it has Mesa {', '.join(versions) or 'no more'}, and {LEAST_MESA} or newer is needed")
    install = ["apt-get", "-qq", "-y", "-t", suites[-1], "--no-install-recommends", "install", *PACKAGES]
    sizes = [int(row.split()[2]) for row in step([*install, "--print-uris"], env).splitlines()]
    say(f"downloading {len(sizes)} packages of Debian {suites[-1]}, {sum(sizes) / 1e6:.0f} MB")
    step([*install, "--download-only"], env)
    return sorted((place / "cache/archives").glob("*.deb"))


def unpack(packages: list[Path], place: Path) -> Path:
    """Return a folder with the libraries of packages, but for other Vulkan drivers, and a manifest of lavapipe."""
    everything, made = place / "everything", place / "made"
    (made / "lib").mkdir(parents=True)
    for package in packages:
        step(["dpkg-deb", "--extract", str(package), str(everything)], os.environ.copy())
    for file in everything.glob("usr/lib/*-linux-gnu/*.so*"):
        if file.name == "libvulkan_lvp.so" or not file.name.startswith(("libvulkan_", "libVkLayer_")):
            file.rename(made / "lib" / file.name)
    (made / "lavapipe.json").write_text(MANIFEST + "\n", "utf-8")
    (made / "packages.txt").write_text("".join(f"{package.stem}\n" for package in packages), "utf-8")
    return made


def launch(kept: Path, loader: str) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs the Python of .venv with the libraries of a folder, and the variables that go with it."""
    library = kept / "lib"
    command = [str(library / loader), "--argv0", str(LAUNCHER), "--library-path", str(library), str(PYTHON)]
    return command, {"VK_DRIVER_FILES": str(kept / "lavapipe.json")}


def write_launcher(kept: Path, loader: str) -> None:
    """Write .venv/bin/python-mesa, which is its Python's sys.executable: being argv[0], with a pyvenv.cfg above it."""
    command, variables = launch(kept, loader)
    exports = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    text = "\n".join(["#!/bin/sh", "# Written by scripts/mesa.py.", *exports, f'exec {shlex.join(command)} "$@"\n'])
    if LAUNCHER.is_file() and LAUNCHER.read_text("utf-8") == text:
        return
    fresh = LAUNCHER.with_name(".python-mesa.new")
    fresh.write_text(text, "utf-8")
    fresh.chmod(0o755)
    fresh.replace(LAUNCHER)


def mirrors() -> list[str]:
    """Return the addresses of this machine's own package sources.

    Raises
    ------
    Unavailable
        If apt cannot say.
    """
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main"]
    return list(dict.fromkeys(step(asked, os.environ.copy()).split()))


def make(scratch: Path, source: tuple[str, tuple[str, ...]], machine: str) -> Path:
    """Return a folder to keep, in which lavapipe was seen to have cooperative matrices.

    Raises
    ------
    Unavailable
        If a mirror's suites do not give it, or what they give does not run here.
    """
    architecture, loader = MACHINES[machine]
    made = unpack(download(scratch, *source, architecture), scratch)
    command, variables = launch(made, loader)
    say(f"it runs: {step([*command, '-I', '-c', CHECK], {**os.environ, **variables}).strip()}")
    return made


def fetch(kept: Path, machine: str, named: list[str]) -> None:
    """Fill a folder that is not there yet, at once, from the first suite of a mirror that has what is needed."""
    cache = kept.parent
    cache.mkdir(parents=True, exist_ok=True)
    for left in cache.glob("making-*"):  # by a fetch that was killed
        if time.time() - left.stat().st_mtime > A_DAY_S:
            shutil.rmtree(left, ignore_errors=True)
    reasons = []
    for source in [(mirror, suites) for suites in SUITES for mirror in named]:
        with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as scratch:
            try:
                made = make(Path(scratch), source, machine)
            except Unavailable as error:
                reasons.append(f"{source[1][-1]} of {source[0]}: {error}")
                continue
            try:
                made.rename(kept)
            except OSError:  # another process has just made the same
                if not kept.is_dir():
                    raise
            return
    fix = "check the network and apt's sources, one of which must be a mirror of Debian (or name one: --mirror); then run again"
    raise refuse("\n".join(["lavapipe with cooperative matrices could not be fetched.", *reasons]), fix)


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"mesa: {text}", flush=True)


def main() -> int:
    """Fetch what is not kept, write the launcher, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", action="store_true", help="fetch nothing; status 3 where nothing is kept")
    parser.add_argument("--mirror", metavar="URI", help="a mirror of Debian (default: those of this machine's apt sources)")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help=f"where it is kept (default: {CACHE})")
    options = parser.parse_args()
    machine = platform.machine()
    kept = options.cache.resolve() / f"mesa-{FORMAT}-{machine}"
    if options.kept and not kept.is_dir():
        say("tests of matrices are left out: the lavapipe that has them is not here (`make mesa` fetches it, 63 MB)")
        return NOT_KEPT
    if machine not in MACHINES:
        raise refuse(
            f"this machine is {machine}, and Debian's lavapipe is fetched for {' and '.join(MACHINES)}.",
            "run it on such a machine; `make test` leaves these tests out elsewhere",
        )
    if not PYTHON.exists():
        raise refuse(f"{PYTHON} is not there.", "run `make setup` first")
    if not kept.is_dir():
        for tool, package in (("apt-get", "apt"), ("dpkg-deb", "dpkg")):
            if shutil.which(tool) is None:
                raise refuse(f"{tool} is not installed.", f"run this on Debian, or install its {package}")
        if not Path(KEYRING).exists():
            raise refuse(f"{KEYRING}, which signatures are checked with, is not there.", "install debian-archive-keyring")
        fetch(kept, machine, [options.mirror] if options.mirror else mirrors())
        say(f"kept in {kept}; remove that to fetch a newer one")
    write_launcher(kept, MACHINES[machine][1])
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is being made is removed
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
