"""The records of tuned kernels, looked at, carried and found on the command line."""

from __future__ import annotations

import json
import os
import pty
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import platformdirs
import pytest

from vyre_driver.autotune import AutotuneKey, AutotuneRecord, AutotuneStore
from vyre_driver.cli import main
from vyre_driver.cli.options import human_measure
from vyre_driver.kernels import KERNELS

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Refused, RunChild

KEY = AutotuneKey("11" * 16, "gpu")
SAXPY = AutotuneRecord(
    (256, 1, 1), 2, (1, 0, 0), "2026-11-21", "ab" * 32, 400, 228_638, 1_795_000_000, "saxpy", "a device", "a driver 1", "4096"
)
LARGE = replace(SAXPY, identity="ac" * 32, median_ns=1_814_900, unroll=4, size="1048576")
MATMUL = replace(
    SAXPY, identity="cd" * 32, kernel="matmul", workgroup_size=(16, 8, 1), unroll=1, tile=(128, 64, 8), size="64x64x64"
)
OTHERS = AutotuneRecord((64, 1, 1), 4, (0, 0, 0))
HOSTILE = "\x1b]0;owned\x07\x1b[2J\nvyre-driver: error"


def saved(path: Path, *records: AutotuneRecord) -> Path:
    store = AutotuneStore()
    for one in records:
        store.put(KEY, one)
    store.save_if_dirty(path)
    return path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the variable names, with three records of ours and one of others."""
    named = saved(tmp_path / "autotune.toml", SAXPY, LARGE, MATMUL, OTHERS)
    monkeypatch.setenv("VYRE_AUTOTUNE_FILE", str(named))
    return named


def left(path: Path) -> list[str]:
    return [one.kernel + one.size for one in AutotuneStore.load(path).records().values()]


def test_the_list_has_a_line_for_each_record_in_columns_and_the_file(run_cli: RunChild, path: Path) -> None:
    done = run_cli("tune", "list")
    assert (done.status, done.complaint, done.stdout.splitlines()) == (
        0,
        [],
        [
            "111111111111  of others  -         not measured  -           64x1x1, unrolled 4           gpu",
            "cdcdcdcdcdcd  matmul     64x64x64        229 us  2026-11-21  16x8x1, tile 128x64x8        a device",
            "abababababab  saxpy      4096            229 us  2026-11-21  256x1x1, unrolled 2, tile 1  a device",
            "acacacacacac  saxpy      1048576        1.81 ms  2026-11-21  256x1x1, unrolled 4, tile 1  a device",
            f"4 records in {path}",
        ],
    )


def test_the_list_and_a_record_as_json_are_all_that_the_file_says(run_here: RunChild, path: Path) -> None:
    listed = json.loads(run_here("tune", "list", "--json").stdout)
    shown = json.loads(run_here("tune", "show", "matmul", "--json").stdout)
    matmul = {**asdict(MATMUL), "workgroup_size": [16, 8, 1], "tile": [128, 64, 8], "timings": []}
    matmul |= {"key": "11" * 16, "adapter": "gpu"}
    expected = {"schema": 1, "records": [{"id": "cd" * 32, **matmul}]}
    assert (shown, listed["file"], listed["records"][1], len(listed["records"])) == (
        expected,
        str(path),
        expected["records"][0],
        4,
    )


def test_a_file_that_is_not_there_has_no_records_and_is_not_made(run_here: RunChild, tmp_path: Path) -> None:
    default = tmp_path / "home" / "state" / "vyre" / "autotune.toml"
    listed, cleared = run_here("tune", "list"), run_here("tune", "clear")
    assert (listed.stdout, cleared.stdout, default.parent.exists()) == (
        f"0 records in {default}, which is not there yet\n",
        f"0 records removed from {default}\n",
        False,
    )


def test_the_file_may_be_named_before_and_behind_the_action(run_here: RunChild, path: Path, tmp_path: Path) -> None:
    other = saved(tmp_path / "other.toml", SAXPY)
    found = [
        json.loads(run_here("tune", *arguments, "--json").stdout)["file"]
        for arguments in (("list",), ("--file", str(other), "list"), ("list", "--file", str(other)))
    ]
    assert found == [str(path), str(other), str(other)]


def test_a_record_is_shown_by_its_kernel_or_the_beginning_of_its_id(run_here: RunChild, path: Path) -> None:
    assert path.exists()
    by_kernel, by_id = run_here("tune", "show", "matmul"), run_here("tune", "show", "cdc")
    lines = by_kernel.stdout.splitlines()
    assert (by_id.stdout, lines[0], lines[1], len(lines)) == (
        by_kernel.stdout,
        f"  id: {'cd' * 32}",
        "  workgroup_size: 16x8x1",
        16,
    )


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("a", "2 records begin with 'a'. Fix: name a kernel, or more of an id, from vyre-driver tune list."),
        ("sax", "no record is named 'sax'. Fix: name a kernel, or more of an id, from vyre-driver tune list."),
        ("", "no record is named ''. Fix: name a kernel, or more of an id, from vyre-driver tune list."),
    ],
)
def test_a_name_that_may_mean_several_records_or_none_removes_nothing(
    path: Path, name: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = path.read_bytes()
    status, (out, told) = main(["tune", "clear", "matmul", name]), capsys.readouterr()
    expected = 2, "", f"vyre-driver: error 2501: {complaint}\n", before
    assert (status, out, told, path.read_bytes()) == expected


def test_what_is_cleared_is_all_or_what_is_named(run_here: RunChild, path: Path) -> None:
    first = run_here("tune", "clear", "saxpy", "cd")
    rest = left(path)
    second = json.loads(run_here("tune", "clear", "--json").stdout)
    assert (first.stdout, rest, second, left(path)) == (
        f"3 records removed from {path}\n",
        [""],
        {"schema": 1, "file": str(path), "removed": 1},
        [],
    )


def test_records_are_pinned_into_a_new_file_and_one_that_has_others(run_here: RunChild, path: Path, tmp_path: Path) -> None:
    pinned = tmp_path / "pinned.toml"
    first = run_here("tune", "pin", str(pinned), "ab")
    saved(path, replace(SAXPY, unroll=8, samples=500))
    saved(pinned, replace(MATMUL, size="1x1x1", identity="ee" * 32))
    second = json.loads(run_here("tune", "pin", str(pinned), "saxpy", "--json").stdout)
    found = AutotuneStore.load(pinned)
    best = found.get(KEY, SAXPY.identity)
    assert (first.stdout, second, len(found), best and best.unroll) == (
        f"1 record pinned in {pinned}\n",
        {"schema": 1, "file": str(pinned), "pinned": 2},
        3,
        8,
    )


def test_what_is_pinned_takes_the_place_of_a_better_measured_one(run_here: RunChild, path: Path, tmp_path: Path) -> None:
    assert path.exists()
    pinned = saved(tmp_path / "pinned.toml", replace(SAXPY, unroll=8, samples=900))
    done = run_here("tune", "pin", str(pinned), "ab")
    assert (done.status, AutotuneStore.load(pinned).get(KEY, SAXPY.identity)) == (0, SAXPY)


def test_where_nothing_is_known_nothing_is_pinned(refused_here: Refused, work: Path) -> None:
    assert refused_here("tune", "pin", "pinned.toml") == (
        "2501: there is no record to pin. Fix: find some with vyre-driver tune run KERNEL."
    )
    assert not (work / "pinned.toml").exists()


def test_of_two_files_the_better_measured_record_stays(run_here: RunChild, path: Path, tmp_path: Path) -> None:
    better, worse = replace(SAXPY, unroll=8, samples=500), replace(MATMUL, unroll=8, samples=1)
    new = replace(SAXPY, identity="ff" * 32, size="64")
    one, two = saved(tmp_path / "one.toml", better, worse), saved(tmp_path / "two.toml", replace(better, samples=450), new)
    done = run_here("tune", "merge", str(one), str(two))
    store = AutotuneStore.load(path)
    found = [store.get(KEY, record.identity) for record in (SAXPY, MATMUL, new)]
    assert (done.stdout, found, len(store)) == (f"2 records taken into {path}\n", [better, MATMUL, new], 5)
    again = json.loads(run_here("tune", "merge", str(one), str(two), "--json").stdout)
    assert again == {"schema": 1, "file": str(path), "taken": 0}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "2202: there is no file other.toml to merge. Fix: name a file of records."),
        ("no = [toml", "2209: other.toml is not an autotune file: "),
    ],
)
def test_a_file_that_is_none_is_not_merged_nor_are_others_with_it(
    refused_here: Refused, path: Path, work: Path, text: str | None, complaint: str
) -> None:
    if text is not None:
        (work / "other.toml").write_text(text)
    new = saved(path.with_name("new.toml"), replace(SAXPY, identity="ff" * 32))
    before = path.read_bytes()
    assert refused_here("tune", "merge", str(new), "other.toml").startswith(complaint)
    assert path.read_bytes() == before


def test_a_damaged_file_is_refused_and_stays_as_it_is(refused_here: Refused, path: Path) -> None:
    path.write_text("no = [toml")
    assert [refused_here("tune", verb).partition(":")[0] for verb in ("list", "clear")] == ["2209", "2209"]
    assert path.read_text() == "no = [toml"


def test_a_record_that_cannot_be_meant_is_told_in_one_line_and_the_others_are_listed(run_cli: RunChild, path: Path) -> None:
    path.write_text(path.read_text().replace("unroll = 2", "unroll = -2"))
    done = run_cli("tune", "list", env={"PYTHONWARNINGS": "error"})
    assert (done.status, len(done.stdout.splitlines()), len(done.complaint)) == (0, 4, 1)
    assert done.complaint[0].startswith(f"vyre-driver: warning: a record of {path} is left out, and kept in the file: unroll")


def test_a_newer_versions_file_is_listed_and_not_written_to(run_here: RunChild, refused_here: Refused, path: Path) -> None:
    path.write_text(path.read_text().replace("schema = 1", "schema = 2"))
    before = path.read_bytes()
    listed = run_here("tune", "list")
    complaints = [refused_here("tune", *verb) for verb in (("clear",), ("run", "saxpy", "--size", "64"))]
    problem = f"2209: {path} has schema 2, and this version writes schema 1"
    assert (listed.status, [one.partition(". Fix")[0] for one in complaints], path.read_bytes()) == (0, [problem] * 2, before)


def test_text_from_a_file_cannot_steer_a_terminal(run_here: RunChild, path: Path) -> None:
    store = AutotuneStore()
    store.put(AutotuneKey(HOSTILE, HOSTILE), OTHERS)
    store.put(KEY, replace(SAXPY, kernel=HOSTILE, device=HOSTILE, driver=HOSTILE, recorded_at=HOSTILE))
    path.unlink()
    store.save_if_dirty(path)
    listed, shown = run_here("tune", "list"), run_here("tune", "show", "ab", HOSTILE[:3])
    for done in (listed, shown):
        assert (done.status, done.complaint) == (0, [])
        assert [line for line in done.stdout.splitlines() if not line.isprintable()] == []
    assert len(listed.stdout.splitlines()) == 3
    assert len(run_here("tune", "show", "abab").stdout.splitlines()) == 16


def test_without_a_home_a_file_has_to_be_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def no_home(*_: object, **__: object) -> str:
        raise RuntimeError

    monkeypatch.setattr(platformdirs, "user_state_dir", no_home)
    monkeypatch.setenv("HOME", "no/home")
    statuses = [main(["tune", "list"]), main(["tune", "run", "saxpy"])]
    problem = "vyre-driver: error 2501: there is no home to keep tuning records in. Fix: name a file with --file."
    assert (statuses, capsys.readouterr().err.splitlines()) == ([2, 2], [problem] * 2)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("sax",), "2501: there is no kernel 'sax'. Fix: name one of saxpy, reduce_sum, "),
        (("saxpy", "--size", "3x3"), "2501: --size '3x3' is not 1 integer from 1 to 4294967295, as saxpy takes"),
        (("saxpy", "matmul", "--size", "3"), "2501: --size '3' is not 3 integers from 1 to 4294967295, as matmul takes"),
        (("saxpy", "--size", "0"), "2501: --size '0' is not 1 integer"),
        (("saxpy", "--size", "1e3"), "2501: --size '1e3' is not 1 integer"),
        (("saxpy", "--seconds", "0"), "2201: seconds of a tuning budget is 0.0. Fix: give a number above 0."),
        (("saxpy", "--file", "x.npy/tuned.toml"), "2202: the autotune file "),
        ((), "2501: the command line is wrong: the following arguments are required: KERNEL"),
    ],
)
@pytest.mark.usefixtures("work")
def test_what_cannot_be_meant_is_refused_before_a_device_is_opened(
    arguments: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("vyre_driver.cli.tune.Driver", None)
    status, (out, told) = main(["tune", "run", *arguments]), capsys.readouterr()
    assert (status, out, told.count("\n"), told.startswith(f"vyre-driver: error {complaint}")) == (2, "", 1, True)


def test_a_cpu_device_has_to_be_accepted(refused_here: Refused, run_here: RunChild) -> None:
    with_gpu = [one for one in json.loads(run_here("devices", "--json").stdout)["devices"] if not one["is_software"]]
    if not with_gpu:
        assert refused_here("tune", "run", "saxpy", "--size", "64").partition(":")[0] in {"2001", "2002", "2003"}


RUN = ("tune", "run", "reduce_sum", "--size", "5000", "--seconds", "0.5")


@pytest.mark.device
def test_a_kernel_is_measured_once_and_again_when_that_is_asked_for(run_cli: RunChild, run_here: RunChild, path: Path) -> None:
    path.unlink()
    first = run_cli(*RUN, "--size", "4000000000")
    assert (first.status, first.complaint) == (1, [])
    measured, too_large = first.stdout.splitlines()
    assert measured.startswith("reduce_sum 5000: ")
    assert " B/s" not in measured
    assert measured.endswith(" s)")
    assert too_large.startswith("reduce_sum 4000000000: failed: ")  # there is no room, or a buffer is too large for the device
    (record,) = AutotuneStore.load(path).records().values()
    assert (record.kernel, record.size, record.samples > 0) == ("reduce_sum", "4096", True)

    second = run_here(*RUN)
    assert (second.status, second.stdout) == (
        0,
        "reduce_sum 5000: skipped: sizes about 4096 have a record, which --force replaces\n",
    )
    better = replace(record, samples=10**6)
    store = AutotuneStore.load(path)
    (key, _) = next(iter(store.records()))
    store.put(key, better)
    store.save_if_dirty(path)
    forced = run_here(*RUN, "--force", "--json")
    told = json.loads(forced.stdout)
    (again,) = AutotuneStore.load(path).records().values()
    (tuned,) = told["tuned"]
    assert (told["file"], tuned["median_ns"], tuned["samples"]) == (str(path), again.median_ns, again.samples)
    constants = {"WORKGROUP_X": again.workgroup_size[0], "UNROLL": again.unroll, "BLOCKS": again.tile[0]}
    assert (tuned["workgroup_size"], tuned["constants"]) == (list(again.workgroup_size), constants)
    assert sum(tuned["candidates"].values()) == 64
    assert (again.samples == 10**6, tuned["kernel"], tuned["size"]) == (False, "reduce_sum", "5000")


@pytest.mark.device
def test_candidates_are_tried_in_a_child_process_where_that_is_asked_for(run_cli: RunChild, path: Path, tmp_path: Path) -> None:
    started = tmp_path / "started"
    (tmp_path / "sitecustomize.py").write_text(f"with open({str(started)!r}, 'a') as file: print('a process', file=file)")
    python_path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run_cli(*RUN, "--isolate", "--json", "--file", str(path), env={"PYTHONPATH": python_path})
    (told,) = json.loads(done.stdout)["tuned"]
    assert (done.status, told["out"], "reduce_sum4096" in left(path), len(started.read_text().splitlines())) == (0, [], True, 2)


@pytest.mark.device
def test_where_no_candidate_is_timed_the_others_are_told_of_and_the_status_is_1(run_here: RunChild, path: Path) -> None:
    before = path.read_bytes()
    done = run_here("tune", "run", "saxpy", "reduce_sum", "--size", "64", "--seconds", "1e-9", "--json")
    told = json.loads(done.stdout)["tuned"]
    assert (done.status, [(one["kernel"], one["size"]) for one in told], path.read_bytes()) == (
        1,
        [("saxpy", "64"), ("reduce_sum", "64")],
        before,
    )
    assert told[0]["failed"].startswith("saxpy of size (64,) is not tuned: none of 80 candidates was right and timed")


@pytest.mark.device
def test_a_bar_is_shown_on_a_terminal_only(run_cli: RunChild, path: Path) -> None:
    assert path.exists()
    arguments = ("tune", "run", "saxpy", "--size", "64", "--seconds", "1e-9")
    piped = run_cli(*arguments)
    terminal, given = pty.openpty()
    shown = run_cli(*arguments, env={"TERM": "xterm"}, stderr=given)
    os.close(given)
    seen = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert ("saxpy 64" in seen, "saxpy 64" in piped.stderr, "\x1b" in piped.stdout + shown.stdout) == (True, False, False)


def test_the_actions_and_kernels_are_in_the_help(run_here: RunChild) -> None:
    verb, run = run_here("tune", "--help").stdout, run_here("tune", "run", "--help").stdout
    missing = [one for one in ("run", "list", "show", "pin", "merge", "clear", "--file") if one not in verb]
    missing += [one for one in (*KERNELS, "all", "--size", "--seconds", "--isolate", "--force") if one not in run]
    assert missing == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00 s"),
        (228.638e-6, "229 us"),
        (1.8149e-3, "1.81 ms"),
        (12.0, "12.0 s"),
        (999.4, "999 s"),
        (999.6, "1.00 ks"),
        (3e-13, "0.00 ns"),
        (7.25e15, "7250 Ts"),
    ],
)
def test_a_measured_value_has_three_digits_and_a_prefix(value: float, text: str) -> None:
    assert human_measure(value, "s") == text
