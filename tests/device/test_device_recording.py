"""What programs compile, written down by VYRE_CACHE_RECORD, and made ready elsewhere by ``vyre-driver cache warm``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from machines import X, given, use
from tuned_code import FEW, saxpy

from vyre_driver import Driver
from vyre_driver.autotune import AutotuneStore
from vyre_driver.cache import DiskPipelineCache
from vyre_driver.cli import main
from vyre_driver.errors import InvalidSetting
from vyre_driver.lang import In, Index, InOut, f32, kernel
from vyre_driver.lowering.recorded import read_recording
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.target.config import DispatchConfig, ProgramConfig

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild
    from machines import Machines

pytestmark = [pytest.mark.device, pytest.mark.cold_mesa]

MANY = """
import sys
from vyre_driver import Driver
from vyre_driver.spirv.shipped import shipped_module
with Driver() as driver:
    for rounds in range(int(sys.argv[1]), int(sys.argv[1]) + 40):
        driver.compile(shipped_module("mandelbrot"), {"MAX_ITERATIONS": rounds})
        if rounds == int(sys.argv[1]):
            print("compiles", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VYRE_CACHE_RECORD", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def warm(capsys: pytest.CaptureFixture[str], file: Path) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    status = main(["cache", "warm", str(file), "--json"])
    return status, json.loads(capsys.readouterr().out)


def told(**counts: int) -> dict[str, Any]:
    return {"schema": 1, "known": 0, "taken": 0, "compiled": 0, "kept": True, "left_out": [], **counts}


@kernel
def doubled(i: Index, x: In[f32], y: InOut[f32]) -> None:
    y[i] = x[i] * 2.0


def test_every_way_of_compiling_is_recorded_once_and_gives_the_same_key_again(record: Path) -> None:
    lines = ((("root", ("saxpy.py", 3, 5))),)
    configs = [
        None,
        DispatchConfig(ulp_budget=2),
        DispatchConfig(workgroup_override=(128, 1, 1)),
        ProgramConfig(floats="fast", lines=lines),
    ]
    with Driver() as driver:
        for _ in range(2):
            kernels = [driver.compile(saxpy(), config=config) for config in configs]
            kernels += [
                driver.compile(shipped_module("saxpy")),
                driver.compile(shipped_module("mandelbrot"), {"MAX_ITERATIONS": 7}),
            ]
        recording = read_recording(record.read_bytes())
        again = [driver.compile(one.code, one.constants, one.config) for one in recording.kernels]
        assert ([one.trace.key for one in again], recording.left_out) == ([one.trace.key for one in kernels], ())
        assert record.read_bytes().count(b"\n") == len(kernels)
    assert record.stat().st_mode & 0o777 == 0o600


def test_a_kernel_in_python_is_recorded_as_the_program_that_it_gave_with_its_lines(record: Path, tmp_path: Path) -> None:
    cache = DiskPipelineCache(tmp_path / "cache")
    y = np.zeros(4, np.float32)
    with Driver(cache=cache) as driver:
        doubled.on(driver)(np.ones(4, np.float32), y)
        (one,) = read_recording(record.read_bytes()).kernels
        assert [driver.compile(one.code, one.constants, one.config).trace.key] == [entry.key for entry in cache.entries()]
    assert y.tolist() == [2.0] * 4


@pytest.mark.redis
def test_a_recording_makes_a_machine_ready_that_has_nothing_and_others_take_what_it_compiled(
    machines: Machines, witness: Path, record: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.be("developer")
    use()
    with Driver() as driver:
        driver.compile(saxpy())
    monkeypatch.delenv("VYRE_CACHE_RECORD")
    given(witness)
    machines.be("builder", signs=True)
    assert warm(capsys, record) == (0, told(kernels=2, compiled=2))
    assert (len(machines.names()), given(witness)) == (2, [0, 0])
    machines.be("reader")
    assert warm(capsys, record) == (0, told(kernels=2, taken=2))
    assert warm(capsys, record) == (0, told(kernels=2, known=2))
    machines.server.stop()
    assert (use()[0].verdict.name, min(given(witness)) > 0) == ("HIT", True)


def test_of_a_device_that_gives_no_code_away_the_command_says_so(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Driver() as driver:
        driver.compile(shipped_module("saxpy"))(X, X, push_constants={"alpha": 2, "count": 100})
        if driver.cache.usage().raw_blobs or any(one.header.native_bytes for one in driver.cache.entries()):
            pytest.skip("this device gives compiled code away")
    said = "this device's driver gives no compiled code away: each process will compile anew\n"
    assert (main(["cache", "warm", str(record)]), *capsys.readouterr()) == (
        0,
        "1 kernel ready: 0 known, 0 taken, 1 compiled\n",
        said,
    )


def test_what_is_only_tried_while_tuning_is_not_recorded(record: Path) -> None:
    with Driver(autotune=AutotuneStore()) as driver:
        driver.tune(saxpy(), budget=FEW)
        assert record.read_bytes() == b""
        driver.compile(saxpy(), config=DispatchConfig(workgroup_override=(128, 1, 1)))
        assert len(read_recording(record.read_bytes()).kernels) == 1


def test_processes_record_into_one_file_and_one_that_is_killed_leaves_it_readable(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = [[sys.executable, "-c", MANY, str(first)] for first in (1, 21)]
    with (
        subprocess.Popen(commands[0], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8") as whole,
        subprocess.Popen(commands[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as killed,
    ):
        said = [one.stdout.readline() for one in (whole, killed) if one.stdout is not None]
        killed.kill()
    assert (said, whole.returncode, killed.returncode) == (["compiles\n"] * 2, 0, -9)
    torn = len(read_recording(record.read_bytes()).left_out)  # 1 if the process was killed while the kernel wrote its line
    at_the_end = torn == 1 and not record.read_bytes().endswith(b"\n")
    left_out = 1 + torn - at_the_end
    with record.open("ab") as file:
        file.write(b'{"recording":1,"mod')  # as of one that was killed within a line
    with Driver() as driver:
        driver.compile(shipped_module("saxpy"))
    recording = read_recording(record.read_bytes())
    rounds = sorted(value.value for one in recording.kernels for name, value in one.constants if name == "MAX_ITERATIONS")
    assert (torn <= 1, rounds[:40], len(recording.left_out), recording.kernels[-1].name) == (
        True,
        list(range(1, 41)),
        left_out,
        "saxpy.spv",
    )
    status, found = warm(capsys, record)
    assert (status, found["kernels"], [one["reason"] for one in found["left_out"]]) == (
        1,
        len(recording.kernels),
        ["it is not a whole line of a recording"] * left_out,
    )


def test_a_file_that_cannot_be_written_is_refused_when_the_driver_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("nowhere/kernels", "pipe"):
        monkeypatch.setenv("VYRE_CACHE_RECORD", str(tmp_path / name))
        with pytest.raises(
            InvalidSetting, match=r"which cannot be written \(.*Fix: set VYRE_CACHE_RECORD to a file in a folder"
        ):
            Driver()


def test_where_a_file_takes_no_more_compiling_goes_on_with_one_warning(
    record: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("vyre_driver.lowering.recorded.MAX_FILE_BYTES", 10)
    with Driver() as driver:
        for name in ("saxpy", "fill_words"):
            driver.compile(shipped_module(name))
    assert (caplog.messages, record.read_bytes()) == ([f"kernels are not written down in {record}: File too large"], b"")


def test_a_device_without_end_is_not_read_and_compiling_goes_on(run_python: RunChild) -> None:
    code = "import logging\nfrom vyre_driver import Driver\nfrom vyre_driver.spirv.shipped import shipped_module\n"
    code += "logging.basicConfig(format='%(message)s')\n"
    done = run_python("-c", code + "Driver().compile(shipped_module('saxpy'))\n", env={"VYRE_CACHE_RECORD": "/dev/full"})
    assert (done.status, done.stderr) == (0, "kernels are not written down in /dev/full: No space left on device\n")
