"""What cannot be imported says why in a sentence: no compiled modules, another system's, broken ones, an old numpy."""

from __future__ import annotations

import os
import re
import shutil
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import vyre_driver
from vyre_driver._loading import OLDEST_NUMPY, REQUIRED, explained

if TYPE_CHECKING:
    from conftest import RunChild

PACKAGE = Path(vyre_driver.__file__).parent
SUFFIX = EXTENSION_SUFFIXES[0]
RAISED = "vyre_driver.errors.InstallationUnusable: "
SAID = "vyre-driver: error 2701: "
IMPORTS = [("-c", "import vyre_driver"), ("-c", "from vyre_driver import ir"), ("-m", "vyre_driver", "devices")]


@pytest.fixture
def unbuilt(tmp_path: Path) -> Path:
    """A copy of the package without what was compiled."""
    copy = tmp_path / "vyre_driver"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return copy


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    """A compiled module in a package whose other files are those of this one."""
    copy = tmp_path / "vyre_driver"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"), copy_function=os.symlink)
    file = copy / f"vulkan/_vulkan{SUFFIX}"
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("words", IMPORTS)
def test_an_unbuilt_tree_is_named_with_what_to_do(run_python: RunChild, unbuilt: Path, words: tuple[str, ...]) -> None:
    done = run_python(*words, cwd=unbuilt.parent)
    version = ".".join(map(str, sys.version_info[:2]))
    expected = (
        f"{RAISED}the vyre_driver in {unbuilt} has no compiled modules for Python {version}. Fix: run scripts/setup, or "
        "`pip install -e .` in that source tree; or leave its folder, so that the installed one is found."
    )
    assert (done.status, done.stderr.splitlines()[-1]) == (1, expected)


def test_a_wheel_on_the_path_is_told_to_be_installed(run_python: RunChild, tmp_path: Path) -> None:
    wheel = tmp_path / "vyre_driver-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("__init__.py", "_loading.py", "_version.py", "errors.py"):
            archive.write(PACKAGE / name, f"vyre_driver/{name}")
    done = run_python("-c", f"import sys; sys.path.insert(0, {str(wheel)!r}); import vyre_driver")
    expected = (
        f"{RAISED}{wheel}/vyre_driver lies in an archive, from which Python cannot load compiled modules. "
        "Fix: pip install the wheel, and take it out of PYTHONPATH and sys.path."
    )
    assert (done.status, done.stderr.splitlines()[-1]) == (1, expected)


def test_one_module_that_is_missing_is_named(run_python: RunChild, extension: Path) -> None:
    package = extension.parents[1]
    (package / f"_fast{SUFFIX}").unlink()
    done = run_python("-c", "import vyre_driver", cwd=package.parent)
    expected = (
        f"{RAISED}the vyre_driver in {package} lacks its compiled module _fast{SUFFIX}. "
        "Fix: install it anew (pip install --force-reinstall, or scripts/setup in a source tree)."
    )
    assert (done.status, done.stderr.splitlines()[-1]) == (1, expected)


@pytest.mark.parametrize(("missing", "name"), [("numpy", "Driver"), ("blake3", "Driver")])
def test_a_required_package_that_is_missing_is_named(run_python: RunChild, missing: str, name: str) -> None:
    hide = f"import sys; sys.modules.update({{{missing!r}: None}}); "
    package = missing.replace("_", "-")
    told = f"{package} is not installed, and vyre_driver needs it. Fix: pip install {package}.\n"
    done = run_python("-c", hide + f"import vyre_driver; vyre_driver.{name}")
    assert (done.status, done.stderr.splitlines(keepends=True)[-1]) == (1, RAISED + told)


@pytest.mark.parametrize("package", ["lang", "kernels", "backends", "specialization", "spirv", "binding", "driver"])
@pytest.mark.parametrize("missing", ["numpy", "blake3"])
def test_a_package_that_is_imported_by_its_path_names_what_is_missing(run_python: RunChild, missing: str, package: str) -> None:
    done = run_python("-c", f"import sys; sys.modules.update({{{missing!r}: None}}); import vyre_driver.{package}")
    told = f"{missing} is not installed, and vyre_driver needs it. Fix: pip install {missing}.\n"
    assert (done.status, done.stderr.splitlines(keepends=True)[-1]) == (1, RAISED + told)


def imported_by_users() -> list[str]:
    """Return the modules of the package that a program may import by their paths before anything else.

    ``ir`` is not among them: it knows errors and numbers alone, and imports numpy as any program does.
    """
    found = [entry.stem for entry in PACKAGE.iterdir() if (entry / "__init__.py").is_file() or entry.suffix == ".py"]
    return sorted(name for name in found if not name.startswith("_") and name != "ir")


@pytest.mark.parametrize("name", imported_by_users())
def test_an_interrupt_cannot_break_off_the_import_of_numpy(run_python: RunChild, name: str) -> None:
    # Signal handlers run on the main thread alone.
    program = f"""
import sys, threading
class Finder:
    def find_spec(self, module, *_):
        if module in ("numpy", "kp") and threading.current_thread() is threading.main_thread():
            print(module, "is imported on the main thread")
sys.meta_path.insert(0, Finder())
import vyre_driver.{name}
"""
    done = run_python("-c", program)
    assert (done.status, done.stdout, done.stderr) == (0, "", "")


def test_a_package_that_is_needed_late_is_named(run_python: RunChild) -> None:
    hide = "import sys; sys.modules.update({'platformdirs': None}); "
    done = run_python("-c", hide + "from vyre_driver.settings import user_directory; user_directory('cache')")
    told = "platformdirs is not installed, and vyre_driver needs it. Fix: pip install platformdirs.\n"
    assert (done.status, done.stderr.splitlines(keepends=True)[-1]) == (1, RAISED + told)


@pytest.mark.parametrize("missing", ["numpy", "blake3"])
def test_the_command_line_names_a_required_package_that_is_missing(run_python: RunChild, missing: str) -> None:
    hide = f"import sys; sys.modules.update({{{missing!r}: None}}); "
    told = f"{missing} is not installed, and vyre_driver needs it. Fix: pip install {missing}.\n"
    verb = run_python("-c", hide + "from vyre_driver.cli import main; raise SystemExit(main(['tune', 'list']))")
    assert (verb.status, verb.stdout, verb.stderr) == (2, "", SAID + told)


def test_a_package_is_named_as_pip_knows_it() -> None:
    told = "tomli-w is not installed, and vyre_driver needs it. Fix: pip install tomli-w."
    assert str(explained(ModuleNotFoundError(name="tomli_w"))) == told


def test_what_is_required_is_that_of_the_metadata() -> None:
    found = re.search(
        r"^dependencies = \[(.*?)\]", (PACKAGE.parent / "pyproject.toml").read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    assert {one.replace("-", "_") for one in re.findall(r'"([a-z0-9-]+)>=', found[1])} == set(REQUIRED)


@pytest.mark.parametrize("words", IMPORTS)
def test_modules_of_another_system_are_named_beside_what_this_python_takes(
    run_python: RunChild, unbuilt: Path, words: tuple[str, ...]
) -> None:
    for tag in ("cpython-311-sparc-linux-gnu", "cpython-310-sparc-linux-musl"):
        (unbuilt / f"_fast.{tag}.so").write_bytes(b"")
    done = run_python(*words, cwd=unbuilt.parent)
    wanted = SUFFIX.removeprefix(".").removesuffix(".so")
    expected = (
        f"{RAISED}the vyre_driver in {unbuilt} is compiled for cpython-310-sparc-linux-musl, cpython-311-sparc-linux-gnu, and "
        f"this Python takes {wanted}. Fix: install it with this Python's pip, which refuses a wheel that does not fit; "
        "in a source tree, run scripts/setup or `pip install -e .`."
    )
    assert (done.status, done.stderr.splitlines()[-1]) == (1, expected)


def check_refused(run_python: RunChild, extension: Path, reason: str, fix: str) -> None:
    """Check what the verb and the import say of a compiled module; the reason's first words are the dynamic linker's."""
    started = f"{extension} does not load ("
    verb = run_python("-m", "vyre_driver", "devices", cwd=extension.parents[2])
    name = run_python("-c", "from vyre_driver import devices", cwd=extension.parents[2])
    assert (verb.status, len(verb.stderr.splitlines()), name.status) == (2, 1, 1), verb.stderr
    for said, start in ((verb.stderr, SAID), (name.stderr.splitlines()[-1], RAISED)):
        assert said.startswith(start + started), said
        assert (reason in said, said.strip().endswith(f"). Fix: {fix}.")) == (True, True), said


def test_a_module_that_is_no_library_is_named(run_python: RunChild, extension: Path) -> None:
    extension.write_bytes(bytes(4096))
    fix = "install vyre_driver anew with this Python's pip, from a wheel that pip takes or from source"
    check_refused(run_python, extension, "invalid ELF header", fix)


def test_a_module_that_wants_a_newer_glibc_is_named(run_python: RunChild, extension: Path) -> None:
    content = extension.read_bytes()
    changed = re.sub(rb"\0GLIBC_2\.\d\d\0", b"\0GLIBC_2.99\0", content)
    assert changed != content
    extension.write_bytes(changed)
    fix = "install it with pip on this system, from a wheel whose manylinux tag names no newer glibc, or from source"
    check_refused(run_python, extension, "version `GLIBC_2.99' not found", fix)


@pytest.mark.parametrize(
    "said",
    [
        "Error loading shared library ld-linux-x86-64.so.2: No such file or directory (needed by /lib/_vulkan.so)",
        "Error relocating /lib/_vulkan.so: pthread_rwlockattr_setkind_np: symbol not found",
    ],
)
def test_what_musl_says_is_explained(said: str) -> None:
    file = str(PACKAGE / f"vulkan/_vulkan{SUFFIX}")
    fix = "install vyre_driver from source: its wheels are for glibc, and this system has another C library"
    assert str(explained(ImportError(said, path=file))) == f"{file} does not load ({said}). Fix: {fix}."


@pytest.mark.parametrize("path", [None, "/lib/other.so", str(PACKAGE / "driver.py")])
def test_an_error_of_something_else_is_left_alone(path: str | None) -> None:
    assert explained(ImportError("libc.so.6: version `GLIBC_2.99' not found", path=path)) is None
    assert explained(ModuleNotFoundError("No module named 'numpy'", path=path)) is None


OLD_NUMPY = "numpy 1.23.5 is installed, and vyre_driver needs 1.24 or newer. Fix: pip install 'numpy>=1.24'.\n"


@pytest.mark.parametrize("name", ["Driver", "Program", "kernels"])
def test_an_old_numpy_is_named_by_the_import_of_what_needs_it(run_python: RunChild, name: str) -> None:
    done = run_python("-c", f"import numpy; numpy.__version__ = '1.23.5'; from vyre_driver import {name}")
    assert (done.status, done.stderr.splitlines(keepends=True)[-1]) == (1, RAISED + OLD_NUMPY)


def test_an_old_numpy_is_named_by_the_program_in_one_line(run_python: RunChild) -> None:
    code = "import numpy; numpy.__version__ = '1.23.5'; from vyre_driver.cli import main; raise SystemExit(main(['demo']))"
    done = run_python("-c", code)
    assert (done.status, done.stdout, done.stderr) == (2, "", SAID + OLD_NUMPY)


@pytest.mark.parametrize("words", [("-c", "import vyre_driver; vyre_driver.kernels"), ("-m", "vyre_driver", "demo")])
def test_another_module_in_numpys_place_is_named(run_python: RunChild, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "numpy.py").write_text("x = 1\n")
    done = run_python(*words, env={"PYTHONPATH": os.pathsep.join([str(tmp_path), str(PACKAGE.parent)])})
    told = f"{tmp_path}/numpy.py was imported as numpy, and is another module. Fix: rename or remove {tmp_path}/numpy.py.\n"
    raised, status = (RAISED, 1) if words[0] == "-c" else (SAID, 2)
    assert (done.status, done.stderr.splitlines(keepends=True)[-1]) == (status, raised + told)


@pytest.mark.parametrize("version", ["1.24.0", "2.0.0rc1", "2.10.0.dev0+git"])
def test_a_numpy_that_is_new_enough_is_taken(run_python: RunChild, version: str) -> None:
    done = run_python(
        "-c", f"import numpy; numpy.__version__ = {version!r}; from vyre_driver import Driver; print(Driver.__name__)"
    )
    assert (done.status, done.stdout, done.stderr) == (0, "Driver\n", "")


def test_the_oldest_numpy_is_that_of_the_metadata() -> None:
    pyproject = PACKAGE.parent / "pyproject.toml"
    if not pyproject.exists():
        pytest.skip("this is not a source tree")
    assert f'"numpy>={OLDEST_NUMPY[0]}.{OLDEST_NUMPY[1]}"' in pyproject.read_text("utf-8")
