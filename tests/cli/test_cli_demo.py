"""``vyre-driver demo``: four verified jobs in each of two processes, and what it says when something is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from vyre_driver import Driver, SpirvModule
from vyre_driver.cache import DiskPipelineCache, PipelineEntry
from vyre_driver.cli import demo
from vyre_driver.cli.demo import expected_edges
from vyre_driver.errors import FileUnusable
from vyre_driver.identity import PipelineCacheKey, PipelineFeatureFlags
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Finished, Refused, RunChild

    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device

JOBS = ["histogram", "saxpy", "edges", "mandelbrot"]
TEXT = b"aaabbc"
WRONG = """#version 450
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Push { float alpha; uint count; };
void main() { if (gl_GlobalInvocationID.x < count) y[gl_GlobalInvocationID.x] = alpha - x[gl_GlobalInvocationID.x]; }
"""


def prepare(directory: Path) -> tuple[str, ...]:
    """Make the demo's input in a directory, and return the options that name it."""
    (directory / "text").write_bytes(TEXT)
    return ("--files", str(directory / "text"), "--out-dir", str(directory / "out"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the demo that ran."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def ran(place: Path, cli_at_home: Callable[[Path], RunChild]) -> Finished:
    """One demo on small files, for a user without a cache."""
    return cli_at_home(place / "home")("demo", "--json", *prepare(place))


@pytest.fixture(scope="module")
def report(ran: Finished) -> dict[str, Any]:
    """What that demo told."""
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_the_demo_succeeds_and_says_nothing_on_stderr(ran: Finished) -> None:
    assert (ran.status, ran.complaint) == (0, [])


def test_the_demo_verifies_four_jobs(report: dict[str, Any]) -> None:
    verified = [(job["job"], job["verified"], [run["verified"] for run in job["runs"]]) for job in report["jobs"]]
    assert (report["schema"], report["verified"], verified) == (1, True, [(job, True, [True, True]) for job in JOBS])


def test_each_job_has_a_hit_in_the_second_process(report: dict[str, Any]) -> None:
    found = {job["job"]: [(run["process"], run["cache"]) for run in job["runs"]] for job in report["jobs"]}
    assert found == {job: [(1, "miss"), (2, "hit")] for job in JOBS}


def test_the_demo_names_device_and_cache(report: dict[str, Any], place: Path, physical_device: PhysicalDevice) -> None:
    device = report["device"]
    expected = (physical_device.name, physical_device.is_software, str(place / "home" / "pipelines"))
    assert (device["device"], device["is_software"], device["cache"]["root"]) == expected


def test_the_demo_counts_the_files_it_was_given(report: dict[str, Any]) -> None:
    keys = ("summary", "files", "bytes", "commonest_byte", "dispatches")
    facts = {key: report["jobs"][0]["runs"][0][key] for key in keys}
    assert facts == {"summary": "1 file, 6 bytes", "files": 1, "bytes": len(TEXT), "commonest_byte": ord("a"), "dispatches": 1}


def test_the_demo_runs_a_kernel_that_is_written_in_python(report: dict[str, Any]) -> None:
    (run, _) = report["jobs"][2]["runs"]
    assert (run["summary"], run["dispatches"], run["dispatch_ms"] > 0) == ("2048x2048 pixels, a kernel in Python", 1, True)


def test_a_picture_without_edges_is_not_what_the_demo_accepts() -> None:
    picture = np.zeros((4, 4), np.float32)
    picture[:, 2:] = 1
    assert expected_edges(picture).tolist()[1] == [0, 4, 4, 4]


def test_the_picture_is_1024_by_1024_in_colour(report: dict[str, Any], place: Path) -> None:
    path = place / "out" / "mandelbrot.png"
    with Image.open(path) as picture:
        colours = picture.getcolors(maxcolors=2**24)
        found = (picture.format, picture.size, picture.mode, len(colours or []) > 1000)
    assert (report["jobs"][3]["runs"][1]["picture"], found) == (str(path), ("PNG", (1024, 1024), "RGB", True))


def test_without_pillow_the_demo_runs_and_leaves_the_picture_out(
    tmp_path: Path, run_here: RunChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "PIL.py").write_text("raise ModuleNotFoundError(name=__name__)")
    monkeypatch.syspath_prepend(tmp_path / "hidden")  # of the children too
    monkeypatch.setattr(demo, "JOBS", {"mandelbrot": demo.JOBS["mandelbrot"]})
    monkeypatch.setattr(demo, "_PROCESSES", (1,))
    done = run_here("demo", *prepare(tmp_path))
    last = done.stdout.splitlines()[-1]
    assert (done.status, last, list((tmp_path / "out").iterdir())) == (
        0,
        "picture: left out, for Pillow is not installed. Fix: pip install pillow.",
        [],
    )


def test_the_device_is_printed_after_the_first_job(
    tmp_path: Path, run_here: RunChild, monkeypatch: pytest.MonkeyPatch, physical_device: PhysicalDevice
) -> None:
    options = prepare(tmp_path)
    monkeypatch.setattr(demo, "JOBS", {name: demo.JOBS[name] for name in ("saxpy", "histogram")})
    monkeypatch.setattr(demo, "_PROCESSES", (1,))
    (tmp_path / "text").unlink()  # so that the second job fails
    done = run_here("demo", *options)
    assert (done.status, done.stdout.startswith(f"device: {physical_device.name}, ")) == (2, True)


def test_the_demo_leaves_only_the_picture(ran: Finished, place: Path) -> None:
    assert ran.status == 0
    assert {path.name: sorted(inner.name for inner in path.iterdir()) for path in place.glob("out")} == {
        "out": ["mandelbrot.png"]
    }


def test_a_wrong_result_is_told_in_the_table_and_gives_exit_status_1(
    tmp_path: Path, run_here: RunChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache holds another shader under saxpy's key: valid, of the same interface, and wrong.

    The picture goes to a directory in square brackets, which are not markup.
    """
    with Driver(cache=tmp_path / "elsewhere", allow_software=True) as driver:
        digest = bytes.fromhex(driver.compile(shipped_module("saxpy")).trace.key)
    entry = PipelineEntry(b"", SpirvModule.from_glsl(WRONG).code)
    key = PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), PipelineFeatureFlags.EMPTY, "", b"", digest)
    DiskPipelineCache(tmp_path / "home" / "pipelines").put(key, entry)
    monkeypatch.setattr(demo, "JOBS", {name: demo.JOBS[name] for name in ("saxpy", "mandelbrot")})
    monkeypatch.setattr(demo, "_PROCESSES", (1,))
    wrong = run_here("demo", *prepare(tmp_path)[:-1], str(tmp_path / "[" / "bold]"))
    assert (wrong.status, wrong.complaint) == (1, [])
    rows = [line.split() for line in wrong.stdout.splitlines() if line.split()[:1] and line.split()[0] in JOBS]
    assert [(row[0], row[1], row[2], row[-1]) for row in rows] == [
        ("saxpy", "1", "hit", "WRONG"),
        ("mandelbrot", "1", "miss", "verified"),
    ]
    last = wrong.stdout.splitlines()[-1]
    assert (last.startswith("picture: /"), last.endswith("/[/bold]/mandelbrot.png")) == (True, True), last


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--files", "missing"), "2202: cannot read missing (No such file or directory). Fix: name a readable file."),
        (("--files", "."), "2202: cannot read . (Is a directory). Fix: name a readable file."),
        (("--files", "/dev/null"), "2201: there is no byte to count in 1 file. Fix: name files that are not empty."),
        (
            ("--out-dir", "x.npy"),
            "2202: cannot make the directory x.npy (File exists). Fix: give --out-dir a directory.",
        ),
        (
            ("--device", "colour:red", "--files", "x.npy"),
            "2002: 'colour:red' does not say which device. Fix: write uuid:, pci:, name: or type: and a value, or an index.",
        ),
    ],
    ids=["a missing file", "a directory", "an empty file", "a file for --out-dir", "an unknown device"],
)
def test_a_demo_that_cannot_run_is_refused_in_one_line(refused: Refused, arguments: tuple[str, ...], line: str) -> None:
    assert refused("demo", *arguments) == line


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """What each job of the demo opens in its process."""
    with Driver(cache=tmp_path_factory.mktemp("cache"), allow_software=True) as opened:
        yield opened


def test_a_job_in_a_process_of_its_own_is_refused_in_one_line(refused: Refused) -> None:
    line = "2202: cannot read bad (No such file or directory). Fix: name a readable file."
    assert refused("demo", "--worker", "histogram", "--files", "bad") == line


def test_a_process_that_dies_is_told_with_the_job_that_it_died_in(
    tmp_path: Path, run_here: RunChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "PIL.py").write_text("import os; os.abort()")
    monkeypatch.syspath_prepend(tmp_path)
    done = run_here("demo", *prepare(tmp_path))
    fix = "run it alone to see why: vyre-driver demo --worker mandelbrot"
    line = f"vyre-driver: error 1005: the process ended with SIGABRT in the mandelbrot job. Fix: {fix}."
    assert (done.status, done.complaint[-1]) == (2, line)


def test_a_picture_that_cannot_be_written_is_told(driver: Driver, tmp_path: Path) -> None:
    picture = tmp_path / "mandelbrot.png"
    picture.mkdir()
    with pytest.raises(FileUnusable) as caught:
        demo.mandelbrot(driver, tmp_path)
    assert str(caught.value) == f"cannot write {picture} (Is a directory). Fix: give --out-dir a writable directory."
