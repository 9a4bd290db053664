"""What is refused before a device is opened: exit status 2, one line that says what and what to do, and no file left.

With --json the line is one JSON object. What names and messages hold reaches a terminal as text: nothing in it is obeyed, and
no encoding ends a verb.
"""

from __future__ import annotations

import ast
import io
import json
import math
import os
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver import cli
from vyre_driver.autotune import AutotuneWarning
from vyre_driver.cli import devices, main
from vyre_driver.cli.options import error_as_data, printable
from vyre_driver.cli.parser import VERBS
from vyre_driver.errors import FileUnusable, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Refused, RunChild

IN = ("--in", "x=x.npy", "--in", "y=y.npy")
PUSH = ("--push", "alpha=2", "--push", "count=8")
RUN = ("run", "saxpy.spv", *IN, *PUSH)
SAXPY = ("run", "saxpy", "--push", "count=12", "--push", "alpha=1")
X_ONLY = ("run", "saxpy.spv", "--in=x=x.npy", *PUSH)
REBUILD = "Fix: rebuild the shader with its compiler and pass the whole .spv file."
COUNT = "Fix: give an integer from 1 to 4294967295."
WORKGROUPS = "Fix: write --workgroups 64 or --workgroups 8,8,1."
INVOCATIONS = "Fix: write --invocations 64 or --invocations 8,8,1."
READABLE = "Fix: name a readable file."
NPY = "Fix: write it with numpy.save."


@pytest.fixture
def refused(refused_here: Refused) -> Refused:
    """In this process: nothing here needs another one, which takes half a second to start."""
    return refused_here


USAGE = "2501: the command line is wrong:"
NO_ENTRY = "2201: saxpy.spv has no compute entry point 'nope'; it has 'main'. Fix: name one of them."
NO_GLSL = "Fix: name a GLSL text file."
VALUE = "Fix: give 1 value(s), separated by commas."


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), f"{USAGE} the following arguments are required: VERB. Fix: see vyre-driver --help."),
        (("run",), f"{USAGE} the following arguments are required: SHADER. Fix: see vyre-driver run --help."),
        (("devices", "--nope"), f"{USAGE} unrecognized arguments: --nope. Fix: see vyre-driver devices --help."),
        (("run", "saxpy.spv", "--in"), f"{USAGE} argument --in: expected one argument. Fix: see vyre-driver run --help."),
        (("nope",), f"{USAGE} argument VERB: 'nope' is none of {', '.join(VERBS)}. Fix: see vyre-driver --help."),
        (("run", "saxpy.spv", "--entry", "nope"), NO_ENTRY),
        (("spirv", "saxpy.spv", "--entry", "nope"), NO_ENTRY),
        (("run", "missing.spv"), "2202: cannot read missing.spv (No such file or directory). Fix: name a .spv file."),
        (("run", "two\nlines.spv"), "2202: cannot read two\\nlines.spv (No such file or directory). Fix: name a .spv file."),
        (("run", "missing.comp"), f"2202: cannot read missing.comp (No such file or directory). {NO_GLSL}"),
        (("run", "."), f"2202: cannot read . (Is a directory). {NO_GLSL}"),
        ((*RUN, "--in", "x"), "2501: --in 'x' is not NAME=VALUE. Fix: write --in NAME=VALUE."),
        ((*RUN, "--out", "=x"), "2501: --out '=x' is not NAME=VALUE. Fix: write --out NAME=VALUE."),
        ((*RUN, "--in", "x=y.npy"), "2501: --in names 'x' twice. Fix: name it once."),
        ((*RUN, "--push", "alpha=3"), "2501: --push names 'alpha' twice. Fix: name it once."),
        ((*RUN, "--in", "z=x.npy"), "2201: --in names 'z', which is no such buffer of the shader. Fix: name one of x, y."),
        ((*RUN, "--out", "x=new.npy"), "2201: --out names 'x', which is no such buffer of the shader. Fix: name one of y."),
        ((*RUN, "--count", "x=8"), "2201: --count names 'x', which is no such buffer of the shader. Fix: name one of y."),
        ((*RUN, "--workgroups", "8,,1"), f"2501: --workgroups '8,,1' is not a list of integers. {WORKGROUPS}"),
        ((*RUN, "--workgroups", ""), f"2501: --workgroups '' is not a list of integers. {WORKGROUPS}"),
        ((*RUN, "--workgroups", "many"), f"2501: --workgroups 'many' is not a list of integers. {WORKGROUPS}"),
        ((*RUN, "--invocations", "8x8"), f"2501: --invocations '8x8' is not a list of integers. {INVOCATIONS}"),
        (
            (*RUN, "--invocations", "8", "--workgroups", "1"),
            f"{USAGE} argument --workgroups: not allowed with argument --invocations. Fix: see vyre-driver run --help.",
        ),
        ((*RUN, "--count", "y=8"), "2501: 'y' has both --in and --count. Fix: give one of them."),
        *(
            ((*X_ONLY, "--count", f"y={count}"), f"2501: --count y={count} is not a number of elements. {COUNT}")
            for count in ("0", "-1", "1.5", "", "many", "4294967296", "²", "9" * 5000)
        ),
        (
            ("run", "saxpy.spv", *IN, "--push", "alpha=much"),
            f"2103: --push alpha=much: 'alpha' is 1 x f32 (could not convert string to float: 'much'). {VALUE}",
        ),
        (
            ("run", "saxpy.spv", *IN, "--push", "count=1.5"),
            f"2103: --push count=1.5: 'count' is 1 x u32 (invalid literal for int() with base 0: '1.5'). {VALUE}",
        ),
        (
            ("run", "saxpy.spv", "--in=y=y.npy", *PUSH),
            (
                "2201: the shader has input 'x' at binding 0, and nothing was given for it. "
                "Fix: add --in x=FILE or --in x=random:N."
            ),
        ),
        (
            X_ONLY,
            (
                "2201: the shader has input_output 'y' at binding 1, and nothing was given for it. "
                "Fix: add --in y=FILE or --in y=random:N, or --count y=N to start it with zeros."
            ),
        ),
        (
            ("run", "saxpy.spv", "--in", "x=/dev/zero", "--in", "y=y.npy", *PUSH),
            "2202: cannot read /dev/zero (it is a device). Fix: name a file with data.",
        ),
        (
            (*SAXPY, "--in", "x=random:10", "--in", "y=random:12"),
            (
                "2201: x of saxpy has 10 elements, and --push count=12 has it read 12. "
                "Fix: give count the length of the shortest array, or x 12 elements."
            ),
        ),
        (
            (*SAXPY, "--in", "x=random:12", "--count", "y=10"),
            (
                "2201: y of saxpy has 10 elements, and --push count=12 has it read 12. "
                "Fix: give count the length of the shortest array, or y 12 elements."
            ),
        ),
        (
            ("kernel", "check", "/nowhere/nofile.py"),
            "2202: /nowhere/nofile.py does not exist. Fix: name a Python file that is there.",
        ),
        (("explain", "9999"), "2501: there is no error '9999'. Fix: see vyre-driver explain, which lists all."),
        (
            ("explain", "1050"),
            "2501: there is no error '1050'. Fix: write 1005 or 1007 or 1006, or see vyre-driver explain, which lists all.",
        ),
    ],
    ids=lambda value: " ".join(value)[:80] if isinstance(value, tuple) else "",
)
def test_what_cannot_be_meant_is_refused_in_one_line(refused: Refused, arguments: tuple[str, ...], line: str) -> None:
    assert refused(*arguments) == line


def test_a_specialization_constant_that_is_no_number_is_refused(refused: Refused, work: Path) -> None:
    (work / "sized.comp").write_text(
        "#version 450\nlayout(local_size_x = 64) in;\nlayout(constant_id = 0) const uint SIZE = 1;\n"
        "layout(binding = 0) writeonly buffer Y { uint y[1]; };\nvoid main() { y[0] = SIZE; }\n"
    )
    assert refused("run", "sized.comp", "--spec", "SIZE=big") == (
        "2102: --spec SIZE=big: 'SIZE' is a u32 (invalid literal for int() with base 0: 'big'). Fix: give a u32."
    )


def npy_bytes(header: bytes, body: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


def pickled() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    return file.getvalue()


def zipped() -> bytes:
    file = io.BytesIO()
    zipfile.ZipFile(file, "w").close()
    return file.getvalue()


HUGE = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000,), }\n"
LONG = b"{'descr': '<f4', 'fortran_order': False, 'shape': (8,), }" + b" " * 20000 + b"\n"


def test_a_npy_file_of_pickled_objects_is_refused_with_numpys_reason(refused: Refused, work: Path) -> None:
    (work / "bad.npy").write_bytes(pickled())
    assert refused("run", "saxpy.spv", "--in", "x=bad.npy", *PUSH) == (
        f"2202: bad.npy is not a .npy file (Object arrays cannot be loaded when allow_pickle=False). {NPY}"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"PK\x03\x04garbage",
        zipped(),
        npy_bytes(HUGE),
        npy_bytes(LONG, bytes(32)),
        npy_bytes(b"{"),
        npy_bytes(b"(" * 9000),
    ],
    ids=[
        "empty",
        "garbage",
        "half a zip file",
        "a zip file",
        "too large an array",
        "too long a header",
        "half a header",
        "a header too deep",
    ],
)
def test_a_file_that_is_no_npy_file_is_refused_in_one_line(refused: Refused, work: Path, content: bytes) -> None:
    (work / "bad.npy").write_bytes(content)
    line = refused("run", "saxpy.spv", "--in", "x=bad.npy", *PUSH)
    # The reason between them is numpy's, and its own from version to version.
    ends = line.startswith("2202: bad.npy is not a .npy file ("), line.endswith(f"). {NPY}")
    assert ends == (True, True), line


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("missing.npy", None, f"2202: cannot read missing.npy (No such file or directory). {READABLE}"),
        ("missing.bin", None, f"2202: cannot read missing.bin (No such file or directory). {READABLE}"),
        (".", None, f"2202: cannot read . (Is a directory). {READABLE}"),
        (
            "empty.bin",
            b"",
            "2201: input 'x' has 0 bytes, less than the 4 bytes of one element. Fix: pass at least one element.",
        ),
        (
            "odd.bin",
            b"12345",
            "2201: input 'x' has 5 bytes, which is not a whole number of 4-byte elements. Fix: pass whole elements.",
        ),
    ],
    ids=["missing .npy", "missing raw file", "directory", "empty raw file", "raw file of wrong size"],
)
def test_an_input_file_that_cannot_be_used_is_refused(
    refused: Refused, work: Path, name: str, content: bytes | None, line: str
) -> None:
    if content is not None:
        (work / name).write_bytes(content)
    assert refused("run", "saxpy.spv", "--in", f"x={name}", *PUSH) == line


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda _: b"", "it is empty"),
        (lambda _: b"abc", "it has 3 bytes, which is not a multiple of 4"),
        (lambda code: code[:-4], "its last function has no end, so the module was cut off"),
        (lambda code: code[:12], "it ends inside its five-word header"),
        (lambda _: b"#_ersion 450\nvoid maim() {}\n\n\n\n\n", "its first word is not the SPIR-V magic number 0x07230203"),
    ],
    ids=["empty", "odd", "without its end", "only half a header", "other text"],
)
def test_a_file_that_is_no_spirv_module_is_refused(
    refused: Refused, work: Path, change: Callable[[bytes], bytes], problem: str
) -> None:
    (work / "bad.spv").write_bytes(change((work / "saxpy.spv").read_bytes()))
    assert refused("run", "bad.spv", *IN, *PUSH) == f"2101: bad.spv is not a valid SPIR-V module: {problem}. {REBUILD}"


def test_a_shader_that_is_no_text_is_refused(refused: Refused, work: Path) -> None:
    (work / "binary.comp").write_bytes(b"\xff\xfe")
    line = refused("run", "binary.comp")
    assert line == (
        "2202: cannot read binary.comp (line 1 has the byte 0xff outside a comment, which is not UTF-8). "
        "Fix: name a GLSL text file, and save it as UTF-8."
    )


def test_a_syntax_error_is_told_with_the_compilers_line(refused: Refused, work: Path) -> None:
    (work / "bad.comp").write_text("#version 450\nlayout(local_size_x = 1) in;\nvoid main() { undeclared = 1; }\n")
    assert refused("run", "bad.comp") == (
        "2302: bad.comp does not compile: bad.comp:3: 'undeclared' : undeclared identifier; "
        "bad.comp:3: '' : compilation terminated. Fix: correct the source at the line named."
    )


@pytest.mark.usefixtures("system_tools_only")
def test_without_glslangvalidator_a_glsl_shader_is_refused(refused: Refused) -> None:
    assert refused("run", "saxpy.comp", *IN, *PUSH, env={"PATH": "/nonexistent"}) == (
        "2301: glslangValidator is not installed, and GLSL is compiled with it. "
        "Fix: pip install 'vyre-driver[glsl]', or install glslang-tools (Debian, Ubuntu), glslang (Fedora, Arch)."
    )


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing/out.npy", "No such file or directory"),
        ("saxpy.spv/out.npy", "Not a directory"),
        ("/proc/out.npy", "No such file or directory"),
        (".", "Is a directory"),
        ("", "Is a directory"),
    ],
    ids=["in a missing directory", "below a file", "where nothing can be made", "a directory", "no name"],
)
def test_an_output_that_cannot_be_made_is_refused(refused: Refused, path: str, reason: str) -> None:
    line = refused(*RUN, "--out", f"y={path}")
    assert line == f"2202: cannot write {path or '.'} ({reason}). Fix: name a file in a writable directory."


@pytest.mark.parametrize(
    ("variable", "value", "line"),
    [
        (
            "VYRE_ALLOW_SOFTWARE",
            "maybe",
            (
                "2401: VYRE_ALLOW_SOFTWARE is 'maybe', which is neither on nor off. "
                "Fix: set VYRE_ALLOW_SOFTWARE to 1 or 0, or unset it."
            ),
        ),
        (
            "VYRE_CACHE_DIR",
            "below/here",
            "2401: VYRE_CACHE_DIR is 'below/here', a relative path. Fix: set VYRE_CACHE_DIR to an absolute path.",
        ),
        (
            "VYRE_CACHE_DIR",
            "~nobody-of-this-name/cache",
            (
                "2401: VYRE_CACHE_DIR is '~nobody-of-this-name/cache', a relative path. "
                "Fix: set VYRE_CACHE_DIR to an absolute path."
            ),
        ),
        (
            "VYRE_CACHE_DISABLE",
            "2",
            "2401: VYRE_CACHE_DISABLE is '2', which is neither on nor off. Fix: set VYRE_CACHE_DISABLE to 1 or 0, or unset it.",
        ),
    ],
)
@pytest.mark.device
def test_a_variable_that_cannot_be_meant_is_refused(refused: Refused, variable: str, value: str, line: str) -> None:
    assert refused(*RUN, env={variable: value}) == line


def test_a_process_of_its_own_says_the_same(run_cli: RunChild, refused: Refused) -> None:
    arguments = ("run", "missing.spv")
    done = run_cli(*arguments)
    assert (done.status, done.stdout, done.stderr) == (2, "", f"vyre-driver: error {refused(*arguments)}\n")


def test_help_is_for_every_verb(run_here: RunChild) -> None:
    done = {verb: run_here(*verb, "--help") for verb in ((), ("devices",), ("run",), ("spirv",), ("stub",), ("demo",))}
    found = {verb: (child.status, child.stdout.split()[:2], child.stderr) for verb, child in done.items()}
    assert found == dict.fromkeys(done, (0, ["usage:", "vyre-driver"], ""))


def test_an_endless_shader_is_no_shader(refused: Refused, work: Path) -> None:
    (work / "endless.comp").symlink_to("/dev/zero")
    message = "2202: endless.comp is larger than 16777216 bytes. Fix: name a GLSL text file, not other data."
    assert refused("run", "endless.comp") == message


CODE, PATH = 2202, "missing.spv"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The only line that a refused command prints, on stderr, as data."""
    status = main(arguments)
    printed = capsys.readouterr()
    assert (status, printed.out, printed.err.count("\n")) == (2, "", 1)
    return dict(json.loads(printed.err))


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize("verb", ["run", "spirv", "stub"])
def test_an_error_has_code_name_problem_fix_and_attributes(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, verb, PATH, "--json") == {
        "schema": 1,
        "error": {
            "code": CODE,
            "name": "FileUnusable",
            "problem": "cannot read missing.spv (No such file or directory)",
            "fix": "name a .spv file",
            "attributes": {"path": PATH},
        },
    }


def test_a_usage_error_is_told_so_too(capsys: pytest.CaptureFixture[str]) -> None:
    found = [told(capsys, *line)["error"]["code"] for line in (("--json",), ("device", "--json"), ("run", "--json", "--nope"))]
    assert found == [2501, 2501, 2501]


def test_a_process_of_its_own_prints_the_same_line(run_cli: RunChild, work: Path) -> None:
    assert work.exists()
    done = run_cli("spirv", PATH, "--json")
    assert (done.status, done.stdout, json.loads(done.stderr)["error"]["code"]) == (2, "", CODE)


def test_a_warning_is_an_object_of_its_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def warn() -> tuple[()]:
        warnings.warn("two\nlines", AutotuneWarning, stacklevel=1)
        return ()

    monkeypatch.setattr(devices, "enumerate_devices", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["devices", "--json"]) == 0
    assert json.loads(capsys.readouterr().err) == {"schema": 1, "warning": "two\nlines"}


@pytest.mark.device
def test_the_error_of_a_child_of_demo_is_told_so_too(run_cli: RunChild) -> None:
    done = run_cli("demo", "--json", "--files", PATH)
    assert (done.status, done.stdout, json.loads(done.complaint[-1])["error"]["attributes"]) == (2, "", {"path": PATH})


def test_attributes_of_any_type_become_json(tmp_path: Path) -> None:
    error = InvalidInput("p", fix="f", a=(1, math.inf), b={2: tmp_path}, c=FileUnusable("q", fix="g"), d=None, e=[True, 0.5])
    found = json.loads(json.dumps(error_as_data(error), allow_nan=False))
    assert found["attributes"] == {"a": [1, "inf"], "b": {"2": str(tmp_path)}, "c": "q. Fix: g.", "d": None, "e": [True, 0.5]}


ESCAPE = "\x1b]0;owned\x07\x1b[31m\u202e"
ESCAPED = "\\x1b]0;owned\\x07\\x1b[31m\\u202e"


def test_only_what_a_terminal_might_obey_is_escaped() -> None:
    assert printable(f"\u00e9{ESCAPE}'\\ \udcff\r\n") == f"\u00e9{ESCAPED}'\\ \\udcff\\r\\n"


def test_an_error_shows_the_escapes_of_a_file_name_as_text(refused_here: Refused) -> None:
    assert refused_here("spirv", f"a{ESCAPE}.spv") == (
        f"2202: cannot read a{ESCAPED}.spv (No such file or directory). Fix: name a .spv file."
    )


def test_an_error_shows_the_escapes_of_a_source_as_text(refused_here: Refused, work: Path) -> None:
    (work / "loud.comp").write_text(f"#version 450\n#error {ESCAPE}\n")
    assert "\x1b" not in refused_here("run", "loud.comp")


@pytest.mark.device
def test_a_result_in_a_file_of_any_name_is_told_as_text(run_saxpy: RunChild, work: Path) -> None:
    names = [f"a{ESCAPE}.npy", os.fsdecode(b"\xff.npy"), "\u00e9.npy"]
    for name, shown in zip(names, [f"a{ESCAPED}.npy", "\\udcff.npy", "\\xe9.npy"], strict=True):
        done = run_saxpy("--out", f"y={name}", env={"PYTHONIOENCODING": "ascii:strict"})
        assert (done.status, (work / name).exists(), done.stdout.splitlines()[-1]) == (
            0,
            True,
            f"y: float32 [8] -> {shown}",
        ), done.stderr


def test_verbs_print_by_say() -> None:
    printing = {
        path.name
        for path in Path(cli.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert printing == {"options.py"}


NO_PLACE = """
import sys, tempfile
tempfile._candidate_tempdir_list = lambda: []
"""
RUNS_A_VERB = f"{NO_PLACE}from vyre_driver.cli import main\nsys.exit(main(sys.argv[1:]))"
ONE_PROCESS = """from vyre_driver.cli import demo
demo._PROCESSES, demo.JOBS = (1,), {name: demo.JOBS[name] for name in ("histogram", "mandelbrot")}
"""
OPENS = f"""{NO_PLACE}
from vyre_driver import Driver
Driver(allow_software=True, isolated=True).close()
print("opened")
"""


@pytest.mark.device
def test_an_isolated_driver_needs_no_temporary_directory(run_python: RunChild) -> None:
    ended = run_python("-c", OPENS)
    assert (ended.status, ended.stdout, ended.stderr) == (0, "opened\n", "")


@pytest.mark.device
@pytest.mark.thorough
def test_the_doctor_needs_no_temporary_directory(run_python: RunChild) -> None:
    checked = run_python("-c", RUNS_A_VERB, "doctor", env={"VYRE_ALLOW_SOFTWARE": "1"})
    assert ("verdict: " in checked.stdout, "error 2202" in checked.stderr) == (True, False)


@pytest.mark.device
def test_the_demo_needs_no_temporary_directory(run_python: RunChild, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"aaabbc")
    places = ("--files", str(tmp_path / "text"), "--out-dir", str(tmp_path))
    shown = run_python("-c", ONE_PROCESS + RUNS_A_VERB, "demo", *places)
    assert (shown.status, shown.stdout.count("WRONG")) == (0, 0), shown.stderr


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"),
            (
                "there is no directory for temporary files (No usable temporary directory found in ['/tmp']). "
                "Fix: make /tmp a directory that this user may write to, or set TMPDIR to one."
            ),
        ),
        (
            PermissionError(13, "Permission denied", "/some/file"),
            "the system refused a step: Permission denied (/some/file). Fix: correct what it names.",
        ),
        (
            OSError(28, "No space left on device"),
            "cannot write standard output (No space left on device). Fix: free some space.",
        ),
    ],
)
def test_only_a_failed_write_is_called_standard_output_s(
    error: OSError, says: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(_options: object) -> int:
        raise error

    monkeypatch.setattr("vyre_driver.cli.explain.run", refuse)
    monkeypatch.setattr("vyre_driver.cli._silence_stdout", lambda: None)
    assert (main(["explain"]), capfd.readouterr().err) == (2, f"vyre-driver: error 2202: {says}\n")


PRODUCT = ["--push", "m=4", "--push", "n=3", "--push", "k=5", "--push", "part=5"]
ROWS = ["--push", "rows=4", "--push", "columns=5"]
FEWER = "Fix: give smaller numbers, or"


@pytest.mark.parametrize(
    ("shader", "arrays", "push", "says"),
    [
        ("saxpy_vectors", {"xv": "10", "yv": "12"}, ["--push", "alpha=1", "--push", "count=12"], "xv of saxpy_vectors has 10"),
        ("reduce", {"x": "10:uint32"}, ["--push", "count=12"], "x of reduce has 10 elements, and --push count=12 has it"),
        (
            "matmul",
            {"a": "19", "b": "15"},
            PRODUCT,
            f"a of matmul has 19 elements, and --push m=4 and --push k=5 have it read 20. {FEWER} a 20 elements.",
        ),
        ("matmul_f16", {"a": "20:float16", "b": "14:float16"}, PRODUCT, "b of matmul_f16 has 14 elements, and --push k=5 and"),
        ("softmax", {"x": "19"}, ROWS, "x of softmax has 19 elements, and --push rows=4 and --push columns=5 have it"),
        ("rmsnorm", {"x": "20", "weight": "4"}, [*ROWS, "--push", "eps=0"], "weight of rmsnorm has 4 elements"),
    ],
)
def test_arrays_shorter_than_an_included_shader_reads_are_refused(
    shader: str, arrays: dict[str, str], push: list[str], says: str, run_here: RunChild
) -> None:
    inputs = [word for name, shape in arrays.items() for word in ("--in", f"{name}=ones:{shape}")]
    outputs = {"saxpy_vectors": "sumsv", "reduce": "results", "matmul": "c", "matmul_f16": "c"}
    ended = run_here("run", shader, *inputs, "--count", f"{outputs.get(shader, 'y')}=20", *push)
    assert (ended.status, ended.stdout, ended.stderr.startswith(f"vyre-driver: error 2201: {says}")) == (2, "", True)


@pytest.mark.device
def test_arrays_as_long_as_an_included_shader_reads_are_taken(run_here: RunChild) -> None:
    words = ["run", "matmul", "--in", "a=ones:4x5", "--in", "b=ones:5x3", "--count", "c=12", *PRODUCT]
    words += ["--workgroups", "1", "--allow-software"]
    ended = run_here(*words)
    assert (ended.status, ended.stderr) == (0, "")


@pytest.mark.device
def test_a_file_that_is_called_as_an_included_shader_is_read_as_it_is(
    run_here: RunChild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "saxpy").write_text("""#version 450
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Push { uint count; };
void main() { y[0] = x[0] + float(count); }
""")
    monkeypatch.chdir(tmp_path)
    words = ["run", "saxpy", "--in", "x=ones:1", "--count", "y=1", "--push", "count=12"]
    words += ["--workgroups", "1", "--allow-software"]
    ended = run_here(*words)
    assert (ended.status, ended.stderr) == (0, "")
