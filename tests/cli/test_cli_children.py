"""The processes that verbs start import nothing from the working directory, and one module starts all of them."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import vyre_driver
from vyre_driver.process import workers

if TYPE_CHECKING:
    from conftest import RunChild

# As the installed command does it: with a directory of programs, not the working directory, first on the path.
AS_INSTALLED = "import sys; sys.path[0] = '/usr/bin'; from vyre_driver.cli import main; sys.exit(main())"
TRAP = "open({sprung!r}, 'a').write(__name__ + '\\n')\nraise SystemExit('imported from the working directory')\n"
TRAPPED = ("json", "ctypes", "numpy", "base64", "runpy", "pickle", "kp", "vyre_driver")


@pytest.fixture
def trapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with modules that tell in the file ``sprung`` when they are imported."""
    place = tmp_path / "trapped"
    place.mkdir()
    for name in TRAPPED:
        text = TRAP.format(sprung=str(tmp_path / "sprung"))
        if name == "vyre_driver":
            (place / name).mkdir()
            (place / name / "__init__.py").write_text(text)
        else:
            (place / f"{name}.py").write_text(text)
    monkeypatch.chdir(place)
    return tmp_path / "sprung"


def test_the_traps_are_sprung_by_a_process_started_with_m(trapped: Path, run_python: RunChild) -> None:
    assert run_python("-m", "vyre_driver", "devices").status == 1
    first = "vyre_driver" if sys.version_info >= (3, 11) else "runpy"  # which is frozen into Python since
    assert trapped.read_text() == f"{first}\n"


@pytest.mark.device
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        pytest.param(("doctor", "--json"), 0, marks=pytest.mark.thorough),  # which examines all that there is
        (("demo", "--files", "empty"), 2),  # which its first child finds
        (("tune", "run", "saxpy", "--isolate", "--size", "1000", "--seconds", "0.3", "--allow-software"), 0),
        (("conform", "--backend", "cpu-ref", "--jobs", "1", "--count", "2", "--no-cases"), 0),
    ],
    ids=["doctor", "demo", "tune", "conform"],
)
def test_a_verb_imports_nothing_from_the_working_directory(
    trapped: Path, run_python: RunChild, arguments: tuple[str, ...], status: int
) -> None:
    Path("empty").touch()
    done = run_python("-c", AS_INSTALLED, *arguments, hangs_after_s=110)
    assert (done.status, trapped.exists()) == (status, False), done.stdout + done.stderr
    assert status == 0 or "there is no byte to count in 1 file" in done.complaint[0]


def imported(code: str, *options: str, **changes: str) -> str:
    """What a process prints whose parent, run with ``options``, asks for ``code`` by ``python_command``."""
    Path("asked.py").write_text(code)
    parent = (
        "import subprocess, sys; from vyre_driver.process.workers import python_command; {}subprocess.run(python_command({!r}))"
    )
    text = parent.format(f"sys.path.append({os.getcwd()!r}); ", "asked")  # noqa: PTH109
    command = [sys.executable, *options, "-c", text]
    done = subprocess.run(command, env={**os.environ, **changes}, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_child_imports_from_where_its_parent_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "of_the_user.py").write_text("where = 'PYTHONPATH'")
    code = "import sys, vyre_driver, of_the_user\nprint(of_the_user.where, sys.argv[1:], __name__, '' in sys.path)"
    assert imported(code, PYTHONPATH=str(tmp_path / "mine")) == "PYTHONPATH [] __main__ False\n"


@pytest.mark.parametrize(("options", "kept"), [(("-I",), "1 1 1"), (("-E",), "0 1 0"), (("-s",), "0 0 1"), ((), "0 0 0")])
def test_a_child_ignores_of_the_environment_what_its_parent_ignores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], kept: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "import sys; print(sys.flags.isolated, sys.flags.ignore_environment, sys.flags.no_user_site)"
    assert imported(code, *options) == f"{kept}\n"


def test_a_package_that_was_found_in_the_working_directory_is_found_by_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(vyre_driver.__file__).parents[1]
    monkeypatch.chdir(package)
    monkeypatch.setattr(sys, "path", ["", *(one for one in sys.path if one != str(package))])
    done = subprocess.run(workers.python_command("vyre_driver", "--includes"), capture_output=True, text=True, check=True)
    assert done.stdout == f"-I{package / 'vyre_driver' / 'include'}\n"


def test_no_other_module_starts_a_process() -> None:
    package = Path(vyre_driver.__file__).parent
    texts = {str(path.relative_to(package)): path.read_text("utf-8") for path in package.rglob("*.py")}
    named = {name: text for name, text in texts.items() if re.search("executable|subprocess|multiprocessing", text)}
    nodes = [(name, node) for name, text in named.items() for node in ast.walk(ast.parse(text))]
    executing = {name for name, node in nodes if isinstance(node, ast.Attribute) and node.attr == "executable"}
    importing = {
        name
        for name, node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        and {getattr(node, "module", None), *(one.name for one in node.names)} & {"subprocess", "multiprocessing"}
    }
    assert executing == {"process/workers.py", "cli/doctor_package.py"}  # the latter shows it
    assert importing == {"process/workers.py"}
