"""Fetch redis-server for the tests of shared caches, and write .venv/bin/redis-server, which runs it.

    redis_server.py         # fetch it where it is not kept yet

Nothing is installed and no service is started. Where this machine has redis-server or valkey-server already, that is run.
Otherwise apt-get downloads Debian's package, and of what it needs only what is not installed, with lists of its own and the
system's sources and signatures; it is unpacked into ~/.cache/vyre-build, a folder for each system and machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from build_kp import CACHE, refuse
from mesa import Unavailable, step

PROGRAMS = Path(__file__).resolve().parents[1] / ".venv/bin"
FORMAT = 1  # of the kept folder: another number fetches anew
PACKAGE = "redis-server"
SYSTEM = ("redis-server", "valkey-server")


def installed() -> str | None:
    """Return the server that this machine has, our own launcher aside."""
    places = [place for place in os.environ.get("PATH", os.defpath).split(":") if Path(place) != PROGRAMS]
    found = [shutil.which(name, path=":".join(places)) for name in SYSTEM]
    return next((path for path in found if path is not None), None)


def system() -> str:
    """Return a name of this system's packages: they are of one suite, and run on no other."""
    try:
        about = platform.freedesktop_os_release()
    except OSError:
        about = {}
    return f"{about.get('ID', 'linux')}{about.get('VERSION_ID', '')}-{platform.machine()}"


def download(place: Path) -> list[Path]:
    """Return the packages, downloaded: the server's, and those that it needs and this system lacks.

    Raises
    ------
    Unavailable
        If no source has it, a signature is wrong, or a download fails.
    """
    for folder in ("lists/partial", "archives/partial"):
        (place / folder).mkdir(parents=True)
    options = {
        "APT::Sandbox::User": "root",  # only root changes the user, and ours may not enter the folder
        "Acquire::Languages": "none",
        "Acquire::Retries": "1",
        "Acquire::http::Timeout": "20",
        "Debug::NoLocking": "true",  # nothing of the system's is written
        "Dir::State::lists": str(place / "lists"),
        "Dir::Cache": str(place),
        "Dir::Cache::archives": str(place / "archives"),
    }
    apt = ["apt-get", "-qq", "-y", *(f"-o{name}={value}" for name, value in options.items())]
    env = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    step([*apt, "update"], env)
    step([*apt, "--no-install-recommends", "--download-only", "install", PACKAGE], env)
    return sorted((place / "archives").glob("*.deb"))


def fetch(kept: Path) -> None:
    """Fill a folder that is not there yet, at once, with a server that was seen to start.

    Raises
    ------
    Unavailable
        If it cannot be fetched, or does not run here.
    """
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix="making-") as scratch:
        made = Path(scratch) / "made"
        for package in download(Path(scratch) / "apt"):
            step(["dpkg-deb", "--extract", str(package), str(made)], os.environ.copy())
        command, library = launch(made)
        say(f"it runs: {step([*command, '--version'], {**os.environ, 'LD_LIBRARY_PATH': library}).strip()}")
        try:
            made.rename(kept)
        except OSError:  # another process has just made the same
            if not kept.is_dir():
                raise


def launch(kept: Path) -> tuple[list[str], str]:
    """Return the command of the server in a folder, and where its libraries are."""
    return [str(kept / "usr/bin/redis-server")], ":".join(str(one) for one in sorted(kept.glob("usr/lib/*-linux-gnu*")))


def write_launcher(command: list[str], library: str = "") -> None:
    """Write .venv/bin/redis-server, which becomes the server: its process is the one that was started."""
    path = f"export LD_LIBRARY_PATH={shlex.quote(library)}\n" if library else ""
    text = f'#!/bin/sh\n# Written by scripts/redis_server.py.\n{path}exec {shlex.join(command)} "$@"\n'
    launcher = PROGRAMS / "redis-server"
    if launcher.is_file() and launcher.read_text("utf-8") == text:
        return
    fresh = launcher.with_name(".redis-server.new")
    fresh.write_text(text, "utf-8")
    fresh.chmod(0o755)
    fresh.replace(launcher)


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"redis-server: {text}", flush=True)


def main() -> int:
    """Fetch what is not kept, write the launcher, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help=f"where it is kept (default: {CACHE})")
    options = parser.parse_args()
    if not PROGRAMS.is_dir():
        raise refuse(f"{PROGRAMS} is not there.", "run `make setup` first")
    own = installed()
    if own is not None:
        write_launcher([own])
        return 0
    kept = options.cache.resolve() / f"redis-{FORMAT}-{system()}"
    if not kept.is_dir():
        for tool in ("apt-get", "dpkg-deb"):
            if shutil.which(tool) is None:
                fix = "install redis or valkey with this system's own package manager"
                raise refuse(f"{tool} is not here, which fetches redis-server.", fix)
        try:
            fetch(kept)
        except Unavailable as error:
            raise refuse(f"redis-server could not be fetched: {error}.", "check the network and apt's sources") from error
        say(f"kept in {kept}; remove that to fetch a newer one")
    write_launcher(*launch(kept))
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is being made is removed
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
