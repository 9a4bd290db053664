"""What a call gives, by position and name, matched to a kernel's parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.errors import InvalidInput
from vyre_driver.lang.types import Access, ArrayType, ConstType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre_driver.lang.source.parameters import KernelSignature, Parameter

OPTIONS = frozenset({"timeout", "strict", "label"})
"""The keywords of every call, as those of a compiled kernel."""

Constant = bool | int | float


class Given(NamedTuple):
    """A call, in order: a value for each parameter (None of an Out that is left out), constants, and options by name."""

    values: tuple[Any, ...]
    constants: dict[str, object]
    options: dict[str, Any]


def matched(kernel: str, signature: KernelSignature, given: tuple[object, ...], named: dict[str, object]) -> Given:
    """Match what a call gives to a kernel's parameters.

    Raises
    ------
    InvalidInput
        If something is missing, unknown, or given twice.
    """
    constant_names = {one.name for one in signature.constants}
    names = {one.name for one in signature.parameters}
    options: dict[str, Any] = {}
    constants: dict[str, object] = {}
    by_name: dict[str, object] = {}
    for name, value in named.items():
        if name in names:
            by_name[name] = value
        elif name in constant_names:
            constants[name] = value
        elif name in OPTIONS:
            options[name] = value
        else:
            raise _unknown(kernel, signature, name)
    waiting = [one for one in signature.parameters if one.name not in by_name]
    is_shifted = False
    if len(given) < len(waiting):  # then all outputs that are not named are left out
        waiting = [one for one in waiting if not _is_out(one)]
        both = zip(waiting, given, strict=False)  # an array for a number: an output is given, and something else is not
        is_shifted = any(not isinstance(one.type, ArrayType) and getattr(value, "ndim", 0) for one, value in both)
    if len(given) != len(waiting) or is_shifted:
        raise _miscounted(kernel, signature, given, by_name)
    if given:
        _check_none_is_passed_over(kernel, signature, by_name, waiting[-1].name)
    by_position = dict(zip([one.name for one in waiting], given, strict=True))
    values = tuple([by_name[name] if name in by_name else by_position.get(name) for name in _names(signature)])
    for one, value in zip(signature.parameters, values, strict=True):
        if value is None and not _is_out(one):
            raise InvalidInput(f"{one.name} of {kernel} is None", fix=f"give {wanted(one)}", parameter=one.name)
    return Given(values, constants, options)


def constants_of(kernel: str, signature: KernelSignature, given: Mapping[str, object]) -> tuple[tuple[str, Constant], ...]:
    """Return the value of each constant of a kernel: as given, else its default.

    Raises
    ------
    InvalidInput
        If one without a default is not given, or a value is of another type.
    """
    found: list[tuple[str, Constant]] = []
    for one in signature.constants:
        if one.name not in given and not one.has_default:
            raise InvalidInput(
                f"{kernel} was not given its constant {one.name!r}",
                fix=f"give {one.name}= in the call, or give it a default",
                parameter=one.name,
            )
        found.append((one.name, checked_constant(kernel, one, given.get(one.name, one.default))))
    return tuple(found)


def checked_constant(kernel: str, parameter: Parameter, value: object) -> Constant:
    """Return the value of a constant, of the type that it is annotated with; raises InvalidInput."""
    assert isinstance(parameter.type, ConstType)  # noqa: S101 -- a constant
    kind = parameter.type.type
    if hasattr(value, "item") and not getattr(value, "ndim", 1):
        value = value.item()  # a scalar of numpy
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise InvalidInput(
            f"{parameter.name} of {kernel} is {value!r}, and Const[{kind.__name__}] wants {kind.__name__}",
            fix=f"give {kind.__name__}(...)",
            parameter=parameter.name,
        )
    return value  # type: ignore[return-value] # of one of the three types


def wanted(parameter: Parameter) -> str:
    """Return the words for what is given for a parameter."""
    if isinstance(parameter.type, ArrayType):
        return f"an array of {getattr(parameter.type.element, '__name__', parameter.type.element)}"
    return f"a number of type {getattr(parameter.type, '__name__', parameter.type)}"


def _names(signature: KernelSignature) -> list[str]:
    return [one.name for one in signature.parameters]


def _is_out(parameter: Parameter) -> bool:
    return isinstance(parameter.type, ArrayType) and parameter.type.access is Access.OUT


def _check_none_is_passed_over(kernel: str, signature: KernelSignature, by_name: Mapping[str, object], last: str) -> None:
    """Check that positions pass over no parameter that is named, but for outputs: counted in, it would shift the array."""
    for one in signature.parameters:
        if one.name == last:
            return
        if one.name in by_name and not _is_out(one):
            raise InvalidInput(
                f"{one.name} of {kernel} is given by name, and {last}, which stands behind it, by position",
                fix=f"give {one.name} by its position, or what stands behind it by name",
                parameter=one.name,
            )


def _unknown(kernel: str, signature: KernelSignature, name: str) -> InvalidInput:
    leading = signature.indexes if signature.group is None else (signature.group[0],)
    if name in leading:
        return InvalidInput(
            f"{kernel} was given its parameter {name!r}, which the device counts",
            fix="leave it out; .over(...) or .groups(...) say how far it goes",
            parameter=name,
        )
    known = [*_names(signature), *(one.name for one in signature.constants)]
    return InvalidInput(
        f"{kernel} has no parameter {name!r}", fix=f"name {', '.join(map(repr, known)) or 'nothing'}", parameter=name
    )


def _miscounted(
    kernel: str, signature: KernelSignature, given: tuple[object, ...], by_name: Mapping[str, object]
) -> InvalidInput:
    names = _names(signature)
    waiting = [name for name in names if name not in by_name]
    twice = waiting != names and len(given) > len(waiting)
    behind = f" beside {', '.join(by_name)} by name" if by_name else ""
    return InvalidInput(
        f"{kernel} takes {len(waiting)} argument(s) by position, and got {len(given)}{behind}",
        fix="give each once" if twice else f"give {', '.join(waiting) or 'none'}; an Out may be left out",
        expected=len(waiting),
        received=len(given),
    )
