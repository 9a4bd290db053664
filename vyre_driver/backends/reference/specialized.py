"""Replace literals in lets by the specialization values that a caller gives.

Source: docs/lowering.md, ``specs``: a ``let`` of a literal is the declaration of a specialization constant with that default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import LitBool, LitF32, LitI32, LitU32

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.program import Program
    from vyre_driver.specialization.values import SpecMap

_U32 = 1 << 32


def specialized_literals(program: Program, specs: Mapping[str, object] | SpecMap | None) -> dict[str, Expr]:
    """Return the literals of the lets that are named.

    Raises
    ------
    InvalidSpecialization
        If a name is that of no let of a literal, or a value does not fit its type.
    """
    if specs is None:
        return {}
    from vyre_driver.lowering.emit.specialized import spec_constants  # late: few runs have constants
    from vyre_driver.specialization.resolve import named_values, specialize

    names = tuple(named_values(specs))
    if not names:
        return {}
    found = specialize(spec_constants(program, names), specs)
    return {one.name: _literal(one.type_name, one.bits) for one in found.constants if one.name in names}


def _literal(type_name: str, bits: int) -> Expr:
    if type_name == "i32":
        return LitI32(bits - _U32 if bits >= _U32 // 2 else bits)
    if type_name == "f32":
        return LitF32(bits)
    return LitU32(bits) if type_name == "u32" else LitBool(bool(bits))
