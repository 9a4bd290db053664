"""Scans: each element of an array combined with all before it; written as kernels in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.display.line import one_line
from vyre_driver.display.tracebacks import shortens_tracebacks
from vyre_driver.errors import InvalidInput
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
    from vyre_driver.driver import Driver
    from vyre_driver.lang.along_axis import AlongAxis, Returned
    from vyre_driver.lang.kernel import Kernel
    from vyre_driver.lang.types import ScalarType

_ENOUGH = 16 * BLOCK  # so many columns need no parts

# Each workgroup scans 256 elements of a row, and leaves what all of them make.
_BLOCKS = """
def {name}(g: Group[256], x: In[element, 1], out: Out[held, 1], totals: Out[held, 1], count: u32, blocks: u32, turns: u32):
    kept = g.shared(held, 256)
    for turn in range(i32(turns)):
        at = u32(g.id) + u32(turn) * u32(g.groups)
        row, block = at // blocks, at % blocks
        k = block * 256 + u32(g.local)
        place = row * count + k
        value = held(x[place]) if k < count else held(0)
        kept[g.local] = value
        g.barrier()
        for level in static_range(8):
            if g.local >= 1 << level:
                value = combine(kept[g.local - (1 << level)], value)
            g.barrier()
            kept[g.local] = value
            g.barrier()
        if k < count:
            out[place] = value
        if g.local == 255:
            totals[at] = value
        g.barrier()
"""
# An invocation goes down each part of each column, and leaves what all of that makes.
_COLUMNS = """
def {name}(
    i: Index, x: In[element, 1], out: Out[held, 1], totals: Out[held, 1], count: u32, blocks: u32, span: u32, columns: u32
):
    above, column = u32(i) // columns, u32(i) % columns
    row, block = above // blocks, above % blocks
    first = (row * count + block * span) * columns + column
    value = held(x[first])
    out[first] = value
    for k in range(1, min(span, count - block * span)):
        value = combine(value, x[first + k * columns])
        out[first + k * columns] = value
    totals[i] = value
"""
# What the blocks before make comes before each element of a block.
_BEHIND = """
def {name}(i: Index, out: InOut[held, 1], totals: In[held, 1], count: u32, blocks: u32, span: u32, columns: u32):
    above, column = u32(i) // columns, u32(i) % columns
    row, k = above // count, above % count
    block = k // span
    if block > 0:
        out[i] = combine(totals[(row * blocks + block - 1) * columns + column], out[i])
"""


class Scan(Combining["ScalarType"]):
    """Combines each element of an array with all before it. Made by :func:`scan`; may be called from several threads."""

    def __init__(self, combine: Any, driver: Driver | None = None) -> None:  # noqa: ANN401 -- a function
        """Hold the function; made by :func:`scan`."""
        super().__init__(name_of(combine, "scan"), driver)
        self._combine = combine

    @shortens_tracebacks
    def __call__(self, x: Any, *, axis: int = -1) -> Any:  # noqa: ANN401 -- an array or a buffer
        """Return an array like it, whose elements are combined with all before them along an axis, the last one without it.

        A buffer gives a buffer.

        Raises
        ------
        InvalidInput
            If it is no array of a type that kernels know, has no such axis, or is too large.
        KernelSourceError
            If the function cannot be translated, or types do not fit.
        VyreError
            As a kernel.
        """
        if axis is None:
            raise InvalidInput(f"axis of {self.name} is None", fix="give x.reshape(-1)", axis=None)
        given = along_axis(self.name, x, axis)
        held = self._types.of(given.element)
        driver = self._driver_for(given.flat)
        out = driver.empty((given.rows * given.length * given.columns,), in_memory(held))
        self._scan(driver, given, held, out)
        found = out.reshape(given.shape)
        return found if isinstance(given.flat, Buffer) else read_back(found, held)

    def __repr__(self) -> str:
        """Return its name on one line."""
        return one_line("lang.Scan", self.name)

    def _scan(self, driver: Driver, given: AlongAxis, held: ScalarType, out: Buffer) -> None:
        """Scan parts of each line of elements, then what they make, and put that before the elements of each part."""
        rows, length, columns = given.rows, given.length, given.columns
        span = length if columns > 1 and rows * columns >= _ENOUGH and length <= LONGEST_LOOP else BLOCK
        blocks = -(-length // max(span, 1))
        lines = rows * blocks * columns
        if not lines:
            return
        totals = driver.empty((lines,), in_memory(held))
        if columns == 1:
            groups = min(lines, MOST_GROUPS)
            made = self._kernel_of(_BLOCKS, given.element, held).on(driver)
            made.groups(groups)(given.flat, out, totals, length, blocks, -(-lines // groups))
        else:
            made = self._kernel_of(_COLUMNS, given.element, held).on(driver)
            made.over(lines)(given.flat, out, totals, length, blocks, span, columns)
        if blocks == 1:
            return
        before = driver.empty((lines,), in_memory(held))
        self._scan(driver, given._replace(flat=totals, element=held, length=blocks), held, before)
        behind = self._kernel_of(_BEHIND, held, held).on(driver)
        behind.over(rows * length * columns)(out, before, length, blocks, span, columns)

    def _typed(self, element: ScalarType, returned: Returned) -> ScalarType:
        held = returned(as_it_is, "elements", (element,))
        check_combined(self.name, self._combine, held, returned)
        return held

    def _carried(self) -> tuple[Any, ...]:
        return (carried(self._combine),)

    def _kernel_of(self, text: str, element: ScalarType, held: ScalarType) -> Kernel:
        names = {"element": element, "held": held, "combine": self._combine}
        return self._kernel((text, element, held), text, names)


def scan(combine: Any) -> Scan:  # noqa: ANN401 -- a function
    """Make what combines each element of an array with all before it: ``scan(lambda a, b: a + b)`` is numpy's ``cumsum``.

    It is a decorator too. The order in which elements are combined depends on the array's shape alone.

    Parameters
    ----------
    combine
        A function of two numbers, of which the first stands before the second; it is taken to be associative.

    Raises
    ------
    KernelTypeError
        If it is no function of two numbers that kernels know.
    """
    return Scan(called_with(combine, "combine of a scan", 2))
