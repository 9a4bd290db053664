"""The target of a lowering and its result, as frozen values that hold none of the ids of the emitter."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.spirv.opcodes import Capability, float_control

if TYPE_CHECKING:
    from vyre_driver.ir.terms import Term
    from vyre_driver.target.config import SourceLines

EMITTER_VERSION = 20
"""In every key. Whatever changes the bytes of a program must raise it; a golden digest holds this."""

HIDING_VERSION = 2
"""In the keys of targets that hide, and raised in place of the emitter's version by what changes the bytes for these alone."""

STRICT_VERSION = 2
"""In the keys of targets with exact floats, as ``HIDING_VERSION`` is in those of targets that hide."""

FLUSH = float_control(Capability.DenormFlushToZero, 32)
PRESERVE = float_control(Capability.SignedZeroInfNanPreserve, 32)
ROUND_TO_EVEN = float_control(Capability.RoundingModeRTE, 32)


class LoweringTarget(NamedTuple):
    """The features that emitted code may rely on.

    ``features`` are the device features that are switched on, by Vulkan's names, and the float controls that may be used.
    ``strict`` keeps the semantics of floats where they cost instructions: results without subnormals, an fma that rounds once;
    without it they are the device's own. ``contracts`` lets the device join a product and a sum. ``fuses`` says that the
    device's own fma rounds once, ``divides`` that its quotients do, ``fences`` that atomics with an order may stand where only
    some invocations come. ``checks`` keeps indices inside of bound buffers; without it the device does. ``lines`` are those of
    a ProgramConfig. ``hides`` hides from the device's compiler what is pushed, and floats that it might take for a constant 0.
    ``loop_limit`` is the number of turns after which the driver ends the program's loops, 0 where it ends none: the code then
    tells the host that a loop was cut.
    """

    features: frozenset[str] = frozenset()
    strict: bool = True
    fuses: bool = True
    divides: bool = False
    fences: bool = True
    contracts: bool = False
    checks: bool = True
    hides: bool = False
    lines: SourceLines | None = None
    loop_limit: int = 0

    @property
    def emitter_version(self) -> int:
        """The version of what makes the code."""
        return EMITTER_VERSION

    @property
    def flushes_by_bits(self) -> bool:
        """Whether subnormals are flushed, and not by the device."""
        return self.strict and FLUSH not in self.features

    def options(self) -> dict[str, int | bytes]:
        """Return the options besides the features that change the code, for a key."""
        names = ("fuses", "divides", "fences", "contracts", "checks")
        found: dict[str, int | bytes] = {"strict": STRICT_VERSION if self.strict else 0}
        found |= {name: int(getattr(self, name)) for name in names}
        if self.loop_limit:
            found["loop_limit"] = self.loop_limit
        found["hides"] = HIDING_VERSION if self.hides else 0
        if self.lines is not None:
            found["lines"] = hashlib.blake2b(repr(self.lines).encode(), digest_size=16).digest()
        return found


class EmittedModule(NamedTuple):
    """SPIR-V of a program in the host's byte order, and what running it takes.

    ``capabilities`` are the numbers that it declares, ``features`` the device features that it relies on, ``shared_bytes`` is
    workgroup memory. ``checked`` are the loads, stores and atomics of the program that compare their index with the count.
    """

    code: bytes
    capabilities: tuple[int, ...]
    features: frozenset[str]
    shared_bytes: int
    checked: tuple[Term, ...]
