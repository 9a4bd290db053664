"""``vyre-driver kernel``: check the kernels of Python files, and show what became of one; no device is opened."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vyre_driver.cli.options import add_json, nearest, pairs, printable, tell
from vyre_driver.errors import FileUnusable, InvalidCommand, InvalidInput, KernelSourceError, VyreError
from vyre_driver.lang import types as language_types
from vyre_driver.lang.kernel import Kernel
from vyre_driver.lang.types import ScalarType, f32

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from types import ModuleType


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes: verbs of its own."""
    actions = parser.add_subparsers(required=True, metavar="ACTION", parser_class=type(parser))
    about = "translate all kernels of Python files; status 1 where one cannot be"
    check = actions.add_parser("check", help=about, description=f"{about.capitalize()}. The files are imported.")
    check.add_argument("files", nargs="+", metavar="FILE", help="Python files")
    add_json(check)
    check.set_defaults(act=_check)
    about = "print the program of a kernel"
    show = actions.add_parser("show", help=about, description=f"{about.capitalize()}, or what else became of it.")
    show.add_argument("kernel", metavar="FILE:NAME", help="a Python file, and a kernel in it")
    what = show.add_mutually_exclusive_group()
    what.add_argument("--spirv", action="store_true", help="print its instructions instead (needs spirv-dis)")
    what.add_argument("--explain", action="store_true", help="print types, grid, remaining checks and accesses instead")
    given = "a constant of it, or a type of its type variables, for example BLOCK=64 or T=f32"
    show.add_argument("--with", dest="given", action="append", default=[], metavar="NAME=VALUE", help=given)
    add_json(show)
    show.set_defaults(act=_show)


def run(options: argparse.Namespace) -> int:
    """Run the action."""
    status: int = options.act(options)
    return status


def _check(options: argparse.Namespace) -> int:
    """Translate each kernel, and print what is wrong with it."""
    found: list[dict[str, object]] = []
    for file in options.files:
        try:
            kernels = _kernels(file)
        except KernelSourceError as error:  # the decorator's
            found.append({"file": file, "kernel": None, "problem": str(error)})
            continue
        found += [{"file": file, "kernel": name, "problem": _problem(one)} for name, one in kernels.items()]
    lines = [_line(one) for one in found] or ["no kernels"]
    tell(options, {"kernels": found}, *lines)
    return int(any(one["problem"] is not None for one in found))


def _line(found: dict[str, object]) -> str:
    where = printable(f"{found['file']}:{found['kernel']}" if found["kernel"] else found["file"])
    problem = found["problem"]
    return f"{where}: ok" if problem is None else f"{where}: {problem}"


def _problem(kernel: Kernel) -> str | None:
    """Return what is wrong with a kernel, for every choice of its types; constants have their defaults."""
    for types in _choices(kernel):
        try:
            kernel.translated(**types)
        except (KernelSourceError, InvalidInput) as error:
            return str(error)
    return None


def _choices(kernel: Kernel) -> Iterator[dict[str, ScalarType]]:
    """Return the types that the type variables of a kernel may stand for."""
    variables = kernel.definition.signature.type_variables
    allowed = [one.__constraints__ or (f32,) for one in variables]
    for types in itertools.product(*allowed):
        yield {one.__name__: kind for one, kind in zip(variables, types, strict=True)}


def _show(options: argparse.Namespace) -> int:
    """Print a kernel's program, its instructions or its explanation."""
    file, _, name = options.kernel.rpartition(":")
    if not file:
        raise InvalidCommand(f"{options.kernel!r} is not FILE:NAME", fix="write a Python file, a colon, and a kernel in it")
    kernels = _kernels(file)
    if name not in kernels:
        meant = nearest(name, kernels) or list(kernels)[:3]
        fix = f"name {' or '.join(meant)}" if meant else "name another file"
        raise InvalidCommand(f"{file} has no kernel {name!r}", fix=fix)
    given = {key: _value(key, text) for key, text in pairs("--with", options.given).items()}
    kernel = kernels[name]
    if options.spirv:
        what, text = "disassembly", kernel.disassemble(**given).removesuffix("\n")
    elif options.explain:
        what, text = "explanation", str(kernel.explain(**given))
    else:
        what, text = "program", str(kernel.program(**given)).removesuffix("\n")
    tell(options, {"kernel": options.kernel, what: text}, text)
    return 0


def _value(name: str, text: str) -> Any:  # noqa: ANN401 -- a constant or a type
    """Return a type by its name, or a constant."""
    found = getattr(language_types, text, None) if text.isidentifier() else None
    if isinstance(found, ScalarType):
        return found
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise InvalidCommand(
            f"--with {name}={text} is neither a number nor a type", fix="write 64, 0.5, True or f32"
        ) from error


def _kernels(file: str) -> dict[str, Kernel]:
    """Return the kernels that a Python file defines, by name; imports it.

    Raises
    ------
    FileUnusable
        If it cannot be imported.
    KernelSourceError
        If a decorator in it refuses a kernel.
    """
    module = _imported(Path(file))
    found = {name: one for name, one in vars(module).items() if isinstance(one, Kernel)}
    return {name: one for name, one in found.items() if one.function.__module__ == module.__name__}


def _imported(path: Path) -> ModuleType:
    """Return a Python file as a module, which finds others beside it."""
    name = path.stem if path.stem not in sys.modules else f"{path.stem} of {path.parent}"
    if not path.exists():
        raise FileUnusable(f"{path} does not exist", fix="name a Python file that is there", path=str(path))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileUnusable(f"{path} is no Python file", fix="name a .py file", path=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[name] = module
    keeps_code, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # a look leaves nothing beside the file
    try:
        spec.loader.exec_module(module)
    except VyreError:
        raise
    except Exception as error:
        raise FileUnusable(
            f"{path} cannot be imported ({type(error).__name__}: {error})", fix="make `python FILE` run first", path=str(path)
        ) from error
    finally:
        sys.dont_write_bytecode = keeps_code
        sys.path.remove(str(path.resolve().parent))
    return module
