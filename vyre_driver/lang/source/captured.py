"""The values that a kernel takes from outside: read once for a program, and compared before each call.

What is compared is where a name was looked up (a module's names, a closure's variable), so that a kernel never runs with a
value that is not there any more.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import types
    from collections.abc import Mapping


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


_ABSENT = object()


class Captured:
    """What one program was made with."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._names: dict[tuple[int, str], _Name] = {}
        self._cells: dict[int, _Cell] = {}

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
        known = function.__globals__.get("__builtins__", builtins)  # a module, or its names
        return self.attribute(known if isinstance(known, dict) else vars(known), name)

    def attribute(self, names: Mapping[str, object], name: str) -> object:
        """Return what a name stands for among those of a module, and keep that; raises KeyError if nothing."""
        value = names[name]
        self._names[id(names), name] = _Name(names, name, value)
        return value

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
        return None

    def values(self) -> dict[str, object]:
        """Return what was captured, by name."""
        named = {one.name: one.value for one in self._names.values()}
        return {**named, **{one.name: one.value for one in self._cells.values()}}


def _is_same(now: object, before: object) -> bool:
    """Whether two values make the same program: of one type and equal, where 0.0 is not -0.0, and a NaN is itself."""
    if type(now) is not type(before):
        return False
    if isinstance(before, tuple) and isinstance(now, tuple):
        return len(now) == len(before) and all(map(_is_same, now, before))
    return isinstance(before, (bool, int, float, str)) and repr(now) == repr(before)
