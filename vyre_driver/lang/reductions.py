"""Reductions and scans: elements of an array combined to one, and each with all before it; written as kernels in Python.

Both go along an axis of an array that is seen as rows of columns, by functions of the caller's whose types are found for each
type of elements.
"""

from __future__ import annotations

import builtins
import math
import types
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from vyre_driver.checks import integer_within
from vyre_driver.display.line import one_line
from vyre_driver.display.tracebacks import shortens_tracebacks
from vyre_driver.errors import InvalidInput, KernelTypeError
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang.frontend.builtins.written import as_written
from vyre_driver.lang.frontend.calls import counts_of
from vyre_driver.lang.frontend.translation import MAX_EXTENT
from vyre_driver.lang.function import Function
from vyre_driver.lang.kernel import kernel
from vyre_driver.lang.launch.arrays import host_conversion, read_array
from vyre_driver.lang.launch.default_driver import DEFAULT
from vyre_driver.lang.pickling import carried
from vyre_driver.lang.source.parameters import Parameter
from vyre_driver.lang.source.scan import accepts
from vyre_driver.lang.types import Access, ArrayType, ScalarType, bool_, f32, type_of, u8
from vyre_driver.process.copies import refuse_copies

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from typing_extensions import Self

    from vyre_driver.driver import Driver
    from vyre_driver.lang.kernel import Kernel

    Changed = Callable[[], str | None]

    Returned = Callable[[object, str, tuple[ScalarType, ...]], ScalarType]

T = TypeVar("T")

BLOCK = 256
"""Invocations of the workgroups, the same on every device: so is the order in which elements are combined."""
MOST_GROUPS = 32_768
"""Workgroups of a dispatch; what is more goes round. Every device has 65,535."""

LONGEST_LOOP = 16_384
"""Turns of a loop over elements: LLVMpipe ends one after 65,535."""
_TAKEN = {"combine", "element", "finish", "g", "held", "i", "i32", "map_", "out", "result", "totals", "u32", "x", "zero"}


class AlongAxis(NamedTuple):
    """An array as ``rows`` times ``length`` times ``columns`` elements, of which each ``length`` belong together."""

    flat: NDArray[Any] | Buffer
    element: ScalarType
    shape: tuple[int, ...]
    axis: int | None
    rows: int
    length: int
    columns: int

    @property
    def others(self) -> tuple[int, ...]:
        """The shape without the axis; of no axes where the whole array is meant."""
        return () if self.axis is None else self.shape[: self.axis] + self.shape[self.axis + 1 :]


def along_axis(name: str, given: object, axis: object) -> AlongAxis:
    """Return an array as it is gone through along an axis, all of it where that is None.

    Raises
    ------
    InvalidInput
        If it is no array of a type that kernels know, has no such axis, or is too large.
    """
    found = read_array(name, Parameter("x", ArrayType(Access.IN, u8)), given)
    if found is None:
        raise InvalidInput(f"x of {name} is None", fix="give an array", parameter="x")
    element = type_of(found.dtype)
    if element is None:
        raise InvalidInput(
            f"x of {name} is {found.dtype}, which kernels do not compute with",
            fix=host_conversion("x", found, f32),
            parameter="x",
        )
    if isinstance(found, np.ndarray):
        found = np.asarray(found)  # a matrix stays one of two axes however it is reshaped
    shape = tuple(found.shape)
    size = math.prod(shape)
    if size > MAX_EXTENT:
        raise InvalidInput(
            f"x of {name} has {size:,} elements, and {MAX_EXTENT:,} are the most", fix="pass parts of it, one after the other"
        )
    if axis is None:
        return AlongAxis(found.reshape(-1), element, shape, None, 1, size, 1)
    place = integer_within(axis, -len(shape), len(shape) - 1)
    if place is None:
        raise InvalidInput(
            f"axis of {name} is {axis!r}, and x has {len(shape)} axes",
            fix=f"give {-len(shape)} to {len(shape) - 1}, or None" if shape else "give x.reshape(1)",
            axis=axis,
        )
    place %= len(shape)
    rows, columns = math.prod(shape[:place]), math.prod(shape[place + 1 :])
    return AlongAxis(found.reshape(-1), element, shape, place, rows, shape[place], columns)


def in_memory(element: ScalarType) -> np.dtype[Any]:
    """Return the type of the elements of a buffer: bools are words there."""
    return np.dtype(np.uint32) if element is bool_ else element.dtype


def read_back(found: Buffer, element: ScalarType) -> NDArray[Any]:
    """Return what a buffer holds as elements of this type."""
    read: NDArray[Any] = found.read()
    return read != 0 if element is bool_ else read


def as_it_is(value: Any) -> Any:  # noqa: ANN401 -- a number of a kernel
    """Return a number as it is: what stands for a function that is not given."""
    return value


def called_with(function: Any, what: str, count: int) -> Any:  # noqa: ANN401 -- whatever is to be called
    """Return a function that a kernel calls with so many numbers, of an operator as it is written in Python.

    Raises
    ------
    KernelTypeError
        If it cannot be called so, or is none that kernels know.
    """
    if not callable(function):
        raise KernelTypeError(f"{what} is of type {type(function).__name__}", fix="give a function")
    found, example = as_written(function), "lambda a, b: a + b" if count > 1 else "lambda a: a * a"
    known = counts_of(found)
    if known is None and not isinstance(found, (types.FunctionType, types.MethodType, Function)):
        name = getattr(found, "__qualname__", getattr(found, "__name__", type(found).__name__))
        raise KernelTypeError(f"{what} is {name!r}, which kernels do not know", fix=f"give a Python function, as {example}")
    if not (_takes(found, count) if known is None else known[0] <= count <= known[1]):
        name, numbers = getattr(found, "__name__", "a function"), "two numbers" if count > 1 else "one number"
        raise KernelTypeError(
            f"{what} is {name!r}, which cannot be called with {numbers}", fix=f"give one that can, as {example}"
        )
    return found


def _takes(function: Any, count: int) -> bool:  # noqa: ANN401 -- a Python function
    """Whether the function that a kernel inlines for this one can be called with so many numbers."""
    if isinstance(function, Function):
        function = function.function
    if isinstance(function, types.MethodType):
        function, count = function.__func__, count + 1
    return not isinstance(function, types.FunctionType) or accepts(function, count)


def name_of(function: object, otherwise: str) -> str:
    """Return the name of a function for a kernel that calls it: one that means nothing else in the kernel's text."""
    name = str(getattr(function, "__name__", ""))
    if not name.isidentifier():
        return otherwise
    return f"{name}_" if name in _TAKEN or hasattr(builtins, name) else name


class FoundTypes(Generic[T]):
    """What types functions give for elements of a type, found anew where something that they take from outside has changed."""

    def __init__(self, find: Callable[[ScalarType, Returned], T]) -> None:
        """Know none; ``find`` asks by the function that it is given, as ``returned``."""
        self._find = find
        self._known: dict[ScalarType, tuple[T, list[Changed]]] = {}

    def of(self, element: ScalarType) -> T:
        """Return what is found for elements of a type; raises as ``find``."""
        known = self._known.get(element)
        if known is not None and all(changed() is None for changed in known[1]):
            return known[0]
        seen: list[Changed] = []

        def asked(function: object, what: str, types_: tuple[ScalarType, ...]) -> ScalarType:
            found, changed = _returned(function, what, types_)
            seen.append(changed)
            return found

        found = self._find(element, asked)
        self._known[element] = found, seen
        return found


def _returned(function: object, what: str, types_: tuple[ScalarType, ...]) -> tuple[ScalarType, Changed]:
    """Return the type that a function gives for numbers of these types, as elements of arrays.

    The second of what is returned tells what has changed of the values that this depends on.

    Raises
    ------
    KernelTypeError
        If it gives no number.
    KernelSourceError
        If it cannot be translated.
    """
    names = {"function": function, **{f"type_{place}": one for place, one in enumerate(types_)}}
    letters = "abcd"[: len(types_)]
    heads = "".join(f", {letter}: In[type_{place}, 1]" for place, letter in enumerate(letters))
    text = (
        f"def {what}({', '.join(letters)}):\n    return function({', '.join(letters)})\n\n"
        f"def called(i: Index{heads}):\n    {what}({', '.join(f'{letter}[i]' for letter in letters)})\n"
    )
    translated = kernel.from_source(text, names, "called").translated()
    (found,) = translated.typings.returned()
    if not isinstance(found, ScalarType):
        raise KernelTypeError(f"{what} does not return a number that it computes", fix="return one, for example f32(...)")
    return found, translated.captured.changed


def check_combined(name: str, combine: object, held: ScalarType, returned: Returned) -> None:
    """Check that a function makes a number of the same type of two; raises KernelTypeError."""
    found = returned(combine, "combine", (held, held))
    if found is not held:
        raise KernelTypeError(
            f"combine of {name} makes {found} of two {held}", fix=f"let it return {held}, or give it {found} by map"
        )


class Combining(ABC, Generic[T]):
    """Functions that combine elements, the kernels that were made of them, and the driver that was chosen, if one was."""

    def __init__(self, name: str, driver: Driver | None) -> None:
        """Hold no kernels."""
        self.name = name
        self._driver = driver
        self._kernels: dict[object, Kernel] = {}
        self._types: FoundTypes[T] = FoundTypes(self._typed)

    @abstractmethod
    def _carried(self) -> tuple[Any, ...]:
        """Return what it is made of, as it is pickled."""

    @abstractmethod
    def _typed(self, element: ScalarType, returned: Returned) -> T:
        """Return the types for elements of a type; raises KernelTypeError where functions do not fit."""

    def on(self, driver: Driver) -> Self:
        """Return the same on a driver, instead of that of its buffers or the default one."""
        made = object.__new__(type(self))
        vars(made).update(vars(self), _driver=driver)
        return made

    def __copy__(self) -> Self:
        """Return itself: it does not change."""
        return self

    def __deepcopy__(self, _: object) -> Self:
        """Return itself: it does not change."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it by its functions; raises TypeError for one that was put on a driver."""
        if self._driver is not None:
            refuse_copies(self, 0)
        return type(self), self._carried()

    def _driver_for(self, flat: NDArray[Any] | Buffer) -> Driver:
        """Return the driver of a call: its own, else that of a buffer, else the default one."""
        of_buffer: Driver | None = flat.device.driver() if isinstance(flat, Buffer) else None
        return self._driver or of_buffer or DEFAULT.get()

    def _kernel(self, key: object, text: str, names: dict[str, Any]) -> Kernel:
        """Return the kernel of a key, made of a text with these names at first."""
        made = self._kernels.get(key)
        if made is None:
            made = self._kernels[key] = kernel.from_source(text.format(name=self.name), names, self.name)
        return made


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


_ENOUGH_COLUMNS = 16 * BLOCK  # so many columns need no parts

# Each workgroup scans 256 elements of a row, and leaves what all of them make.
_SCAN_BLOCKS = """
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
_SCAN_COLUMNS = """
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
_SCAN_BEHIND = """
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
        span = length if columns > 1 and rows * columns >= _ENOUGH_COLUMNS and length <= LONGEST_LOOP else BLOCK
        blocks = -(-length // max(span, 1))
        lines = rows * blocks * columns
        if not lines:
            return
        totals = driver.empty((lines,), in_memory(held))
        if columns == 1:
            groups = min(lines, MOST_GROUPS)
            made = self._kernel_of(_SCAN_BLOCKS, given.element, held).on(driver)
            made.groups(groups)(given.flat, out, totals, length, blocks, -(-lines // groups))
        else:
            made = self._kernel_of(_SCAN_COLUMNS, given.element, held).on(driver)
            made.over(lines)(given.flat, out, totals, length, blocks, span, columns)
        if blocks == 1:
            return
        before = driver.empty((lines,), in_memory(held))
        self._scan(driver, given._replace(flat=totals, element=held, length=blocks), held, before)
        behind = self._kernel_of(_SCAN_BEHIND, held, held).on(driver)
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
