"""Others in the process: they use Vulkan without our hooks, and read an environment that is as they left it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from vyre_driver import Driver
from vyre_driver.errors import DispatchFailed
from vyre_driver.kompute import device as kompute_device
from vyre_driver.kompute._kp import load_kompute

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

pytestmark = pytest.mark.device


@pytest.fixture
def stranger(tmp_path: Path, children: Path) -> Path:
    """A library that uses Vulkan on its own."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("not installed: cc")
    library = tmp_path / "stranger.so"
    command = [str(compiler), "-shared", "-fPIC", "-O1", str(children / "stranger.c"), "-l:libvulkan.so.1", "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def test_another_user_of_vulkan_in_the_process_is_left_alone(run_python: RunChild, children: Path, stranger: Path) -> None:
    done = run_python(str(children / "beside.py"), str(stranger))
    assert (done.status, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "alone": 0,
        "right before": True,
        "beside a driver": 0,
        "under the layer": 0,
        "while a driver is made": 0,
        "a device for the driver": False,
        "while our calls fail": 0,
        "failure": None,
        "counters moved": False,
        "right after": True,
    }


C_ENVIRONMENT = """
import json, os, sys
from vyre_driver import Driver, VyreError
def seen_by_a_child():
    import subprocess
    return subprocess.run(["/usr/bin/env", "-0"], stdout=subprocess.PIPE, check=True).stdout
before, python_before = seen_by_a_child(), dict(os.environ)
outcome = []
for device in (None, "name:no such device"):
    try:
        Driver(device).close()
        outcome.append("made")
    except VyreError as error:
        outcome.append(type(error).__name__)
after = seen_by_a_child()
print(json.dumps([outcome, sorted(before.split(b"\\0")) == sorted(after.split(b"\\0")), dict(os.environ) == python_before]))
"""


@pytest.mark.parametrize(
    "set_before",
    [
        {"VK_ADD_LAYER_PATH": None, "VK_LAYER_PATH": None, "VK_INSTANCE_LAYERS": None},
        {"VK_ADD_LAYER_PATH": "", "VK_LAYER_PATH": "", "VK_INSTANCE_LAYERS": ""},
        {"VK_ADD_LAYER_PATH": "/nowhere:/at all", "VK_INSTANCE_LAYERS": None, "VK_LAYER_PATH": None},
        {"VK_LAYER_PATH": "/nowhere", "VK_ADD_LAYER_PATH": "/\udcff", "VK_INSTANCE_LAYERS": None},
    ],
    ids=["unset", "empty", "a path", "two paths"],
)
def test_the_environment_is_byte_for_byte_as_before(run_python: RunChild, set_before: dict[str, str | None]) -> None:
    done = run_python("-c", C_ENVIRONMENT, env=set_before)
    assert (done.status, json.loads(done.stdout)) == (0, [["made", "DeviceNotFound"], True, True]), done.stderr


# Which other layers are active depends on the machine.
COULD_NOT_OPEN = (
    r"^kompute cannot open '.*' \(no\)(; other Vulkan layers are active, which may have refused it: [\w, ]+)?\. Fix: "
)


def test_the_environment_is_as_before_when_kompute_cannot_open_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes | None] = []

    def refuse(*_: object) -> None:
        seen.append(kompute_device._layer.environment_variable(b"VK_INSTANCE_LAYERS"))  # noqa: SLF001 -- the C side
        raise RuntimeError("no")

    before = dict(os.environ)
    monkeypatch.setattr(kompute_device, "load_kompute", lambda: type("Api", (), {"manager": staticmethod(refuse)}))
    with pytest.raises(DispatchFailed, match=COULD_NOT_OPEN):
        Driver()
    after = kompute_device._layer.environment_variable(b"VK_INSTANCE_LAYERS")  # noqa: SLF001
    assert (seen, after, dict(os.environ)) == ([b"VK_LAYER_VYRE_driver"], None, before)


def test_another_thread_finds_the_environment_whole_while_drivers_are_made() -> None:
    """It copies the environment for a child process, again and again, which fails if a variable comes and goes."""
    load_kompute()
    before, stop = dict(os.environ), threading.Event()
    found: list[bool] = []

    def read() -> None:
        while not stop.is_set():
            found.append(dict(os.environ) == before)

    reader = threading.Thread(target=read)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    reader.start()
    try:
        for _ in range(5):
            Driver().close()
    finally:
        stop.set()
        reader.join()
        sys.setswitchinterval(interval)
    assert (set(found), dict(os.environ) == before) == ({True}, True)


def test_another_vulkan_driver_costs_no_key_of_the_process_each_time_and_may_know_more_functions(
    run_python: RunChild, children: Path, tmp_path: Path
) -> None:
    """A process has 1,024 thread-specific keys, and other libraries abort when none is left."""
    library, manifest = tmp_path / "driver.so", tmp_path / "driver.json"
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("not installed: cc")
    source = children / "driver_without_devices.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Werror", str(source), "-o", str(library)], check=True)
    icd = {"library_path": str(library), "api_version": "1.0.0"}
    manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}), "utf-8")
    done = run_python(str(children / "keys_of_the_process.py"), env={"VK_ADD_DRIVER_FILES": str(manifest)})
    assert (done.status, done.stderr) == (0, "")
    left = json.loads(done.stdout)
    assert left == left[:1] * 4
