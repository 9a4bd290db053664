"""Upstream's identities of a descriptor layout, and its table of counts.

No path of the driver takes what is here: it stands for other vyre tools. What selects code is ``identity.layout_digest``, and
a program gets its counts as push constants.

Source: spec item 2.2, layout identity and dispatch parameters.
"""

from __future__ import annotations

import enum
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX, whole_in_range
from vyre_driver.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre_driver.binding.plan import BindingPlan, BindingRole

MAX_PARAMETER_WORDS = 1 << 16


@dataclass(frozen=True, slots=True)
class BindingSetFingerprint:
    """The parts of a plan that decide its descriptors: (binding number, role, bytes of an element) of each buffer.

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
    """The kind of a descriptor."""

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


def parameter_words(plan: BindingPlan, element_count: int) -> tuple[int, ...]:
    """Return the table of u32 that a program reads its counts from.

    Word 0 is ``element_count``; word b + 1 is the count of the buffer with the binding number b, or word 0 where that is left
    to run time. Numbers without a descriptor have 0, and there is a word for each buffer at least.

    Raises
    ------
    InvalidInput
        If ``element_count`` is no u32 of at least 1.
    LimitExceeded
        If a binding number makes it longer than ``MAX_PARAMETER_WORDS``; upstream allocates 16 GiB for the highest.
    """
    total = whole_in_range(element_count, "the number of elements of a dispatch", 1, U32_MAX)
    bindings = [one for one in plan.bindings if one.role.value != "shared"]
    length = max([len(plan.bindings) + 1, *(one.binding + 2 for one in bindings)])
    if length > MAX_PARAMETER_WORDS:
        highest = max(bindings, key=lambda one: one.binding)
        raise LimitExceeded(
            f"buffer {highest.name!r} of binding {highest.binding} needs a table of {length} words, and there are "
            f"{MAX_PARAMETER_WORDS} words at most",
            fix="number the bindings from 0 without gaps",
            binding=highest.name,
            value=length,
            limit=MAX_PARAMETER_WORDS,
        )
    words = [0] * length
    words[0] = total
    for one in bindings:
        words[one.binding + 1] = one.element_count or total
    return tuple(words)
