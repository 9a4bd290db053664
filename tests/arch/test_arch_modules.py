"""The shape of the package: who imports whom, who may touch what, and how long things get."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import vyre_driver
from vyre_driver import errors

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Source

LONGEST_MODULE = 700  # one idea whole, with its helpers
LONGEST_FUNCTION = 40  # without its docstring, which may be as long as the contract needs


def below(imported: set[str], package: str) -> bool:
    return any(name == f"vyre_driver.{package}" or name.startswith(f"vyre_driver.{package}.") for name in imported)


def test_no_modules_import_each_other_in_a_circle(imports: dict[str, set[str]]) -> None:
    circle: list[str] = []
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert circle == []


def test_every_module_was_found(sources: dict[str, Source]) -> None:
    assert {"vyre_driver", "vyre_driver.driver", "vyre_driver.cache.disk", "vyre_driver.kompute._kp"} <= set(sources)


def imports_kp(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any("kp" in alias.name.split(".") for alias in names)
        case ast.ImportFrom(module=str(module), names=names):
            return "kp" in {*module.split("."), *(alias.name for alias in names)}
        case ast.Call(
            func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"), args=[argument, *_]
        ):
            return isinstance(argument, ast.Constant) and "kp" in str(argument.value).split(".")
    return False


def test_only_one_module_imports_kp(sources: dict[str, Source]) -> None:
    found = [name for name, source in sources.items() if any(map(imports_kp, ast.walk(source.tree)))]
    assert found == ["vyre_driver.kompute._kp"]


def touches_environment(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="os"), attr="environ" | "environb" | "getenv" | "getenvb" | "putenv"):
            return True
        case ast.Attribute(attr="environment_variable"):
            return True
        case ast.ImportFrom(module="os", names=names):
            return any(alias.name in {"environ", "environb", "getenv", "getenvb"} for alias in names)
    return False


def test_only_settings_and_the_layer_touch_environment_variables(sources: dict[str, Source]) -> None:
    found = [name for name, source in sources.items() if any(map(touches_environment, ast.walk(source.tree)))]
    # The layer tells the Vulkan loader of itself through the loader's own variables.
    assert found == ["vyre_driver.settings", "vyre_driver.vulkan.layer.enable"]


def test_the_cache_knows_neither_shaders_nor_backends_nor_the_driver(imports: dict[str, set[str]]) -> None:
    """Of Vulkan it knows how versions and the headers of blobs are written."""
    formats = {"vyre_driver.vulkan.blob", "vyre_driver.vulkan.version"}
    found = {
        (name, foreign)
        for name, imported in imports.items()
        for foreign in ("ir", "spirv", "backends", "driver", "cli", "binding", "vulkan")
        if name.startswith("vyre_driver.cache") and below(imported - formats, foreign)
    }
    assert found == set()


def test_the_tuning_store_knows_neither_programs_nor_shaders_nor_backends(imports: dict[str, set[str]]) -> None:
    found = {
        (name, foreign)
        for name, imported in imports.items()
        for foreign in (
            "ir",
            "spirv",
            "backends",
            "driver",
            "cli",
            "binding",
            "vulkan",
            "cache",
            "specialization",
        )
        if name.startswith("vyre_driver.autotune.store") and below(imported, foreign)
    }
    assert ("vyre_driver.autotune.store.record" in imports, found) == (True, set())


def test_only_driver_and_cli_see_both_cache_and_kompute(imports: dict[str, set[str]]) -> None:
    both = {name for name, imported in imports.items() if below(imported, "cache") and below(imported, "kompute")}
    assert {name for name in both if not name.startswith("vyre_driver.cli")} == {
        "vyre_driver.driver",
        "vyre_driver.isolated.child",
        "vyre_driver.isolated.driver",
    }


def test_nothing_but_the_command_line_imports_the_command_line(imports: dict[str, set[str]]) -> None:
    found = {name for name, imported in imports.items() if below(imported, "cli") and not name.startswith("vyre_driver.cli")}
    assert found == {"vyre_driver.__main__"}


def test_no_module_is_longer_than_700_lines(sources: dict[str, Source]) -> None:
    lengths = {name: len(source.text.splitlines()) for name, source in sources.items()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_no_file_of_cython_or_c_is_longer_than_700_lines(root: Path) -> None:
    package = root / "vyre_driver"
    written = [path for path in package.rglob("*") if path.suffix in {".pyx", ".pxd", ".pxi", ".pyi", ".c", ".h"}]
    lengths = {
        str(path.relative_to(package)): len(path.read_text("utf-8").splitlines())
        for path in written
        if not (path.suffix == ".c" and path.with_suffix(".pyx").exists())  # which Cython has written
    }
    assert "_fast.pyx" in lengths
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_no_module_of_the_tests_is_longer_than_700_lines(root: Path) -> None:
    tests = root / "tests"
    lengths = {str(path.relative_to(tests)): len(path.read_text("utf-8").splitlines()) for path in tests.rglob("*.py")}
    assert "conftest.py" in lengths
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from ``def`` to the end, decorators and docstring left out."""
    docstring = function.body[0] if ast.get_docstring(function) is not None else None
    lines = (function.end_lineno or 0) - function.lineno + 1
    return lines - ((docstring.end_lineno or 0) - docstring.lineno + 1 if docstring else 0)


def test_no_function_is_longer_than_40_lines_without_its_docstring(sources: dict[str, Source]) -> None:
    lengths = {
        f"{name}.{node.name}": body_lines(node)
        for name, source in sources.items()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def error_names() -> set[str]:
    return {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, errors.VyreError)}


def test_every_error_is_made_with_advice(sources: dict[str, Source]) -> None:
    calls = [
        (f"{name}:{node.lineno}", any(keyword.arg == "fix" for keyword in node.keywords))
        for name, source in sources.items()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in error_names()
    ]
    assert ([place for place, advised in calls if not advised], len(calls) > 50) == ([], True)


def test_advice_that_is_written_out_ends_without_a_full_stop(sources: dict[str, Source]) -> None:
    """The error adds it."""
    ends = [
        f"{name}:{node.lineno}"
        for name, source in sources.items()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.keyword) and node.arg == "fix" and isinstance(node.value, ast.Constant)
        if str(node.value.value).endswith(".")
    ]
    assert ends == []


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [value.code for value in map(vars(errors).get, sorted(error_names())) if "code" in vars(value)]
    assert len(codes) == len(set(codes))


def test_the_public_names_are_listed_in_order_and_whole() -> None:
    modules = type(errors)
    public = sorted(
        name
        for name in dir(vyre_driver)
        if not name.startswith("_")
        and name != "TYPE_CHECKING"
        and (name in {"errors", "kernels"} or not isinstance(getattr(vyre_driver, name), modules))
    )
    assert vyre_driver.__all__ == sorted([*public, "__version__"])


def test_importing_a_driver_imports_no_part_of_the_ir(early: dict[str, set[str]]) -> None:
    reached, waiting = set(), ["vyre_driver.driver"]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(early.get(name, ()))
    assert [name for name in sorted(reached) if below({name}, "ir")] == []


def test_the_ir_knows_errors_and_numbers_of_the_package_and_nothing_else(imports: dict[str, set[str]]) -> None:
    found = {
        foreign
        for name, imported in imports.items()
        for foreign in imported
        if name.startswith("vyre_driver.ir") and not foreign.startswith("vyre_driver.ir")
    }
    assert found == {"vyre_driver.errors", "vyre_driver.checks"}


def test_lowering_knows_programs_plans_and_the_builders_and_neither_device_nor_cache(imports: dict[str, set[str]]) -> None:
    found = {
        foreign
        for name, imported in imports.items()
        for foreign in imported
        if name.startswith("vyre_driver.lowering.emit")
        and not foreign.startswith(("vyre_driver.lowering.emit", "vyre_driver.ir"))
    }
    spirv = {f"vyre_driver.spirv.{part}" for part in ("builder", "interface", "layout", "opcodes")}
    binding = {"vyre_driver.binding.plan", "vyre_driver.binding.pushed"}
    assert found == {*binding, "vyre_driver.checks", "vyre_driver.errors", *spirv}


def test_reading_modules_needs_no_lowering(imports: dict[str, set[str]]) -> None:
    found = {
        name
        for name, imported in imports.items()
        if below(imported, "lowering.emit") and not name.startswith("vyre_driver.lowering.emit")
    }
    scheduling = "vyre_driver.distributed.scheduling"
    assert found == {"vyre_driver.lowering.program", "vyre_driver.backends.reference.dispatch", scheduling}
