"""What `make mesa` keeps, what it leaves alone, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import mesa
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Main = Callable[..., int]
    Tool = Callable[[str, str], None]

with_apt = pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt-get: not a Debian system")
with_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb: not a Debian system")
FIX = (
    "Fix: check the network and apt's sources, one of which must be a mirror of Debian (or name one: --mirror); then run again."
)
A_MACHINE = "x86_64"


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the launcher in a folder with a space and a quote in its name, and a keyring that trusts nobody."""
    programs = tmp_path / "it's a place" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "keyring.gpg").touch()
    monkeypatch.setattr(mesa, "LAUNCHER", programs / "python-mesa")
    monkeypatch.setattr(mesa, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(mesa, "KEYRING", str(tmp_path / "keyring.gpg"))
    monkeypatch.setattr(mesa.platform, "machine", lambda: A_MACHINE)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def main(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Main:
    """Run the script with arguments in this process."""

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["scripts/mesa.py", "--cache", str(cache), *arguments])
        return mesa.main()

    return run


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Put a shell script of a name on PATH, before all else."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")

    def put(name: str, body: str) -> None:
        (tools / name).write_text(f"#!/bin/sh\n{body}\n", "utf-8")
        (tools / name).chmod(0o755)

    return put


@pytest.fixture
def fake_apt(tool: Tool) -> Tool:
    """An apt that reaches no network; madison lists Mesa 25, so that nothing is downloaded."""
    tool("apt-config", """printf '%s\\n' 'Acquire "";' 'Acquire::http::Proxy "elsewhere";' 'Dir::Etc "/elsewhere";'""")
    tool("apt-get", "exit 0")
    tool("apt-cache", "echo ' mesa-vulkan-drivers | 25.0.7-2 | somewhere'")
    tool("dpkg-deb", "exit 0")
    return tool


def refusal(caught: pytest.ExceptionInfo[SystemExit]) -> list[str]:
    return str(caught.value).splitlines()


def test_where_nothing_is_kept_it_is_said_in_a_line(main: Main, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("--kept") == 3
    said = "mesa: tests of matrices are left out: the lavapipe that has them is not here (`make mesa` fetches it, 63 MB)\n"
    assert (capsys.readouterr(), cache.exists(), mesa.LAUNCHER.exists()) == ((said, ""), False, False)


@pytest.mark.parametrize("arguments", [(), ("--kept",)])
def test_what_is_kept_is_launched_with_the_arguments_and_the_driver(
    main: Main, cache: Path, arguments: tuple[str, ...]
) -> None:
    library = cache / "mesa-1-x86_64" / "lib"
    library.mkdir(parents=True)
    loader = library / "ld-linux-x86-64.so.2"
    loader.write_text('#!/bin/sh\nprintf "%s\\n" "$VK_DRIVER_FILES" "$@"\n', "utf-8")
    loader.chmod(0o755)
    assert main(*arguments) == 0
    done = subprocess.run([mesa.LAUNCHER, "-c", "two  words"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        str(library.parent / "lavapipe.json"),
        "--argv0",
        str(mesa.LAUNCHER),
        "--library-path",
        str(library),
        sys.executable,
        "-c",
        "two  words",
    ]
    written = mesa.LAUNCHER.stat()
    assert (main(*arguments), mesa.LAUNCHER.stat().st_ino) == (0, written.st_ino)


def test_another_machine_is_refused(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesa.platform, "machine", lambda: "riscv64")
    with pytest.raises(SystemExit) as caught:
        main()
    said = "mesa: this machine is riscv64, and Debian's lavapipe is fetched for x86_64 and aarch64."
    assert refusal(caught) == [said, "Fix: run it on such a machine; `make test` leaves these tests out elsewhere."]


MISSING = {
    "PYTHON": ["mesa: /nowhere is not there.", "Fix: run `make setup` first."],
    "KEYRING": ["mesa: /nowhere, which signatures are checked with, is not there.", "Fix: install debian-archive-keyring."],
}


@pytest.mark.usefixtures("fake_apt")
@pytest.mark.parametrize("lacks", MISSING)
def test_what_is_missing_is_named(main: Main, monkeypatch: pytest.MonkeyPatch, lacks: str) -> None:
    monkeypatch.setattr(mesa, lacks, Path("/nowhere"))
    with pytest.raises(SystemExit) as caught:
        main()
    assert refusal(caught) == MISSING[lacks]


def test_a_system_without_apt_is_refused(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit) as caught:
        main()
    assert refusal(caught) == ["mesa: apt-get is not installed.", "Fix: run this on Debian, or install its apt."]


def test_every_suite_of_every_mirror_is_tried_and_named(main: Main, cache: Path, fake_apt: Tool) -> None:
    fake_apt("apt-get", '[ "$1" != indextargets ] || printf "one:/\\ntwo:/\\none:/\\n"')
    with pytest.raises(SystemExit) as caught:
        main()
    why = "it has Mesa 25.0.7-2, and 26 or newer is needed"
    sources = [f"{suite} of {mirror}:/: {why}" for suite in ("trixie-backports", "sid") for mirror in ("one", "two")]
    assert refusal(caught) == ["mesa: lavapipe with cooperative matrices could not be fetched.", *sources, FIX]
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("fake_apt")
def test_only_how_the_network_is_reached_is_taken_from_the_systems_apt(tmp_path: Path) -> None:
    place = tmp_path / "scratch"
    env = mesa.configure(place, "mirror:/", ("trixie", "trixie-backports"), "arm64")
    assert env["APT_CONFIG"] == str(place / "apt.conf")
    first, *ours = (place / "apt.conf").read_text("utf-8").splitlines()
    settings = dict(line[:-1].split(" ") for line in ours)
    assert (first, settings["APT::Architecture"], settings["Dir::Etc::parts"]) == (
        'Acquire::http::Proxy "elsewhere";',
        '"arm64"',
        '"/dev/null"',
    )
    assert "Dir::Etc" not in settings
    assert (place / "mesa.sources").read_text("utf-8").splitlines() == [
        "Types: deb",
        "URIs: mirror:/",
        "Suites: trixie trixie-backports",
        "Components: main",
        "Architectures: arm64",
        f"Signed-By: {mesa.KEYRING}",
    ]


@with_apt
def test_a_mirror_that_nobody_has_signed_is_refused_by_apt(main: Main, tmp_path: Path, cache: Path) -> None:
    mirror = tmp_path / "mirror"
    for suite in ("trixie", "trixie-backports", "sid"):
        (mirror / "dists" / suite).mkdir(parents=True)
        (mirror / "dists" / suite / "Release").write_text(f"Suite: {suite}\nSHA256:\n", "utf-8")
    with pytest.raises(SystemExit) as caught:
        main("--mirror", f"file:{mirror}")
    said, *suites, fix = refusal(caught)
    assert (said, fix) == ("mesa: lavapipe with cooperative matrices could not be fetched.", FIX)
    unsigned = "apt-get ended with 100: E: The repository 'file:{} {} Release' is not signed."
    assert [line.split(" | ")[0] for line in suites] == [
        f"{asked} of file:{mirror}: {unsigned.format(mirror, named)}"
        for asked, named in (("trixie-backports", "trixie"), ("sid", "sid"))
    ]
    assert list(cache.iterdir()) == []


def made_package(tmp_path: Path, name: str, files: dict[str, str]) -> Path:
    """A Debian package with files and links (values that begin with an arrow)."""
    root = tmp_path / name
    (root / "DEBIAN").mkdir(parents=True)
    control = [f"Package: {name}", "Version: 1", "Architecture: all", "Maintainer: nobody", "Description: made up"]
    (root / "DEBIAN/control").write_text("\n".join(control) + "\n", "utf-8")
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("->"):
            (root / path).symlink_to(text[2:])
        else:
            (root / path).write_text(text, "utf-8")
    build = ["dpkg-deb", "--root-owner-group", "--build", root, tmp_path / f"{name}.deb"]
    subprocess.run(build, check=True, capture_output=True)
    return tmp_path / f"{name}.deb"


@with_dpkg
def test_libraries_are_kept_but_for_other_drivers(tmp_path: Path) -> None:
    library = "usr/lib/x86_64-linux-gnu"
    of_mesa = {f"{library}/{name}.so": name for name in ("libvulkan_lvp", "libvulkan_radeon", "libVkLayer_MESA_overlay")}
    of_c = {f"{library}/libc.so.6": "c", f"{library}/gconv/EUC-KR.so": "codec", "usr/share/doc/libc6/copyright": "text"}
    loader = {f"{library}/libvulkan.so.1.4.0": "loader", f"{library}/libvulkan.so.1": "->libvulkan.so.1.4.0"}
    packages = [made_package(tmp_path, name, files) for name, files in (("mesa", of_mesa), ("c", of_c), ("loader", loader))]
    made = mesa.unpack(packages, tmp_path / "scratch")
    kept = {file.name: file.read_text("utf-8") for file in (made / "lib").iterdir()}
    assert kept == {
        "libvulkan_lvp.so": "libvulkan_lvp",
        "libc.so.6": "c",
        "libvulkan.so.1.4.0": "loader",
        "libvulkan.so.1": "loader",
    }
    driver = json.loads((made / "lavapipe.json").read_text("utf-8"))["ICD"]["library_path"]
    assert (made / driver).read_text("utf-8") == "libvulkan_lvp"
    assert (made / "packages.txt").read_text("utf-8") == "mesa\nc\nloader\n"


def test_a_library_that_does_not_run_is_not_kept(main: Main, cache: Path, fake_apt: Tool) -> None:
    fake_apt("apt-cache", "echo ' mesa-vulkan-drivers | 26.1.6-1 | somewhere'")
    with pytest.raises(SystemExit) as caught:
        main("--mirror", "mirror:/")
    said, backports, sid, fix = refusal(caught)
    program = "ld-linux-x86-64.so.2 cannot be run (No such file or directory)"
    assert (backports, sid, fix) == (f"trixie-backports of mirror:/: {program}", f"sid of mirror:/: {program}", FIX)
    assert (said, list(cache.iterdir())) == ("mesa: lavapipe with cooperative matrices could not be fetched.", [])


@with_apt
@pytest.mark.skipif(not (Path(mesa.KEYRING).exists() and mesa.PYTHON.exists()), reason="not a checkout on a Debian system")
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_fetch_that_is_ended_keeps_nothing(
    cache: Path, tmp_path: Path, fake_apt: Tool, main: Main, ending: signal.Signals
) -> None:
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    fake_apt("apt-get", f"echo $$ >{pids}; exec sleep 600")
    command = [sys.executable, mesa.__file__, "--cache", str(cache), "--mirror", "mirror:/"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        pid = int(pids.read_text("utf-8"))  # opening it waits for the writer
        child.send_signal(ending)
        if ending == signal.SIGKILL:
            os.kill(pid, signal.SIGKILL)
        status = child.wait(60)
    found = list(cache.iterdir())
    status_and_left = {signal.SIGTERM: (143, []), signal.SIGINT: (130, []), signal.SIGKILL: (-9, ["making"])}
    assert (status, [one.name.partition("-")[0] for one in found]) == status_and_left[ending]
    fake_apt("apt-get", "exit 0")
    for one in found:  # as if it were of long ago
        os.utime(one, (0, 0))
    with pytest.raises(SystemExit):
        main("--mirror", "mirror:/")
    assert list(cache.iterdir()) == []
