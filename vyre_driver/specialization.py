"""Specialization and push constants: what the caller names becomes the 32-bit words that the pipeline is given.

Values are packed as raw bits, whatever their type: kompute takes one array of one type for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.errors import InvalidPushConstant, InvalidSpecialization

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre_driver.ir.program import Program
    from vyre_driver.spirv.reflect import PushConstantMember, SpecConstant


@dataclass(frozen=True, slots=True)
class SpecializedConstant:
    """One specialization constant with the value it is compiled with; ``type_name`` as in ``u32``."""

    name: str
    spec_id: int
    type_name: str
    bits: int


@dataclass(frozen=True, slots=True)
class Specialization:
    """Every specialization constant of a module with its value, by SpecId."""

    constants: tuple[SpecializedConstant, ...]

    @property
    def words(self) -> tuple[int, ...]:
        """The bits by SpecId, from 0 to the highest; ids that the module does not use are 0, which Vulkan ignores."""
        bits = {constant.spec_id: constant.bits for constant in self.constants}
        return tuple(bits.get(spec_id, 0) for spec_id in range(max(bits, default=-1) + 1))


def specialize(declared: Sequence[SpecConstant], given: Mapping[str, object]) -> Specialization:
    """Give every declared constant its value: the caller's, else the shader's default.

    Raises
    ------
    InvalidSpecialization
        2102 if a name is not declared, or a value does not fit its type.
    """
    names = [constant.name for constant in declared]
    unknown = sorted(set(given) - set(names))
    if unknown:
        known = f"it has {', '.join(names)}" if names else "it has none"
        raise InvalidSpecialization(
            f"the shader has no specialization constant {unknown[0]!r}; {known}",
            fix="give only constants that the shader declares",
            constant=unknown[0],
        )
    return Specialization(tuple(_specialize_one(constant, given) for constant in declared))


def _specialize_one(constant: SpecConstant, given: Mapping[str, object]) -> SpecializedConstant:
    type_name = str(constant.scalar)
    bits = constant.default_bits
    if constant.name in given:
        try:
            bits = constant.scalar.encode(given[constant.name])
        except (TypeError, OverflowError) as error:
            raise InvalidSpecialization(
                f"specialization constant {constant.name!r} is a {type_name}, and {error}",
                fix=f"give a {type_name}",
                constant=constant.name,
                value=given[constant.name],
            ) from error
    return SpecializedConstant(constant.name, constant.spec_id, type_name, bits)


def pack_push_constants(members: Sequence[PushConstantMember], byte_len: int, given: Mapping[str, object]) -> tuple[int, ...]:
    """Return the push-constant block as 32-bit words; every member must be given, a vector as a sequence or array.

    Raises
    ------
    InvalidPushConstant
        2103 if a name is unknown or missing, or a value does not fit its type or its number of components.
    """
    names = {member.name for member in members}
    for name in sorted(set(given) - names):
        raise InvalidPushConstant(f"the shader has no push constant {name!r}", fix="give only what it declares", constant=name)
    for member in members:
        if member.name not in given:
            raise InvalidPushConstant(
                f"push constant {member.name!r} ({member.scalar}) was not given",
                fix=f"give it, for example push={{{member.name!r}: 1}} or --push {member.name}=1",
                constant=member.name,
            )
    words = [0] * (byte_len // 4)
    for member in members:
        first = member.offset // 4
        words[first : first + member.components] = _push_words(member, given[member.name])
    return tuple(words)


def _push_words(member: PushConstantMember, value: object) -> list[int]:
    values = [value]
    if isinstance(value, np.ndarray):
        values = list(value.ravel())
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        values = list(value)
    shape = str(member.scalar) if member.components == 1 else f"{member.components} x {member.scalar}"
    if len(values) != member.components:
        raise InvalidPushConstant(
            f"push constant {member.name!r} is {shape} and got {len(values)} value(s)",
            fix=f"give {member.components} value(s)",
            constant=member.name,
        )
    try:
        return [member.scalar.encode(one) for one in values]
    except (TypeError, OverflowError) as error:
        raise InvalidPushConstant(
            f"push constant {member.name!r} is {shape}, and {error}", fix=f"give {shape}", constant=member.name, value=value
        ) from error


def vsa_specialization_key(program: Program, spec_hash: int) -> int:
    """Return upstream's 128-bit key: the first 64 bits of the program's fingerprint above the hash (u64) of its constants.

    Weak by design, kept for other vyre tools; it selects nothing alone.
    """
    return int.from_bytes(program.fingerprint()[:8], "little") << 64 | spec_hash
