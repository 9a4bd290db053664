"""``vyre-driver run`` on pipes, on included shaders and on made-up numbers, and the time it takes."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from upstream_graphs import cases

from vyre_driver import Program
from vyre_driver.cli.run import input_array
from vyre_driver.spirv.shipped import shipped_module, shipped_names

if TYPE_CHECKING:
    from conftest import Refused, RunChild

    from vyre_driver.binding.plan import Binding

EXPECTED = 2 * np.arange(8, dtype=np.float32) + 1
PUSH = ("--push", "alpha=2", "--push", "count=8")
MADE = ("--in", "x=arange:8", "--in", "y=ones:8", *PUSH)
HALF = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) writeonly buffer Y { float y[]; };
void main() { if (gl_GlobalInvocationID.x % 2 == 0) y[gl_GlobalInvocationID.x] = 1.0; }
"""


POINTS = """#version 450
layout(local_size_x = 8, local_size_y = 8) in;
layout(binding = 0) buffer P { vec3 points[]; };
void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    if (at.x < 6 && at.y < 4) points[at.y * 6 + at.x] += 1.0;
}
"""


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def piped(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "vyre_driver", *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=False, timeout=60)


@pytest.mark.device
def test_an_array_comes_from_standard_input_and_the_result_goes_alone_to_standard_output(work: Path) -> None:
    before = {path.name for path in work.iterdir()}
    done = piped("run", "saxpy.spv", "--in", "x=-", "--in", "y=y.npy", *PUSH, "--out", "y=-", given=npy(EXPECTED - 1))
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(io.BytesIO(done.stdout)), 2 * EXPECTED - 1, strict=True)
    assert (b"\ny: float32 [8] -> -\n" in done.stderr, {path.name for path in work.iterdir()}) == (True, before)


@pytest.mark.device
@pytest.mark.usefixtures("work")
def test_the_report_goes_to_standard_error_as_json_too() -> None:
    done = piped("run", "saxpy", *MADE, "--out", "y=-", "--json")
    assert np.load(io.BytesIO(done.stdout)).tolist() == EXPECTED.tolist()
    assert json.loads(done.stderr[done.stderr.index(b"{") :])["outputs"]["y"]["file"] == "-"


@pytest.mark.device
@pytest.mark.parametrize("name", ["saxpy.comp", "saxpy.spv"])
def test_the_shader_comes_from_standard_input_as_text_or_as_words(work: Path, name: str) -> None:
    done = piped("run", "-", *MADE, "--out", "y=y.npy", given=(work / name).read_bytes())
    assert done.returncode == 0, done.stderr
    assert np.load(work / "y.npy").tolist() == EXPECTED.tolist()


def test_spirv_and_stub_read_a_shader_from_standard_input_of_either_byte_order(work: Path) -> None:
    words = np.frombuffer((work / "saxpy.spv").read_bytes(), np.uint32)
    shown = [piped("spirv", "-", given=code.tobytes()) for code in (words, words.byteswap())]
    assert (shown[0].stdout, shown[0].stdout.startswith(b"standard input: SPIR-V 1.")) == (shown[1].stdout, True)
    assert b"saxpy" not in piped("stub", "-", given=words.tobytes()).stdout
    assert {path.name for path in work.iterdir()} == {"saxpy.comp", "saxpy.spv", "x.npy", "y.npy"}


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize(
    ("arguments", "given", "problem"),
    [
        (("run", "saxpy", "--in", "x=-"), b"no numbers", "2202: standard input is not a .npy file (it does not begin as one)"),
        (("spirv", "-"), b"\xff\xfe", "2202: standard input is neither SPIR-V nor GLSL text ("),
        (("spirv", "-"), b"", "2302: standard input is empty. Fix: "),
        (("spirv", "-"), b"\x03\x02\x23\x07", "2101: standard input is not a valid SPIR-V module: "),
    ],
)
def test_what_cannot_be_used_of_standard_input_is_told(arguments: tuple[str, ...], given: bytes, problem: str) -> None:
    done = piped(*arguments, given=given)
    assert (done.returncode, done.stdout, problem in done.stderr.decode()) == (2, b"", True), done.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("run", "-", "--in", "x=-"),
            "2501: standard input is named 2 times. Fix: name it once, and give files for the rest.",
        ),
        (
            ("run", "saxpy.spv", "--out", "a=-", "--out", "b=-"),
            "2501: standard output is named 2 times. Fix: name it once, and give files for the rest.",
        ),
        (
            ("run", "saxpi"),
            (
                "2202: there is no file saxpi, and no included shader of that name. "
                "Fix: write saxpy, or one of vyre-driver run --list."
            ),
        ),
        (
            ("spirv", "zebra"),
            (
                "2202: there is no file zebra, and no included shader of that name. "
                "Fix: name a file, or one of vyre-driver run --list."
            ),
        ),
        (
            ("run", "saxpy", "--in", "x=random:0"),
            "2501: --in x=random:0 has no shape from 1 element up. Fix: write it as random:1000 or random:64x32.",
        ),
        (
            ("run", "saxpy", "--in", "x=zeros:65536x65536"),
            "2501: --in x=zeros:65536x65536 has 17179869184 bytes, and a buffer at most 4295032832. Fix: give a smaller shape.",
        ),
        (
            ("run", "saxpy", "--in", "x=ones:3:object"),
            "2501: 'object' in --in x=ones:3:object is no numeric type of numpy. Fix: write float32, uint8 or their like.",
        ),
        (
            ("run", "copy_words", "--in", "from=zeros:3"),
            (
                "2501: --in from=zeros:3 has no type, and the shader's buffer tells none. "
                "Fix: add one, as in random:1000:uint8, or give a file: the elements of 'from' are no plain numbers."
            ),
        ),
        (
            ("run", "--time", "saxpy"),
            (
                "2501: the command line is wrong: argument --time: 'saxpy' is no number of runs: write --time=N, or "
                "--time behind the shader. Fix: see vyre-driver run --help."
            ),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_meant_is_refused(refused_here: Refused, arguments: tuple[str, ...], line: str) -> None:
    assert refused_here(*arguments) == line


@pytest.mark.device
def test_no_array_goes_to_a_terminal() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "vyre_driver", "run", "saxpy", *MADE, "--out", "y=-"]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(theirs)
    os.close(ours)
    assert (done.returncode, b"standard output, which is a terminal. Fix: send it into" in done.stderr) == (2, True)


def test_no_array_comes_from_a_terminal() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "vyre_driver", "run", "saxpy", "--in", "x=-"]
    done = subprocess.run(command, stdin=theirs, capture_output=True, check=False)
    os.close(theirs)
    os.close(ours)
    assert (done.returncode, b"standard input, which is a terminal. Fix: pipe a .npy file" in done.stderr) == (2, True)


@pytest.mark.device
@pytest.mark.parametrize(("device", "status"), [("/dev/full", 2), ("closed", 2)])
def test_an_output_that_cannot_be_written_is_an_error(device: str, status: int) -> None:
    command = [sys.executable, "-m", "vyre_driver", "run", "saxpy", *MADE, "--out", "y=-"]
    redirected = ">&-" if device == "closed" else f"> {device}"
    done = subprocess.run(["/bin/sh", "-c", f'"$@" {redirected}', "sh", *command], stderr=subprocess.PIPE, check=False)
    assert (done.returncode, b"error 2202: cannot write standard output (" in done.stderr) == (status, True), done.stderr


@pytest.mark.parametrize("arguments", ["--help", "cache --help", "cache export --help", "--version", "--includes"])
def test_a_text_that_cannot_be_written_is_an_error(arguments: str) -> None:
    command = ["/bin/sh", "-c", f'"$0" -m vyre_driver {arguments} > /dev/full', sys.executable]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    line = "vyre-driver: error 2202: cannot write standard output (No space left on device). Fix: free some space.\n"
    assert (done.returncode, done.stderr) == (2, line)


@pytest.mark.device
def test_an_included_shader_needs_no_file(run_here: RunChild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_here("run", "saxpy", *MADE, "--out", "y=out.npy")
    assert (done.status, np.load("out.npy").tolist()) == (0, EXPECTED.tolist())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("spirv", "./-"), "2202: cannot read - (No such file or directory). Fix: name a GLSL text file."),
        (("spirv", "./saxpy"), "2202: cannot read saxpy (No such file or directory). Fix: name a GLSL text file."),
        (("run", "saxpy", "--in", "x=./-"), "2202: cannot read - (No such file or directory). Fix: name a readable file."),
    ],
    ids=["shader", "included", "input"],
)
def test_what_has_a_directory_is_a_file(refused_here: Refused, arguments: tuple[str, ...], line: str) -> None:
    assert refused_here(*arguments) == line


def test_a_file_goes_before_an_included_shader(refused_here: Refused, work: Path) -> None:
    (work / "saxpy").write_text("#version 450\nnonsense\n")
    assert refused_here("spirv", "saxpy").startswith("2302: saxpy does not compile")


def test_the_list_has_every_included_shader(run_here: RunChild) -> None:
    lines = run_here("run", "--list").stdout.splitlines()
    found = json.loads(run_here("run", "--list", "--json").stdout)["shaders"]
    assert [one["signature"] for one in found] == lines
    assert [one["name"] for one in found] == [line.partition("(")[0] for line in lines] == list(shipped_names())
    assert "saxpy(x: f32[n] in, y: f32[n] inout; push: alpha f32, count u32)" in lines


def binding_of(shader: str, name: str) -> Binding:
    from vyre_driver.binding import BindingPlan

    plan = BindingPlan.from_reflection(shipped_module(shader).reflection)
    return next(one for one in plan.bindings if one.name == name)


def test_made_up_numbers_have_the_shape_and_type_that_are_asked_for_and_are_the_same_each_time() -> None:
    x, y, words = binding_of("saxpy", "x"), binding_of("saxpy", "y"), binding_of("byte_histogram", "words")
    made = input_array("random:3x5", x)
    assert (made.shape, made.dtype, bool(((made >= 0) & (made < 1)).all())) == ((3, 5), np.float32, True)
    np.testing.assert_array_equal(made, input_array("random:3x5", x))
    assert not np.array_equal(made, input_array("random:3x5", y))
    large = input_array("random:10000", words)
    assert (large.dtype, bool((large > 2**31).any()), bool((large < 2**31).any())) == (np.uint32, True, True)
    assert input_array("random:4:float16", x).dtype == np.float16
    assert input_array("random:4:float64", x).dtype == np.float64
    assert input_array("arange:2x3", words).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert input_array("arange:300:uint8", x)[-1] == 299 - 256
    assert (input_array("ones:2", x).tolist(), input_array("zeros:2:int8", x).dtype) == ([1.0, 1.0], np.int8)


@pytest.mark.usefixtures("work")
def test_a_file_of_such_a_name_is_named_by_its_directory() -> None:
    np.save("random:8", np.ones(2, np.float32))
    Path("random:8.npy").rename("random:8")
    assert input_array("./random:8", binding_of("byte_histogram", "words")).nbytes == Path("random:8").stat().st_size


@pytest.mark.device
def test_the_time_of_so_many_runs_is_told(run_here: RunChild) -> None:
    done = run_here("run", "saxpy", *MADE, "--time=5")
    assert done.stdout.splitlines()[-3] == "time: 5 runs, 96 bytes in and out"
    assert [line.partition(": median ")[0] for line in done.stdout.splitlines()[-2:]] == ["  whole call", "  on the device"]


@pytest.mark.device
@pytest.mark.parametrize("shape", ["4x6x3", "4x6x4:float32"])
def test_the_time_is_that_of_values_as_the_shader_lays_them_out(run_here: RunChild, work: Path, shape: str) -> None:
    (work / "points.comp").write_text(POINTS, "utf-8")
    done = run_here("run", "points.comp", "--in", f"points=random:{shape}", "--time=2", "--out", "points=points.npy")
    assert (done.status, done.stdout.splitlines()[-3].partition(",")[0]) == (0, "time: 2 runs"), done.stderr
    found = np.load(work / "points.npy")
    assert (found.shape, (found[..., :3] >= 1).all()) == (tuple(map(int, shape.partition(":")[0].split("x"))), True)


@pytest.mark.device
def test_the_time_is_data_with_json_and_the_result_that_of_one_run(run_here: RunChild, work: Path) -> None:
    done = run_here("run", "saxpy", "--time", *MADE, "--json", "--out", "y=y.npy")
    found = json.loads(done.stdout)["time"]
    assert (found["runs"] >= 3, found["bytes"], list(found)) == (True, 96, ["runs", "bytes", "call", "device"])
    for one in (found["call"], found["device"]):
        assert 0 < one["min_ns"] <= one["median_ns"]
        assert one["bytes_per_s"] == pytest.approx(96e9 / one["median_ns"], rel=0.01)
    assert np.load(work / "y.npy").tolist() == EXPECTED.tolist()


@pytest.mark.device
def test_strict_finds_what_was_left_unwritten(run_here: RunChild, work: Path) -> None:
    (work / "half.comp").write_text(HALF)
    done = [run_here("run", "half.comp", "--count", "y=64", *more) for more in ((), ("--strict",))]
    assert [one.status for one in done] == [0, 2]
    assert "error 2008: " in done[1].complaint[0]


CASE = cases()["bin_Add"]
WIRE = CASE.bytes_of["program"]
OUTPUT = (CASE.outputs or {})["out"]


@pytest.fixture
def program(work: Path) -> Path:
    """A file with the program, beside its input ``words.npy``."""
    path = work / "program.vyre"
    path.write_bytes(WIRE)
    np.save(work / "words.npy", CASE.arrays(Program.from_wire(WIRE))["x"])
    return path


@pytest.mark.device
@pytest.mark.usefixtures("program")
def test_a_program_of_upstream_runs_with_the_result_of_its_oracle(run_here: RunChild, work: Path) -> None:
    run_here("run", "program.vyre", "--in", "x=words.npy", "--out", "out=out.npy")
    assert np.load(work / "out.npy").tobytes() == OUTPUT


@pytest.mark.device
def test_a_program_is_read_from_standard_input(run_cli: RunChild, program: Path, work: Path) -> None:
    with program.open("rb") as file:
        done = run_cli("run", "-", "--in", "x=words.npy", "--out", "out=out.bin", stdin=file)
    assert (done.status, done.complaint) == (0, [])
    assert (work / "out.bin").read_bytes() == OUTPUT


@pytest.mark.usefixtures("program")
def test_what_does_not_fit_a_program_is_refused(refused_here: Refused, work: Path) -> None:
    (work / "cut.vyre").write_bytes(WIRE[:-1])
    messages = {
        "entry": refused_here("run", "program.vyre", "--entry", "main"),
        "missing": refused_here("run", "program.vyre"),
        "no number": refused_here("run", "program.vyre", "--in", "x=words.npy", "--spec", "n=x"),
        "cut": refused_here("run", "cut.vyre"),
    }
    assert messages == {
        "entry": "2501: a program has no entry points, and --entry names one. Fix: leave --entry out.",
        "missing": "2201: the program has input 'x' at binding 0, and nothing was given for it. Fix: add --in x=FILE or "
        "--in x=random:N.",
        "no number": "2102: --spec n=x is no number. Fix: give a number, true or false.",
        "cut": "2105: the bytes are not a program in a wire format that is read: byte 8: its body does not have the digest "
        "that the header gives. Fix: write the program anew with to_wire().",
    }
