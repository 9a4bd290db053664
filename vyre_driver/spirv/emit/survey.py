"""What one walk over a program tells before its first instruction is emitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import Binary, LitF32, Unary
from vyre_driver.ir.expressions import Atomic, BufLen, Cast, Fma, Load
from vyre_driver.ir.statements import Assign, Barrier, Let, Store
from vyre_driver.ir.terms import terms_within

if TYPE_CHECKING:
    from vyre_driver.ir.program import Program
    from vyre_driver.ir.terms import Term


@dataclass(slots=True)
class Survey:
    """Names: of variables that are assigned, of those that only ever get what was computed; of buffers by their uses."""

    assigned: set[str] = field(default_factory=set)
    uncomputed: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    atomic: set[str] = field(default_factory=set)
    measured: set[str] = field(default_factory=set)
    has_barrier: bool = False

    @property
    def orders(self) -> bool:
        """Whether anything makes one invocation's writes visible to others."""
        return self.has_barrier or bool(self.atomic)

    def is_shared_between_invocations(self, name: str) -> bool:
        """Return whether some invocations may read of a buffer what others wrote while the program runs."""
        reads = name in self.loaded or name in self.atomic
        return self.orders and reads and name in self.stored | self.atomic and name in self.loaded | self.stored


def survey(program: Program) -> Survey:
    """Walk every different term of a program once."""
    found = Survey()
    for term in terms_within(*program.entry):
        _note(found, term)
    return found


def _note(found: Survey, term: Term) -> None:
    match term:
        case Load():
            found.loaded.add(term.buffer)
        case Store():
            found.stored.add(term.buffer)
        case Atomic():
            found.atomic.add(term.buffer)
        case BufLen():
            found.measured.add(term.buffer)
        case Assign() | Let():
            if isinstance(term, Assign):
                found.assigned.add(term.name)
            if not isinstance(term.value, Binary | Unary | Fma | Cast | LitF32):
                found.uncomputed.add(term.name)
        case Barrier():
            found.has_barrier = True
