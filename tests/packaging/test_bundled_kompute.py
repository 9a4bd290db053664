"""kompute as wheels carry it: beside another kp in one process, and in the wheel with its licences."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import vyre_driver.kompute.bundled

if TYPE_CHECKING:
    from conftest import RunChild

pytestmark = pytest.mark.packaging

BUNDLED = "vyre_driver.kompute.bundled.kp"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
ROUND_TRIP = """
import json, sys
from importlib import import_module
import numpy as np
told = []
for name in sys.argv[1:]:
    kp = import_module(name)
    manager = kp.Manager()
    tensor = manager.tensor(np.arange(3, dtype=np.float32))
    manager.sequence().eval(kp.OpTensorSyncDevice([tensor]))
    told.append([kp.Manager.__module__, tensor.data().tolist()])
print(json.dumps(told))
"""


@pytest.fixture
def bundled() -> bytes:
    """The compiled kompute of this checkout, which scripts/setup builds."""
    return Path(vyre_driver.kompute.bundled.__file__).with_name(f"kp{SUFFIX}").read_bytes()


@pytest.mark.device
@pytest.mark.parametrize("order", [("kp", BUNDLED), (BUNDLED, "kp")], ids=["installed first", "bundled first"])
def test_the_bundled_kompute_and_another_of_the_same_pybind11_work_in_one_process(
    order: tuple[str, str], bundled: bytes, tmp_path: Path, run_python: RunChild
) -> None:
    ours, others = b"vyre_driver_lib", b"installed_one_lib"[2:]  # equally long: the name is changed in the compiled file
    assert (len(ours), bundled.count(b"__pybind11_internals_v12" + ours) > 0) == (len(others), True)
    (tmp_path / f"kp{SUFFIX}").write_bytes(bundled.replace(ours, others))
    done = run_python("-c", ROUND_TRIP, *order, env={"PYTHONPATH": str(tmp_path)})
    assert (done.status, done.stderr, json.loads(done.stdout)) == (0, "", [[name, [0.0, 1.0, 2.0]] for name in order])


def test_the_bundled_kompute_links_to_vulkan_and_what_a_compiler_brings(bundled: bytes, tmp_path: Path) -> None:
    (tmp_path / "kp.so").write_bytes(bundled)
    command = [shutil.which("readelf") or "readelf", "--dynamic", str(tmp_path / "kp.so")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    needed = {line.rpartition("[")[2].rstrip("]") for line in told.splitlines() if "(NEEDED)" in line}
    systems = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    assert (needed >= {"libvulkan.so.1", "libc.so.6"}, needed - systems - {"libstdc++.so.6", "libgcc_s.so.1"}) == (
        True,
        {"libvulkan.so.1"},
    )


def test_a_build_takes_the_compiled_kompute_with_its_licences_and_nothing_else(unpacked: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(unpacked, copy)
    for name in ("kp.cpython-399-x86_64-linux-gnu.so", "NOTICE", ".kp.so.new", "kp.log"):
        (copy / "vyre_driver/kompute/bundled" / name).write_text("made here")
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path / "built")]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    found = {one.name for one in (tmp_path / "built/vyre_driver/kompute/bundled").iterdir()}
    assert found == {"__init__.py", "kp.cpython-399-x86_64-linux-gnu.so", "NOTICE"}
