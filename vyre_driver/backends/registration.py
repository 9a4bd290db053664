"""The registration of a backend: how to open it, and the facts known before it is opened.

Source: spec item 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from vyre_driver.checks import U32_MAX
from vyre_driver.errors import InvalidRegistration

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.backends.base import Backend
    from vyre_driver.target.profile import DeviceProfile

NO_PRECEDENCE = U32_MAX
BUILT_IN_SOURCE = "vyre_driver itself"
_ORACLES = frozenset({"cpu-ref", "reference"})


@dataclass(frozen=True, slots=True)
class BackendRequest:
    """What the caller of an acquisition said: which device, and whether a CPU device will do."""

    device: str | int | None = None
    allow_software: bool = False


@dataclass(frozen=True, slots=True)
class BackendFacts:
    """What a backend reports before anything is initialised: its profile, and the device it would open."""

    profile: DeviceProfile
    device: str = ""
    is_software: bool = False


@dataclass(frozen=True, slots=True)
class BackendRegistration:
    """How to open and rank a backend.

    ``factory`` opens it. ``probe`` returns the facts it is ranked by without opening anything, and raises what a factory would;
    without one it is ranked as a conservative profile. Lower ``precedence`` goes first where the facts are equal. Only what
    ``dispatches`` is chosen without being named, and what is a ``reference_oracle`` never is. ``source`` names the package that
    registered it.
    """

    id: str
    factory: Callable[[BackendRequest], Backend]
    precedence: int = NO_PRECEDENCE
    dispatches: bool = False
    probe: Callable[[BackendRequest], BackendFacts] | None = None
    reference_oracle: bool = False
    source: str = "this process"

    def __post_init__(self) -> None:
        """Check what is given.

        Raises
        ------
        InvalidRegistration
            If the id is empty or not printable, the precedence is not a u32, or factory or probe cannot be called.
        """
        if not isinstance(self.id, str) or not self.id or not self.id.isprintable():
            _refuse(f"the id of a backend is {self.id!r}", "give a printable name", self.id)
        if type(self.precedence) is not int or not 0 <= self.precedence <= NO_PRECEDENCE:
            _refuse(f"the precedence of backend {self.id!r} is {self.precedence!r}", f"give 0 to {NO_PRECEDENCE}", self.id)
        if not callable(self.factory) or not (self.probe is None or callable(self.probe)):
            _refuse(f"factory or probe of backend {self.id!r} cannot be called", "give functions", self.id)

    @property
    def is_oracle(self) -> bool:
        """Whether it is an interpreter that results are compared with; upstream knows those by their ids."""
        return self.reference_oracle or is_reference_oracle(self.id)


def is_reference_oracle(backend_id: str) -> bool:
    """Whether upstream takes an id for that of the oracle."""
    return backend_id in _ORACLES


def duplicate_error(backend_id: str, sources: list[str]) -> InvalidRegistration:
    """Return the error of an id that several claim."""
    return InvalidRegistration(
        f"backend {backend_id!r} is brought by {' and by '.join(sources)}",
        fix="uninstall one of them, or set VYRE_DISABLE_PLUGINS=1",
        backend=backend_id,
        sources=sources,
    )


def _refuse(problem: str, fix: str, backend_id: object) -> NoReturn:
    raise InvalidRegistration(problem, fix=fix, backend=backend_id)
