"""What random programs are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """What a generated program may use beyond u32, i32, f32 and bool, and how large it gets.

    ``u64``: 64-bit integers of either sign. ``narrow``: integers of 8 and 16 bits, and f16, of which the bits are moved.
    ``constants``: hardly anything but what is about constants. ``unordered``: programs whose result depends on the order of
    invocations, which only interpreters agree on. ``subgroups``: some with what the lanes of a subgroup tell each other,
    ``subgroup_lanes`` of them, in workgroups along x, for how others are cut into subgroups is the device's. ``fma``: for
    backends whose fma rounds once.
    """

    u64: bool = True
    narrow: bool = True
    atomics: bool = True
    shared: bool = True
    subgroups: bool = False
    inexact: bool = True
    fma: bool = True
    constants: bool = False
    subgroup_lanes: int = 32
    unordered: bool = False
    statements: int = 10
    depth: int = 4
