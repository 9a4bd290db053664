"""Where the loader does not take the layer, results are right and the report says that there is none."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import vyre_driver
from vyre_driver import Driver
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan import enumerate_devices
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import RunChild

pytestmark = pytest.mark.device

PACKAGE = Path(vyre_driver.__file__).parent
ALL = {"right": True, "hooks": list(_layer.HOOKS), "features": True, "counters": True}
NOTHING = {"right": True, "hooks": [], "features": False, "counters": False}


@pytest.fixture
def saxpy_file(tmp_path: Path) -> str:
    """The shipped saxpy shader as a file."""
    file = tmp_path / "saxpy.spv"
    file.write_bytes(shipped_module("saxpy").code)
    return str(file)


def manifest_of(package: Path) -> Path:
    return package / "vulkan" / "layer" / "vyre_layer.json"


def library_of(package: Path) -> Path:
    return package / "vulkan" / "layer" / Path(_layer.__file__).name


def remove_manifest(package: Path) -> None:
    manifest_of(package).unlink()


def cut_manifest(package: Path) -> None:
    data = manifest_of(package).read_bytes()
    manifest_of(package).write_bytes(data[: len(data) // 2])


def empty_manifest(package: Path) -> None:
    manifest_of(package).write_bytes(b"")


def scramble_manifest(package: Path) -> None:
    manifest_of(package).write_bytes(bytes(range(256)))


def name_another_layer(package: Path) -> None:
    text = manifest_of(package).read_text("utf-8")
    manifest_of(package).write_text(text.replace(_layer.LAYER_NAME, "VK_LAYER_VYRE_other"), "utf-8")


def name_a_missing_library(package: Path) -> None:
    text = manifest_of(package).read_text("utf-8")
    manifest_of(package).write_text(text.replace(library_of(package).name, "missing.so"), "utf-8")


def name_a_file_that_is_no_library(package: Path) -> None:
    (package / "vulkan" / "layer" / "text.so").write_text("no library", "utf-8")
    text = manifest_of(package).read_text("utf-8")
    manifest_of(package).write_text(text.replace(library_of(package).name, "text.so"), "utf-8")


def leave_as_it_is(_: Path) -> None:
    """For comparison."""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (leave_as_it_is, ALL),
        (remove_manifest, NOTHING),
        (cut_manifest, NOTHING),
        (empty_manifest, NOTHING),
        (scramble_manifest, NOTHING),
        (name_another_layer, NOTHING),
        (name_a_missing_library, NOTHING),
        (name_a_file_that_is_no_library, NOTHING),
    ],
)
def test_a_manifest_that_leads_nowhere_costs_the_layer_and_not_the_result(  # noqa: PLR0913 -- four fixtures and a row of the table
    run_python: RunChild,
    children: Path,
    tmp_path: Path,
    saxpy_file: str,
    change: Callable[[Path], None],
    expected: dict[str, object],
) -> None:
    package = tmp_path / "copy" / "vyre_driver"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("*.c", "*.pyx", "__pycache__"))
    change(package)
    done = run_python(
        str(children / "report.py"),
        saxpy_file,
        env={"PYTHONPATH": os.pathsep.join([str(package.parent), *filter(None, sys.path)])},
    )
    assert done.status == 0, done.stderr
    assert json.loads(done.stdout) == {"package": str(package), "secure": False, **expected}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"VYRE_LAYER": "0"}, NOTHING),
        ({"VYRE_LAYER_HOOKS_OFF": ",".join(_layer.HOOKS)}, NOTHING),
        ({"VK_LOADER_LAYERS_DISABLE": "*VYRE*"}, None),
        ({"VK_LAYER_PATH": "/nowhere"}, ALL),
        ({"VK_ADD_LAYER_PATH": "/nowhere", "VK_INSTANCE_LAYERS": "VK_LAYER_of_nobody"}, None),
    ],
    ids=["switched off", "no hook is left", "refused by the loader", "layers elsewhere", "a layer that is not there"],
)
def test_the_report_tells_what_the_environment_left_of_the_layer(
    run_python: RunChild, children: Path, saxpy_file: str, variables: dict[str, str], expected: dict[str, object] | None
) -> None:
    """Loaders differ in what they make of some (None): there the layer is whole or not there."""
    done = run_python(str(children / "report.py"), saxpy_file, env=variables)
    assert done.status == 0, done.stderr
    found = json.loads(done.stdout)
    assert found in [{"package": str(PACKAGE), "secure": False, **one} for one in ([expected] if expected else [ALL, NOTHING])]


@pytest.mark.parametrize("patch", [0, 206, 207])
def test_an_older_loader_is_told_in_its_own_way(monkeypatch: pytest.MonkeyPatch, patch: int) -> None:
    """As if the loader had said that version: it is told of the layer through the variable that was there then."""
    older = [dataclasses.replace(one, loader_version=1 << 22 | 3 << 12 | patch) for one in enumerate_devices()]
    monkeypatch.setattr("vyre_driver.driver.enumerate_devices", lambda: older)
    x = np.arange(8, dtype=np.float32)
    with Driver() as driver:
        got = driver.compile(shipped_module("saxpy"))(x, x, push_constants={"alpha": 2, "count": 8})
        np.testing.assert_array_equal(got, 3 * x, strict=True)
        assert driver.context.device.hooks == _layer.HOOKS


def test_a_process_with_another_groups_rights_does_without_the_layer(
    run_python: RunChild, children: Path, tmp_path: Path, saxpy_file: str
) -> None:
    """The loader reads no layer's path from the environment of a setgid program; this one is a copy of the interpreter."""
    interpreter = tmp_path / "python"
    shutil.copy(Path(sys.executable).resolve(), interpreter)
    groups = [group for group in [*os.getgroups(), 65534] if group != os.getgid()]
    try:
        os.chown(interpreter, -1, groups[0])
        interpreter.chmod(0o2755)
    except PermissionError:
        pytest.skip("this user may give no file to another group")
    path = os.pathsep.join(one for one in [str(PACKAGE.parent), *sys.path] if one)
    env = {"PYTHONHOME": sys.base_prefix, "PYTHONPATH": path}
    done = run_python(str(children / "report.py"), saxpy_file, env=env, executable=str(interpreter))
    assert done.status == 0, done.stderr
    found = json.loads(done.stdout)
    if not found["secure"]:
        pytest.skip("the file system of the tests honours no setgid")
    assert found == {"package": str(PACKAGE), "secure": True, **NOTHING}
