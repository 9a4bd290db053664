"""Check a DispatchConfig against a backend: each field is honoured, or refused by its name.

Source: spec items 4.2 and 4.6 (overrides against limits).
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidDispatchConfig, LimitExceeded, UnsupportedFeature
from vyre_driver.target.config import DispatchConfig, PersistentThreadMode, SpeculationMode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from vyre_driver.backends.base import Backend
    from vyre_driver.binding.arguments import BufferArgument

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
