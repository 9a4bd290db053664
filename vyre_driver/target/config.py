"""The configuration of a dispatch, as the caller asks for it.

Source: spec item 4.2.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from vyre_driver.checks import U8_MAX, U32_MAX, U64_MAX, integer_within
from vyre_driver.errors import InvalidDispatchConfig

if TYPE_CHECKING:
    from typing import NoReturn


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

    Only ``ulp_budget`` and ``workgroup_override`` change the compiled code, so only they enter the policy digest and the
    pipeline key.

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
                object.__setattr__(self, field.name, _checked(field.name, value))

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


_RANGES = {
    "ulp_budget": (0, U8_MAX),
    "max_output_bytes": (0, U64_MAX),
    "fixpoint_iterations": (1, U32_MAX),
    "workgroup_override": (1, U32_MAX),
    "grid_override": (1, U32_MAX),
}
_KINDS: dict[str, type] = {
    "profile": str,
    "label": str,
    "speculation": SpeculationMode,
    "persistent_thread": PersistentThreadMode,
    "cooperative": bool,
}


def _checked(name: str, value: object) -> object:
    """Return the value of a field as it is kept."""
    match name:
        case "ulp_budget" | "max_output_bytes" | "fixpoint_iterations":
            return _whole(name, value)
        case "workgroup_override" | "grid_override":
            return _three(name, value)
        case "timeout":
            return _seconds(name, value)
    if not isinstance(value, _KINDS[name]):
        _refuse(name, value, f"is not a {_KINDS[name].__name__}", f"give a {_KINDS[name].__name__}")
    return value


def _whole(name: str, value: object) -> int:
    low, high = _RANGES[name]
    found = integer_within(value, low, high)
    if found is None:
        _refuse(name, value, f"is not an integer from {low} to {high}", f"give an integer from {low} to {high}")
    return found


def _three(name: str, value: object) -> tuple[int, ...]:
    axes = tuple(value) if isinstance(value, (tuple, list)) else ()
    if len(axes) != 3:
        _refuse(name, value, "is not 3 numbers", "give (x, y, z)")
    return tuple(_whole(name, axis) for axis in axes)


def _seconds(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        _refuse(name, value, "is not a number of seconds above 0", "give seconds, for example 2.5")
    return value


def _refuse(name: str, value: object, problem: str, fix: str) -> NoReturn:
    raise InvalidDispatchConfig(f"{name} of the dispatch is {value!r}, which {problem}", fix=fix, field=name, value=value)
