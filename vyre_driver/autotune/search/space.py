"""The search space of a kernel: the values of its specialization constants, and which combinations are valid.

Constants have any names. Those that set the workgroup's size say so: it is held against the device's limits. Values stand in
the order in which they are preferred: of two that are equally fast the earlier is taken, so that two tunings agree.

Source: spec item 6.1.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

from vyre_driver.checks import U32_MAX
from vyre_driver.errors import InvalidTuningSpace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Axes = tuple[int, int, int]

UNROLL = "UNROLL"
"""The constant that upstream's records have a column for."""
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
    """One choice: the value of each constant by name, in the order of the space, and the workgroup that they make.

    ``candidate["TILE_X"]`` is a constant's value.
    """

    workgroup_size: Axes
    constants: tuple[tuple[str, int], ...] = ()

    def __getitem__(self, constant: str) -> int:
        """Return the value of a constant; raises KeyError."""
        return dict(self.constants)[constant]

    def __str__(self) -> str:
        """Return it for people: ``TILE_X=128, TILE_Y=64, UNROLL=4``, the workgroup's size where it has no constants."""
        return ", ".join(f"{name}={value}" for name, value in self.constants) or _by(self.workgroup_size)


@dataclass(frozen=True, slots=True)
class Axis:
    """One specialization constant: its name, its values (preferred first), and what it means to people.

    ``workgroup`` is ``"x"``, ``"y"`` or ``"z"`` where it is the workgroup's size along that axis.
    """

    constant: str
    values: tuple[int, ...]
    meaning: str = ""
    workgroup: Literal["x", "y", "z"] | None = None

    @property
    def least(self) -> int:
        """The least value that a device could take: 1 of a workgroup's size and of ``UNROLL``, else 0."""
        return 1 if self.workgroup is not None or self.constant == UNROLL else 0


def _always_valid(_candidate: Candidate, _limits: Limits) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class TuningSpace:
    """The axes, the first varying slowest in the order of preference, and the rule that says why a candidate is not valid.

    The rule returns None for what is valid; that a workgroup is within the device's limits is checked before it. Along an axis
    that no constant sets, a workgroup is taken for 1.

    Raises
    ------
    InvalidTuningSpace
        If an axis has no values or one that it may not have, or a constant or an axis of the workgroup comes twice.
    """

    axes: tuple[Axis, ...]
    rule: Callable[[Candidate, Limits], str | None] = _always_valid

    def __post_init__(self) -> None:
        """Check the axes."""
        for axis in self.axes:
            if not axis.values or any(type(one) is not int or not axis.least <= one <= U32_MAX for one in axis.values):
                raise InvalidTuningSpace(
                    f"the values of {axis.constant!r} are {axis.values}, and each must be an integer from {axis.least} to "
                    f"{U32_MAX}",
                    fix="give the values that the constant may take, preferred first",
                    constant=axis.constant,
                )
        _check_once("constant", [axis.constant for axis in self.axes])
        _check_once("axis of the workgroup", [axis.workgroup for axis in self.axes if axis.workgroup is not None])

    def candidates(self, limits: Limits) -> tuple[Candidate, ...]:
        """Return what is valid on a device with these limits, preferred first.

        Raises
        ------
        InvalidTuningSpace
            If nothing is.
        """
        candidates = tuple(self._valid(limits))
        if not candidates:
            raise self._none_valid(limits)
        return candidates

    def first(self, limits: Limits) -> Candidate:
        """Return the first of ``candidates`` without looking for the others; raises as that."""
        candidate = next(self._valid(limits), None)
        if candidate is None:
            raise self._none_valid(limits)
        return candidate

    def refusal(self, candidate: Candidate, limits: Limits) -> str | None:
        """Return why a candidate is not valid on a device with these limits, None if it is."""
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
        return self._candidate([axis.values[0] for axis in self.axes])

    def given(self, values: Mapping[str, int]) -> TuningSpace:
        """Return the space that is left when these constants are chosen: the axis of each has that value alone.

        So the rule sees it, and the code that makes a grid of a candidate; a value below what the axis may have as its least.
        """
        chosen = (
            replace(one, values=(max(values[one.constant], one.least),)) if one.constant in values else one for one in self.axes
        )
        return replace(self, axes=tuple(chosen))

    def candidate(self, /, **values: int) -> Candidate:
        """Return the candidate with these values by name, valid or not.

        Raises
        ------
        InvalidTuningSpace
            If they are not one for each constant.
        """
        names = [axis.constant for axis in self.axes]
        if set(values) != set(names):
            raise InvalidTuningSpace(
                f"values are given of {', '.join(values) or 'nothing'}, and the space has {', '.join(names)}",
                fix="give one value for each constant",
            )
        return self._candidate([values[name] for name in names])

    def _all(self) -> Iterator[Candidate]:
        return map(self._candidate, itertools.product(*(axis.values for axis in self.axes)))

    def _valid(self, limits: Limits) -> Iterator[Candidate]:
        return (one for one in self._all() if self.refusal(one, limits) is None)

    def _none_valid(self, limits: Limits) -> InvalidTuningSpace:
        refused = [f"{one}: {self.refusal(one, limits)}" for one in self._all()]
        return InvalidTuningSpace(
            f"none of {len(refused)} candidates will do on this device: {'; '.join(refused[:_SHOWN])}",
            fix="add smaller ones",
            refused=refused,
        )

    def _candidate(self, values: Sequence[int]) -> Candidate:
        sizes = {axis.workgroup: value for axis, value in zip(self.axes, values, strict=True)}
        workgroup = sizes.get("x", 1), sizes.get("y", 1), sizes.get("z", 1)
        return Candidate(workgroup, tuple(zip([axis.constant for axis in self.axes], values, strict=True)))


def _check_once(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InvalidTuningSpace(f"the {what} {name} has {names.count(name)} axes", fix="give it one", constant=name)


def _by(axes: Axes) -> str:
    return "x".join(map(str, axes))
