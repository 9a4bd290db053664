"""The folder list is the data flow: each folder is a stage, and imports only what lies before it."""

from __future__ import annotations

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Source

# From the bottom up. What is flat at the top is a stage of its own.
STAGES = (
    "errors",
    "_version",
    "_fast",
    "_loading",
    "settings",
    "checks",
    "display",
    "process",
    "vulkan",
    "vulkan/layer",
    "spirv",
    "matrices",
    "ir",
    "upstream",
    "identity",
    "telemetry",
    "target",
    "specialization",
    "binding",
    "cache",
    "autotune",
    "remote",
    "lowering",
    "kompute",
    "runtime",
    "profiling",
    "embedding",
    "isolated",
    "autotune/measure",
    "driver",
    "isolated/child",
    "pool",
    "backends",
    "artifacts",
    "kernels",
    "lang/types",
    "lang/plain",
    "lang/source",
    "lang/pickling",
    "lang/function",
    "lang/frontend",
    "lang/interpret",
    "lang/launch",
    "lang/explain",
    "lang",
    "conformance",
    "distributed",
    "cli",
    "__pyinstaller",
    "__init__",
    "__main__",
)
MOST_FLAT_MODULES = 10


def stage(module: str) -> str:
    parts = module.split(".")[1:]
    if "/".join(parts[:2]) in STAGES:
        return "/".join(parts[:2])
    return parts[0] if parts else "__init__"


def test_a_folder_imports_only_folders_before_it(imports: dict[str, set[str]]) -> None:
    up = defaultdict(set)
    for name, foreign in ((name, foreign) for name, found in imports.items() for foreign in found):
        if STAGES.index(stage(foreign)) > STAGES.index(stage(name)):
            up[stage(name), stage(foreign)].add((name, foreign))
    assert up == {}


def test_nothing_that_the_driver_imports_imports_it_not_even_for_types(named_anywhere: dict[str, set[str]]) -> None:
    driver, found = "vyre_driver.driver", set[str]()
    waiting = [driver]
    while waiting:
        new = named_anywhere.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    assert [name for name in sorted(found) if driver in named_anywhere.get(name, set())] == []


def test_every_stage_is_there(imports: dict[str, set[str]]) -> None:
    assert {stage(name) for name in imports} == set(STAGES)


def test_no_more_than_ten_modules_lie_flat(root: Path) -> None:
    flat = sorted(path.name for path in (root / "vyre_driver").glob("*.py"))
    assert len(flat) <= MOST_FLAT_MODULES, flat


def test_within_a_folder_neither_modules_nor_folders_import_each_other_in_a_circle(imports: dict[str, set[str]]) -> None:
    """At each level, what lies in a folder is taken for the module or the folder there that it is in."""
    circles = {}
    for folder in sorted({name.rpartition(".")[0] for name in imports} - {"", "vyre_driver"}):
        depth = folder.count(".") + 1
        graph = defaultdict(set)
        for name, found in imports.items():
            if not name.startswith(folder + "."):
                continue
            for foreign in found:
                if foreign.startswith(folder + "."):
                    own, other = name.split(".")[depth], foreign.split(".")[depth]
                    if own != other:
                        graph[own].add(other)
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circles[folder] = error.args[1]
    assert circles == {}


def test_no_module_is_imported_by_a_computed_name_but_the_compiled_ones_that_doctor_looks_for(
    sources: dict[str, Source],
) -> None:
    found = {
        name
        for name, source in sources.items()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {"import_module", "__import__"}
        if not isinstance(node.args[0], ast.Constant) or str(node.args[0].value).startswith("vyre_driver")
    }
    assert found == {"vyre_driver.cli.doctor_package"}
