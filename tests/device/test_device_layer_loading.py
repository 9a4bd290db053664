"""Whatever keeps the loader from loading the layer: there is a way round, or an error that names the cause."""

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
from literals import refusal

import vyre_driver
from vyre_driver import Driver
from vyre_driver.errors import BackendUnavailable
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan import enumerate_devices
from vyre_driver.vulkan.layer import _layer, enable
from vyre_driver.vulkan.layer.manifest import manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import RunChild

    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device

PACKAGE = Path(vyre_driver.__file__).parent
LOADED = {"right": True, "features": True, "counters": True}


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
    """The path alone is in the way, if anything."""


def copied(folder: Path) -> Path:
    """Return a copy of the package in a folder."""
    package = folder / "vyre_driver"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("*.c", "*.pyx", "__pycache__"))
    return package


def path_with(package: Path) -> str:
    return os.pathsep.join([str(package.parent), *filter(None, sys.path)])


@pytest.mark.parametrize(
    "change",
    [
        leave_as_it_is,
        remove_manifest,
        cut_manifest,
        empty_manifest,
        scramble_manifest,
        name_another_layer,
        name_a_missing_library,
        name_a_file_that_is_no_library,
    ],
)
def test_a_manifest_that_leads_nowhere_is_made_anew(
    run_python: RunChild, children: Path, tmp_path: Path, saxpy_file: str, change: Callable[[Path], None]
) -> None:
    package, scratch = copied(tmp_path / "copy"), tmp_path / "scratch"
    scratch.mkdir()
    change(package)
    env = {"PYTHONPATH": path_with(package), "TMPDIR": str(scratch)}
    done = run_python(str(children / "report.py"), saxpy_file, env=env)
    assert (done.status, list(scratch.iterdir())) == (0, []), done.stderr
    assert json.loads(done.stdout) == {"package": str(package), "secure": False, **LOADED}


@pytest.mark.parametrize("variable", ["VK_ADD_LAYER_PATH", "VK_LAYER_PATH"])
def test_the_loader_gets_by_a_colon_in_the_path(
    run_python: RunChild, children: Path, tmp_path: Path, saxpy_file: str, variable: str
) -> None:
    """It splits the path there. Neither may the folder for temporary files have one, which is passed over then."""
    scratch, outside = tmp_path / "a:b", tmp_path / "site"
    outside.mkdir()
    package = copied(scratch)
    code = f"import sys; sys.path.insert(0, {str(scratch)!r}); import runpy; sys.argv = ['', {saxpy_file!r}]; "
    code += f"runpy.run_path({str(children / 'report.py')!r}, run_name='__main__')"
    done = run_python("-c", code, env={"TMPDIR": str(scratch), variable: str(outside)})
    assert (done.status, sorted(scratch.iterdir())) == (0, [package]), done.stderr
    assert json.loads(done.stdout) == {"package": str(package), "secure": False, **LOADED}


@pytest.mark.parametrize(
    "variables",
    [
        *(
            {"VK_LOADER_LAYERS_DISABLE": what}
            for what in ("*", "~all~", "~explicit~", "~implicit~", "*VYRE*", "VK_LAYER_VYRE_driver")
        ),
        {"VK_LOADER_LAYERS_DISABLE": "*", "VK_LOADER_LAYERS_ENABLE": "VK_LAYER_of_nobody"},
        {"VK_LAYER_PATH": "/nowhere"},
        {"VK_LAYER_PATH": ""},
        {"VK_ADD_LAYER_PATH": "/nowhere", "VK_INSTANCE_LAYERS": "VK_LAYER_of_nobody"},
    ],
    ids=str,
)
def test_no_variable_of_the_loaders_keeps_the_layer_out(
    run_forked: RunChild, children: Path, saxpy_file: str, variables: dict[str, str]
) -> None:
    done = run_forked(str(children / "report.py"), saxpy_file, env=variables)
    assert done.status == 0, done.stderr
    assert json.loads(done.stdout) == {"package": str(PACKAGE), "secure": False, **LOADED}


def test_without_a_place_for_a_manifest_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enable, "_has_manifest", lambda _: False)
    monkeypatch.setattr(enable, "_PLACES", ("/nowhere",))
    assert refusal(Driver) == (
        BackendUnavailable,
        2004,
        (
            f"the Vulkan layer of this package cannot be loaded: {PACKAGE / 'vulkan/layer'} has a colon in its path or no "
            "vyre_layer.json, and no folder for temporary files can be written to. "
            "Fix: set TMPDIR to a folder without a colon in its path that this user may write to."
        ),
    )


def test_a_loader_that_does_not_load_it_is_an_error_with_a_way_to_find_out(
    monkeypatch: pytest.MonkeyPatch, physical_device: PhysicalDevice
) -> None:
    monkeypatch.setattr(enable, "manifest", lambda _: manifest("/nowhere/layer.so"))
    assert refusal(Driver) == (
        BackendUnavailable,
        2004,
        (
            f"the Vulkan loader opened {physical_device.name!r} without the layer of this package: it does not say why. "
            "Fix: run it again with VK_LOADER_DEBUG=error,warn,layer, which says why."
        ),
    )


def test_where_vulkan_configurator_chooses_the_layers_the_error_names_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, physical_device: PhysicalDevice
) -> None:
    """As if the loader were new enough to read it."""
    chooser = tmp_path / "vulkan/loader_settings.d/vk_loader_settings.json"
    chooser.parent.mkdir(parents=True)
    chooser.write_text("{}", "utf-8")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(enable, "manifest", lambda _: manifest("/nowhere/layer.so"))
    assert refusal(Driver) == (
        BackendUnavailable,
        2004,
        (
            f"the Vulkan loader opened {physical_device.name!r} without the layer of this package: {chooser} (of Vulkan "
            f"Configurator) chooses the layers. Fix: let it leave {_layer.LAYER_NAME} to the application, or remove it."
        ),
    )


@pytest.mark.parametrize("patch", [0, 206, 207])
def test_an_older_loader_is_told_in_its_own_way(monkeypatch: pytest.MonkeyPatch, patch: int) -> None:
    """As if the loader had said that version: it is told of the layer through the variable that was there then."""
    older = [dataclasses.replace(one, loader_version=1 << 22 | 3 << 12 | patch) for one in enumerate_devices()]
    monkeypatch.setattr("vyre_driver.driver.enumerate_devices", lambda: older)
    x = np.arange(8, dtype=np.float32)
    with Driver() as driver:
        got = driver.compile(shipped_module("saxpy"))(x, x, push_constants={"alpha": 2, "count": 8})
        np.testing.assert_array_equal(got, 3 * x, strict=True)


def test_a_process_with_another_groups_rights_is_told_that_the_loader_takes_no_paths_from_it(
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
    library = library_of(PACKAGE)
    said = (
        f"the Vulkan loader opened {found['device']!r} without the layer of this package: it takes no paths from a process "
        "with rights of another user or group, or with capabilities of its file. Fix: run it without these rights, or copy "
        f"{manifest_of(PACKAGE)} to /etc/vulkan/explicit_layer.d, with {library} as its library_path."
    )
    assert (found["raised"], found["says"]) == ("BackendUnavailable", said)
