"""Rooms: fresh copies of minimal Debian and Ubuntu roots, and commands that run in them with nothing mounted outside.

A room has a /dev of its own, with pseudo-terminals and without GPUs. Its mounts are those of the process that runs in it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SUITES = {"bookworm": "Debian 12", "trixie": "Debian 13", "testing": "Debian testing", "noble": "Ubuntu 24.04"}
UBUNTU = ("noble",)
MIRRORS = {"debian": "http://deb.debian.org/debian", "ubuntu": "http://archive.ubuntu.com/ubuntu"}
LIMIT_S = 1500  # of a command
PROGRESS_S = 60  # between two lines that say where a command is
PACKAGES = "python3,python3-venv,libvulkan1,mesa-vulkan-drivers,ca-certificates"
# What tells pip and apt how to reach their registries from here.
NETWORK = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_CERT", "PIP_DEFAULT_TIMEOUT")
NETWORK += ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
# In the mount namespace of the command alone. A new instance of devpts has none of this machine's terminals.
MOUNTS = "mount -t tmpfs tmpfs /dev/shm; mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts"
IN_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
COLOURS = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
COPIED = ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt")


class RoomUnavailable(Exception):
    """A root could not be made."""


class StepFailed(Exception):
    """A command failed in a room; the text is its last lines, ``output`` all that it printed."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


def environment() -> dict[str, str]:
    """Return the environment of what runs in a room."""
    env = {name: os.environ[name] for name in NETWORK if name in os.environ}
    env |= {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
    return env | {"DEBIAN_FRONTEND": "noninteractive", "PYTHONUNBUFFERED": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def follow(child: subprocess.Popen[str], start: float) -> Iterator[tuple[str, float]]:
    """Yield each line of a child without its colours, with the seconds since ``start``; show one now and then.

    When this process is interrupted, the child is killed, and waited for until the last process in its room has ended: else the
    room could not be removed.
    """
    shown = start
    try:
        for raw in child.stdout or ():
            line, now = COLOURS.sub("", raw), time.monotonic()
            if now - shown >= PROGRESS_S and line.strip():
                print(f"rooms:   {now - start:.0f} s: {line.strip()[:100]}", flush=True)
                shown = now
            yield line, now - start
    except BaseException:
        child.kill()
        child.communicate()
        raise


@dataclass(frozen=True)
class Room:
    """A root to run commands in, and the file that takes what they print."""

    place: Path
    log: Path

    def run(
        self, command: str, status: int = 0, mark: str = "", *, terminal: bool = False, limit_s: float | None = None
    ) -> tuple[str, float, float]:
        """Run a shell command, and return what it printed, its seconds, and those to the first line with ``mark``.

        With ``terminal`` its standard input, output and error are a terminal, where nobody types; else it has none.

        Raises
        ------
        StepFailed
            If it ends with another status, or takes longer than ``limit_s`` seconds (default: ``LIMIT_S``).
        """
        limit_s = LIMIT_S if limit_s is None else limit_s
        inner = ["sh", "-ec", f"cd /root; {command}"]
        inner = ["python3", "-c", IN_TERMINAL, *inner] if terminal else inner
        isolated = ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--root={self.place}", "--mount-proc"]
        within = [*isolated, "sh", "-ec", f'{MOUNTS}; exec "$@"', "sh", *inner]
        start, lines, first = time.monotonic(), [f"== {command}\n"], 0.0
        env = environment() | ({"TERM": "xterm"} if terminal else {})
        # A session of its own: else this process's terminal would be the room's too.
        with subprocess.Popen(
            within, env=env, stdout=-1, stderr=subprocess.STDOUT, stdin=-3, text=True, errors="replace", start_new_session=True
        ) as child:
            limit = threading.Timer(limit_s, child.kill)  # --kill-child: nothing in the room outlives it
            limit.start()
            try:
                for line, passed_s in follow(child, start):
                    lines.append(line)
                    first = first or (passed_s if mark and mark in line else 0.0)
            finally:
                limit.cancel()
                with self.log.open("a", encoding="utf-8") as log:
                    log.writelines([*lines, f"-- status {child.wait()}, {time.monotonic() - start:.1f} s\n"])
        printed = "".join(lines[1:])
        if child.returncode == -signal.SIGKILL:
            raise StepFailed(f"`{command}` took more than {limit_s} s", printed)
        if child.returncode != status:
            last = " | ".join(map(str.strip, lines[-3:]))[:400]
            raise StepFailed(f"`{command}` ended with {child.returncode}: {last}", printed)
        return printed, time.monotonic() - start, first

    def install(self, packages: str) -> None:
        """Install Debian packages."""
        self.run(f"apt-get -qq update && apt-get -qq -y install --no-install-recommends {packages}")


def make_root(suite: str, mirrors: dict[str, str], cache: Path) -> Path:
    """Return the root that a suite's rooms are copies of, made where there is none.

    Raises
    ------
    RoomUnavailable
        If debootstrap fails.
    """
    root = cache / suite
    if root.is_dir():
        return root
    if suite in UBUNTU:
        return make_ubuntu_root(suite, mirrors, cache)
    making, log = cache / f"making-{suite}", cache / f"{suite}.log"
    shutil.rmtree(making, ignore_errors=True)
    print(f"rooms: making {root} with debootstrap", flush=True)
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, str(making), mirrors["debian"]]
    isolated = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *command]
    try:
        with log.open("w", encoding="utf-8") as file:
            done = subprocess.run(isolated, stdout=file, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            said = log.read_text("utf-8").splitlines()
            raise RoomUnavailable(f"debootstrap ended with {done.returncode}: {' | '.join(said[-2:])} (all of it: {log})")
        return making.rename(root)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def make_ubuntu_root(suite: str, mirrors: dict[str, str], cache: Path) -> Path:
    """Return the root of a suite of Ubuntu, made in a room of Debian 13: Debian 12 has no package of Ubuntu's keys.

    Raises
    ------
    RoomUnavailable
        If the keys cannot be installed, or debootstrap fails.
    """
    place, log = cache / f"making-{suite}", cache / f"{suite}.log"
    try:
        room = furnish(make_root("trixie", mirrors, cache), place, log)
        print(f"rooms: making {cache / suite} with debootstrap, in a room of {SUITES['trixie']}", flush=True)
        room.install("debootstrap ubuntu-keyring")
        options = f"--variant=minbase --components=main,universe --include={PACKAGES}"
        room.run(f"debootstrap {options} {suite} /root/{suite} {mirrors['ubuntu']}")
        return (place / "root" / suite).rename(cache / suite)
    except StepFailed as error:
        raise RoomUnavailable(f"{error} (all of it: {log})") from None
    finally:
        shutil.rmtree(place, ignore_errors=True)


def furnish(root: Path, place: Path, log: Path) -> Room:
    """Return a fresh room: a copy of the root that reaches the network as this machine does."""
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", str(root), str(place)], check=True)  # noqa: S607 -- from PATH
    for name in COPIED:
        if Path(name).exists():
            shutil.copyfile(name, place / name[1:])
    for name in ("pts", "shm"):  # to mount on
        (place / "dev" / name).mkdir(exist_ok=True)
    (place / "dev/ptmx").unlink(missing_ok=True)
    (place / "dev/ptmx").symlink_to("pts/ptmx")
    # A mirror may be some weeks behind.
    (place / "etc/apt/apt.conf.d/90rooms").write_text('Acquire::Check-Valid-Until "false";\nAPT::Sandbox::User "root";\n')
    log.write_text("", "utf-8")
    return Room(place, log)
