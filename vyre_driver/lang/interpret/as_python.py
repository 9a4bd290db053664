"""A kernel run as what it is, a Python function: for breakpoints, ``print`` and tracebacks at the user's own lines.

One thread runs the invocations in turns, those of a workgroup from barrier to barrier. Values are scalars of numpy of the types
that the translation gives them, so that results are those of the program.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import types
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from vyre_driver.errors import DivergentBarrier
from vyre_driver.lang.frontend.builtins.table import in_python
from vyre_driver.lang.frontend.calls import source_of
from vyre_driver.lang.frontend.records import getter_of
from vyre_driver.lang.frontend.translate import translate
from vyre_driver.lang.function import Function
from vyre_driver.lang.interpret.arrays import PlainArray, Workgroup
from vyre_driver.lang.interpret.functions import TABLE
from vyre_driver.lang.interpret.rewriting import rewritten
from vyre_driver.lang.plain.numbers import I32, cast
from vyre_driver.lang.types import ArrayType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vyre_driver.lang.frontend.typings import Path, Spot, Typings
    from vyre_driver.lang.source.parameters import KernelSignature, Specialization
    from vyre_driver.lang.types import ScalarType


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
            known = TABLE.get(function)
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
