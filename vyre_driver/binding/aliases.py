"""Which buffers of one dispatch may have the same memory."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.binding.plan import Binding, BindingPlan


def check_aliases(plan: BindingPlan, buffers: Sequence[object]) -> None:
    """Check that no two of the buffers, one for each descriptor, are the same or overlap where the shader forbids that."""
    for (one, first), (other, second) in itertools.combinations(zip(plan.descriptors, buffers, strict=True), 2):
        if first is second:
            _check_aliased(one, other, "are the same buffer")
        elif hasattr(first, "overlaps") and first.overlaps(second):
            _check_aliased(one, other, "share memory")


def _check_aliased(one: Binding, other: Binding, how: str) -> None:
    """Check that both may have the same memory: neither is written, or neither is declared ``restrict``."""
    declared = next((binding for binding in (one, other) if binding.restrict), None)
    if declared is not None and (one.role.produces_output or other.role.produces_output):
        raise InvalidInput(
            f"{one.described} (binding {one.binding}) and {other.described} (binding {other.binding}) {how}, and "
            f"the {one.subject} declares {declared.name!r} restrict",
            fix="bind a copy, or drop restrict from the shader",
            binding=declared.name,
            bindings=(one.name, other.name),
        )
