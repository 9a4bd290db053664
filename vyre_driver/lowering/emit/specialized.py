"""The specialization constants of a program: its workgroup size, and the lets that the caller names.

A ``let`` of a literal is the declaration of a constant with that default: given a value under its name, the literal's place is
taken by a specialization constant. The workgroup has the ids 0, 1 and 2, the names follow in the order of their bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidSpecialization
from vyre_driver.ir.arithmetic import LitBool, LitF32, LitI32, LitU32
from vyre_driver.ir.nodes import Let
from vyre_driver.ir.terms import terms_within
from vyre_driver.spirv.interface import SpecConstant
from vyre_driver.spirv.layout import Scalar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre_driver.ir.program import Program
    from vyre_driver.ir.terms import Term

WORKGROUP_NAMES = ("workgroup size x", "workgroup size y", "workgroup size z")
_U32 = Scalar("u", 32)
_SCALARS: dict[type[Term], Scalar] = {LitU32: _U32, LitI32: Scalar("i", 32), LitF32: Scalar("f", 32), LitBool: Scalar("b", 32)}


def spec_constants(program: Program, names: Iterable[str]) -> tuple[SpecConstant, ...]:
    """Return the constants of a program with these names specialized, by SpecId.

    Raises
    ------
    InvalidSpecialization
        If a name is that of no let, or of one whose value is not a literal, or of several that differ.
    """
    size = zip(WORKGROUP_NAMES, program.workgroup_size, strict=True)
    result = [SpecConstant(name, place, _U32, value) for place, (name, value) in enumerate(size)]
    wanted = sorted(names, key=lambda name: str(name).encode())
    if wanted:
        found: dict[str, set[tuple[Scalar, int] | None]] = {}
        for term in terms_within(*program.entry):
            if isinstance(term, Let):
                found.setdefault(term.name, set()).add(_literal(term.value))
        result += [_constant(name, len(WORKGROUP_NAMES) + place, found.get(name)) for place, name in enumerate(wanted)]
    return tuple(result)


def _constant(name: str, spec_id: int, values: set[tuple[Scalar, int] | None] | None) -> SpecConstant:
    sole = next(iter(values)) if values is not None and len(values) == 1 else None
    if sole is None:
        problem = "has no such let" if values is None else "gives it no literal, or not the same everywhere"
        raise InvalidSpecialization(
            f"the program cannot be specialized by {name!r}: it {problem}",
            fix="name a let whose value is a literal",
            constant=name,
        )
    return SpecConstant(name, spec_id, *sole)


def _literal(value: Term) -> tuple[Scalar, int] | None:
    scalar = _SCALARS.get(type(value))
    if scalar is None:
        return None
    bits = value.bits if isinstance(value, LitF32) else int(value.value)  # type: ignore[attr-defined]
    return scalar, bits & 0xFFFF_FFFF
