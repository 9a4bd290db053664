"""``vyre-driver run`` on a device: what it prints, what it writes, and what it leaves when it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Refused, RunChild

    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device

EXPECTED = 2 * np.arange(8, dtype=np.float32) + 1
X_AND_PUSH = ("--in", "x=x.npy", "--push", "alpha=2", "--push", "count=8")
FILL = """#version 450
layout(local_size_x = 64) in;
layout(constant_id = 0) const int STEP = 1;
layout(push_constant) uniform Push { ivec2 start; };
layout(binding = 0) writeonly buffer Y { int y[]; };
layout(binding = 1) writeonly buffer Z { int z[2]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < y.length()) y[i] = start.x + STEP * int(i);
    if (i < 2u) z[i] = start.y;
}
"""


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


@pytest.mark.parametrize("shader", ["saxpy.spv", "saxpy.comp"])
def test_a_shader_of_either_form_runs_on_npy_files(run_cli: RunChild, work: Path, shader: str) -> None:
    done = run_cli("run", shader, *X_AND_PUSH, "--in", "y=y.npy", "--out", "y=out.npy")
    assert (done.status, done.complaint) == (0, [])
    np.testing.assert_array_equal(np.load(work / "out.npy"), EXPECTED, strict=True)


def test_raw_files_serve_as_input_and_output(run_here: RunChild, work: Path) -> None:
    np.load(work / "x.npy").tofile(work / "x.bin")
    np.load(work / "y.npy").tofile(work / "y.bin")
    push = ("--push", "alpha=2", "--push", "count=8")
    run_here("run", "saxpy.spv", "--in", "x=x.bin", "--in", "y=y.bin", *push, "--out", "y=out.bin")
    assert (work / "out.bin").read_bytes() == EXPECTED.tobytes()


def test_the_shape_of_a_npy_file_is_kept(run_here: RunChild, work: Path) -> None:
    for name in ("x", "y"):
        np.save(work / f"{name}.npy", np.load(work / f"{name}.npy").reshape(2, 4))
    run_here("run", "saxpy.spv", *X_AND_PUSH, "--in", "y=y.npy", "--out", "y=out.npy")
    np.testing.assert_array_equal(np.load(work / "out.npy"), EXPECTED.reshape(2, 4), strict=True)


def test_text_output_names_device_cache_and_result(run_saxpy_here: RunChild, physical_device: PhysicalDevice) -> None:
    done = run_saxpy_here("--out", "y=out.npy")
    driver = f"{physical_device.driver_name} {physical_device.driver_info}".strip()
    software = ", a software device" if physical_device.is_software else ""
    assert done.stdout.splitlines() == [
        f"{physical_device.name} ({driver}){software}",
        "cache: miss (no entry)",
        "y: float32 [8] -> out.npy",
    ]


def test_text_output_says_when_a_result_is_not_written(run_saxpy_here: RunChild) -> None:
    assert run_saxpy_here().stdout.splitlines()[-1] == "y: float32 [8] -> not written (no --out)"


def test_json_output_is_one_document_with_device_cache_and_outputs(
    run_saxpy_here: RunChild, physical_device: PhysicalDevice
) -> None:
    found = json.loads(run_saxpy_here("--out", "y=out.npy", "--json").stdout)
    key, layer = found["cache"].pop("key"), found.pop("layer")
    assert (found, len(bytes.fromhex(key)), list(layer)) == (
        {
            "schema": 1,
            "device": physical_device.name,
            "device_type": physical_device.device_type.name.lower(),
            "is_software": physical_device.is_software,
            "driver": f"{physical_device.driver_name} {physical_device.driver_info}".strip(),
            "api_version": physical_device.api,
            "backend": "kompute kp-0.9.0",
            "cache": {"verdict": "MISS", "reason": "no entry"},
            "outputs": {"y": {"dtype": "float32", "shape": [8], "file": "out.npy"}},
        },
        32,
        ["features", "counters"],
    )


def test_the_second_process_has_a_hit(run_saxpy: RunChild) -> None:
    verdicts = [json.loads(run_saxpy("--json").stdout)["cache"]["verdict"] for _ in range(2)]
    assert verdicts == ["MISS", "HIT"]


def test_count_starts_a_buffer_with_zeros(run_here: RunChild, work: Path) -> None:
    done = run_here("run", "saxpy.spv", *X_AND_PUSH, "--count", "y=8", "--out", "y=out.npy")
    assert done.complaint == []
    np.testing.assert_array_equal(np.load(work / "out.npy"), EXPECTED - 1, strict=True)


def test_constants_vectors_and_several_outputs_reach_the_files(run_here: RunChild, work: Path) -> None:
    (work / "fill.comp").write_text(FILL)
    given = ("--spec", "STEP=-3", "--push", "start=0x10,-2", "--count", "y=4")
    run_here("run", "fill.comp", *given, "--out", "y=y.bin", "--out", "z=z.npy")
    found = np.fromfile(work / "y.bin", np.int32).tolist(), np.load(work / "z.npy").tolist()
    assert found == ([16, 13, 10, 7], [-2, -2])


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("--workgroups=1", 64),
        ("--workgroups=2,1,1", 128),
        ("--workgroups=auto", 200),
        ("--invocations=65", 128),
        ("--invocations=128,1", 128),
        ("--invocations=0", 0),
    ],
)
def test_workgroups_and_invocations_set_the_grid(run_here: RunChild, work: Path, given: str, written: int) -> None:
    (work / "fill.comp").write_text(FILL)
    run_here("run", "fill.comp", "--push", "start=1,1", "--count", "y=200", given, "--out", "y=y.bin")
    assert int((np.fromfile(work / "y.bin", np.int32) != 0).sum()) == written


def test_the_time_is_that_of_the_grid_and_nothing_is_not_timed(run_here: RunChild, work: Path) -> None:
    (work / "fill.comp").write_text(FILL)
    given = ("run", "fill.comp", "--push", "start=1,1", "--count", "y=200", "--time=2", "--out", "y=y.bin")
    assert run_here(*given, "--invocations", "200").status == 0
    done = run_here(*given, "--invocations", "0")
    assert (done.status, done.complaint[-1:]) == (
        2,
        [
            (
                "vyre-driver: error 2201: --time has nothing to time: there are 0 invocations, or a buffer has no elements. "
                "Fix: leave --time out."
            )
        ],
    )


def test_an_existing_output_is_replaced(run_saxpy_here: RunChild, work: Path) -> None:
    (work / "out.npy").write_bytes(b"old")
    run_saxpy_here("--out", "y=out.npy")
    np.testing.assert_array_equal(np.load(work / "out.npy"), EXPECTED, strict=True)


def test_a_file_may_be_input_and_output(run_saxpy_here: RunChild, work: Path) -> None:
    run_saxpy_here("--out", "y=y.npy")
    np.testing.assert_array_equal(np.load(work / "y.npy"), EXPECTED, strict=True)


def test_only_the_outputs_are_left_in_the_directory(run_saxpy_here: RunChild, work: Path) -> None:
    before = names(work)
    run_saxpy_here("--out", "y=out.npy")
    assert names(work) - before == {"out.npy"}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("--workgroups", "1,1,LIMIT"),
            (
                "2104: the grid has LIMIT workgroups along z, and the device allows BELOW. "
                "Fix: start fewer workgroups, and let an invocation do several elements."
            ),
        ),
        (
            ("--workgroups", "0"),
            "2201: workgroups is (0,), which is not 1 to 3 numbers of at least 1. Fix: give workgroups=(x, y, z).",
        ),
        (
            ("--push", "beta=1"),
            "2103: the shader has no push constant 'beta'. Fix: give only what it declares: 'alpha', 'count'.",
        ),
        (
            ("--spec", "SIZE=1"),
            (
                "2102: the shader has no specialization constant 'SIZE'; it has none. "
                "Fix: give only constants that the shader declares."
            ),
        ),
    ],
    ids=["over the limit of workgroups", "no workgroups", "unknown push constant", "unknown constant"],
)
def test_what_only_the_device_can_judge_leaves_an_existing_output_as_it_was(
    refused_here: Refused, work: Path, physical_device: PhysicalDevice, arguments: tuple[str, ...], line: str
) -> None:
    (work / "out.npy").write_bytes(b"old")
    below = physical_device.limits.max_compute_work_group_count[2]
    filled = [text.replace("LIMIT", str(below + 1)).replace("BELOW", str(below)) for text in (line, *arguments)]
    given = ("run", "saxpy.spv", *X_AND_PUSH, "--in", "y=y.npy", "--out", "y=out.npy")
    assert refused_here(*given, *filled[1:]) == filled[0]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            ("--push", "alpha=2"),
            "2103: push constant 'count' (u32) was not given. Fix: give it, for example count=1, or --push count=1.",
        ),
        (
            ("--push", "alpha=2", "--push", "count=-1"),
            "2103: push constant 'count' is u32, and -1 is not between 0 and 4294967295. Fix: give u32.",
        ),
        (
            ("--push", "alpha=1,2", "--push", "count=8"),
            "2103: push constant 'alpha' is f32 and got 2 value(s). Fix: give 1 value(s).",
        ),
        (
            ("--push", "alpha=1e300", "--push", "count=8"),
            "2103: push constant 'alpha' is f32, and float too large to pack with f format. Fix: give f32.",
        ),
    ],
    ids=["missing", "out of range", "too many values", "too large"],
)
def test_a_push_constant_that_does_not_fit_is_refused(refused_here: Refused, given: tuple[str, ...], line: str) -> None:
    assert refused_here("run", "saxpy.spv", "--in", "x=x.npy", "--in", "y=y.npy", *given) == line


def test_a_npy_file_of_another_type_is_refused(refused_here: Refused, work: Path) -> None:
    np.save(work / "x.npy", np.arange(8))
    assert refused_here("run", "saxpy.spv", *X_AND_PUSH, "--in", "y=y.npy") == (
        "2201: input 'x' holds float32 and got an array of int64. Fix: convert it with .astype(numpy.float32)."
    )


@pytest.mark.parametrize("name", ["full", "full.npy"])
def test_a_full_disk_is_told(refused_here: Refused, work: Path, name: str) -> None:
    (work / name).symlink_to("/dev/full")
    assert refused_here("run", "saxpy.spv", *X_AND_PUSH, "--in", "y=y.npy", "--out", f"y={name}") == (
        f"2202: cannot write {name} (No space left on device). Fix: free some space, or name a file on another disk."
    )


AT_ONCE = pytest.mark.parametrize("at_once", [None, "1"], ids=["when it ends", "at once"])


@AT_ONCE
def test_a_full_disk_behind_stdout_is_told_without_a_traceback(run_cli: RunChild, at_once: str | None) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123 -- a device
        done = run_cli("devices", stdout=full, env={"PYTHONUNBUFFERED": at_once})
    line = "vyre-driver: error 2202: cannot write standard output (No space left on device). Fix: free some space."
    assert (done.status, done.complaint) == (2, [line])


@AT_ONCE
def test_a_reader_that_has_gone_ends_it_quietly(run_cli: RunChild, at_once: str | None) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = run_cli("devices", stdout=writing, env={"PYTHONUNBUFFERED": at_once})
    os.close(writing)
    assert (done.status, done.complaint) == (1, [])


def test_piping_into_head_prints_no_traceback() -> None:
    program = f"{sys.executable} -m vyre_driver devices | head -c 1"
    done = subprocess.run(["/bin/sh", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (0, "0", False)


@pytest.mark.parametrize("verb", ["devices", "devices --json", "completion bash"])
def test_a_closed_stdout_prints_no_traceback(verb: str) -> None:
    program = f"{sys.executable} -m vyre_driver {verb} >&-"
    done = subprocess.run(["/bin/sh", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_an_interrupt_ends_it_with_130_and_leaves_no_file(work: Path) -> None:
    os.mkfifo(work / "x.fifo")
    (work / "out.npy").write_bytes(b"old")
    command = [sys.executable, "-m", "vyre_driver", "run", "saxpy.spv", "--in", "x=x.fifo", "--out", "y=out.npy"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # What runs the tests in the background may have left SIGINT ignored, and children inherit that.
    with subprocess.Popen(command, preexec_fn=heed_interrupts, **pipes) as child:  # noqa: PLW1509 -- no threads here
        writing = os.open(work / "x.fifo", os.O_WRONLY)  # returns when the child has opened it, and is inside its verb
        child.send_signal(signal.SIGINT)
        os.close(writing)
        stdout, stderr = child.communicate(timeout=60)
    found = (child.returncode, stdout, stderr, (work / "out.npy").read_bytes())
    assert found == (130, "", "vyre-driver: interrupted\n", b"old")


def test_names_in_square_brackets_are_no_markup(run_saxpy_here: RunChild, work: Path) -> None:
    blocked = work / "[bold]"
    blocked.write_bytes(b"")
    done = run_saxpy_here(env={"VYRE_CACHE_DIR": str(blocked / "[/x]")})
    reason = f"no entry (memory only: {blocked}/[/x] is not used, Not a directory)"
    assert (done.status, done.stdout.splitlines()[1]) == (0, f"cache: miss ({reason})")
