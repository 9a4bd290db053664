"""Install and run in rooms of their own: minimal Debian roots in which nothing of the project, and no compiler, ever was.

    make rooms                                                   # every room, every way
    make rooms ARGS='--room trixie --way wheel --json rooms.json'

A room is a fresh copy of a root that debootstrap made once. Nothing is mounted outside of the process that runs in it, so that
nothing stays mounted however it ends. It has a /dev of its own without GPUs: what runs there, runs on Mesa's software device.

Exit status: 0 all is well, 1 something failed in a room, 2 a room could not be had, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from build_kp import CACHE

ROOT = Path(__file__).resolve().parents[1]
SUITES = {"bookworm": "Debian 12", "trixie": "Debian 13", "testing": "Debian testing"}
LIMIT_S = 1500  # of a command
UNTESTED = "Ubuntu, Fedora, RHEL, Arch, Alpine; any GPU; any machine but " + platform.machine()
PACKAGES = "python3,python3-venv,libvulkan1,mesa-vulkan-drivers,ca-certificates"
TOOLS = {"debootstrap": "debootstrap", "unshare": "util-linux", "git": "git"}
# What tells pip and apt how to reach their registries from here.
NETWORK = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_CERT", "PIP_DEFAULT_TIMEOUT")
NETWORK += ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
COPIED = ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt")
FACTS = """import json, platform, subprocess, sys
import numpy
told = subprocess.run([sys.argv[1], "devices", "--json"], capture_output=True, text=True, check=True).stdout
device = json.loads(told)["devices"][0]
print(platform.python_version(), numpy.__version__, device["name"] + ", " + device["driver_info"], sep="\\n")"""
EMBEDDED = {
    "embed_c": "import embed_c; refused, _ = embed_c.run(1000); assert refused == 100, refused",
    "embed_cython": "import embed_cython; assert len(set(embed_cython.sweep(5, 7, 20))) == 20",
}


class RoomUnavailable(Exception):
    """A root could not be made."""


class StepFailed(Exception):
    """A command failed in a room; the text is its last lines."""


@dataclass
class Row:
    """What came out of a way in a room; times in seconds."""

    room: str
    way: str
    python: str = ""
    numpy: str = ""
    device: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True)
class Room:
    """A root to run commands in, and the file that takes what they print."""

    place: Path
    log: Path

    def run(self, command: str, status: int = 0, mark: str = "") -> tuple[str, float, float]:
        """Run a shell command, and return what it printed, its seconds, and those to the first line with ``mark``.

        Raises
        ------
        StepFailed
            If it ends with another status.
        """
        env = {name: os.environ[name] for name in NETWORK if name in os.environ}
        env |= {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
        env |= {"DEBIAN_FRONTEND": "noninteractive", "PYTHONUNBUFFERED": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        isolated = ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--root={self.place}", "--mount-proc"]
        within = [*isolated, "sh", "-ec", f"cd /root; {command}"]
        start, lines, first = time.monotonic(), [f"== {command}\n"], 0.0
        with subprocess.Popen(within, env=env, stdout=-1, stderr=subprocess.STDOUT, stdin=-3, text=True) as child:
            limit = threading.Timer(LIMIT_S, child.kill)  # --kill-child: nothing in the room outlives it
            limit.start()
            try:
                for line in child.stdout or ():
                    lines.append(line)
                    if mark and mark in line and not first:
                        first = time.monotonic() - start
            except BaseException:
                child.kill()
                child.communicate()  # ends when the last process in the room has: else the room could not be removed
                raise
            finally:
                limit.cancel()
        with self.log.open("a", encoding="utf-8") as log:
            log.writelines([*lines, f"-- status {child.returncode}, {time.monotonic() - start:.1f} s\n"])
        if child.returncode == -signal.SIGKILL:
            raise StepFailed(f"`{command}` took more than {LIMIT_S} s")
        if child.returncode != status:
            raise StepFailed(f"`{command}` ended with {child.returncode}: {' | '.join(map(str.strip, lines[-3:]))[:400]}")
        return "".join(lines[1:]), time.monotonic() - start, first

    def install(self, packages: str) -> None:
        """Install Debian packages."""
        self.run(f"apt-get -qq update && apt-get -qq -y install --no-install-recommends {packages}")


def make_root(suite: str, mirror: str, cache: Path) -> Path:
    """Return the root that a suite's rooms are copies of, made where there is none.

    Raises
    ------
    RoomUnavailable
        If debootstrap fails.
    """
    root = cache / suite
    if root.is_dir():
        return root
    making, log = cache / f"making-{suite}", cache / f"{suite}.log"
    shutil.rmtree(making, ignore_errors=True)
    print(f"rooms: making {root} with debootstrap", flush=True)
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, str(making), mirror]
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


def furnish(root: Path, place: Path, log: Path) -> Room:
    """Return a fresh room: a copy of the root that reaches the network as this machine does."""
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", str(root), str(place)], check=True)  # noqa: S607 -- from PATH
    for name in COPIED:
        if Path(name).exists():
            shutil.copyfile(name, place / name[1:])
    # A mirror may be some weeks behind.
    (place / "etc/apt/apt.conf.d/90rooms").write_text('Acquire::Check-Valid-Until "false";\nAPT::Sandbox::User "root";\n')
    log.write_text("", "utf-8")
    return Room(place, log)


def install_wheel(room: Room, row: Row, dist: Path) -> None:
    """Make an environment with the wheel for the room's Python, and note the time and the versions.

    Raises
    ------
    StepFailed
        If there is no such wheel, or it does not install.
    """
    version = room.run("python3 -c 'import sys; print(*sys.version_info[:2], sep=str())'")[0].strip()
    wheels = sorted(dist.glob(f"vyre_driver-*-cp{version}-cp{version}-*{platform.machine()}*.whl"), key=os.path.getmtime)
    if not wheels:
        raise StepFailed(f"{dist} has no wheel for cp{version}. Fix: make wheels, with an interpreter of that version")
    shutil.copy(wheels[-1], room.place / "root")
    room.run("python3 -m venv /v")
    row.seconds["pip install"] = room.run(f"/v/bin/pip install {wheels[-1].name}")[1]
    look(room, row, "/v/bin")


def look(room: Room, row: Row, programs: str) -> None:
    """Note the versions of Python and NumPy in an environment of the room, and its device."""
    told = room.run(f"cat >/tmp/facts.py <<'END'\n{FACTS}\nEND\n{programs}/python /tmp/facts.py {programs}/vyre-driver")[0]
    row.python, row.numpy, row.device = told.splitlines()[-3:]


def check_wheel(room: Room, row: Row, dist: Path) -> None:
    """Check that the demo runs from the wheel, where there is no compiler."""
    room.run("! command -v cc && ! command -v gcc && ! command -v git && ! command -v glslangValidator")
    install_wheel(room, row, dist)
    _, row.seconds["demo"], row.seconds["first verified line"] = room.run("/v/bin/vyre-driver demo", mark="verified")
    row.seconds["demo again"] = room.run("/v/bin/vyre-driver demo", mark="verified")[1]


def check_clone(room: Room, row: Row, dist: Path) -> None:  # noqa: ARG001 -- as the others
    """Check that a clone builds, runs and passes its tests with what ``make`` itself installs."""
    clone = ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(room.place / "root/vyre")]
    subprocess.run(clone, check=True)
    room.install("make")
    _, row.seconds["make demo"], row.seconds["first verified line"] = room.run("make -C vyre demo", mark="verified")
    look(room, row, "/root/vyre/.venv/bin")
    row.seconds["make quick"] = room.run("make -C vyre quick")[1]
    room.run("make -C vyre clean")
    row.seconds["make demo, kompute kept"] = room.run("make -C vyre demo")[1]


def check_embedding(room: Room, row: Row, dist: Path) -> None:
    """Check that C and Cython extensions of others build against the installed wheel, and run."""
    install_wheel(room, row, dist)
    room.install("gcc libc6-dev python3-dev")
    for name, code in EMBEDDED.items():
        shutil.copytree(ROOT / "examples" / name, room.place / "root" / name)
        row.seconds[name] = room.run(f"/v/bin/pip install ./{name}")[1]
        room.run(f'/v/bin/python -c "{code}"')


def check_refusals(room: Room, row: Row, dist: Path) -> None:
    """Check that what is missing or broken is said in one line with a fix: drivers, then the Vulkan loader.

    Raises
    ------
    StepFailed
        If something else is said.
    """
    install_wheel(room, row, dist)
    room.run("echo '{' >broken.json; echo >empty.json; head -c 4096 /dev/urandom >driver.so")
    manifest = {"file_format_version": "1.0.0", "ICD": {"library_path": "/root/driver.so", "api_version": "1.3.0"}}
    (room.place / "root/garbage.json").write_text(json.dumps(manifest), "utf-8")
    setups = [
        *(f"export VK_DRIVER_FILES=/root/{name}.json VK_ICD_FILENAMES=/root/{name}.json" for name in ("broken", "empty")),
        "export VK_DRIVER_FILES=/root/garbage.json VK_ICD_FILENAMES=/root/garbage.json",
        "rm -f /usr/lib/*/libvulkan.so.1*",
    ]
    for setup in setups:
        for verb in ("devices", "demo"):
            said = room.run(f"{setup}; /v/bin/vyre-driver {verb}", status=2)[0]
            if "Traceback" in said or not re.search(r"^vyre-driver: error \d+: .* Fix: [^\n]*\.$", said, re.MULTILINE):
                raise StepFailed(f"`{setup}; vyre-driver {verb}` said {said[-300:]!r}, and one line with a fix is wanted")


WAYS = {"wheel": check_wheel, "clone": check_clone, "embed": check_embedding, "refusals": check_refusals}


def visit(suite: str, way: str, options: argparse.Namespace) -> Row:
    """Return what came out of a way in a room, which is removed again."""
    row = Row(SUITES[suite], way)
    log, place = options.cache / f"{suite}-{way}.log", options.cache / f"room-{suite}-{way}"
    try:
        root = make_root(suite, options.mirror, options.cache)
        WAYS[way](furnish(root, place, log), row, options.dist)
    except RoomUnavailable as error:
        row.failure = f"no room: {error}"
    except StepFailed as error:
        row.failure = f"{error} (all of it: {log})"
    except subprocess.CalledProcessError as error:
        row.failure = f"`{' '.join(error.cmd)}` ended with {error.returncode}"
    finally:
        if not options.keep:
            shutil.rmtree(place, ignore_errors=True)
    return row


def show(rows: list[Row]) -> None:
    """Print a row for each way in each room."""
    table = [("room", "way", "Python", "NumPy", "device", "seconds", "verdict")]
    for row in rows:
        seconds = ", ".join(f"{what} {time_s:.1f}" for what, time_s in row.seconds.items())
        table.append((row.room, row.way, row.python, row.numpy, row.device, seconds, row.failure or "ok"))
    widths = [max(len(line[place]) for line in table) for place in range(len(table[0]) - 1)]
    for line in table:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]).rstrip())
    print(f"untested, for no room can show it: {UNTESTED}")


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", action="append", choices=SUITES, help="may be repeated (default: all)")
    parser.add_argument("--way", action="append", choices=WAYS, help="may be repeated (default: all)")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", metavar="DIR", help="the wheels (default: dist)")
    parser.add_argument("--cache", type=Path, default=CACHE / "rooms", metavar="DIR", help="roots, rooms and logs")
    parser.add_argument("--mirror", default="http://deb.debian.org/debian", help="where debootstrap takes packages from")
    parser.add_argument("--fresh", action="store_true", help="make the roots anew")
    parser.add_argument("--keep", action="store_true", help="leave the rooms as they are in the end")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table here too")
    options = parser.parse_args()
    if os.geteuid():
        parser.error("debootstrap and chroot need root. Fix: run as root, or in a container as its root")
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            parser.error(f"{tool} is not installed. Fix: apt-get install {package}")
    return options


def main() -> int:
    """Go through the ways of each room, print the table, and return the exit status."""
    options = parse()
    options.cache = options.cache.resolve()
    options.cache.mkdir(parents=True, exist_ok=True)
    rows = []
    for suite in options.room or SUITES:
        if options.fresh:
            shutil.rmtree(options.cache / suite, ignore_errors=True)
        for way in options.way or WAYS:
            print(f"rooms: {SUITES[suite]}, {way}: ", end="", flush=True)
            rows.append(visit(suite, way, options))
            print(rows[-1].failure or "ok", rows[-1].seconds, flush=True)
    show(rows)
    if options.json:
        told = {"untested": UNTESTED, "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    if any(row.failure.startswith("no room") for row in rows):
        return 2
    return int(any(row.failure for row in rows))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is being made is removed
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
