"""The functions that kernels call and Python has not: in a kernel they are translated, elsewhere they compute with numpy.

Those of numbers alone are in :mod:`vyre_driver.lang.frontend.builtins.own`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_exchange",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xor",
    "ballot",
    "bitcast",
    "lane",
    "local",
    "select",
    "shuffle",
    "shuffle_xor",
    "static_range",
    "subgroup_size",
    "subgroup_sum",
]


def static_range(*bounds: int) -> range:
    """Return ``range(*bounds)``; the loop over it is unrolled, so its variable is a constant in each turn."""
    return range(*bounds)


def local(element: Any, *shape: Any) -> Any:  # noqa: ANN401 -- a type, numbers or a tuple of them, and an array
    """Return an array of the invocation's own, of zeros; its shape is constant: ``local(f32, 8)``, ``local(i32, 3, 3)``."""
    counts = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
    return np.zeros(tuple(int(count) for count in counts), element.dtype)


def bitcast(target: Any, value: Any) -> Any:  # noqa: ANN401 -- a type, and numbers
    """Return the bits of a number as another type of as many: ``bitcast(u32, x)`` of an f32, ``bitcast(f64, x)`` of a u64.

    A float that is written out is one of the width of ``target``, a whole number the i32, u32, i64 or u64 that holds it.
    """
    if isinstance(value, np.generic):
        return np.asarray(value).view(target.dtype)[()]
    kind = "f" if isinstance(value, float) else "i" if value < 0 else "u"
    return np.asarray(value, f"{kind}{target.dtype.itemsize}").view(target.dtype)[()]


def select(condition: object, yes: Any, no: Any) -> Any:  # noqa: ANN401 -- a number
    """Return ``yes`` where the condition holds, else ``no``; both are computed."""
    return yes if condition else no


def _updated(array: Any, at: Any, new: object) -> Any:  # noqa: ANN401 -- an array and its element
    before = array[at]
    array[at] = new
    return before


def atomic_load(array: Any, at: Any) -> Any:  # noqa: ANN401 -- an array and its element
    """Return an element that others may be changing with atomics."""
    return array[at]


def atomic_add(array: Any, at: Any, value: Any) -> Any:  # noqa: ANN401 -- the same
    """Add to an element, and return what was there."""
    return _updated(array, at, array[at] + value)


def atomic_min(array: Any, at: Any, value: Any) -> Any:  # noqa: ANN401 -- the same
    """Keep the lesser in an element, and return what was there."""
    return _updated(array, at, min(array[at], value))


def atomic_max(array: Any, at: Any, value: Any) -> Any:  # noqa: ANN401 -- the same
    """Keep the greater in an element, and return what was there."""
    return _updated(array, at, max(array[at], value))


def atomic_and(array: Any, at: Any, value: Any) -> Any:  # noqa: ANN401 -- the same
    """Clear bits of an element, and return what was there."""
    return _updated(array, at, array[at] & value)


def atomic_or(array: Any, at: Any, value: Any) -> Any:  # noqa: ANN401 -- the same
    """Set bits of an element, and return what was there."""
    return _updated(array, at, array[at] | value)


def atomic_xor(array: Any, at: Any, value: Any) -> Any:  # noqa: ANN401 -- the same
    """Turn bits of an element, and return what was there."""
    return _updated(array, at, array[at] ^ value)


def atomic_exchange(array: Any, at: Any, value: Any) -> Any:  # noqa: ANN401 -- the same
    """Replace an element, and return what was there."""
    return _updated(array, at, value)


def atomic_cas(array: Any, at: Any, expected: Any, value: Any) -> Any:  # noqa: ANN401 -- the same
    """Replace an element that is ``expected``, and return what was there."""
    return _updated(array, at, value if array[at] == expected else array[at])


def _of_a_subgroup(name: str, *_: object) -> RuntimeError:
    return RuntimeError(f"{name} is of a subgroup, which plain Python has not. Fix: run it with VYRE_INTERPRET=1.")


def lane() -> int:
    """Return the invocation's place in its subgroup."""
    raise _of_a_subgroup("lane")


def subgroup_size() -> int:
    """Return the invocations of a subgroup."""
    raise _of_a_subgroup("subgroup_size")


def subgroup_sum(value: Any) -> Any:  # noqa: ANN401 -- a number
    """Return the sum over the active invocations of the subgroup."""
    raise _of_a_subgroup("subgroup_sum", value)


def shuffle(value: Any, at: int) -> Any:  # noqa: ANN401 -- a number
    """Return the value of another invocation of the subgroup, by its place; 0 where that is not active."""
    raise _of_a_subgroup("shuffle", value, at)


def shuffle_xor(value: Any, mask: int) -> Any:  # noqa: ANN401 -- a number
    """Return the value of the invocation whose place differs by the bits of ``mask``."""
    raise _of_a_subgroup("shuffle_xor", value, mask)


def ballot(condition: object) -> Any:  # noqa: ANN401 -- a scalar of numpy
    """Return a word with a bit set for each of the first 32 invocations of the subgroup whose condition holds."""
    raise _of_a_subgroup("ballot", condition)
