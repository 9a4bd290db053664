"""What reductions and scans have in common: the array of a call seen as rows of columns along an axis, and types."""

from __future__ import annotations

import builtins
import math
import types
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from vyre_driver.checks import integer_within
from vyre_driver.errors import InvalidInput, KernelTypeError
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang.decorator import kernel
from vyre_driver.lang.frontend.calls import counts_of
from vyre_driver.lang.frontend.operators import as_written
from vyre_driver.lang.frontend.translation import MAX_EXTENT
from vyre_driver.lang.function import Function
from vyre_driver.lang.launch.arrays import host_conversion, read_array
from vyre_driver.lang.launch.default_driver import DEFAULT
from vyre_driver.lang.source.called import accepts
from vyre_driver.lang.source.parameters import Parameter
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
