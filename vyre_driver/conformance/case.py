"""One question to a backend: a program, what goes in, and how close the answer has to be.

Source: spec item 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.ir.program import Program


class RunProgram(Protocol):
    """What stands for a backend: it runs a program once and returns its outputs in the order of their bindings.

    ``inputs`` come in the order of the bindings, ``grid`` is in workgroups, ``element_counts`` has the elements of outputs
    whose count is left to run time. What the backend cannot run it refuses with UnsupportedFeature.
    """

    def __call__(
        self,
        program: Program,
        inputs: Sequence[NDArray[Any]],
        *,
        grid: tuple[int, int, int],
        element_counts: Mapping[str, int],
    ) -> Sequence[NDArray[Any]]:
        """Run it."""
        ...


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an f32 may be from the reference: so many steps of its last place, or so far on the number line."""

    ulps: int = 0
    absolute: float = 0.0


EXACT = Tolerance()
ELEMENTARY = Tolerance(4)  # spec item 8: elementary arithmetic
TRANSCENDENTAL = Tolerance(128)  # spec item 8: the functions that IEEE 754 leaves to the implementation


@dataclass(frozen=True, slots=True)
class Case:
    """A program with its inputs (in the order of the bindings) and its grid in workgroups.

    ``tolerance`` is for f32, ``tolerances`` for outputs of these names in its place. ``subgroup_lanes`` is how many the
    reference gives a subgroup.
    """

    name: str
    program: Program
    inputs: tuple[NDArray[Any], ...]
    grid: tuple[int, int, int]
    tolerance: Tolerance = ELEMENTARY
    element_counts: Mapping[str, int] = field(default_factory=dict)
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    subgroup_lanes: int = 32
