"""A kernel run as what it is, a Python function: for breakpoints, ``print`` and tracebacks at the user's own lines.

One thread runs the invocations in turns, those of a workgroup from barrier to barrier. Values are scalars of numpy of the types
that the translation gives them, so that results are those of the program: what kernels call is computed with them, and arrays
and workgroups are as plain Python sees them.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import math
import types
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from vyre_driver.errors import DivergentBarrier
from vyre_driver.lang.frontend import intrinsics
from vyre_driver.lang.frontend.builtins.table import TABLE as BUILTINS
from vyre_driver.lang.frontend.builtins.table import in_python
from vyre_driver.lang.frontend.calls import source_of
from vyre_driver.lang.frontend.translate import translate
from vyre_driver.lang.frontend.values import getter_of
from vyre_driver.lang.function import Function
from vyre_driver.lang.interpret.rewriting import rewritten
from vyre_driver.lang.plain.numbers import (
    F32,
    I32,
    U32,
    U64,
    WIDE,
    Plain,
    add,
    alike,
    cast,
    from_memory,
    greatest,
    is_constant,
    least,
    to_bool,
    to_f32,
    to_f64,
    to_i32,
    to_i64,
    to_memory,
    typed,
)
from vyre_driver.lang.types import BY_DTYPE, COMPUTED, SCALARS, ArrayType, ScalarType, bool_, f32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.lang.frontend.translation import Path, Spot, Typings
    from vyre_driver.lang.source.parameters import KernelSignature, Specialization


class PlainArray:
    """An array: an index that is out of range along its axis loads 0, and stores nothing."""

    def __init__(self, name: str, array: NDArray[Any], element: ScalarType, *, is_shared: bool = False) -> None:
        """Look at ``array``, which is written to."""
        self.name = name
        self.array = array
        self.dtype = element
        self.shape = tuple(array.shape) if is_shared else tuple(map(I32, array.shape))
        self.ndim = array.ndim
        self._counts = array.shape
        self._is_plain = element in COMPUTED
        self._is_bool = element is bool_  # words of memory

    @property
    def size(self) -> Plain:
        """The number of elements."""
        return I32(self.array.size) if self.shape and not is_constant(self.shape[0]) else self.array.size

    def __len__(self) -> int:
        """Return the elements along the first axis."""
        found: int = self._counts[0]
        return found

    def has(self, at: Plain) -> bool:
        """Whether there is such an element."""
        if type(at) is tuple:
            return all(0 <= one < count for one, count in zip(at, self._counts, strict=True))
        return bool(0 <= at < self._counts[0])

    def __getitem__(self, at: Plain) -> Plain:
        """Return an element as the type that kernels compute with."""
        if not self.has(at):
            return self._loaded(self.array.dtype.type(0))
        return self._loaded(self.array[at])

    def _loaded(self, found: Plain) -> Plain:
        if self._is_plain:
            return to_bool(found) if self._is_bool else found
        return from_memory(self.dtype, found)

    def __setitem__(self, at: Plain, value: Plain) -> None:
        """Write an element."""
        if self.has(at):
            self.array[at] = self.converted(value)

    def converted(self, value: Plain) -> Plain:
        """Return a value as an element."""
        if self._is_plain:
            return cast(self.dtype, value)
        return to_memory(self.dtype, value)

    def __repr__(self) -> str:
        """Return its name, type and shape."""
        return f"<{self.name}: {self.dtype} {self._counts}>"


class Workgroup:
    """The workgroup of one invocation; ``memory`` is what its invocations share, in the order in which each asks for it."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        groups: tuple[int, ...],
        at: tuple[int, ...],
        local: tuple[int, ...],
        memory: list[PlainArray],
    ) -> None:
        """Be the invocation ``local`` of the workgroup ``at``; the slowest axis first."""
        self.size = _each(sizes)
        self.groups = _each(tuple(map(I32, groups)))
        self.id = _each(tuple(map(I32, at)))
        self.local = _each(tuple(map(I32, local)))
        self.index = _each(tuple(I32(a * size + b) for a, size, b in zip(at, sizes, local, strict=True)))
        self._memory = memory
        self._taken = 0

    def shared(self, element: ScalarType, *shape: Any) -> PlainArray:  # noqa: ANN401 -- numbers, or one tuple
        """Return memory that the workgroup shares."""
        counts = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        if self._taken == len(self._memory):
            array = np.zeros(tuple(int(count) for count in counts), element.dtype)
            self._memory.append(PlainArray(f"shared{self._taken}", array, element, is_shared=True))
        self._taken += 1
        return self._memory[self._taken - 1]

    def barrier(self) -> Iterator[None]:
        """Return what yields once, where the others are waited for."""
        yield


def _each(values: tuple[Any, ...]) -> Any:  # noqa: ANN401 -- a number, or several
    return values[0] if len(values) == 1 else values


def _extreme(of_two: Callable[[Plain, Plain], Plain]) -> Callable[..., Plain]:
    def computed(*given: Plain) -> Plain:
        items = given[0] if len(given) == 1 and isinstance(given[0], tuple) else given
        found = items[0]
        for item in items[1:]:
            found = of_two(found, item)
        return found

    return computed


def _selected(condition: Plain, yes: Plain, no: Plain) -> Plain:
    if is_constant(condition):
        return yes if condition else no
    if is_constant(yes) and is_constant(no):
        floats = isinstance(yes, float) or isinstance(no, float)
        yes, no = (F32(yes), F32(no)) if floats else (typed(yes), typed(no))
    else:
        yes, no = alike(yes, no)
    return yes if condition else no


def _range(*bounds: Plain) -> Iterator[Plain]:
    """Give the turns of a range, whose variable has the type of its bounds."""
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if is_constant(start) and is_constant(stop):
        start = typed(start)
    else:
        start, stop = alike(start, stop)
    kind = type(start)
    return map(kind, range(int(start), int(stop), step))


def _length(value: Plain) -> Plain:
    return len(value) if isinstance(value, (tuple, dict)) else value.shape[0]


def _number_of(kind: type, convert: Callable[[Plain], Plain], of_wide: Callable[[Plain], Plain]) -> Callable[[Plain], Plain]:
    def computed(value: Plain) -> Plain:
        is_kept = is_constant(value) and not (kind is int and isinstance(value, float) and not math.isfinite(value))
        if is_kept:
            return kind(value)
        return of_wide(value) if type(value) in WIDE else convert(value)

    return computed


def _local(element: ScalarType, *shape: Any) -> PlainArray:  # noqa: ANN401 -- numbers, or one tuple
    return PlainArray("local", intrinsics.local(element, *shape), element, is_shared=True)


def _atomic(function: Callable[..., Plain]) -> Callable[..., Plain]:
    """Return an atomic on an element, which does nothing where it is out of range."""

    def computed(array: PlainArray, at: Plain, *values: Plain) -> Plain:
        if not array.has(at):
            return array[at]
        given = [array.converted(value) for value in values]
        if array.dtype is not f32:
            return function(array, at, *given)
        before = array[at]
        array[at] = _F32_ATOMICS.get(function, _replaced)(before, *given)
        return before

    return computed


def _replaced(before: Plain, *given: Plain) -> Plain:
    """Return what an exchange leaves, or a comparison of bits with one."""
    is_replaced = len(given) == 1 or (len(given) > 1 and before.view(U32) == given[0].view(U32))
    return given[-1] if is_replaced else before


def _lesser(one: Plain, other: Plain) -> Plain:
    """Return the lesser of two f32, of which -0.0 is less than 0.0, and any number than NaN."""
    if one != one or other != other:  # noqa: PLR0124 -- NaN
        return one if other != other else other  # noqa: PLR0124 -- the same
    return one if (one, not np.signbit(one)) <= (other, not np.signbit(other)) else other


_F32_ATOMICS: dict[object, Callable[..., Plain]] = {
    intrinsics.atomic_add: add,
    intrinsics.atomic_min: _lesser,
    intrinsics.atomic_max: lambda one, other: -_lesser(-one, -other),
}


def _casts() -> dict[object, Callable[..., Plain]]:
    found: dict[object, Callable[..., Plain]] = {}
    for scalar in SCALARS.values():

        def convert(value: Plain = 0, scalar: Any = scalar) -> Plain:  # noqa: ANN401 -- a type
            return cast(scalar, value)

        found[scalar] = convert
    found.update({dtype.type: found[scalar] for dtype, scalar in BY_DTYPE.items()})
    return found


_ATOMICS = [getattr(intrinsics, name) for name in intrinsics.__all__ if name.startswith("atomic_")]
_COMPUTED: dict[object, Callable[..., Plain]] = {
    **{function: builtin.compute for function, builtin in BUILTINS.items() if builtin.compute is not None},
    min: _extreme(least),
    max: _extreme(greatest),
    np.where: _selected,
    len: _length,
    range: _range,
    int: _number_of(int, to_i32, lambda value: value if type(value) is U64 else to_i64(value)),
    float: _number_of(float, to_f32, to_f64),
    bool: _number_of(bool, to_bool, to_bool),
    **_casts(),
    intrinsics.select: _selected,
    intrinsics.bitcast: intrinsics.bitcast,
    intrinsics.local: _local,
    **{one: _atomic(one) for one in _ATOMICS},
}
"""What is called instead of a function, by that function; those of subgroups are not among them."""


def run_as_python(
    function: types.FunctionType,
    signature: KernelSignature,
    specialization: Specialization,
    arguments: Mapping[str, object],
    grid: Sequence[int],
) -> None:
    """Run a kernel as Python, and leave in its arrays what the program would.

    Parameters
    ----------
    arguments
        An array of numpy, which is written to in its place, or a number for each parameter, by name.
    grid
        How far the indices go, or how many workgroups there are: along each axis, the slowest first.

    Raises
    ------
    KernelSyntaxError
        If the function is not a kernel: it is translated first.
    KernelTypeError
        If types do not fit.
    KernelNameError
        If a name has no value.
    DivergentBarrier
        If some invocations of a workgroup wait at a barrier, and others have ended.
    """
    typings = translate(function, signature, dataclasses.replace(specialization, mode="plain")).typings
    given = _given(signature, specialization, arguments)
    given.update(specialization.constants)
    called = _Calls(typings, dict(specialization.types), waits=signature.group is not None)
    with np.errstate(all="ignore"):
        if signature.group is None:
            run = called.made(function, ())
            for at in itertools.product(*(range(int(count)) for count in grid)):
                run(*map(I32, at), **given)
            return
        _, group = signature.group
        constants = dict(specialization.constants)
        sizes = tuple(int(constants[size]) if isinstance(size, str) else size for size in group.sizes)
        run = called.made(function, ())
        for at in itertools.product(*(range(int(count)) for count in grid)):
            memory: list[PlainArray] = []
            _take_turns(
                function.__name__,
                [
                    run(Workgroup(sizes, tuple(map(int, grid)), at, local, memory), **given)
                    for local in itertools.product(*map(range, sizes))
                ],
            )


def _given(signature: KernelSignature, specialization: Specialization, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as values of plain Python."""
    given: dict[str, Any] = {}
    for one in signature.parameters:
        value = arguments[one.name]
        if isinstance(one.type, ArrayType):
            given[one.name] = PlainArray(one.name, value, specialization.element(one.type))
        else:
            given[one.name] = cast(specialization.number(one.type), value)  # type: ignore[arg-type] # a number's
    return given


def _take_turns(name: str, waiting: list[Iterator[None]]) -> None:
    """Run the invocations of a workgroup, each to the next barrier in turn.

    Raises
    ------
    DivergentBarrier
        If some wait at a barrier, and others have ended.
    """
    done = object()
    while waiting:
        left = [one for one in waiting if next(one, done) is not done]
        if left and len(left) < len(waiting):
            raise DivergentBarrier(
                f"{len(left)} of the {len(waiting)} invocations of a workgroup of {name!r} wait at a barrier that the others "
                "never reach",
                fix="put the barrier where all invocations of a workgroup get to",
            )
        waiting = left


class _Calls:
    """The functions of one run, rewritten for each way of calls to them."""

    def __init__(self, typings: Typings, types_: Mapping[str, ScalarType], *, waits: bool) -> None:
        """Have none yet; ``types_`` is what type variables stand for, and ``waits`` says that there are barriers."""
        self._typings = typings
        self._types = types_
        self._waits = waits
        self._made: dict[tuple[types.FunctionType, Path], types.FunctionType] = {}

    def made(self, function: types.FunctionType, path: Path) -> types.FunctionType:
        """Return a function as Python runs it; ``path`` are the places of the calls from the kernel down to it."""
        found = self._made.get((function, path))
        if found is None:
            given: dict[str, Callable[..., Any]] = {
                "_vyre_call": functools.partial(self._resolved, path),
                "_vyre_attribute": functools.partial(self._attribute, path),
            }
            found = rewritten(function, source_of(function), self._typings.within(path), given, waits=self._waits)
            self._made[function, path] = found
        return found

    def _attribute(self, path: Path, spot: Spot, owner: Any, name: str) -> Any:  # noqa: ANN401 -- as Python
        """Return an attribute; of a record a property's function is called from its place."""
        if isinstance(owner, tuple) or dataclasses.is_dataclass(type(owner)):
            getter = getter_of(inspect.getattr_static(type(owner), name, None))
            if getter is not None:
                return self.made(getter, (*path, spot))(owner)
        return getattr(owner, name)

    def _resolved(self, path: Path, spot: Spot, function: Any) -> Callable[..., Any]:  # noqa: ANN401 -- as Python
        """Return what a function is called by at a place."""
        if isinstance(function, TypeVar):
            function = self._types[function.__name__]
        try:
            known = _COMPUTED.get(function)
        except TypeError:  # nothing without a hash is in it
            known = None
        if known is not None:
            return known
        function = in_python(function)
        if isinstance(function, Function):
            function = function.function
        if isinstance(function, types.MethodType) and not isinstance(function.__self__, Workgroup):
            plain: Any = function.__func__
            return functools.partial(self._called, path, spot, plain, function.__self__)
        if not isinstance(function, types.FunctionType):
            return function  # type: ignore[no-any-return] # translated before: it can be called
        return functools.partial(self._called, path, spot, function)

    def _called(self, path: Path, spot: Spot, function: types.FunctionType, /, *given: Any, **named: Any) -> Any:  # noqa: ANN401 -- as Python
        """Call a function of Python from a place."""
        return self.made(function, (*path, spot))(*given, **named)
