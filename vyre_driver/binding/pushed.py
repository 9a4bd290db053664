"""What a program pushes: its push buffers, as push constants of its kernel.

Upstream has them among the inputs, as it has every uniform buffer; so has what a backend is given for a dispatch.

Source: Vulkan 1.3, "Push Constant Interface", "Offset and Stride Assignment".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from vyre_driver.binding.push_constants import pack_push_constants
from vyre_driver.errors import InvalidPushConstant
from vyre_driver.ir.dtypes import DataType
from vyre_driver.spirv.layout import Array, Member, Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.binding.plan import BindingPlan

_SCALARS = {
    DataType.U32: Scalar("u", 32),
    DataType.I32: Scalar("i", 32),
    DataType.F32: Scalar("f", 32),
    DataType.Bool: Scalar("b", 32),
    DataType.U64: Scalar("u", 64),
    DataType.I64: Scalar("i", 64),
    DataType.F64: Scalar("f", 64),
}


def pushed_members(plan: BindingPlan) -> tuple[Member, ...]:
    """Return the push constants of a valid program in the order of its bindings, each at a multiple of its number's size."""
    members: list[Member] = []
    for one in plan.bindings:
        if one.is_pushed and one.data_type is not None:
            scalar, end = _SCALARS[one.data_type], end_of(members)
            found = scalar if one.element_count == 1 else Array(scalar, one.element_count, scalar.byte_len)
            members.append(Member(one.name, end + -end % scalar.byte_len, found))
    return tuple(members)


def end_of(members: Sequence[Member]) -> int:
    """Return the bytes that members take, the last of them at the end."""
    return members[-1].offset + members[-1].type.byte_len if members else 0


def with_pushed_inputs(plan: BindingPlan) -> BindingPlan:
    """Return the plan of a backend that knows no push constants: they are uniform buffers like any other."""
    return replace(plan, bindings=tuple([replace(one, is_pushed=False) for one in plan.bindings]))


def check_unnamed(plan: BindingPlan, given: object) -> None:
    """Check that a dispatch of a program is given no push constants by name, and raise InvalidPushConstant otherwise."""
    names = [one.name for one in plan.bindings if one.is_pushed]
    if names and isinstance(given, Mapping) and given:
        raise InvalidPushConstant(
            f"push_constants gives {next(iter(given))!r}, and a dispatch takes what the program pushes among its inputs",
            fix=f"leave push_constants out, and give {', '.join(map(repr, names))} in binding order",
        )
    pack_push_constants((), 0, {} if given is None else given, "program")  # type: ignore[arg-type] # which it refuses


def split_inputs(
    plan: BindingPlan, inputs: Sequence[object], counts: Mapping[str, int] | None = None
) -> tuple[Sequence[object], dict[str, object] | None]:
    """Return the arrays among the inputs of a dispatch, and what is pushed by name; None where nothing is.

    ``counts`` are the elements of outputs that bring no array. Raises InvalidInput if the inputs do not fit.
    """
    pushed = {one.name for one in plan.bindings if one.is_pushed}
    if not pushed:
        return inputs, None
    found: dict[str, object] = {}
    places = set()
    for one in with_pushed_inputs(plan).check_arguments(inputs, counts or {}):
        if one.binding.name in pushed:
            places.add(one.position)
            found[one.binding.name] = one.data if one.binding.data_type != DataType.Bool else one.data != 0
    return [one for place, one in enumerate(inputs) if place not in places], found
