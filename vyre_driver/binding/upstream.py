"""When two plans may share a descriptor layout, as upstream decides it.

Weak by design, kept for other vyre tools: what selects code is ``identity.layout_digest``.

Source: spec item 2.2, layout identity.
"""

from __future__ import annotations

import enum
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre_driver.binding.plan import BindingPlan, BindingRole


@dataclass(frozen=True, slots=True)
class BindingSetFingerprint:
    """What of a plan decides on its descriptors: (binding number, role, bytes of an element) of each buffer.

    Ordered by number. Workgroup memory is in, though no descriptor stands for it; names, counts and alignments are not.
    """

    slots: tuple[tuple[int, BindingRole, int], ...]

    @classmethod
    def from_plan(cls, plan: BindingPlan) -> BindingSetFingerprint:
        """Return the fingerprint of a plan."""
        slots = [(one.binding, one.role, one.element_size) for one in plan.bindings]
        return cls(tuple(sorted(slots, key=operator.itemgetter(0))))


def binding_plans_share_layout(a: BindingPlan, b: BindingPlan) -> bool:
    """Return whether two plans have equal fingerprints."""
    return BindingSetFingerprint.from_plan(a) == BindingSetFingerprint.from_plan(b)


class BackendLayoutClass(enum.Enum):
    """What a descriptor stands for."""

    STORAGE = "storage"
    UNIFORM = "uniform"


@dataclass(frozen=True, slots=True)
class BackendLayoutSlot:
    """A descriptor of a backend: its set, its number in that set, its class, the bytes of an element."""

    group: int
    binding: int
    class_: BackendLayoutClass
    read_only: bool
    element_size: int


@dataclass(frozen=True, slots=True)
class BackendLayoutFingerprint:
    """The descriptors of a backend, ordered by set and number, so that their order of declaration does not matter."""

    slots: tuple[BackendLayoutSlot, ...]

    @classmethod
    def new(cls, slots: Iterable[BackendLayoutSlot]) -> BackendLayoutFingerprint:
        """Return the fingerprint of descriptors in any order; those of one number keep theirs."""
        return cls(tuple(sorted(slots, key=lambda slot: (slot.group, slot.binding))))
