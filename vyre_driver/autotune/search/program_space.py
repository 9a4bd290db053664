"""The search space of a program: its workgroup size, where the results do not depend on it.

Source: spec items 6.1 (the sizes) and 6.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from vyre_driver.autotune.search.space import Axis, TuningSpace
from vyre_driver.ir.workgroup_freedom import why_workgroup_is_fixed

if TYPE_CHECKING:
    from vyre_driver.ir.program import Program

# 64 fills the subgroups of every GPU and wastes little at the end of a grid; the others waste more, or may fill less.
_SIZES = (64, 128, 256, 32, 512, 1024)
_ALONG: tuple[Literal["x", "y", "z"], ...] = ("x", "y", "z")


def program_space(program: Program) -> TuningSpace:
    """Return the workgroup sizes that a valid program may have: the size it declares first.

    A program that is bound to its workgroup has one: its own. Axes stand for no specialization constants here: the program of
    a candidate is ``program.with_workgroup_size(candidate.workgroup_size)``, lowered for itself, since the bounds checks that
    a lowering leaves out are proven for one size. ``candidates(limits)`` leaves out what the device does not take.
    """
    declared = program.workgroup_size
    if why_workgroup_is_fixed(program) is None:
        others = tuple(size for size in _SIZES if size != declared[0])
        return TuningSpace((_axis("x", (declared[0], *others)),))
    return TuningSpace(tuple(_axis(along, (size,)) for along, size in zip(_ALONG, declared, strict=True)))


def _axis(along: Literal["x", "y", "z"], sizes: tuple[int, ...]) -> Axis:
    return Axis(f"workgroup_size_{along}", sizes, f"invocations of a workgroup along {along}", along)
