"""The target of a lowering and its result, as frozen values that hold none of the ids of the emitter."""

from __future__ import annotations

from dataclasses import dataclass

from vyre_driver.spirv.opcodes import FEATURE_OF_CAPABILITY, Capability

EMITTER_VERSION = 14
"""In every key. Whatever changes the bytes of a program must raise it; a golden digest holds this."""

FLUSH = FEATURE_OF_CAPABILITY[Capability.DenormFlushToZero]
PRESERVE = FEATURE_OF_CAPABILITY[Capability.SignedZeroInfNanPreserve]
ROUND_TO_EVEN = FEATURE_OF_CAPABILITY[Capability.RoundingModeRTE]


@dataclass(frozen=True, slots=True)
class LoweringTarget:
    """The features that emitted code may rely on.

    ``features`` are the device features that are switched on, by Vulkan's names, and the float controls that may be used.
    ``strict`` keeps the semantics of floats where they cost instructions: results without subnormals, an fma that rounds once;
    without it they are the device's own. ``contracts`` lets the device join a product and a sum. ``fuses`` says that the
    device's own fma rounds once, ``fences`` that atomics with an order may stand where only some invocations come. ``checks``
    keeps indices inside of bound buffers; without it the device does.
    """

    features: frozenset[str] = frozenset()
    strict: bool = True
    fuses: bool = True
    fences: bool = True
    contracts: bool = False
    checks: bool = True

    @property
    def emitter_version(self) -> int:
        """The version of what makes the code."""
        return EMITTER_VERSION

    def options(self) -> dict[str, int]:
        """Return the options besides the features that change the code, for a key."""
        names = ("strict", "fuses", "fences", "contracts", "checks")
        return {name: int(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True)
class EmittedModule:
    """SPIR-V of a program in the host's byte order, and what running it takes.

    ``capabilities`` are the numbers that it declares, ``features`` the device features that it relies on, ``shared_bytes`` is
    workgroup memory.
    """

    code: bytes
    capabilities: tuple[int, ...]
    features: frozenset[str]
    shared_bytes: int
