"""The target of a lowering and its result, as frozen values that hold none of the ids of the emitter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.spirv.opcodes import FEATURE_OF_CAPABILITY, Capability

if TYPE_CHECKING:
    from vyre_driver.binding.plan import BindingPlan

EMITTER_VERSION = 12
"""In every key. Whatever changes the bytes of a program must raise it; a golden digest holds this."""

FLUSH = FEATURE_OF_CAPABILITY[Capability.DenormFlushToZero]
PRESERVE = FEATURE_OF_CAPABILITY[Capability.SignedZeroInfNanPreserve]
ROUND_TO_EVEN = FEATURE_OF_CAPABILITY[Capability.RoundingModeRTE]


@dataclass(frozen=True, slots=True)
class LoweringTarget:
    """The features that emitted code may rely on.

    ``features`` are the device features that are switched on, by Vulkan's names, and the float controls that may be used.
    ``strict`` keeps the semantics of floats where they cost instructions: results without subnormals, an fma that rounds once;
    without it they are the device's own. ``fuses`` says that the device's own fma rounds once, ``fences`` that atomics with an
    order may stand where only some invocations come.
    """

    features: frozenset[str] = frozenset()
    strict: bool = True
    fuses: bool = True
    fences: bool = True

    @property
    def emitter_version(self) -> int:
        """The version of what makes the code."""
        return EMITTER_VERSION

    def options(self) -> dict[str, int]:
        """Return the options besides the features that change the code, for a key."""
        return {"strict": int(self.strict), "fuses": int(self.fuses), "fences": int(self.fences)}


@dataclass(frozen=True, slots=True)
class CountMember:
    """A member of the push-constant block: the elements (u32) of the buffer in a slot, at a byte offset."""

    buffer: str
    slot: int
    offset: int


@dataclass(frozen=True, slots=True)
class EmittedBinding:
    """A storage buffer of the module: its binding number in set 0, and what the code does with it."""

    name: str
    slot: int
    reads: bool
    writes: bool


@dataclass(frozen=True, slots=True)
class EmittedModule:
    """SPIR-V of a program in the host's byte order, and what running it takes.

    ``features`` are the device features that it relies on, ``capabilities`` the numbers that it declares. ``spec_ids`` gives
    the SpecId of each name; the workgroup size has 0, 1 and 2. ``proven_size`` is the largest workgroup along each axis for
    which the bounds checks that were left out are proven: the size it was emitted with. ``shared_bytes`` is workgroup memory.
    """

    code: bytes
    version: tuple[int, int]
    capabilities: tuple[int, ...]
    features: frozenset[str]
    spec_ids: tuple[tuple[str, int], ...]
    counts: tuple[CountMember, ...]
    push_constant_bytes: int
    bindings: tuple[EmittedBinding, ...]
    proven_size: tuple[int, int, int]
    shared_bytes: int


def count_members(plan: BindingPlan) -> tuple[CountMember, ...]:
    """Return the push-constant block of a plan: a u32 for each descriptor whose count is left to run time, by slot."""
    left = [(one.name, slot) for slot, one in enumerate(plan.descriptors) if not one.static_byte_len]
    return tuple(CountMember(name, slot, 4 * place) for place, (name, slot) in enumerate(left))
