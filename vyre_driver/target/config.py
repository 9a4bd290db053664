"""The configuration of a dispatch, as the caller asks for it.

Source: spec item 4.2.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from vyre_driver.checks import U8_MAX, U32_MAX, U64_MAX, integer_within
from vyre_driver.errors import InvalidDispatchConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


SourceLines: TypeAlias = "tuple[tuple[str, tuple[str, int, int]], ...]"


class SpeculationMode(enum.Enum):
    """Whether several variants of a kernel may race."""

    AUTO = "auto"
    FORCE = "force"
    DISABLE = "disable"


class PersistentThreadMode(enum.Enum):
    """Whether workgroups may stay and take further work themselves."""

    AUTO = "auto"
    FORCE = "force"
    DISABLE = "disable"


@dataclass(frozen=True, slots=True)
class DispatchConfig:
    """What the caller asks of a dispatch; None leaves a choice to the driver.

    Only ``ulp_budget``, ``workgroup_override`` and ``subgroup_size`` change the compiled code, so only they enter the pipeline
    key; the first two enter upstream's policy digest.

    ===================== ==============================================================================================
    field                 meaning
    ===================== ==============================================================================================
    profile               name of a set of defaults
    ulp_budget            how many units in the last place an intrinsic may be off, u8; None and 0: strict
    timeout               seconds to wait for the work, above 0
    label                 name of the dispatch in reports
    max_output_bytes      most bytes that may be read back, u64
    workgroup_override    invocations per axis in place of the program's, three u32 from 1 on
    grid_override         workgroups per axis, three u32 from 1 on
    fixpoint_iterations   how often the program runs over its own output, u32 from 1 on; None: once
    speculation           SpeculationMode
    persistent_thread     PersistentThreadMode
    cooperative           every workgroup must be resident at once; a backend that cannot refuses it (UnsupportedFeature)
    subgroup_size         invocations of each subgroup, all of which are full: a power of two, u32, that the device offers
                          (:func:`vyre_driver.binding.subgroup_size.check_subgroup_size`); None: what the device chooses
    dispatch_elements     invocations along x that the grid has at least, u32; the reference alone reads it, as upstream's does
    dispatch_grid         workgroups per axis, three u32 from 1 on, before dispatch_elements and after grid_override; the
                          reference alone reads it, as upstream's does
    ===================== ==============================================================================================
    """

    profile: str | None = None
    ulp_budget: int | None = None
    timeout: float | None = None
    label: str | None = None
    max_output_bytes: int | None = None
    workgroup_override: tuple[int, int, int] | None = None
    grid_override: tuple[int, int, int] | None = None
    fixpoint_iterations: int | None = None
    speculation: SpeculationMode = SpeculationMode.AUTO
    persistent_thread: PersistentThreadMode = PersistentThreadMode.AUTO
    cooperative: bool = False
    subgroup_size: int | None = None
    dispatch_elements: int | None = None
    dispatch_grid: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        """Check every field.

        Raises
        ------
        InvalidDispatchConfig
            If a field is of the wrong type or out of range; names the first.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or field.default is not None:
                object.__setattr__(self, field.name, _CHECKS[field.name](field.name, value))

    @classmethod
    def new(
        cls,
        profile: str | None = None,
        ulp_budget: int | None = None,
        timeout: float | None = None,
        label: str | None = None,
    ) -> DispatchConfig:
        """Return a configuration with upstream's four first fields, everything else left to the driver."""
        return cls(profile, ulp_budget, timeout, label)


@dataclass(frozen=True, slots=True)
class ProgramConfig(DispatchConfig):
    """A configuration that also says how the floats and the bounds of a program are lowered (docs/lowering.md).

    ``floats``: ``"exact"`` gives what the reference gives, bit for bit; ``"device"`` each operation as the device has it, with
    its subnormals and its fma; ``"fast"`` lets the device join a product and a sum into one operation too. None is ``"device"``
    with a ``ulp_budget``, else ``"exact"``.

    ``bounds``: with ``"checked"`` a load out of range is zero, and a store and an atomic do nothing; with ``"robust"`` the
    device sees to it that no other memory is touched (robustBufferAccess): such a load gives anything of its buffer, and such
    a store may change anything in it.

    ``lines`` say where in a source statements of the program come from, which the code then tells to debuggers and profilers:
    by the statement's path the file, the line and the column, from 1 on.
    """

    floats: str | None = None
    bounds: str = "checked"
    lines: SourceLines | None = None

    @property
    def float_mode(self) -> str:
        """How floats are lowered."""
        return self.floats or ("device" if self.ulp_budget else "exact")


def _of_kind(name: str, value: object, *, kind: type) -> object:
    if not isinstance(value, kind):
        _refuse(name, value, f"is not a {kind.__name__}", f"give a {kind.__name__}")
    return value


def _whole(name: str, value: object, *, low: int, high: int) -> int:
    found = integer_within(value, low, high)
    if found is None:
        _refuse(name, value, f"is not an integer from {low} to {high}", f"give an integer from {low} to {high}")
    return found


def _power_of_two(name: str, value: object) -> int:
    found = integer_within(value, 1, U32_MAX)
    if found is None or found & (found - 1):
        _refuse(
            name, value, f"is not a power of two from 1 to {1 << 31}", "give a power of two that the device offers, such as 32"
        )
    return found


def _three(name: str, value: object) -> tuple[int, ...]:
    axes = tuple(value) if isinstance(value, (tuple, list)) else ()
    if len(axes) != 3:
        _refuse(name, value, "is not 3 numbers", "give (x, y, z)")
    return tuple(_whole(name, axis, low=1, high=U32_MAX) for axis in axes)


def _one_of(name: str, value: object, *, known: tuple[str, ...]) -> object:
    if value not in known:
        _refuse(name, value, f"is none of {', '.join(map(repr, known))}", "give one of them")
    return value


def _seconds(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        _refuse(name, value, "is not a number of seconds above 0", "give seconds, for example 2.5")
    return value


def _refuse(name: str, value: object, problem: str, fix: str) -> NoReturn:
    raise InvalidDispatchConfig(f"{name} of the dispatch is {value!r}, which {problem}", fix=fix, field=name, value=value)


# Each checks a field, named first, and returns its value as it is kept.
_CHECKS: dict[str, Callable[[str, object], object]] = {
    "profile": partial(_of_kind, kind=str),
    "ulp_budget": partial(_whole, low=0, high=U8_MAX),
    "timeout": _seconds,
    "label": partial(_of_kind, kind=str),
    "max_output_bytes": partial(_whole, low=0, high=U64_MAX),
    "workgroup_override": _three,
    "grid_override": _three,
    "fixpoint_iterations": partial(_whole, low=1, high=U32_MAX),
    "speculation": partial(_of_kind, kind=SpeculationMode),
    "persistent_thread": partial(_of_kind, kind=PersistentThreadMode),
    "cooperative": partial(_of_kind, kind=bool),
    "subgroup_size": _power_of_two,
    "dispatch_elements": partial(_whole, low=0, high=U32_MAX),
    "dispatch_grid": _three,
    "floats": partial(_one_of, known=("exact", "device", "fast")),
    "bounds": partial(_one_of, known=("checked", "robust")),
    "lines": partial(_of_kind, kind=tuple),
}
