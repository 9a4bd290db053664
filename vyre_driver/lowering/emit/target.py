"""The ends of a lowering: its target, the specialization constants of the program, and the module that comes of both.

A ``let`` of a literal is the declaration of a constant with that default: given a value under its name, the literal's place is
taken by a specialization constant. The workgroup has the ids 0, 1 and 2, the names follow in the order of their bytes.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.errors import InvalidSpecialization
from vyre_driver.ir.arithmetic import LitBool, LitF32, LitI32, LitU32
from vyre_driver.ir.nodes import Let
from vyre_driver.ir.terms import Term, terms_within
from vyre_driver.spirv.interface import SpecConstant
from vyre_driver.spirv.layout import Scalar
from vyre_driver.spirv.opcodes import Capability, float_control

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre_driver.ir.program import Program
    from vyre_driver.target.config import SourceLines


EMITTER_VERSION = 20
"""In every key. Whatever changes the bytes of a program must raise it; a golden digest holds this."""

HIDING_VERSION = 3
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
