"""The package's source, parsed once."""

from __future__ import annotations

import ast
import gc
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "vyre_driver"


class Source(NamedTuple):
    """One module of the package."""

    name: str
    path: Path
    text: str
    tree: ast.Module


class Others(NamedTuple):
    """The packages of others that this one imports, by the names they are imported by."""

    early: set[str]
    ever: set[str]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout, or the unpacked sdist."""
    return ROOT


@pytest.fixture(scope="session")
def sources() -> dict[str, Source]:
    """Every Python module of the package by its dotted name, without the extension modules.

    Their trees are a million objects, which stay for the session. They are frozen: each collection of garbage in a later test
    of this process would take half a second for them.
    """
    gc.collect()
    gc.disable()
    try:
        found = parsed_sources()
    finally:
        gc.enable()
    gc.freeze()
    return found


def parsed_sources() -> dict[str, Source]:
    """Return the modules as ``sources`` has them."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text("utf-8")
        found[name] = Source(name, path, text, ast.parse(text))
    return found


@pytest.fixture(scope="session")
def known(sources: dict[str, Source]) -> set[str]:
    """The names of all modules, the extension modules among them."""
    return set(sources) | {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / PACKAGE).rglob("_*.pyx")}


@pytest.fixture(scope="session")
def named_ever(sources: dict[str, Source], known: set[str]) -> dict[str, set[str]]:
    """The modules that each names in imports that run at any time."""
    return {name: named(source.tree, name, known, late=True) for name, source in sources.items()}


@pytest.fixture(scope="session")
def named_anywhere(sources: dict[str, Source], known: set[str]) -> dict[str, set[str]]:
    """The modules that each names in imports that run at any time, or are for types alone."""
    return {name: named(source.tree, name, known, late=True, types=True) for name, source in sources.items()}


@pytest.fixture(scope="session")
def named_early(sources: dict[str, Source], known: set[str]) -> dict[str, set[str]]:
    """The modules that each names in imports that run when it is imported itself."""
    return {name: named(source.tree, name, known, late=False) for name, source in sources.items()}


@pytest.fixture(scope="session")
def imports(sources: dict[str, Source], known: set[str], named_ever: dict[str, set[str]]) -> dict[str, set[str]]:
    """The modules of the package that each of them imports at run time, whenever that is."""
    found = {name: (names & known) - {name} for name, names in named_ever.items()}
    for name in known - set(sources):
        text = (ROOT / name.replace(".", "/")).with_suffix(".pyx").read_text("utf-8")
        found[name] = set(re.findall(rf"^\s*(?:from|c?import) ({PACKAGE}(?:\.\w+)+)", text, re.MULTILINE)) & (known - {name})
    return found


@pytest.fixture(scope="session")
def early(known: set[str], named_early: dict[str, set[str]]) -> dict[str, set[str]]:
    """The modules of the package that each of them imports when it is imported itself."""
    return {name: (names & known) - {name} for name, names in named_early.items()}


@pytest.fixture(scope="session")
def others(named_early: dict[str, set[str]], named_ever: dict[str, set[str]]) -> Others:
    """What is imported that neither the package nor Python has: when modules are imported, and at any time."""

    def packages(named: dict[str, set[str]]) -> set[str]:
        every = set[str]().union(*named.values())
        return {name.partition(".")[0] for name in every} - sys.stdlib_module_names - {PACKAGE, "kp"}

    return Others(packages(named_early), packages(named_ever))


def named(tree: ast.Module, name: str, known: set[str], *, late: bool, types: bool = False) -> set[str]:
    """Return the modules that a module names, those of TYPE_CHECKING blocks where ``types`` says so.

    ``from package import module`` counts as the module, and a written-out name as well.
    """
    found: set[str] = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if not types and isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting.extend(node.orelse)
            continue
        if late or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
        match node:
            case ast.Import(names=names):
                found.update(alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                found.update(f"{module}.{alias.name}" if f"{module}.{alias.name}" in known else module for alias in names)
            case ast.ImportFrom(level=level):
                raise AssertionError(f"{name} imports relatively, by {level} dots")
            case ast.Call(func=function, args=[ast.Constant(value=str(text)), *_]) if names_an_import(function):
                found.add(text)
    return found


def names_an_import(function: ast.expr) -> bool:
    """Whether what is called has a name with ``import`` in it, such as ``importlib.import_module``."""
    return any("import" in getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(function))
