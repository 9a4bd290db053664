"""What is said of a kernel before it is called: its driver, how far it goes, its constants and types."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.checks import integer_within
from vyre_driver.driver import Driver
from vyre_driver.errors import InvalidInput
from vyre_driver.lang.frontend.translation import MAX_EXTENT
from vyre_driver.lang.launch.arguments import checked_constant, constants_of
from vyre_driver.lang.launch.extents import index_names
from vyre_driver.lang.source.parameters import Specialization
from vyre_driver.lang.types import ScalarType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.lang.launch.fitting import Definition


class Choices(NamedTuple):
    """What is said beforehand; ``over`` in elements and ``groups`` in workgroups, slowest axis first."""

    driver: Driver | None = None
    over: tuple[int, ...] | None = None
    groups: tuple[int, ...] | None = None
    constants: tuple[tuple[str, Any], ...] = ()
    types: tuple[tuple[str, ScalarType], ...] = ()

    @property
    def device(self) -> KomputeDevice | None:
        """The device that was chosen."""
        return None if self.driver is None else self.driver.context.device

    @property
    def key(self) -> object:
        """What tells these choices from others: 0.0 is not -0.0."""
        driver = None if self.driver is None else weakref.ref(self.driver)
        return driver, self.over, self.groups, repr(self.constants), self.types

    def shown(self) -> list[str]:
        """Return them as they are written."""
        found = [] if self.driver is None else [f"on driver {self.driver.number}"]
        found += [
            f"{name} {lengths}" for name, lengths in (("over", self.over), ("groups", self.groups)) if lengths is not None
        ]
        return found + [f"{name}={value!r}" for name, value in (*self.constants, *self.types)]


def chosen_driver(definition: Definition, driver: object) -> Driver:
    """Return a driver, checked; raises InvalidInput."""
    if not isinstance(driver, Driver):
        raise InvalidInput(
            f"the driver of {definition.name} is of type {type(driver).__name__}", fix="give a vyre_driver.Driver"
        )
    return driver


def chosen_extent(definition: Definition, how: str, given: Sequence[object]) -> tuple[int, ...]:
    """Return how far a kernel is to go, checked; raises InvalidInput."""
    name, names = definition.name, index_names(definition.signature)
    if how == "groups" and definition.signature.group is None:
        raise InvalidInput(
            f"{name} has no Group, and the workgroups of an Index kernel follow from its extent",
            fix=f"say the extent: {name}.over({', '.join('nmk'[: len(names)])})",
        )
    if len(given) != len(names):
        raise InvalidInput(
            f"{name} goes along {len(names)} axis(es), and .{how} was given {len(given)} number(s)",
            fix=f"give one each for {', '.join(names)}",
            expected=len(names),
            received=len(given),
        )
    found = [integer_within(one, 0, MAX_EXTENT) for one in given]
    for axis, one, length in zip(names, given, found, strict=True):
        if length is None:
            raise InvalidInput(
                f"{axis} of {name} is to go over {one!r}", fix=f"give a whole number of 0 to {MAX_EXTENT:,}", index=axis
            )
    return tuple(length for length in found if length is not None)


def chosen_values(
    definition: Definition, choices: Choices, given: Mapping[str, Any]
) -> tuple[tuple[tuple[str, Any], ...], tuple[tuple[str, ScalarType], ...]]:
    """Return constants and types by name, those that are given and those that were chosen before; raises InvalidInput."""
    kinds = {name: one for name, one in given.items() if isinstance(one, ScalarType)}
    values = {name: one for name, one in given.items() if name not in kinds}
    types = chosen_types(definition, choices.types, kinds)
    return chosen_constants(definition, choices.constants, values), types


def chosen_constants(
    definition: Definition, chosen: tuple[tuple[str, Any], ...], given: Mapping[str, object]
) -> tuple[tuple[str, Any], ...]:
    """Return the constants that were chosen before with others said now, checked; raises InvalidInput."""
    by_name = {one.name: one for one in definition.signature.constants}
    merged = dict(chosen)
    for name, value in given.items():
        if name not in by_name:
            raise InvalidInput(
                f"{definition.name} has no constant {name!r}",
                fix=f"name {', '.join(map(repr, by_name)) or 'none'}",
                parameter=name,
            )
        merged[name] = checked_constant(definition.name, by_name[name], value)
    return tuple(sorted(merged.items()))


def chosen_types(
    definition: Definition, chosen: tuple[tuple[str, ScalarType], ...], given: Mapping[str, ScalarType]
) -> tuple[tuple[str, ScalarType], ...]:
    """Return the types that were chosen before for a kernel's type variables with others said now; raises InvalidInput."""
    variables = {one.__name__: one for one in definition.signature.type_variables}
    for name, scalar in given.items():
        if name not in variables:
            raise InvalidInput(
                f"{definition.name} has no type variable {name!r}",
                fix=f"name {', '.join(map(repr, variables)) or 'none'}",
                parameter=name,
            )
        allowed = variables[name].__constraints__
        if allowed and scalar not in allowed:
            raise InvalidInput(
                f"{name} of {definition.name} is to be {scalar}, and is one of {', '.join(map(str, allowed))}",
                fix=f"give {name}={allowed[0]}",
                parameter=name,
            )
    return tuple(sorted({**dict(chosen), **given}.items()))


def specialization_of(
    definition: Definition,
    choices: Choices,
    values: tuple[tuple[str, Any], ...],
    kinds: tuple[tuple[str, ScalarType], ...],
) -> Specialization:
    """Return what a program is made for with these constants and types; raises InvalidInput if a type is missing."""
    for one in definition.signature.type_variables:
        name = one.__name__
        if name not in dict(kinds):
            raise InvalidInput(
                f"{definition.name} was not given its type {name!r}",
                fix=f"give {name}={next(iter(one.__constraints__), 'f32')} or another",
                parameter=name,
            )
    constants = constants_of(definition.name, definition.signature, dict(values))
    is_over = definition.signature.group is None and choices.over is not None
    return Specialization(constants, kinds, definition.mode, is_over=is_over, robust=definition.is_robust)
