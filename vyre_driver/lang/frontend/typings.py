"""What types a translation gave to values that Python has none for: constants that an ``if``, a loop or a return joined.

Plain Python runs the same function with these (:mod:`vyre_driver.lang.interpret.as_python`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from vyre_driver.lang.frontend.values import Merged, Number, Tuple

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from vyre_driver.lang.frontend.values import Value
    from vyre_driver.lang.types import ScalarType

Spot: TypeAlias = "tuple[int, ...]"
Path: TypeAlias = "tuple[Spot, ...]"
Shape: TypeAlias = "ScalarType | tuple[Shape, ...] | None"
"""The type of a number, those of a tuple's items, or None of what stays what it is."""


def spot_of(node: ast.AST) -> Spot:
    """Return where an expression stands in its file."""
    return (
        getattr(node, "lineno", 0),
        getattr(node, "col_offset", 0),
        getattr(node, "end_lineno", 0),
        getattr(node, "end_col_offset", 0),
    )


class Typings:
    """The types of what was joined, by the calls from the kernel down, the place there, and the name."""

    def __init__(self) -> None:
        """Know nothing."""
        self._found: dict[tuple[Path, Spot, str], list[Value]] = {}

    def note(self, calls: Sequence[ast.AST | None], spot: Spot, name: str, value: Value) -> None:
        """Keep what was joined at a place; its type is looked at when the translation is done."""
        path = tuple(spot_of(one) for one in calls if one is not None)
        self._found.setdefault((path, spot, name), []).append(value)

    def within(self, path: Path) -> dict[tuple[Spot, str], Shape]:
        """Return what is known of the places of a function that was called by this way."""
        found: dict[tuple[Spot, str], Shape] = {}
        for (calls, spot, name), values in self._found.items():
            if calls == path:
                shapes = [_shape(value) for value in values]
                found[spot, name] = shapes[0] if all(shape == shapes[0] for shape in shapes) else None
        return found

    def returned(self) -> list[Shape]:
        """Return what is known of what the functions return that the kernel itself calls."""
        return [_shape(values[0]) for (calls, _, name), values in self._found.items() if len(calls) == 1 and name == "returned"]


def _shape(value: Value) -> Shape:
    if isinstance(value, Merged):
        return None if value.number is None else value.number.type
    if isinstance(value, Number):
        return value.type
    return tuple(map(_shape, value.items)) if isinstance(value, Tuple) else None
