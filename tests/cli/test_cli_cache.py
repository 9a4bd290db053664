"""``vyre-driver cache``: what each action prints, and what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from vyre_driver import cli
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import PipelineEntry
from vyre_driver.identity import PipelineCacheKey, encode_manifest

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


def pipeline(tile: int, driver: str = "Example 1.0") -> PipelineCacheKey:
    fields: list[tuple[str, int | str | bytes]] = [
        ("key version", 1),
        ("shader", bytes(32)),
        ("binding layout", bytes(32)),
        ("push constant bytes", 0),
        *((f"workgroup {axis}", 1) for axis in "xyz"),
        ("feature flags", 0),
        ("backend", "kompute"),
        ("constant 0 TILE", f"u32:{tile:#010x}"),
        ("vendorID", 0x10DE),
        ("deviceID", 0x2330),
        ("driverName", "Example"),
        ("driverInfo", driver),
    ]
    return PipelineCacheKey.from_manifest(encode_manifest(fields))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with two entries, which the settings name."""
    place = tmp_path / "cache"
    monkeypatch.setenv("VYRE_CACHE_DIR", str(place))
    cache = DiskPipelineCache(place)
    for key in (pipeline(16), pipeline(32)):
        assert cache.put(key, PipelineEntry(key.manifest, b"spirv" * 4))
    return place


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.main(["cache", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def data(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    status, out, err = run(capsys, *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def test_dir_prints_the_directory_and_nothing_else(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "dir") == (0, f"{root}\n", "")
    assert run(capsys, "--dir", "/elsewhere", "dir") == (0, "/elsewhere\n", "")
    assert data(capsys, "dir") == {"schema": 1, "root": str(root)}


def test_dir_prints_nothing_for_a_cache_in_memory(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CACHE_DISABLE", "1")
    assert run(capsys, "dir") == (0, "", "")
    assert run(capsys, "info") == (0, "memory only\n0 entries, 0 bytes on the disk\n", "")


def test_info_counts_and_says_why_a_root_is_not_used(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "info") == (0, f"{root}\n2 entries, 8.2 kB on the disk\n", "")
    assert data(capsys, "info")["entries"] == 2
    root.chmod(0o777)
    assert run(capsys, "info")[1] == f"{root}\nnot used: others may write to it (mode 777)\n0 entries, 0 bytes on the disk\n"


def test_list_and_show_tell_what_an_entry_says(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = pipeline(16).hex
    listed = data(capsys, "list")["entries"]
    assert {one["key"] for one in listed} == {pipeline(16).hex, pipeline(32).hex}
    assert {one["driver"] for one in listed} == {"Example Example 1.0"}
    assert run(capsys, "list")[1].count("used less than a min ago  SPIR-V only  Example Example 1.0") == 2
    shown = data(capsys, "show", key[:9])
    assert (shown["path"], shown["manifest"]["constant 0 TILE"]) == (str(root / key[:2] / f"{key}.bin"), "u32:0x00000010")
    assert f"  shader: {bytes(32).hex()}\n" in run(capsys, "show", key.upper())[1]


def test_what_an_entry_says_cannot_steer_the_terminal(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = pipeline(64, "\x1b[2Jgone\n")
    DiskPipelineCache(root).put(key, PipelineEntry(key.manifest, b"spirv"))
    bundle = tmp_path / "bundle.tar"
    assert run(capsys, "export", str(bundle))[0] == 0
    actions = [("list",), ("show", key.hex), ("why", key.hex), ("import", str(bundle), "--dry-run")]
    printed = [run(capsys, *action)[1] for action in actions]
    assert ["\x1b" in out for out in printed] == [False] * 4
    assert [r"\x1b[2Jgone" in out for out in printed] == [True] * 4


@pytest.mark.parametrize("action", ["show", "why"])
def test_a_key_that_is_not_one_entrys_is_refused(action: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for beginning, says in [("zz", "no entry's key begins with 'zz'"), ("", "the keys of 2 entries begin with ''")]:
        status, out, err = run(capsys, action, beginning)
        assert (status, out, says in err) == (2, "", True)
    assert root.exists()


def test_why_names_the_difference_to_the_nearest(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = data(capsys, "why", pipeline(16).hex)
    assert (told["verdict"], told["devices"]) == ("HIT", [])
    assert told["nearest"][0]["differences"] == ["TILE: 32 -> 16"]
    out = run(capsys, "why", pipeline(16).hex)[1]
    assert f"{pipeline(32).hex[:12]} (-) differs in TILE: 32 -> 16\n" in out
    assert root.exists()


def test_list_show_and_why_name_the_kernel_of_each_entry(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, other = pipeline(16), pipeline(32)
    assert DiskPipelineCache(root).put(key, PipelineEntry(key.manifest, b"spirv" * 4), kernel="matrix product")
    names = {one["key"]: one["kernel"] for one in data(capsys, "list")["entries"]}
    assert names == {key.hex: "matrix product", other.hex: None}
    lines = sorted(line[:39] for line in run(capsys, "list")[1].splitlines())
    assert lines == sorted([f"{key.hex[:12]}  matrix product  683 bytes", f"{other.hex[:12]}  -               683 bytes"])
    assert [data(capsys, "show", one.hex)["kernel"] for one in (key, other)] == ["matrix product", None]
    assert [f"  kernel: {name}\n" in run(capsys, "show", one.hex)[1] for one, name in ((key, "matrix product"), (other, "-"))]
    told = data(capsys, "why", other.hex)
    assert (told["kernel"], [one["kernel"] for one in told["nearest"]]) == (None, ["matrix product"])
    assert run(capsys, "why", other.hex)[1] == (
        f"{other.hex}: verified entry of 683 bytes\nkernel -\nfor a device or driver that is not here\n"
        f"{key.hex[:12]} (matrix product) differs in TILE: 16 -> 32\n"
    )
    assert (data(capsys, "why", key.hex)["kernel"], run(capsys, "verify")[0]) == ("matrix product", 0)


def test_a_name_of_a_kernel_cannot_steer_the_terminal(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = pipeline(16)
    assert DiskPipelineCache(root).put(key, PipelineEntry(key.manifest, b"spirv" * 4), kernel="\x1b[2J\u202egone\n")
    for out in (run(capsys, "list")[1], run(capsys, "show", key.hex)[1], run(capsys, "why", key.hex)[1]):
        assert ("\x1b" in out, "\u202e" in out, r"\x1b[2J\u202egone\n" in out) == (False, False, True)


def test_verify_reports_and_with_fix_puts_right(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "verify") == (0, "0 problems, 0 repaired\n", "")
    key = pipeline(16).hex
    path = root / key[:2] / f"{key}.bin"
    path.write_bytes(path.read_bytes()[:-1])
    assert run(capsys, "verify") == (1, f"{path}: the entry is shorter than it says\n1 problem, 0 repaired\n", "")
    status, out, _ = run(capsys, "verify", "--fix")
    assert (status, out) == (0, f"{path}: the entry is shorter than it says (repaired)\n1 problem, 1 repaired\n")
    assert (run(capsys, "verify")[0], path.exists()) == (0, False)


def test_prune_and_clear_remove(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert data(capsys, "prune")["kept"] == 2
    assert data(capsys, "prune", "--max-size", "1K")["entries"] == 2
    key = pipeline(16)
    DiskPipelineCache(root).put(key, PipelineEntry(key.manifest, b"spirv"))
    assert run(capsys, "clear") == (0, "1 file removed\n", "")
    assert data(capsys, "clear")["removed"] == 0


@pytest.mark.parametrize(
    "bound", ["--max-size=", "--max-size=1T", "--max-size=-1", "--max-size=0", "--max-size=K", "--max-age=-1", "--max-age=nan"]
)
def test_a_bound_that_cannot_be_meant_is_refused(bound: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "prune", bound)
    assert (status, out, "error 2501" in err, root.exists()) == (2, "", True, True)


def test_a_bundle_goes_out_is_told_and_comes_in(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle.tar"
    status, out, _ = run(capsys, "export", str(bundle))
    assert (status, out) == (0, f"2 entries, 10.2 kB, not sealed: {bundle}\n")
    told = data(capsys, "import", str(bundle), "--dry-run")
    assert told["drivers"] == [
        {"vendorID": 0x10DE, "deviceID": 0x2330, "driver": "Example Example 1.0", "entries": 2, "fits": False}
    ]
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "other"))
    assert run(capsys, "import", str(bundle))[0] == 2
    assert data(capsys, "import", str(bundle), "--trust") == {
        "schema": 1,
        "imported": 0,
        "known": 0,
        "foreign": 2,
        "refused": {},
    }
    out = run(capsys, "import", str(bundle), "--trust", "--any-device")[1]
    assert out == "2 entries taken, 0 known already, 0 for devices that are not here\n"
    assert (data(capsys, "info")["imported"], root.exists()) == (2, True)


def test_only_the_named_entries_are_exported_and_nothing_is_left_of_a_failure(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported = data(capsys, "export", str(tmp_path / "one.tar"), pipeline(32).hex[:8])
    assert [one["key"] for one in exported["entries"]] == [pipeline(32).hex]
    status, out, err = run(capsys, "export", str(tmp_path / "missing" / "bundle.tar"))
    assert (status, out, "error 2202: cannot write" in err) == (2, "", True)
    before = sorted(tmp_path.iterdir())
    (tmp_path / "directory").mkdir()
    assert run(capsys, "export", str(tmp_path / "directory"))[0] == 2
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "directory"])
    assert root.exists()


def test_a_bundle_is_written_into_a_pipe_and_through_a_link(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe, link, bundle = tmp_path / "pipe", tmp_path / "link.tar", tmp_path / "bundle.tar"
    os.mkfifo(pipe)
    link.symlink_to(bundle)
    with subprocess.Popen(["/bin/cat", pipe], stdout=subprocess.PIPE) as reader:
        told = data(capsys, "export", str(pipe))
        sent = reader.communicate(timeout=60)[0]
    assert run(capsys, "export", str(link))[0] == 0
    assert (pipe.is_fifo(), link.is_symlink(), sent) == (True, True, bundle.read_bytes())
    assert (told["bytes"], len(told["entries"])) == (len(sent), 2)
    assert root.exists()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_bundle_is_all_that_standard_output_gets(root: Path, tmp_path: Path, *, as_json: bool) -> None:
    command = [sys.executable, "-m", "vyre_driver", "cache", "export", "/dev/stdout", *["--json"] * as_json]
    piped = subprocess.run(command, capture_output=True, check=True)
    bundle = tmp_path / "bundle.tar"
    with bundle.open("wb") as file:
        written = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, check=True)
    assert (bundle.read_bytes(), written.stderr) == (piped.stdout, piped.stderr)
    assert f'"bytes": {len(piped.stdout)}' in piped.stderr.decode() if as_json else b"2 entries, 10.2 kB, " in piped.stderr
    assert cli.main(["cache", "import", str(bundle), "--trust", "--any-device"]) == 0
    assert root.exists()


def test_an_import_that_refuses_entries_says_so_in_its_status(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = tmp_path / "bundle.tar"
    run(capsys, "export", str(bundle))
    data = bytearray(bundle.read_bytes())
    data[data.rindex(b"spirv")] ^= 1
    bundle.write_bytes(data)
    run(capsys, "clear")
    status, out, err = run(capsys, "import", str(bundle), "--trust", "--any-device")
    assert (status, out, err) == (
        1,
        "1 entry taken, 0 known already, 0 for devices that are not here\n",
        "1 refused: CORRUPT\n",
    )
    status, out, err = run(capsys, "import", str(tmp_path / "missing"), "--trust")
    assert (status, out, "error 2202: cannot read" in err, root.exists()) == (2, "", True, True)
