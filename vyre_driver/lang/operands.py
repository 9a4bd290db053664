"""The arguments of a call of an elementwise function: how each is found by the kernel's text, and what types they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang.elementwise_text import Form
from vyre_driver.lang.function_types import weak_type
from vyre_driver.lang.launch.arrays import host_conversion, read_array
from vyre_driver.lang.source.parameters import Parameter
from vyre_driver.lang.types import COMPUTED, Access, ArrayType, Kind, ScalarType, f32, i32, type_of, u8

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.lang.broadcasting import Broadcast
    from vyre_driver.lang.elementwise_text import Steps
    from vyre_driver.lang.function_types import FunctionTypes

_NUMBERS = (bool, int, float, np.generic)


def outputs_of(described: FunctionTypes, out: object) -> list[NDArray[Any] | Buffer | None]:
    """Return the array given for each output, None for one that is to be made; raises InvalidInput."""
    name, count = described.name, described.count
    given = out if isinstance(out, tuple) else (out,) * (1 if out is not None else count)
    if len(given) != count:
        raise InvalidInput(
            f"{name} has {count} output(s), and out= is given {len(given)}",
            fix="give a tuple with an array or None for each",
            expected=count,
            received=len(given),
        )
    target = Parameter("out", ArrayType(Access.OUT, f32))
    return [read_array(name, target, one) for one in given]


def form_of(described: FunctionTypes, operands: Sequence[Steps], test: Steps, keeps: Sequence[bool]) -> Form:
    """Return what the text of a kernel depends on."""
    constants = tuple(one.name for one in described.constants)
    taken = {*described.names, *constants, described.name}
    names = []
    for place in range(described.count):
        word = f"out{place}" if described.count > 1 else "out"
        while word in taken:
            word += "_"
        names.append(word)
    return Form(
        described.name, described.names, tuple(operands), test, tuple(names), tuple(keeps), described.is_tuple, constants
    )


class Operand(NamedTuple):
    """What a call gives for a parameter: a number, or an array with its shape and that of what lies in memory.

    ``own`` is the type of a number of numpy's that is none of Python's; it counts where no array says what the types are.
    """

    name: str
    value: Any
    flat: Any
    is_array: bool = False
    shape: tuple[int, ...] = ()
    held: tuple[int, ...] = ()
    own: ScalarType | None = None


def operand(kernel_name: str, name: str, given: object, element: ScalarType | TypeVar | None = None) -> Operand:
    """Return what is given for a parameter of this type; raises InvalidInput if it is no number and no array.

    Bytes are the elements of that type, and uint8 where there is none.
    """
    if isinstance(given, _NUMBERS) or (isinstance(given, np.ndarray) and not given.ndim):
        number = given.item() if isinstance(given, (np.generic, np.ndarray)) else given
        own = None if isinstance(given, (bool, int, float)) else type_of(given.dtype)
        return Operand(name, number, number, own=own if own in COMPUTED else None)
    found = read_array(kernel_name, Parameter(name, ArrayType(Access.IN, element or u8)), given)
    if found is None:
        raise InvalidInput(f"{name} of {kernel_name} is None", fix="give an array or a number", parameter=name)
    if isinstance(found, Buffer):
        return Operand(name, found, found.reshape(-1), True, found.shape, found.shape)
    found = np.asarray(found)  # a matrix stays one of two axes however it is reshaped
    repeated = tuple(slice(0, 1) if not step and size > 1 else slice(None) for step, size in zip(found.strides, found.shape))  # noqa: B905 -- of one array
    held = found[repeated]
    return Operand(name, found, held.reshape(-1), True, found.shape, held.shape)


def key_of(one: Operand | None) -> object:
    """Return what of an argument decides how a call runs."""
    if one is None or not one.is_array:
        return None if one is None else (type(one.value), one.own)
    return type(one.value) is Buffer, one.value.dtype, one.shape, one.held


def shown_steps(steps: Mapping[str, tuple[int, ...] | None], one: Operand) -> Steps:
    """Return how a text finds an operand's element: its steps, where those that are not 0 or 1 are -1."""
    if not one.is_array:
        return None
    found = steps[one.name]
    return () if found is None else tuple(min(step, 1) if step < 2 else -1 for step in found)


def pushed_numbers(
    found: Broadcast, form: Form, operands: Sequence[Operand | None], steps: Mapping[str, tuple[int, ...] | None]
) -> tuple[int, ...]:
    """Return the numbers that a text takes behind those of the function: sizes of joined axes, and steps."""
    shown = [*form.operands, form.where]
    sizes = found.sizes[1:] if any(isinstance(one, tuple) and any(one) for one in shown) else ()
    return *sizes, *(
        step
        for one, kinds in zip(operands, shown, strict=True)
        if one is not None and isinstance(kinds, tuple) and kinds
        for step, kind in zip(steps[one.name] or (), kinds, strict=True)
        if kind < 0
    )


def chosen_types(described: FunctionTypes, operands: Sequence[Operand]) -> dict[str, ScalarType]:
    """Return the types of the variables that no array says, by the numbers given for them."""
    by_name = dict(zip(described.names, operands, strict=True))
    said = {one for name, one in described.parameters if isinstance(one, TypeVar) and by_name[name].is_array}
    arrays = [type_of(one.value.dtype) for one in operands if one.is_array]
    beside = arrays[0] if arrays else next((one.own for one in operands if one.own is not None), None)
    if beside is not None and beside not in COMPUTED:
        beside = f32 if beside.kind is Kind.FLOAT else i32  # as its elements are loaded
    found: dict[str, ScalarType] = {}
    for variable in described.variables:
        if variable in said:
            continue
        given = [by_name[name] for name, one in described.parameters if one is variable]
        own = None if arrays else next((one.own for one in given if one.own is not None), None)
        if own is not None and own in (variable.__constraints__ or (own,)):
            found[variable.__name__] = own
        else:
            values = [one.value for one in given]
            found[variable.__name__] = weak_type(variable, values, beside if described.is_inferred else None)
    return found


def known_types(
    described: FunctionTypes, operands: Sequence[Operand], chosen: Mapping[str, ScalarType]
) -> dict[str, ScalarType]:
    """Return the types of all variables, those of arrays and those that were chosen for numbers; raises InvalidInput."""
    found = dict(chosen)
    for (_, one), operand in zip(described.parameters, operands, strict=True):
        if not isinstance(one, TypeVar) or not operand.is_array:
            continue
        dtype = operand.value.dtype
        scalar = type_of(dtype)
        if scalar is None:
            raise InvalidInput(
                f"{operand.name} of {described.name} is {dtype}, which kernels do not compute with",
                fix=host_conversion(operand.name, operand.value, f32),
                parameter=operand.name,
            )
        found.setdefault(one.__name__, scalar)
    return found


def check_overlaps(described: FunctionTypes, operands: Sequence[Operand], outs: Sequence[Any], shape: tuple[int, ...]) -> None:
    """Check that no buffer is written that another invocation may read: one is all of an input, or has nothing of it."""
    targets = [one for one in outs if isinstance(one, Buffer)]
    for place, target in enumerate(targets):
        for one in operands:
            source = one.value
            if not isinstance(source, Buffer) or not source.overlaps(target):
                continue
            if source.span != target.span or source.shape != shape:
                raise InvalidInput(
                    f"out of {described.name} shares memory with {one.name}, and is not all of it",
                    fix=f"pass another buffer, or {one.name} itself",
                    parameter=one.name,
                )
        if any(target.overlaps(other) for other in targets[:place]):
            raise InvalidInput(f"two outputs of {described.name} share memory", fix="pass another buffer for one of them")
