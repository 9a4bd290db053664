"""What stubs say against what there is: those of compiled modules, and those that are written for kernels."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import vyre_driver
from vyre_driver.runtime.kernel import Kernel
from vyre_driver.runtime.tuned_program import TunedProgram
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.spirv.stub import stub_of

ROOT = Path(vyre_driver.__file__).parent
STUBS = sorted(one for one in ROOT.rglob("*.pyi") if one.name != "__init__.pyi")  # a package's is held in tests/lang
INTERNAL = {"source"}  # of a kernel, for the rest of the package
Function = ast.FunctionDef | ast.AsyncFunctionDef


def parameters(function: Function) -> list[str]:
    arguments = function.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def found_parameters(called: object) -> list[str] | None:
    """Return the names of the parameters, None where the interpreter does not know them."""
    try:
        return list(inspect.signature(called).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def differences(module: object, tree: ast.Module | ast.ClassDef, where: str) -> list[str]:
    """Return what a stub declares and the module has not, or has with other parameters."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not any(isinstance(one, ast.Name) and "Protocol" in one.id for one in node.bases):
            if not hasattr(module, node.name):
                found.append(f"{where}.{node.name} is not there")
            else:
                found += differences(getattr(module, node.name), node, f"{where}.{node.name}")
        elif isinstance(node, ast.FunctionDef) and not (node.name == "__init__" or node.decorator_list):
            if not hasattr(module, node.name):
                found.append(f"{where}.{node.name} is not there")
                continue
            there = found_parameters(getattr(module, node.name))
            declared = parameters(node)
            if node.name.startswith("__"):
                continue  # of the interpreter's own making
            if there is not None and there != declared:
                found.append(f"{where}.{node.name} takes {there}, and the stub says {declared}")
    return found


@pytest.mark.parametrize("path", STUBS, ids=lambda path: path.stem)
def test_the_stub_of_a_compiled_module_says_what_the_module_takes(path: Path) -> None:
    name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    assert differences(importlib.import_module(name), ast.parse(path.read_text("utf-8")), name) == []


def kernel_in(stub: str) -> ast.ClassDef:
    (found,) = [node for node in ast.parse(stub).body if isinstance(node, ast.ClassDef)]
    return found


@pytest.mark.parametrize("shader", ["saxpy", "mandelbrot"])
@pytest.mark.parametrize("method", ["__call__", "bind"])
def test_the_stub_of_a_kernel_takes_by_keyword_what_the_kernel_takes(shader: str, method: str) -> None:
    module = shipped_module(shader)
    declared = [
        [one.arg for one in node.args.kwonlyargs]
        for node in kernel_in(stub_of(module)).body
        if isinstance(node, ast.FunctionDef) and node.name == method
    ]
    pushed = [one.name for one in module.reflection.push_constants]
    for kernel in (Kernel, TunedProgram):
        found = inspect.signature(getattr(kernel, method)).parameters.values()
        wanted = [one.name for one in found if one.kind is inspect.Parameter.KEYWORD_ONLY]
        assert declared == [[*pushed, *wanted], wanted] * (len(declared) // 2)
    assert declared


def test_the_stub_of_a_kernel_has_all_that_a_kernel_has() -> None:
    declared = {node.name for node in kernel_in(stub_of(shipped_module("saxpy"))).body if isinstance(node, ast.FunctionDef)}
    tree = ast.parse(inspect.getsource(Kernel))
    own = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not node.attr.startswith("_")
        and isinstance(node.value, ast.Name) and node.value.id == "self"
    }  # fmt: skip
    public = {name for name in dir(Kernel) if not name.startswith("_")} | own
    assert declared - {"__call__"} == public - INTERNAL
