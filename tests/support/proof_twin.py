"""Plain twins of the compiled proof of a warm call (vyre_driver/binding/_call_form.pyx)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable


def call_form(arrays: tuple[Any, ...], groups: Any, out_shapes: Any, out: Any = None) -> tuple[Any, ...] | None:  # noqa: ANN401 -- any call
    """What decides whether a call fits; None when something is of an unusual type."""
    if not all(type(array) is np.ndarray for array in arrays):
        return None
    if groups is not None and not (type(groups) in {tuple, list} and all(type(count) is int for count in groups)):
        return None
    if out_shapes and not (type(out_shapes) is dict and all(map(_is_plain, out_shapes.values()))):
        return None
    targets = out if type(out) is tuple else (out,)
    if not all(one is None or type(one) is np.ndarray for one in targets):
        return None
    forms = tuple((array.dtype, array.shape) for array in arrays)
    wanted = tuple(None if one is None else (one.dtype, one.shape) for one in targets)
    found = forms, None if groups is None else tuple(groups), tuple(out_shapes.items()) if out_shapes else None
    return found if out is None else (*found, wanted)


def _is_plain(count: object) -> bool:
    return type(count) is int or (type(count) is tuple and all(type(one) is int for one in count))


def matches(form: object, arrays: tuple[Any, ...], groups: object, out_shapes: object, out: object = None) -> bool:
    """Whether a call has that form."""
    return call_form(arrays, groups, out_shapes, out) == form


def taken(form: tuple[Any, ...], given: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]] | None:
    """The arrays and the numbers of a call by position, of which ``form`` has what a ``PositionalForm`` is made of."""
    forms, array_type, places, handed, written, numbers, fixed, count = form
    if len(given) != count:
        return None
    arrays = tuple(given[place] for place in places)
    if not all(type(one) is array_type and (one.dtype, one.shape) == like for one, like in zip(arrays, forms, strict=True)):
        return None
    handed, written = (tuple(given[place] for place in chosen) for chosen in (handed, written))
    return handed, written, {**fixed, **{name: given[place] for name, place in numbers}}


def as_targets(out: Any) -> tuple[Any, ...] | None:  # noqa: ANN401 -- an array, or a tuple of arrays and None
    """The targets as a tuple; None where one cannot be written to as it is, two share memory, or there are more than 16."""
    targets = out if type(out) is tuple else (out,)
    arrays = [one for one in targets if one is not None]
    if len(targets) > 16 or not all(one.flags.c_contiguous and one.flags.writeable for one in arrays):
        return None
    pairs = itertools.combinations(arrays, 2)
    return None if any(np.shares_memory(one, other) for one, other in pairs) else targets


def as_contiguous(
    arrays: tuple[Any, ...], positions: tuple[int | None, ...], copied: Callable[[Any], Any]
) -> list[np.ndarray[Any, Any] | None]:
    """The arrays at these positions, each contiguous and with an axis."""
    return [None if place is None else copied(arrays[place]) for place in positions]
