"""The package's source, parsed once."""

from __future__ import annotations

import ast
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


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout, or the unpacked sdist."""
    return ROOT


@pytest.fixture(scope="session")
def sources() -> dict[str, Source]:
    """Every Python module of the package by its dotted name, without the extension modules."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text("utf-8")
        found[name] = Source(name, path, text, ast.parse(text))
    return found


@pytest.fixture(scope="session")
def imports(sources: dict[str, Source]) -> dict[str, set[str]]:
    """The modules of the package that each of them imports at run time."""
    extensions = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / PACKAGE).rglob("*.pyx")}
    known = set(sources) | extensions
    return {
        name: {found for found in run_time_imports(source.tree, known) if found != name} for name, source in sources.items()
    }


def run_time_imports(tree: ast.AST, known: set[str]) -> set[str]:
    """Walk past TYPE_CHECKING blocks; ``from package import module`` counts as the module."""
    found = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting.extend(node.orelse)
            continue
        waiting.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in known else node.module)
    return found & known
