"""Reductions: the elements of an array combined to one, all of them or those along an axis; written as kernels in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.display.line import one_line
from vyre_driver.display.tracebacks import shortens_tracebacks
from vyre_driver.errors import KernelTypeError
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang.along_axis import (
    BLOCK,
    LONGEST_LOOP,
    MOST_GROUPS,
    Combining,
    along_axis,
    as_it_is,
    called_with,
    check_combined,
    in_memory,
    name_of,
    read_back,
)
from vyre_driver.lang.pickling import carried

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.driver import Driver
    from vyre_driver.lang.along_axis import AlongAxis, Returned
    from vyre_driver.lang.kernel import Kernel
    from vyre_driver.lang.types import ScalarType

_SPAN = 32 * BLOCK
_MOST_PARTS = 1024
_SHORT = 64  # so few in a row are combined by one invocation
_ENOUGH = 16 * BLOCK  # so many columns need no parts

# A workgroup for each part of each row: each invocation takes every 256th element, then pairs of these are combined.
_ROWS = """
def {name}(g: Group[256], x: In[element, 1], out: Out[result, 1], count: u32, parts: u32, span: u32, turns: u32):
    kept = g.shared(held, 256)
    for turn in range(i32(turns)):
        at = u32(g.id) + u32(turn) * u32(g.groups)
        row, part = at // parts, at % parts
        first = part * span
        length = min(span, count - first) if first < count else u32(0)
        total = held(zero)
        for k in range(u32(g.local), length, 256):
            total = combine(total, map_(x[row * count + first + k]))
        kept[g.local] = total
        g.barrier()
        for level in static_range(8):
            if g.local < 128 >> level:
                kept[g.local] = combine(kept[g.local], kept[g.local + (128 >> level)])
            g.barrier()
        if g.local == 0:
            out[at] = finish(kept[0])
        g.barrier()
"""
# An invocation for each part of each column, which goes down it.
_COLUMNS = """
def {name}(i: Index, x: In[element, 1], out: Out[result, 1], count: u32, parts: u32, span: u32, columns: u32):
    above, column = u32(i) // columns, u32(i) % columns
    row, part = above // parts, above % parts
    first = part * span
    length = min(span, count - first) if first < count else u32(0)
    total = held(zero)
    for k in range(length):
        total = combine(total, map_(x[(row * count + first + k) * columns + column]))
    out[i] = finish(total)
"""


class _Functions(NamedTuple):
    """What is called: with two numbers, with each element before, with the result."""

    combine: Callable[..., Any]
    map: Callable[..., Any]
    finish: Callable[..., Any]


class _Types(NamedTuple):
    """The elements of the array, what is combined, and what comes out."""

    element: ScalarType
    held: ScalarType
    result: ScalarType


class _Pass(NamedTuple):
    """One pass over rows times ``length`` times columns: how it goes along the axis, and whether it is the first, the last."""

    are_columns: bool
    is_first: bool
    is_last: bool


class Reduction(Combining[_Types]):
    """Combines the elements of an array to one. Made by :func:`reduction`; may be called from several threads."""

    def __init__(self, functions: _Functions, zero: Any, driver: Driver | None = None) -> None:  # noqa: ANN401 -- a number
        """Hold the functions; made by :func:`reduction`."""
        super().__init__(name_of(functions.combine, "reduction"), driver)
        self._functions, self._zero = functions, zero

    @shortens_tracebacks
    def __call__(self, x: Any, *, axis: int | None = None) -> Any:  # noqa: ANN401 -- an array, a buffer, or a number of numpy
        """Return the elements combined: all of them as a number, or those along an axis as an array.

        A buffer gives a buffer, of no axes where all elements are combined. Nothing combined gives ``finish(zero)``.

        Raises
        ------
        InvalidInput
            If it is no array of a type that kernels know, has no such axis, or is too large.
        KernelSourceError
            If a function cannot be translated, or types do not fit.
        VyreError
            As a kernel.
        """
        given = along_axis(self.name, x, axis)
        types = self._types.of(given.element)
        driver = self._driver_for(given.flat)
        found = self._reduced(driver, given, types).reshape(given.others)
        return found if isinstance(given.flat, Buffer) else read_back(found, types.result)[()]

    def __repr__(self) -> str:
        """Return its name and its zero on one line."""
        return one_line("lang.Reduction", self.name, f"zero {self._zero!r}")

    def _reduced(self, driver: Driver, given: AlongAxis, types: _Types) -> Buffer:
        """Run one pass, or two: how long parts are follows from the array's shape alone."""
        rows, length, columns = given.rows, given.length, given.columns
        are_columns = columns > 1 or (length <= _SHORT and rows > 1)
        if not are_columns:
            span = max(_SPAN, -(-length // _MOST_PARTS))
        elif length <= _SHORT or rows * columns >= _ENOUGH:
            span = min(length, LONGEST_LOOP)
        else:
            span = min(max(_SHORT, -(-length // _MOST_PARTS)), LONGEST_LOOP)
        parts = max(1, -(-length // max(span, 1)))
        is_one = parts == 1
        first = driver.empty((rows * parts * columns,), in_memory(types.result if is_one else types.held))
        self._run(driver, types, _Pass(are_columns, True, is_one), given, (parts, span), first)
        if is_one:
            return first
        out = driver.empty((rows * columns,), in_memory(types.result))
        between = given._replace(flat=first, length=parts)
        self._run(driver, types, _Pass(are_columns, False, True), between, (1, parts), out)
        return out

    def _run(  # noqa: PLR0913 -- of two passes
        self, driver: Driver, types: _Types, which: _Pass, given: AlongAxis, cut: tuple[int, int], out: Buffer
    ) -> None:
        """Run a pass: each line of elements is cut into so many parts, of so many elements."""
        (parts, span), made = cut, self._kernel_of(types, which).on(driver)
        lines = given.rows * parts
        if which.are_columns:
            made.over(lines * given.columns)(given.flat, out, given.length, parts, span, given.columns)
        elif lines:
            groups = min(lines, MOST_GROUPS)
            made.groups(groups)(given.flat, out, given.length, parts, span, -(-lines // groups))

    def _carried(self) -> tuple[Any, ...]:
        return _Functions(*map(carried, self._functions)), self._zero

    def _kernel_of(self, types: _Types, which: _Pass) -> Kernel:
        names = {
            "element": types.element if which.is_first else types.held,
            "held": types.held,
            "result": types.result if which.is_last else types.held,
            "zero": self._zero,
            "combine": self._functions.combine,
            "map_": self._functions.map if which.is_first else as_it_is,
            "finish": self._functions.finish if which.is_last else as_it_is,
        }
        return self._kernel((types, which), _COLUMNS if which.are_columns else _ROWS, names)

    def _typed(self, element: ScalarType, returned: Returned) -> _Types:
        held = returned(self._functions.map, "map", (element,))
        if isinstance(self._zero, float) and held.is_whole and not self._zero.is_integer():
            raise KernelTypeError(f"zero of {self.name} is {self._zero!r}, and it combines {held}", fix="give a whole number")
        check_combined(self.name, self._functions.combine, held, returned)
        return _Types(element, held, returned(self._functions.finish, "finish", (held,)))


def reduction(
    combine: Any = None,  # noqa: ANN401 -- a function
    *,
    zero: bool | float | None = None,
    map: Any = None,  # noqa: A002, ANN401 -- a function
    finish: Any = None,  # noqa: ANN401 -- a function
) -> Any:  # noqa: ANN401 -- a Reduction, or what decorates a function
    """Make what combines the elements of an array to one, or those along an axis: ``reduction(lambda a, b: a + b, zero=0)``.

    It is a decorator too. The order in which elements are combined depends on the array's shape alone, so that the result is
    the same on every device on which the functions are.

    Parameters
    ----------
    combine
        A function of two numbers, also ``operator.add``, ``np.maximum`` and the like, which is taken to be associative and
        commutative: nobody can see that it is.
    zero
        The number that leaves any number as it is when the two are combined.
    map
        A function of each element, called before elements are combined.
    finish
        A function of the result.

    Examples
    --------
    >>> from math import sqrt
    >>> from vyre_driver.lang import reduction
    >>> norm = reduction(map=lambda x: x * x, combine=lambda a, b: a + b, zero=0.0, finish=sqrt)

    Raises
    ------
    KernelTypeError
        If something that is called is no function that kernels know, or takes another number of numbers, or zero is missing or
        no number.
    """
    map_, finish_ = (
        as_it_is if one is None else called_with(one, f"{what} of a reduction", 1)
        for what, one in (("map", map), ("finish", finish))
    )
    if zero is None:
        raise KernelTypeError(
            "a reduction has no zero",
            fix="give the number that leaves any other as it is: zero=0 for a sum, zero=1 for a product",
        )
    zero = zero.item() if isinstance(zero, np.generic) else zero
    if not isinstance(zero, (bool, int, float)):
        raise KernelTypeError(f"zero of a reduction is of type {type(zero).__name__}", fix="give a number")
    if combine is None:
        return lambda function: reduction(function, zero=zero, map=map, finish=finish)
    return Reduction(_Functions(called_with(combine, "combine of a reduction", 2), map_, finish_), zero)
