"""Install, run and test in rooms of their own: minimal roots in which nothing of the project, and no compiler, ever was.

    make rooms                                                   # every room, every way: hours
    make rooms ARGS='--room trixie --way wheel --json rooms.json'
    make rooms ARGS='--room trixie --way test --way test-terminal'  # the whole of `make test`, without and with a terminal

A room is a fresh copy of a root that debootstrap made once. Nothing is mounted outside of the process that runs in it, so that
nothing stays mounted however it ends. It has no GPU: what runs there, runs on Mesa's software device. In `test` no process has
a terminal; in `test-terminal` standard input, output and error are one.

Exit status: 0 all is well, 1 something failed in a room, 2 a room could not be had, 130 interrupted.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from build_kp import CACHE
from room import MIRRORS, SUITES, Room, RoomUnavailable, StepFailed, furnish, make_root

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
TEST_LIMIT_S = 4 * 3600  # of `make test`
UNTESTED = "Fedora, RHEL, Arch, Alpine; any GPU; any machine but " + platform.machine()
TOOLS = {"debootstrap": "debootstrap", "unshare": "util-linux", "git": "git"}
FAILED_TEST = re.compile(r"^(?:FAILED|ERROR) (tests/[^\[\n]+?(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)
FACTS = """import json, platform, subprocess, sys
import numpy
told = subprocess.run([sys.argv[1], "devices", "--json"], capture_output=True, text=True, check=True).stdout
device = json.loads(told)["devices"][0]
print(platform.python_version(), numpy.__version__, device["name"] + ", " + device["driver_info"], sep="\\n")"""
EMBEDDED = {
    "embed_c": "import embed_c; refused, _ = embed_c.run(1000); assert refused == 100, refused",
    "embed_cython": "import embed_cython; assert len(set(embed_cython.sweep(5, 7, 20))) == 20",
}


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
    failed_tests: list[str] = field(default_factory=list)


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


def clone(room: Room) -> None:
    """Put a clone of the commit into the room, and what README has a reader install."""
    command = ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(room.place / "root/vyre")]
    subprocess.run(command, check=True)
    room.install("git make")


def check_clone(room: Room, row: Row, dist: Path) -> None:  # noqa: ARG001 -- as the others
    """Check that a clone builds and runs with what ``make`` itself installs."""
    clone(room)
    _, row.seconds["make demo"], row.seconds["first verified line"] = room.run("make -C vyre demo", mark="verified")
    look(room, row, "/root/vyre/.venv/bin")
    room.run("make -C vyre clean")
    row.seconds["make demo, kompute kept"] = room.run("make -C vyre demo")[1]


def check_tests(room: Room, row: Row, dist: Path, *, terminal: bool = False) -> None:  # noqa: ARG001 -- as the others
    """Check that a clone passes ``make test``."""
    clone(room)
    row.seconds["make setup"] = room.run("make -C vyre setup", terminal=terminal)[1]
    look(room, row, "/root/vyre/.venv/bin")
    row.seconds["make test"] = room.run("make -C vyre test", terminal=terminal, limit_s=TEST_LIMIT_S)[1]


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


WAYS: dict[str, Callable[[Room, Row, Path], None]] = {
    "wheel": check_wheel,
    "clone": check_clone,
    "embed": check_embedding,
    "refusals": check_refusals,
    "test": check_tests,
    "test-terminal": partial(check_tests, terminal=True),
}


def failed_tests(output: str) -> list[str]:
    """Return the names that pytest gives of tests that failed, in its short summary."""
    return list(dict.fromkeys(FAILED_TEST.findall(output)))


def visit(suite: str, way: str, options: argparse.Namespace) -> Row:
    """Return what came out of a way in a room, which is removed again."""
    row = Row(SUITES[suite], way)
    log, place = options.cache / f"{suite}-{way}.log", options.cache / f"room-{suite}-{way}"
    try:
        root = make_root(suite, {"debian": options.mirror, "ubuntu": options.ubuntu_mirror}, options.cache)
        WAYS[way](furnish(root, place, log), row, options.dist)
    except RoomUnavailable as error:
        row.failure = f"no room: {error}"
    except StepFailed as error:
        row.failure = f"{error} (all of it: {log})"
        row.failed_tests = failed_tests(error.output)
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
    for row in rows:
        for test in row.failed_tests:
            print(f"failed in {row.room}, {row.way}: {test}")
    print(f"untested, for no room can show it: {UNTESTED}")


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", action="append", choices=SUITES, help="may be repeated (default: all)")
    parser.add_argument("--way", action="append", choices=WAYS, help="may be repeated (default: all)")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", metavar="DIR", help="the wheels (default: dist)")
    parser.add_argument("--cache", type=Path, default=CACHE / "rooms", metavar="DIR", help="roots, rooms and logs")
    parser.add_argument("--mirror", default=MIRRORS["debian"], help="where debootstrap takes packages from")
    parser.add_argument("--ubuntu-mirror", default=MIRRORS["ubuntu"], help="the same for Ubuntu")
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


def visit_all(options: argparse.Namespace) -> list[Row]:
    """Return what came out of each way in each room, and print where it is."""
    rows = []
    for suite in options.room or SUITES:
        if options.fresh:
            shutil.rmtree(options.cache / suite, ignore_errors=True)
        for way in options.way or WAYS:
            print(f"rooms: {SUITES[suite]}, {way}: begins (log: {options.cache / f'{suite}-{way}.log'})", flush=True)
            rows.append(visit(suite, way, options))
            print(f"rooms: {SUITES[suite]}, {way}: {rows[-1].failure or 'ok'} {rows[-1].seconds}", flush=True)
    return rows


def main() -> int:
    """Go through the ways of each room, print the table, and return the exit status."""
    options = parse()
    options.cache = options.cache.resolve()
    options.cache.mkdir(parents=True, exist_ok=True)
    with (options.cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"rooms: another run has rooms in {options.cache}. Fix: wait for it, or name another folder with --cache.")
            return 2
        rows = visit_all(options)
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
