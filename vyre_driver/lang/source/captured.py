"""The values that a kernel takes from outside: read once for a program, and compared before each call.

What is compared is where a name was looked up (a module's names, a closure's variable), so that a kernel never runs with a
value that is not there any more.
"""

from __future__ import annotations

import builtins
import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import types
    from collections.abc import Mapping

    Objects = tuple[
        tuple[tuple[dict[str, object], str, object], ...],
        tuple[tuple[dict[str, object], str], ...],
        tuple[tuple[types.CellType, object], ...],
        tuple[Any, ...],
    ]


class _Name(NamedTuple):
    """A name in a mapping, and what it stood for."""

    names: Mapping[str, object]
    name: str
    value: object


class _Cell(NamedTuple):
    """A variable of an enclosing function, and what it was."""

    cell: types.CellType
    name: str
    value: object


class _Attribute(NamedTuple):
    """An attribute of a class, and what it was, as ``inspect.getattr_static`` finds it: of a method the function itself."""

    owner: type
    name: str
    value: object


class _Function(NamedTuple):
    """A function whose code was taken, which a reloader replaces in it, and the defaults of its parameters."""

    function: types.FunctionType
    code: types.CodeType
    defaults: object
    named: object

    def has_changed(self) -> bool:
        """Whether it is another function by now."""
        function, code, defaults, named = self
        return function.__code__ is not code or function.__defaults__ is not defaults or function.__kwdefaults__ is not named


_ABSENT = object()
_EXACT = (bool, int, float, complex, str, bytes)


class Captured:
    """What one program was made with."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._names: dict[tuple[int, str], _Name] = {}
        self._cells: dict[int, _Cell] = {}
        self._attributes: dict[tuple[int, str], _Attribute] = {}
        self._functions: dict[int, _Function] = {}

    def look_up(self, function: types.FunctionType, name: str) -> object:
        """Return what a name that a function does not assign stands for in it, and keep that; raises KeyError if nothing."""
        free = function.__code__.co_freevars
        if name in free:
            cell = (function.__closure__ or ())[free.index(name)]
            try:
                value = cell.cell_contents
            except ValueError:
                raise KeyError(name) from None
            self._cells[id(cell)] = _Cell(cell, name, value)
            return value
        if name in function.__globals__:
            return self.attribute(function.__globals__, name)
        self._names[id(function.__globals__), name] = _Name(function.__globals__, name, _ABSENT)  # which may get one
        known = function.__globals__.get("__builtins__", builtins)  # a module, or its names
        return self.attribute(known if isinstance(known, dict) else vars(known), name)

    def attribute(self, names: Mapping[str, object], name: str) -> object:
        """Return what a name stands for among those of a module, and keep that; raises KeyError if nothing."""
        value = names[name]
        self._names[id(names), name] = _Name(names, name, value)
        return value

    def class_attribute(self, owner: type, name: str) -> object:
        """Return what a class has under a name, and keep that: a function, staticmethod, property...; raises AttributeError."""
        value = inspect.getattr_static(owner, name)
        self._attributes[id(owner), name] = _Attribute(owner, name, value)
        return value

    def function(self, function: types.FunctionType) -> None:
        """Keep which code and which defaults a function has."""
        kept = _Function(function, function.__code__, function.__defaults__, function.__kwdefaults__)
        self._functions[id(function)] = kept

    def changed(self) -> str | None:
        """Return the name of something that is not what it was, None if there is none."""
        for names, name, value in self._names.values():
            now = names.get(name, _ABSENT)
            if now is not value and not _is_same(now, value):
                return name
        for cell, name, value in self._cells.values():
            try:
                now = cell.cell_contents
            except ValueError:
                return name
            if now is not value and not _is_same(now, value):
                return name
        for owner, name, value in self._attributes.values():
            now = inspect.getattr_static(owner, name, _ABSENT)
            if now is not value and not _is_same(now, value):
                return f"{owner.__name__}.{name}"
        for one in self._functions.values():
            if one.has_changed():
                return one.function.__name__
        return None

    def objects(self) -> Objects | None:
        """Return names with their values, names without one, variables and functions, to be compared by what they are.

        None where attributes of classes were looked at. Where one is another object, ``changed`` says whether that matters.
        """
        if self._attributes:
            return None
        names: list[tuple[dict[str, object], str, object]] = []
        absent: list[tuple[dict[str, object], str]] = []
        for held, name, value in self._names.values():
            if type(held) is not dict:
                return None
            if value is _ABSENT:
                absent.append((held, name))
            else:
                names.append((held, name, value))
        cells = tuple((one.cell, one.value) for one in self._cells.values())
        return tuple(names), tuple(absent), cells, tuple(map(tuple, self._functions.values()))

    def values(self) -> dict[str, object]:
        """Return what was captured, by name."""
        named = {one.name: one.value for one in self._names.values() if one.value is not _ABSENT}
        return {**named, **{one.name: one.value for one in self._cells.values()}}


def _is_same(now: object, before: object) -> bool:
    """Whether two values make the same program: of one type and equal, where 0.0 is not -0.0, and a NaN is itself."""
    if type(now) is not type(before):
        return False
    if isinstance(before, tuple) and isinstance(now, tuple):
        return len(now) == len(before) and all(map(_is_same, now, before))
    if isinstance(before, np.generic) and isinstance(now, np.generic):
        return now.tobytes() == before.tobytes()
    return type(before) in _EXACT and repr(now) == repr(before)
