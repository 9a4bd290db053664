"""Kernels as Python stubs, which a type checker accepts and holds their callers to."""

from __future__ import annotations

import ast
import importlib.util
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from assembler import BASE, assemble, op, text
from literals import refusal

import vyre_driver
from vyre_driver.errors import UnsupportedFeature
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.spirv.stub import stub_of

if TYPE_CHECKING:
    from conftest import RunChild

ROOT = Path(vyre_driver.__file__).parents[1]
TEXT = ROOT / "tests/golden/text"
NAMES = ["class", "groups", "1st", "a b", '"""', "back\\slash", "línea", "__init__", "x\ny", "x_y", "$"]

USE = """
from typing import TYPE_CHECKING, cast

import numpy as np

import vyre_driver
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from mandelbrot import Kernel as Mandelbrot
    from saxpy import Kernel as Saxpy
    from everything import Kernel as Everything, Specs

with vyre_driver.Driver() as driver:
    saxpy = cast("Saxpy", driver.compile(shipped_module("saxpy")))
    x, ints = np.zeros(4, np.float32), np.zeros(4, np.int32)
    y = saxpy(x, x, push_constants={"alpha": 2, "count": 4}, workgroups=(1,))
    bound = saxpy.bind(driver.buffer(x), driver.buffer(y), push_constants={"alpha": 2.0, "count": 4})
    bound.run()
    print(saxpy.trace.key, y.mean())
    mandelbrot = cast("Mandelbrot", driver.compile(shipped_module("mandelbrot")))
    place = {"left": 0.0}
    picture = mandelbrot(push_constants={"left": 0, "top": 0, "step": 0.5, "width": 4, "height": 4}, out_shapes={"escape": 16})
    specs: "Specs" = {"TILE": 8, "FAST": False}
    everything = cast("Everything", driver.compile(shipped_module("saxpy"), specs))
    sizes = np.zeros(64, np.uint8)
    result = everything(sizes, sizes, push_constants={"alpha": 1, "start": (1, 2)}, out_shapes={"result": 4})
"""
WRONG = {
    'saxpy(x, push_constants={"alpha": 2, "count": 4})': "Too few arguments",
    'saxpy(ints, x, push_constants={"alpha": 2, "count": 4})': "Argument 1",
    'saxpy(x, x, push_constants={"alpha": 2})': 'Missing key "count"',
    'saxpy(x, x, push_constants={"alpha": 2, "count": 1.5})': 'expression has type "float"',
    "saxpy(x, x)": 'Missing named argument "push"',
    'mandelbrot(push_constants={"left": 0, "top": 0, "step": 0.5, "width": 4, "height": 4})': "No overload variant",
    'wrong: "Specs" = {"NOPE": 1}': 'Extra key "NOPE"',
}


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
    return found | {"strange": stub_of(strange_names()), "everything": everything}


def test_a_stub_is_written_as_it_was() -> None:
    found = stubs()["everything"].splitlines()[1:]  # the first names the file
    assert found == (TEXT / "everything.pyi.txt").read_text("utf-8").splitlines()[1:]


def test_names_that_python_does_not_allow_are_replaced_and_kept_apart() -> None:
    tree = ast.parse(stub_of(strange_names()))
    (call,) = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__call__"]
    assert [one.arg for one in call.args.posonlyargs] == [
        "self",
        "b_class",
        "groups_1",
        "b_1st",
        "a_b",
        "b____",
        "back_slash",
        "l_nea",
        "b___init__",
        "x_y",
        "x_y_1",
        "_",
    ]
    (push,) = [node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "Push"]
    assert isinstance(push.value, ast.Call)
    assert list(ast.literal_eval(ast.unparse(push.value.args[1]).replace(": int", ": 0"))) == NAMES


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
    assert check_types(USE) == (0, "Success: no issues found in 6 source files\n")  # type: ignore[operator]


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
