"""The configuration of a dispatch, as the caller asks for it, and its check: a backend honours each field, or it is refused.

Source: spec items 4.2 and 4.6 (overrides against limits).
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from vyre_driver.checks import U8_MAX, U32_MAX, U64_MAX, integer_within
from vyre_driver.errors import InvalidDispatchConfig, LimitExceeded, UnsupportedFeature

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import NoReturn

    from vyre_driver.backends.base import Backend
    from vyre_driver.binding.arguments import BufferArgument


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


_INSTEAD = {
    "timeout": "leave it out, and give timeout with the call",
    "label": "leave it out, and give label with the call",
    "grid_override": "leave it out, and give workgroups with the call",
    "workgroup_override": "leave it out, and give the constants that the module's workgroup is made of: constants={...}",
}


def check_config(backend: Backend, config: DispatchConfig) -> None:
    """Check that the backend can honour every field, with sizes within its limits; a limit of 0 refuses nothing.

    A ``profile`` is refused: no set of defaults has a name yet. A ``ulp_budget`` always holds: it need not be used up.

    Raises
    ------
    InvalidDispatchConfig
        If it is not a DispatchConfig.
    UnsupportedFeature
        If the backend cannot honour a field; names the first.
    LimitExceeded
        If an override is over a limit of the device.
    """
    _check_type(config)
    if config.profile is not None:
        backend.refuse(f"profile {config.profile!r} of a dispatch", "leave profile out")
    if config.speculation is SpeculationMode.FORCE and not backend.supports_speculation:
        backend.refuse("speculation", "let speculation be AUTO or DISABLE")
    if config.persistent_thread is PersistentThreadMode.FORCE and not backend.supports_persistent_threads:
        backend.refuse("persistent_thread", "let persistent_thread be AUTO or DISABLE")
    if config.cooperative and not backend.supports_grid_sync:
        backend.refuse("cooperative dispatch", "leave cooperative out, and dispatch once for each part between two waits")
    if config.subgroup_size is not None and not backend.supports_subgroup_sizes:
        backend.refuse("subgroup_size", "leave subgroup_size out")
    _check_workgroup(backend, config.workgroup_override)
    if config.grid_override is not None:
        check_axes("grid_override", "workgroups", config.grid_override, backend.max_grid)


def check_supported_fields(config: DispatchConfig | None, kept: Collection[str], what: str) -> None:
    """Check that a configuration given to compile asks only for fields in ``kept``; None asks for nothing.

    Raises
    ------
    InvalidDispatchConfig
        If it is not a DispatchConfig.
    UnsupportedFeature
        If a field is not honoured; names the first.
    """
    if config is None:
        return
    _check_type(config)
    for one in fields(config):
        value = getattr(config, one.name)
        if value != one.default and one.name not in kept:
            raise UnsupportedFeature(
                f"the configuration asks for {one.name} = {value!r}, which compile does not keep for a {what}",
                fix=_INSTEAD.get(one.name, "leave it out"),
                field=one.name,
            )


def check_output_bytes(config: DispatchConfig, byte_len: int) -> None:
    """Check that a dispatch may make so many bytes of outputs; call it before allocating them.

    Raises
    ------
    LimitExceeded
        If they are more than ``max_output_bytes``.
    """
    limit = config.max_output_bytes
    if limit is not None and byte_len > limit:
        raise LimitExceeded(
            f"the outputs of the dispatch have {byte_len} bytes, and max_output_bytes is {limit} bytes",
            fix="raise max_output_bytes, or dispatch the work in parts",
            value=byte_len,
            limit=limit,
        )


def output_byte_len(arguments: Iterable[BufferArgument]) -> int:
    """Return the bytes that come back of what a dispatch was given: of each output all, or its ``output_byte_range``."""
    written = (one for one in arguments if one.binding.output_index is not None)
    return sum(one.binding.readback_slice(one.byte_len)[1] for one in written)


def _check_type(config: object) -> None:
    if not isinstance(config, DispatchConfig):
        raise InvalidDispatchConfig(
            f"the configuration of a dispatch is of type {type(config).__name__}", fix="pass a DispatchConfig", value=config
        )


def _check_workgroup(backend: Backend, size: tuple[int, int, int] | None) -> None:
    if size is None:
        return
    profile = backend.profile
    check_axes("workgroup_override", "invocations", size, profile.max_workgroup_size)
    total, limit = math.prod(size), profile.max_invocations_per_workgroup
    if 0 < limit < total:
        raise LimitExceeded(
            f"workgroup_override has {total} invocations, and the device allows {limit}",
            fix="choose a smaller workgroup",
            value=total,
            limit=limit,
        )


def check_axes(
    name: str, unit: str, sizes: tuple[int, int, int], limits: tuple[int, int, int], *, fix: str | None = None
) -> None:
    """Check that no axis of a grid or a workgroup is over its limit; a limit of 0 refuses nothing.

    Raises
    ------
    LimitExceeded
        Otherwise.
    """
    for axis, size, limit in zip("xyz", sizes, limits, strict=True):
        if 0 < limit < size:
            raise LimitExceeded(
                f"{name} has {size} {unit} along {axis}, and the device allows {limit}",
                fix=fix or f"choose at most {limit} along {axis}",
                value=size,
                limit=limit,
            )
