"""What of a kernel may be tuned: the values its specialization constants may take, and which of the combinations are valid.

A record holds a workgroup size, an unrolling and a tile; an axis of a space says which constant stands for which of these
numbers. Values stand in the order in which they are preferred: of two that are equally fast the earlier is taken, so that two
tunings agree.

Source: spec items 2.4 (what a record holds) and 6.1.
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from vyre_driver.errors import InvalidTuningSpace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vyre_driver.autotune.store.record import AutotuneRecord

Axes = tuple[int, int, int]

_U32_MAX = 2**32 - 1
_SHOWN = 3


class Limits(Protocol):
    """What a space asks of a device's limits (``vulkan.devices.DeviceLimits``)."""

    @property
    def max_compute_work_group_size(self) -> Axes:
        """Invocations along x, y and z."""

    @property
    def max_compute_work_group_invocations(self) -> int:
        """Invocations of a workgroup."""

    @property
    def max_compute_shared_memory_size(self) -> int:
        """Bytes that a workgroup may share."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One choice: invocations of a workgroup along x, y and z, depth of unrolling, tile; a tile of (0, 0, 0) is none."""

    workgroup_size: Axes
    unroll: int = 1
    tile: Axes = (0, 0, 0)

    def __str__(self) -> str:
        """Return it for people: ``16x16x1, unrolled 4, tile 128x128x8``; of a tile only as many numbers as it has."""
        tile = f", tile {_by(self.tile).removesuffix('x0').removesuffix('x0')}" if any(self.tile) else ""
        unrolled = f", unrolled {self.unroll}" if self.unroll != 1 else ""
        return f"{_by(self.workgroup_size)}{unrolled}{tile}"


class Place(enum.Enum):
    """Which number of a candidate an axis is."""

    WORKGROUP_X = ("workgroup_size", 0)
    WORKGROUP_Y = ("workgroup_size", 1)
    WORKGROUP_Z = ("workgroup_size", 2)
    UNROLL = ("unroll", None)
    TILE_X = ("tile", 0)
    TILE_Y = ("tile", 1)
    TILE_Z = ("tile", 2)

    def of(self, candidate: Candidate | AutotuneRecord) -> int:
        """Return that number."""
        name, axis = self.value
        found = getattr(candidate, name)
        return int(found if axis is None else found[axis])


@dataclass(frozen=True, slots=True)
class Axis:
    """One specialization constant: its name, the number it is, its values (preferred first), what it means to people."""

    constant: str
    place: Place
    values: tuple[int, ...]
    meaning: str = ""


def _always_valid(_candidate: Candidate, _limits: Limits) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class TuningSpace:
    """The axes, the first varying slowest in the order of preference, and the rule that tells why a candidate will not do.

    The rule returns None for what is valid; that a workgroup is within the device's limits is checked before it. A workgroup
    size without an axis is 1, an unrolling 1, a tile 0.

    Raises
    ------
    InvalidTuningSpace
        2210 if an axis has no values or one that is no u32 from 1 on, or a constant or a place comes twice.
    """

    axes: tuple[Axis, ...]
    rule: Callable[[Candidate, Limits], str | None] = _always_valid

    def __post_init__(self) -> None:
        """Check the axes."""
        for axis in self.axes:
            if not axis.values or any(type(one) is not int or not 1 <= one <= _U32_MAX for one in axis.values):
                raise InvalidTuningSpace(
                    f"the values of {axis.constant!r} are {axis.values}, and each must be a whole number from 1 to {_U32_MAX}",
                    fix="give the values that the constant may take, preferred first",
                    constant=axis.constant,
                )
        _check_once("constant", [axis.constant for axis in self.axes])
        _check_once("place", [axis.place.name for axis in self.axes])

    def candidates(self, limits: Limits) -> tuple[Candidate, ...]:
        """Return what is valid on a device with these limits, preferred first.

        Raises
        ------
        InvalidTuningSpace
            2210 if nothing is.
        """
        found, refused = [], []
        for one in self._all():
            why = self.refusal(one, limits)
            if why is None:
                found.append(one)
            else:
                refused.append(f"{one}: {why}")
        if not found:
            shown = "; ".join(refused[:_SHOWN])
            raise InvalidTuningSpace(
                f"none of {len(refused)} candidates will do on this device: {shown}", fix="add smaller ones", refused=refused
            )
        return tuple(found)

    def refusal(self, candidate: Candidate, limits: Limits) -> str | None:
        """Return why a candidate will not do on a device with these limits, None if it will."""
        invocations = 1
        for size, most in zip(candidate.workgroup_size, limits.max_compute_work_group_size, strict=True):
            invocations *= size
            if not 1 <= size <= most:
                return f"a workgroup of {_by(candidate.workgroup_size)}, and the device allows 1 to {most} along an axis"
        if invocations > limits.max_compute_work_group_invocations:
            return f"{invocations} invocations, and the device allows {limits.max_compute_work_group_invocations}"
        return self.rule(candidate, limits)

    @property
    def preferred(self) -> Candidate:
        """The first value of every axis, valid on a device or not."""
        return _candidate({axis.place: axis.values[0] for axis in self.axes})

    def given(self, values: Mapping[str, int]) -> TuningSpace:
        """Return the space that is left when somebody has chosen these constants: the axis of each has that value alone.

        So the rule sees it, and whoever makes a grid of a candidate. A value that no axis may have leaves its axis out.
        """
        chosen = (replace(axis, values=(values[axis.constant],)) if axis.constant in values else axis for axis in self.axes)
        return replace(self, axes=tuple(axis for axis in chosen if axis.values != (0,)))

    def constants(self, candidate: Candidate) -> dict[str, int]:
        """Return the specialization constants of a candidate by name."""
        return {axis.constant: axis.place.of(candidate) for axis in self.axes}

    def of_record(self, record: AutotuneRecord, limits: Limits) -> Candidate | None:
        """Return the candidate that a record names, None if it is not of this space or will not do on this device."""
        values = {axis.place: axis.place.of(record) for axis in self.axes}
        found = _candidate(values)
        is_of_space = all(values[axis.place] in axis.values for axis in self.axes)
        said = (record.workgroup_size, record.unroll, record.tile)
        is_same = said == (found.workgroup_size, found.unroll, found.tile)
        return found if is_of_space and is_same and self.refusal(found, limits) is None else None

    def _all(self) -> Iterator[Candidate]:
        places = [axis.place for axis in self.axes]
        for values in itertools.product(*(axis.values for axis in self.axes)):
            yield _candidate(dict(zip(places, values, strict=True)))


def _check_once(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InvalidTuningSpace(f"the {what} {name} has {names.count(name)} axes", fix="give it one", constant=name)


def _candidate(values: dict[Place, int]) -> Candidate:
    x, y, z = (values.get(place, 1) for place in (Place.WORKGROUP_X, Place.WORKGROUP_Y, Place.WORKGROUP_Z))
    wide, high, deep = (values.get(place, 0) for place in (Place.TILE_X, Place.TILE_Y, Place.TILE_Z))
    return Candidate((x, y, z), values.get(Place.UNROLL, 1), (wide, high, deep))


def _by(axes: Axes) -> str:
    return "x".join(map(str, axes))
