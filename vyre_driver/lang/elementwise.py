"""Functions of numbers called for each element of arrays, as numpy's universal functions are."""

from __future__ import annotations

import inspect
import math
import sys
import types
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from vyre_driver.binding.outputs import with_tensors
from vyre_driver.display.line import one_line
from vyre_driver.display.tracebacks import shortens_tracebacks
from vyre_driver.errors import InvalidInput, KernelTypeError
from vyre_driver.lang.frontend.builtins.written import as_written
from vyre_driver.lang.function import Function
from vyre_driver.lang.kernel import kernel
from vyre_driver.lang.launch.arguments import OPTIONS
from vyre_driver.lang.operands import (
    broadcast,
    check_overlaps,
    chosen_types,
    form_of,
    function_types,
    key_of,
    known_types,
    operand,
    outputs_of,
    pushed_numbers,
    shown_steps,
    text_of,
    with_results,
)
from vyre_driver.lang.pickling import carried, reduced_function
from vyre_driver.lang.types import ScalarType
from vyre_driver.process.copies import refuse_copies
from vyre_driver.runtime.describe import SignatureProperty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.driver import Driver
    from vyre_driver.ir.program import Program
    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.lang.kernel import Kernel
    from vyre_driver.lang.operands import Form, FunctionTypes, Operand, Steps

_BY_POSITION, _BY_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
_EMPTY = inspect.Parameter.empty
_MOST_PLANS = 256
_MOST_KERNELS = 64  # forms of broadcasting, and types of results
_MOST_INFERRED = 256  # combinations of the types of arguments


class _Plan(NamedTuple):
    """What calls of one form have in common: the kernel, the numbers behind those of the call, the shape of the result."""

    kernel: Kernel
    numbers: tuple[int, ...]
    shape: tuple[int, ...]


class Elementwise(Function[..., Any]):
    """A function of numbers that is called for each element of arrays. Made by :func:`elementwise`; kernels may call it too."""

    def __init__(self, function: types.FunctionType, described: FunctionTypes, driver: Driver | None = None) -> None:
        """Wrap a function; made by :func:`elementwise`."""
        super().__init__(function)
        self.types = described
        """What the function takes and gives."""
        self._driver = driver
        self._kernels: dict[object, Kernel] = {}
        self._plans: dict[object, _Plan] = {}
        self._inferred: dict[object, tuple[FunctionTypes, Callable[[], str | None]]] = {}

    @shortens_tracebacks
    def __call__(self, /, *given: Any, out: Any = None, where: Any = True, **named: Any) -> Any:  # noqa: ANN401 -- arrays and numbers
        """Call the function for each element; returns an array, or a tuple of them where the function does.

        Arrays are broadcast as numpy does; what is repeated is not copied, on the host or on the device. Numbers and arrays of
        no axes fit every type that has their value; where no array has axes, those of numpy keep their type, but for
        ``np.float64``, which is a float of Python. Where all arrays are buffers the result is one too, of the same driver.

        Parameters
        ----------
        given, named
            Arrays and numbers by position or name. An array of the host may have gaps: it is copied on its way to the device.
            Constants, ``timeout``, ``strict`` and ``label`` are given by name as to a kernel.
        out
            An array or a buffer of the result's shape and type, or a tuple with one for each output, which is written in place
            and returned; None for one that is to be made.
        where
            A bool, or an array of bools that is broadcast with the others. Where it is False the function is not called: an
            array given as ``out`` keeps what it holds, another has 0 there (with numpy it would not be initialised).

        Raises
        ------
        InvalidInput
            If arrays do not broadcast, have other types than the function takes, or do not fit ``out``.
        KernelSourceError
            If the function cannot be translated.
        VyreError
            As a kernel.
        """
        values, rest = self._in_order(given, named)
        parameters = zip(self.types.parameters, values, strict=True)
        operands = [operand(self.types.name, name, value, element) for (name, element), value in parameters]
        condition = None if where is True else operand(self.types.name, "where", where)
        described = self._described(operands)
        outs = outputs_of(described, out)
        key = (tuple(map(key_of, operands)), key_of(condition), tuple(None if one is None else one.shape for one in outs))
        plan = self._plans.get(key)
        if plan is None:
            plan = self._planned(described, operands, condition, outs)
            while len(self._plans) >= _MOST_PLANS:
                self._plans.pop(next(iter(self._plans)), None)
            self._plans[key] = plan
        check_overlaps(described, operands, outs, plan.shape)
        arguments = [*operands, condition] if condition is not None else operands
        targets = [] if all(one is None for one in outs) else [None if one is None else one.reshape(-1) for one in outs]
        found = plan.kernel(*(one.flat for one in arguments), *targets, *plan.numbers, **rest)
        results = [
            result.reshape(plan.shape) if given is None else given
            for result, given in zip(found if len(outs) > 1 else [found], outs, strict=True)
        ]
        if out is not None:
            results = with_tensors(results, out if isinstance(out, tuple) else (out,))
        return tuple(results) if described.is_tuple else results[0]

    def on(self, driver: Driver) -> Elementwise:
        """Return this function on a driver, instead of that of its buffers or the default one."""
        made = Elementwise(self.function, self.types, driver)
        made._kernels = self._kernels
        return made

    @shortens_tracebacks
    def program(self, **given: bool | float | ScalarType) -> Program:
        """Return the program for arrays of one shape: for values of constants, and types of variables, by name.

        Raises
        ------
        InvalidInput
            If a constant without a default, or a type variable, is not given.
        KernelSourceError
            If the function cannot be translated.
        """
        kinds = {name: one for name, one in given.items() if isinstance(one, ScalarType)}
        described, _ = with_results(self.function, self.types, kinds)
        form = form_of(described, [()] * len(described.names), False, [False] * described.count)
        return self._kernel(form, described).program(**given)

    @SignatureProperty
    def __signature__(self) -> inspect.Signature:
        """What a call takes."""
        given = [inspect.Parameter(name, _BY_POSITION, annotation=one) for name, one in self.types.parameters]
        said = [inspect.Parameter(name, _BY_NAME, default=default) for name, default in (("out", None), ("where", True))]
        constants = [
            inspect.Parameter(one.name, _BY_NAME, annotation=one.type, default=one.default if one.has_default else _EMPTY)
            for one in self.types.constants
        ]
        return inspect.Signature([*given, *said, *constants])

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle it by its name in its module, else by its text; raises TypeError for one that was put on a driver."""
        if self._driver is not None:
            refuse_copies(self, 0)
        found = reduced_function(self)
        if isinstance(found, str):
            return found
        text = carried(self.function)
        return (elementwise, (text,)) if self.types.is_inferred else (Elementwise, (text, self.types))

    def __repr__(self) -> str:
        """Return its name and parameters on one line."""
        return one_line("lang.Elementwise", f"{self.types.name}{self.__signature__}")

    def _in_order(self, given: Sequence[object], named: dict[str, Any]) -> tuple[list[object], dict[str, Any]]:
        """Return the arguments in the order of the parameters, and what else is given by name; raises InvalidInput."""
        name, names = self.types.name, self.types.names
        known = {*names, *OPTIONS, *(one.name for one in self.types.constants)}
        for one in named:
            if one not in known:
                raise InvalidInput(
                    f"{name} has no parameter {one!r}",
                    fix=f"name {', '.join(map(repr, (*names, 'out', 'where')))}",
                    parameter=one,
                )
        waiting = [one for one in names if one not in named]
        if len(given) != len(waiting):
            raise InvalidInput(
                f"{name} takes {len(waiting)} argument(s) by position, and got {len(given)}",
                fix=f"give {', '.join(waiting) or 'none'}; an array to write to is given as out=",
                expected=len(waiting),
                received=len(given),
            )
        by_name = {**dict(zip(waiting, given, strict=True)), **named}
        return [by_name[one] for one in names], {one: value for one, value in named.items() if one not in names}

    def _described(self, operands: Sequence[Operand]) -> FunctionTypes:
        """Return what the function takes and gives in a call."""
        if self.types.results is not None:
            return self.types
        key = tuple(one.value.dtype if one.is_array else (type(one.value), one.own) for one in operands)
        found = self._inferred.get(key)
        if found is None or found[1]() is not None:  # something that the function takes from outside has changed
            known = known_types(self.types, operands, chosen_types(self.types, operands))
            if len(self._inferred) >= _MOST_INFERRED:
                self._inferred.clear()
            found = self._inferred[key] = with_results(self.function, self.types, known)
            self._plans.clear()
        return found[0]

    def _planned(
        self,
        described: FunctionTypes,
        operands: Sequence[Operand],
        condition: Operand | None,
        outs: Sequence[NDArray[Any] | Buffer | None],
    ) -> _Plan:
        """Return how calls of a form run: their kernel is made if there is none."""
        arrays = [one for one in (*operands, condition) if one is not None and one.is_array]
        shapes = {one.name: one.shape for one in arrays}
        given = [one for one in outs if one is not None]
        if given:
            shapes["out"] = given[0].shape
        found = broadcast(described.name, shapes, [one.held for one in arrays])
        for one in given:
            if one.shape != found.shape:
                raise InvalidInput(
                    f"out of {described.name} has the shape {one.shape}, and the result {found.shape}",
                    fix=f"pass an array of the shape {found.shape}",
                    shapes=(one.shape, found.shape),
                )
        steps = dict(zip([one.name for one in arrays], found.steps, strict=True))
        test: Steps = False if condition is None else shown_steps(steps, condition)
        keeps = [condition is not None and one is not None for one in outs]
        form = form_of(described, [shown_steps(steps, one) for one in operands], test, keeps)
        made = self._kernel(form, described).with_(**chosen_types(described, operands)).over(math.prod(found.shape))
        if self._driver is not None:
            made = made.on(self._driver)
        return _Plan(made, pushed_numbers(found, form, [*operands, condition], steps), found.shape)

    def _kernel(self, form: Form, described: FunctionTypes) -> Kernel:
        """Return the kernel of a form, made now if there is none."""
        assert described.results is not None  # noqa: S101 -- by now they are known
        key = form, described.results
        made = self._kernels.get(key)
        if made is None:
            text = text_of(form, tuple(one.has_default for one in described.constants))
            names: dict[str, object] = {text.function: self.function}
            names.update(zip(text.types, (one for _, one in described.parameters), strict=True))
            names.update(zip(text.results, described.results, strict=True))
            for (kind, default), one in zip(text.constants, described.constants, strict=True):
                names.update({kind: one.type, default: one.default})
            if len(self._kernels) >= _MOST_KERNELS:
                self._kernels.clear()
                self._plans.clear()  # which would keep them
            made = self._kernels[key] = kernel.from_source(text.text, names, form.name)
        return made


@overload
def elementwise(function: Callable[..., Any], /) -> Elementwise: ...
@overload
def elementwise() -> Callable[[Callable[..., Any]], Elementwise]: ...
def elementwise(function: Any = None, /) -> Any:
    """Make a function of numbers one that is called for each element of arrays, as numpy's universal functions are.

    Its parameters are annotated with types, or with type variables, which stand for the types of the arrays of each call; a
    keyword may be ``Const[...]``. It returns a number, or a tuple of them (``-> tuple[f32, f32]``). Without annotations, as a
    lambda is, every type is that of the arrays, and the result's is what the function computes with them.

    Examples
    --------
    >>> from vyre_driver.lang import elementwise, f32
    >>> @elementwise
    ... def blend(x: f32, y: f32, part: f32) -> f32:
    ...     return x + (y - x) * part

    Raises
    ------
    KernelTypeError
        If it is no Python function, or a parameter or what it returns is annotated with something else.
    """
    local = sys._getframe(1).f_locals  # noqa: SLF001 -- names of string annotations
    if function is None:
        return lambda given: _made(given, local)
    return _made(function, local)


fuse = elementwise
"""The same, by the name under which people look for one kernel of a whole expression: ``fuse(lambda x, y: x * y + 1)``."""


def _made(given: Any, local: Mapping[str, object]) -> Elementwise:  # noqa: ANN401 -- it is checked
    function = as_written(given.function if isinstance(given, Function) else given)
    if not isinstance(function, types.FunctionType):
        raise KernelTypeError(
            f"an elementwise function is made of a Python function, and this is of type {type(function).__name__}",
            fix="write one that calls it, as lambda x: sqrt(x)"
            if isinstance(function, (types.BuiltinFunctionType, np.ufunc, type))
            else "put @elementwise next to the def, under other decorators",
        )
    return Elementwise(function, function_types(function, local))
