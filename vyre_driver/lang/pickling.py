"""How kernels and their functions are carried to other processes: by name, or by text and what that takes from outside.

What a module has under its name is carried as that name. A closure, and what ``__main__`` defines, which another process has
not, is carried as text; where it is unpickled, the text is kept where Python looks for lines, so that it is translated, and
shown in messages, as here.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import enum
import importlib
import sys
import types
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from vyre_driver.lang.source.text import MAKER, FunctionSource, filename_of, maker_of, remember
from vyre_driver.process.copies import refuse_copies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vyre_driver.lang.function import Function
    from vyre_driver.lang.kernel import Kernel
    from vyre_driver.lang.launch.choices import Choices
    from vyre_driver.lang.launch.fitting import Definition
    from vyre_driver.lang.launch.specializations import Specializations

    Reduced = tuple[Callable[..., Any], tuple[Any, ...]]

_MAIN = frozenset({"__main__", "__mp_main__"})  # multiprocessing gives it the second name in its children
_NUMBERS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), enum.Enum, np.generic, np.dtype)
_PLAIN = (*_NUMBERS, type, TypeVar, types.BuiltinFunctionType, np.ufunc)
_EMPTY = types.CellType()


def reduced_kernel(kernel: Kernel, choices: Choices) -> str | Reduced:
    """Return what pickle keeps of a kernel.

    Raises
    ------
    TypeError
        If it was put on a driver, or takes something from outside that cannot be carried.
    KernelSyntaxError
        If it is carried as text, and that is not at hand.
    """
    driver, over, groups, constants, types_ = choices
    if driver is not None:
        refuse_copies(kernel, 0)
    found = _named(kernel.function)
    if found is kernel:
        return str(kernel.function.__qualname__)
    if any(one is not None for one in (over, groups, constants or types_ or None)):
        is_named = type(found) is type(kernel) and found.definition is kernel.definition
        base = found if is_named else type(kernel)(kernel.function, kernel.definition)
        return _with_choices, (base, over, groups, {**dict(constants), **dict(types_)})
    definition = kernel.definition._replace(programs=None)  # type: ignore[arg-type] # they are made anew
    return _kernel, (type(kernel), type(kernel.definition.programs), _Text(kernel.function, ()), definition)


def reduced_function(function: Function[..., Any]) -> str | Reduced:
    """Return what pickle keeps of a function; raises as ``reduced_kernel``."""
    if _named(function.function) is function:
        return str(function.function.__qualname__)
    return type(function), (_Text(function.function, ()),)


def carried(function: Any) -> Any:  # noqa: ANN401 -- whatever may be called
    """Return what is pickled for a function: itself, or its text where its module does not have it under its name."""
    is_named = not isinstance(function, types.FunctionType) or _named(function) is function
    return function if is_named else _Text(function, ())


def _named(function: types.FunctionType) -> Any:  # noqa: ANN401 -- whatever stands there
    """Return what stands under a function's name in its module; nothing in ``__main__``."""
    found: Any = None if function.__module__ in _MAIN else sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found


class _Text:
    """A function, pickled as its text."""

    def __init__(self, function: types.FunctionType, within: tuple[types.FunctionType, ...]) -> None:
        """Take a function that is carried for those that it is called by."""
        self._function = function
        self._within = (*within, function)

    def __reduce__(self) -> Reduced:
        function = self._function
        source = FunctionSource.of(function)
        is_lambda = isinstance(source.node, ast.Lambda)
        text = ast.unparse(source.node) if is_lambda else "".join(source.lines)
        code = function.__code__
        used = {one.id for statement in source.body for one in ast.walk(statement) if isinstance(one, ast.Name)}
        used -= {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        closure = zip(code.co_freevars, function.__closure__ or (), strict=True)
        facts = {
            "__name__": function.__name__,
            "__module__": function.__module__,
            "__qualname__": function.__qualname__,
            "__doc__": function.__doc__,
            "__annotations__": function.__annotations__,
            "__defaults__": self._carried("a default", function.__defaults__),
            "__kwdefaults__": function.__kwdefaults__,
        }
        names = {name: self._carried(name, function.__globals__[name]) for name in sorted(used & function.__globals__.keys())}
        cells = {name: self._carried(name, cell.cell_contents) for name, cell in closure if cell != _EMPTY}
        first = 1 if is_lambda else source.first_line
        return _function, (source.name, text, first, names, code.co_freevars, cells, facts)

    def _carried(self, name: str, value: object) -> object:
        """Return what is pickled for a value that a function takes from outside."""
        if isinstance(value, types.ModuleType) and value.__name__ not in _MAIN:
            return _Module(value)
        if isinstance(value, types.FunctionType):
            if value in self._within:
                raise self._refusal(name, f"{value.__name__!r}, which calls itself")
            return value if _named(value) is value else _Text(value, self._within)
        if type(value) is tuple:
            return tuple([self._carried(f"{name}[{at}]", one) for at, one in enumerate(value)])
        is_record = isinstance(value, tuple) or dataclasses.is_dataclass(value)
        if is_record or isinstance(value, _PLAIN) or isinstance(getattr(value, "function", None), types.FunctionType):
            return value  # a kernel, or a function that was marked as one of kernels, knows how it is carried
        raise self._refusal(name, f"of type {type(value).__name__}")

    def _refusal(self, name: str, what: str) -> TypeError:
        function = self._within[0].__name__
        return TypeError(
            f"{name!r}, which {self._function.__name__!r} takes from outside, is {what}, and cannot be carried elsewhere. "
            f"Fix: pass it as a parameter, or carry {function}.program().to_wire()."
        )


class _Module:
    """A module, pickled as its name."""

    def __init__(self, module: types.ModuleType) -> None:
        self._name = module.__name__

    def __reduce__(self) -> Reduced:
        return importlib.import_module, (self._name,)


def _function(  # noqa: PLR0913 -- what a function is made of
    name: str,
    text: str,
    first_line: int,
    names: Mapping[str, object],
    free: tuple[str, ...],
    cells: Mapping[str, object],
    facts: Mapping[str, Any],
) -> types.FunctionType:
    """Return the function of a text."""
    is_indented = text[:1].isspace()
    before = "\n" * (first_line - 1 - is_indented) + (
        "if True:\n" if is_indented else ""
    )  # so that its lines keep their numbers
    filename = filename_of(before + text)
    namespace: dict[str, Any] = {"__builtins__": builtins, "__name__": facts["__module__"], **names}
    maker = maker_of(before + text, name, free)
    code = compile(maker, filename, "exec", dont_inherit=True)
    remember(filename, before + text, code)
    exec(code, namespace)  # noqa: S102 -- pickle runs what it is given
    made: types.FunctionType = namespace.pop(MAKER)(*(cells.get(one) for one in free))
    for one, cell in zip(free, made.__closure__ or (), strict=True):
        if one not in cells:
            del cell.cell_contents
    for attribute, value in facts.items():
        setattr(made, attribute, value)
    return made


def _kernel(
    kind: type[Kernel], programs: type[Specializations], function: types.FunctionType, definition: Definition
) -> Kernel:
    return kind(function, definition._replace(programs=programs(function, definition.signature)))


def _with_choices(
    base: Kernel, over: tuple[int, ...] | None, groups: tuple[int, ...] | None, constants: Mapping[str, Any]
) -> Kernel:
    found = base.with_(**constants) if constants else base
    if over is not None:
        return found.over(*over)
    return found if groups is None else found.groups(*groups)
