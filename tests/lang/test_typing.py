"""Kernels under type checkers: what is right passes both mypy --strict and pyright, and each mistake is found where it stands.

``typed_right.py`` and ``typed_wrong.py`` are what they look at; a line of the latter ends in ``# error:``, the codes of mypy,
``|`` and the rules of pyright.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import vyre_driver
from vyre_driver import lang
from vyre_driver.lang.frontend.builtins import own
from vyre_driver.lang.kernel import KernelDecorator

if TYPE_CHECKING:
    from conftest import RunChild

HERE = Path(__file__).parent
ROOT = Path(vyre_driver.__file__).parents[1]
FILES = [HERE / "typed_right.py", HERE / "typed_wrong.py"]

Found = dict[tuple[str, int], set[str]]


# Methods of a kernel for the other modules of the package.
NOT_IN_THE_STUB = {"specialization", "translated"}


def expected(group: int) -> Found:
    found: Found = {}
    for path in FILES:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if marked := re.search(r"# error: ([\w -]+) \| ([\w ]+)$", line):
                found[path.name, number] = set(marked[group].split())
    return found


def collected(errors: list[tuple[str, int, str]]) -> Found:
    found: Found = {}
    for name, line, code in errors:
        found.setdefault((name, line), set()).add(code)
    return found


def needs(checker: str) -> None:
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed")


def stub() -> ast.Module:
    return ast.parse(Path(lang.__file__).with_suffix(".pyi").read_text("utf-8"))


def of_class(name: str) -> list[ast.FunctionDef]:
    found = next(node for node in stub().body if isinstance(node, ast.ClassDef) and node.name == name)
    return [node for node in found.body if isinstance(node, ast.FunctionDef)]


def test_the_stub_has_the_names_of_the_language() -> None:
    named = [node for node in stub().body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    assigned = [node.target for node in stub().body if isinstance(node, ast.AnnAssign)]
    imported = [one for node in stub().body if isinstance(node, ast.ImportFrom) for one in node.names if one.asname]
    names = {node.name for node in named} | {ast.unparse(node) for node in assigned} | {one.asname for one in imported}
    assert {name for name in names if name and not name.startswith("_")} | set(own.__all__) == set(lang.__all__)
    assert "from vyre_driver.lang.frontend.builtins.own import *" in map(ast.unparse, stub().body)


def test_the_stub_has_the_methods_of_a_kernel_and_the_options_of_its_decorator() -> None:
    methods = {name for name in vars(lang.Kernel) if not name.startswith("_")} - NOT_IN_THE_STUB
    assert {node.name for node in of_class("Kernel") if not node.name.startswith("_")} == methods
    for one in (lang.Elementwise, lang.Reduction, lang.Scan):
        methods = {name for cls in one.__mro__[:-1] for name in vars(cls) if not name.startswith("_")}
        assert {node.name for node in of_class(one.__name__) if not node.name.startswith("_")} == methods
    taken = [node for node in of_class("_KernelDecorator") if node.name == "__call__"][-1].args.kwonlyargs
    parameters = inspect.signature(KernelDecorator.__call__).parameters.values()
    assert [one.arg for one in taken] == [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]


def test_the_mistakes_are_marked() -> None:
    assert len(expected(1)) == len(re.findall("# error", FILES[1].read_text("utf-8"))) > 50
    assert {name for name, _ in expected(1)} == {"typed_wrong.py"}


@pytest.mark.thorough  # pyright finds them in a fifth of the time
def test_mypy_finds_the_mistakes_and_nothing_else(run_python: RunChild, tmp_path: Path) -> None:
    needs("mypy")
    if (ROOT / ".mypy_cache").is_dir():
        shutil.copytree(ROOT / ".mypy_cache", tmp_path / "cache")
    # In the folder, and with the options, of `make check`: else mypy takes what it knows for another package's.
    options = ["--cache-dir", str(tmp_path / "cache"), "--no-color-output", "--hide-error-context", "--no-pretty"]
    done = run_python("-m", "mypy", *options, *map(str, FILES), cwd=ROOT, hangs_after_s=300)
    errors = re.findall(r"^(?:.*/)?(typed_\w+\.py):(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    assert collected([(name, int(line), code) for name, line, code in errors]) == expected(1), done.stdout


@pytest.mark.device
def test_what_passes_also_runs(run_python: RunChild) -> None:
    done = run_python("-W", "error", str(FILES[0]), env={"VYRE_ALLOW_SOFTWARE": "1"})
    assert (done.status, done.stderr) == (0, "")


def test_pyright_finds_the_mistakes_and_nothing_else(run_python: RunChild) -> None:
    needs("pyright")
    env = {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}  # else it asks the index for a newer one
    # Without --pythonpath it takes the packages of the first python on PATH, which need not be the one that runs the tests.
    options = ["--outputjson", "--pythonpath", sys.executable]
    done = run_python("-m", "pyright", *options, *map(str, FILES), cwd=ROOT, env=env, hangs_after_s=300)
    errors = [
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1, one["rule"])
        for one in json.loads(done.stdout)["generalDiagnostics"]
    ]
    assert collected(errors) == expected(2), done.stdout
