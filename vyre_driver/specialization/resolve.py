"""Resolve specialization constants: the caller's named values become the 32-bit words of the pipeline.

Values are packed as raw bits, whatever their type: kompute takes one array of one type for all of them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidSpecialization, with_article
from vyre_driver.specialization.values import SpecKind, SpecMap, SpecValue

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from vyre_driver.spirv.interface import SpecConstant

_FORMATS = {"u32": "<I", "i32": "<i", "f32": "<f"}


@dataclass(frozen=True, slots=True)
class SpecializedConstant:
    """One specialization constant with the value it is compiled with; ``type_name`` as in ``u32``."""

    name: str
    spec_id: int
    type_name: str
    bits: int

    @property
    def value(self) -> int | float | bool:
        """The value as a plain one."""
        if self.type_name == "bool":
            return bool(self.bits)
        found: int | float = struct.unpack(_FORMATS[self.type_name], struct.pack("<I", self.bits))[0]
        return found


@dataclass(frozen=True, slots=True)
class Specialization:
    """Every specialization constant of a module with its value, by SpecId."""

    constants: tuple[SpecializedConstant, ...]

    @property
    def words(self) -> tuple[int, ...]:
        """The bits by SpecId, from 0 to the highest; ids that the module does not use are 0, which Vulkan ignores."""
        bits = {constant.spec_id: constant.bits for constant in self.constants}
        return tuple(bits.get(spec_id, 0) for spec_id in range(max(bits, default=-1) + 1))

    def typed_values(self, *, without: Collection[str] = ()) -> SpecMap:
        """Return the constants by name, but for those that are named."""
        return SpecMap(
            (one.name, SpecValue(SpecKind[one.type_name.upper()], one.bits))
            for one in self.constants
            if one.name not in without
        )


def specialize(declared: Sequence[SpecConstant], given: Mapping[str, object] | SpecMap) -> Specialization:
    """Give every declared constant its value: the caller's, else the shader's default.

    A value is a plain one that fits the declared type, or a ``SpecValue`` of just that type, which is taken by its bits.

    Raises
    ------
    InvalidSpecialization
        If they are not given by name, a name is not declared, or a value does not fit its type.
    """
    values = named_values(given)
    names = [constant.name for constant in declared]
    unknown = sorted(set(values) - set(names), key=str)
    if unknown:
        known = f"it has {', '.join(names)}" if names else "it has none"
        raise InvalidSpecialization(
            f"the shader has no specialization constant {unknown[0]!r}; {known}",
            fix="give only constants that the shader declares",
            constant=unknown[0],
        )
    return Specialization(tuple(_specialize_one(constant, values) for constant in declared))


def named_values(given: object) -> dict[str, object]:
    """Return constants as a dictionary; raises InvalidSpecialization if they are not given by name."""
    try:
        values: dict[str, object] = dict(given)  # type: ignore[call-overload] # or it raises
    except (TypeError, ValueError) as error:
        raise InvalidSpecialization(
            f"specialization constants came as {type(given).__name__}, and are given by name",
            fix="pass a dictionary from names to values",
        ) from error
    return values


def _specialize_one(constant: SpecConstant, given: Mapping[str, object]) -> SpecializedConstant:
    type_name = str(constant.scalar)
    bits = constant.default_bits
    if constant.name in given:
        try:
            bits = _bits(constant, given[constant.name])
        except (TypeError, OverflowError) as error:
            raise InvalidSpecialization(
                f"specialization constant {constant.name!r} is {with_article(type_name)}, and {error}",
                fix=f"give {with_article(type_name)}",
                constant=constant.name,
                value=given[constant.name],
            ) from error
    return SpecializedConstant(constant.name, constant.spec_id, type_name, bits)


def _bits(constant: SpecConstant, value: object) -> int:
    if not isinstance(value, SpecValue):
        return constant.scalar.encode(value)
    if value.type_name != str(constant.scalar):
        raise TypeError(f"{value!r} is {with_article(value.type_name)}")
    return value.bits
