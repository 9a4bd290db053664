"""Kernels as Python stubs, which a type checker accepts and holds their callers to."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from assembler import BASE, assemble, op, text
from literals import refusal

import vyre_driver
from vyre_driver.errors import UnsupportedFeature
from vyre_driver.runtime.kernel import Kernel
from vyre_driver.runtime.tuned_program import TunedProgram
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.spirv.stub import stub_of

if TYPE_CHECKING:
    from conftest import RunChild

ROOT = Path(vyre_driver.__file__).parents[1]
TEXT = ROOT / "tests/golden/text"
NAMES = ["class", "workgroups", "1st", "a b", '"""', "back\\slash", "línea", "__init__", "x\ny", "x_y", "$"]

USE = """
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

import vyre_driver
from vyre_driver import Buffer
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from mandelbrot import Kernel as Mandelbrot, PushConstants
    from saxpy import Kernel as Saxpy
    from everything import Constants, Kernel as Everything
    from two_outputs import Kernel as TwoOutputs

with vyre_driver.Driver() as driver:
    module = shipped_module("saxpy")
    saxpy = cast("Saxpy", driver.compile(module))
    x, ints = np.zeros(4, np.float32), np.zeros(4, np.int32)
    a, b = driver.buffer(x), driver.buffer(x)
    array: NDArray[np.float32] = saxpy(x, x, alpha=2, count=4, workgroups=(1,))
    array = saxpy(x, y=b, push_constants={"alpha": 2, "count": 4}, invocations=4, timeout=1.0)
    array = saxpy(a, b, alpha=2, count=4, out=x)
    buffer: Buffer = saxpy(a, y=b, alpha=2.0, count=4, label="here")
    buffer = saxpy(a, b, push_constants={"alpha": 2, "count": 4})
    buffer = saxpy(x, x, alpha=2.0, count=4, out=b)
    saxpy.bind(a, b, push_constants={"alpha": 2.0, "count": 4}).run()
    saxpy.bind(y=a, x=b, alpha=2.0, count=4, invocations=(4, 1, 1)).run()
    print(saxpy.trace.key, saxpy.name, saxpy.workgroup_size[0], saxpy.buffers[0].name, saxpy.push_constants[0].offset)
    mandelbrot = cast("Mandelbrot", driver.compile(module))
    place: "PushConstants" = {"left": 0, "top": 0, "step": 0.5, "width": 4, "height": 4}
    print(mandelbrot(push_constants=place, out_shapes={"escape": (4, 4)}).mean())
    print(mandelbrot(push_constants=place, out=driver.empty(16, "u4")).read())
    constants: "Constants" = {"TILE": 8, "FAST": False}
    everything = cast("Everything", driver.compile(module, constants))
    sizes = {"shape": (1, 2), "steps": [0.0, 1.0, 2.0]}
    array = everything(sizes, np.zeros(64, np.uint8), alpha=1, start=(1, 2), out_shapes={"result": 4})
    buffer = everything(header=a, sizes=b, alpha=1, start=(1, 2), out_shapes={"result": 4})
    array = everything(array, sizes, a, alpha=1, start=x)
    two = cast("TwoOutputs", driver.compile(module))
    first, second = two(ints, out_shapes={"f": 4})
    print(first.mean(), second.mean(), [one.read() for one in two(a, b)])
    two(a, out=(None, x), out_shapes={"f": 4})
"""
NO_FORM = "No overload variant"
WRONG = {
    "saxpy(x, alpha=2, count=4)": NO_FORM,
    "saxpy(ints, x, alpha=2, count=4)": "Argument 1",
    "saxpy(x, x, alpha=2)": NO_FORM,
    "saxpy(x, x, alpha=2, count=1.5)": NO_FORM,
    'saxpy(x, x, push_constants={"alpha": 2})': NO_FORM,
    "saxpy(x, x)": NO_FORM,
    "saxpy(x, x, alpha=2, count=4, groups=1)": NO_FORM,
    "saxpy(x, z=x, alpha=2, count=4)": NO_FORM,
    "saxpy(a, b, alpha=2, count=4).mean()": '"Buffer" has no attribute "mean"',
    "saxpy(a, x, alpha=2, count=4).read()": 'has no attribute "read"',
    "saxpy.bind(x, x, alpha=2, count=4)": NO_FORM,
    "mandelbrot(push_constants=place)": NO_FORM,
    'mandelbrot(push_constants=place, out_shapes={"nope": 16})': NO_FORM,
    'wrong: "Constants" = {"NOPE": 1}': 'Extra key "NOPE"',
    'short: "PushConstants" = {"left": 0.0}': "Missing keys",
}
TWO_OUTPUTS = """
#version 450
layout(local_size_x = 64) in;
layout(binding = 0) writeonly buffer F { float f[]; };
layout(binding = 1) buffer G { int g[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < g.length()) { f[i] = 1.0; g[i] = 2; } }
"""


def strange_names() -> SpirvModule:
    """A module whose buffers, constants and push constants have names that Python does not allow."""
    parts = BASE | {"set": op(), "binding": op(), "variable": op()}
    decorations, declarations = [], []
    for at, name in enumerate(NAMES):
        variable, constant = 30 + at, 50 + at
        decorations += [*op(5, variable, *text(name)), *op(71, variable, 34, 0), *op(71, variable, 33, at)]
        decorations += [*op(5, constant, *text(name)), *op(71, constant, 1, at)]
        declarations += [*op(59, 8, variable, 12), *op(50, 10, constant, 7)]
    decorations += [
        word for at, name in enumerate(NAMES) for word in (*op(6, 80, at, *text(name)), *op(72, 80, at, 35, 4 * at))
    ]
    declarations += [*op(30, 80, *[10] * len(NAMES)), *op(32, 81, 9, 80), *op(59, 81, 82, 9)]
    return SpirvModule.from_bytes(assemble(parts | {"decorations": decorations, "declarations": declarations}), name='a"\\')


def stubs() -> dict[str, str]:
    found = {name: stub_of(shipped_module(name)) for name in ("saxpy", "byte_histogram", "mandelbrot")}
    everything = stub_of(SpirvModule.from_glsl(TEXT / "everything.comp"))
    two_outputs = stub_of(SpirvModule.from_glsl(TWO_OUTPUTS))
    return found | {"strange": stub_of(strange_names()), "everything": everything, "two_outputs": two_outputs}


def test_a_stub_is_written_as_it_was() -> None:
    found = stubs()["everything"].splitlines()[1:]  # the first names the file
    assert found == (TEXT / "everything.pyi.txt").read_text("utf-8").splitlines()[1:]


def calls_in(stub: str) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(ast.parse(stub)) if isinstance(node, ast.FunctionDef) and node.name == "__call__"]


def test_names_that_python_does_not_allow_are_replaced_kept_apart_and_given_by_position() -> None:
    text = stub_of(strange_names())
    assert {tuple(one.arg for one in call.args.posonlyargs) for call in calls_in(text)} == {
        (
            "self",
            "b_class",
            "workgroups_1",
            "b_1st",
            "a_b",
            "b____",
            "back_slash",
            "l_nea",
            "b___init__",
            "x_y",
            "x_y_1",
            "_",
        )
    }
    (push,) = [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PushConstants"
    ]
    assert isinstance(push.value, ast.Call)
    assert list(ast.literal_eval(ast.unparse(push.value.args[1]).replace(": int", ": 0"))) == NAMES


def test_names_that_python_allows_are_given_by_position_or_name() -> None:
    calls = calls_in(stub_of(shipped_module("saxpy")))
    assert {tuple(one.arg for one in call.args.args) for call in calls} == {("self", "x", "y")}
    assert [len(call.args.posonlyargs) for call in calls] == [0] * len(calls)


@pytest.mark.parametrize(("name", "by_keyword"), [("alpha", True), ("timeout", False), ("lambda", False), ("f", False)])
def test_push_constants_are_keywords_unless_a_name_is_taken(name: str, by_keyword: bool) -> None:  # noqa: FBT001 -- a parameter
    pushed = f"layout(push_constant) uniform Push {{ float {name}; uint count; }} push;"
    calls = calls_in(stub_of(SpirvModule.from_glsl(TWO_OUTPUTS.replace("void main", f"{pushed}\nvoid main"))))
    named = [{one.arg for one in call.args.kwonlyargs} >= {name, "count"} for call in calls]
    assert (any(named), all(named)) == (by_keyword, False)


def test_a_shader_that_cannot_run_has_no_stub() -> None:
    module = SpirvModule.from_glsl(TEXT / "foreign.comp")
    assert refusal(lambda: stub_of(module))[:2] == (UnsupportedFeature, 1002)


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What mypy found out about numpy and this package: when `make check` ran it, and in the test before."""
    cache = tmp_path_factory.mktemp("mypy")
    if (ROOT / ".mypy_cache").is_dir():
        shutil.copytree(ROOT / ".mypy_cache", cache, dirs_exist_ok=True)
    return cache


@pytest.fixture
def check_types(tmp_path: Path, run_python: RunChild, mypy_cache: Path) -> object:
    """Write the stubs and a program beside them, and return what mypy says of all."""
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")

    def check(program: str) -> tuple[int, str]:
        for name, stub in stubs().items():
            (tmp_path / f"{name}.pyi").write_text(stub)
        (tmp_path / "use.py").write_text(program)
        files = [str(tmp_path / f"{name}.pyi") for name in stubs()] + [str(tmp_path / "use.py")]
        # In the folder, and with the options, of `make check`: else mypy takes what it knows for another package's.
        options = ["--cache-dir", str(mypy_cache), "--no-color-output"]
        done = run_python("-m", "mypy", *options, *files, cwd=ROOT, env={"MYPYPATH": str(tmp_path)}, hangs_after_s=300)
        return done.status, done.stdout

    return check


def test_a_type_checker_accepts_the_stubs_and_who_calls_them_right(check_types: object) -> None:
    assert check_types(USE) == (0, "Success: no issues found in 7 source files\n")  # type: ignore[operator]


def test_a_type_checker_finds_each_wrong_call(check_types: object) -> None:
    lines = "".join(f"    {line}\n" for line in WRONG)
    status, said = check_types(USE + lines)  # type: ignore[operator]
    first = USE.count("\n") + 1
    missed = [
        line
        for at, (line, complaint) in enumerate(WRONG.items())
        if not any(f"use.py:{first + at}:" in one and complaint in one for one in said.splitlines())
    ]
    assert (status, missed) == (1, []), said


def test_a_block_larger_than_any_device_has_room_for_is_typed_without_laying_it_out() -> None:
    text = "layout(push_constant) uniform Push { float huge[300000000]; };\nlayout(binding = 0) buffer Y { float y[]; };"
    found = stub_of(
        SpirvModule.from_glsl(f"#version 450\nlayout(local_size_x = 1) in;\n{text}\nvoid main() {{ y[0] = huge[1]; }}\n")
    )
    assert "'huge': Sequence[float] | NDArray[Any],  # 300000000 x f32" in found


PACKAGE = Path(vyre_driver.__file__).parent
STUBS = sorted(one for one in PACKAGE.rglob("*.pyi") if one.name != "__init__.pyi")  # a package's is held in tests/lang
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
            if node.name.startswith("__"):
                continue  # of the interpreter's own making: Python 3.11 has no __buffer__, for one
            if not hasattr(module, node.name):
                found.append(f"{where}.{node.name} is not there")
                continue
            there = found_parameters(getattr(module, node.name))
            declared = parameters(node)
            if there is not None and there != declared:
                found.append(f"{where}.{node.name} takes {there}, and the stub says {declared}")
    return found


@pytest.mark.parametrize("path", STUBS, ids=lambda path: path.stem)
def test_the_stub_of_a_compiled_module_says_what_the_module_takes(path: Path) -> None:
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
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
