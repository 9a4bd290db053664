"""The parts of a driver that its device uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from vyre_driver.telemetry._timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable

_Made = TypeVar("_Made")


def _nobody() -> None:
    return None


def _make(make: Callable[[], _Made]) -> _Made:
    return make()


def _unlimited(_device: object) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class DeviceOwner:
    """The driver of a device, as far as the device knows it."""

    driver: Callable[[], Any] = _nobody
    """Returns the driver; None once that is gone."""
    timeline: Timeline = field(default_factory=Timeline)
    make_room: Callable[[Callable[[], Any]], Any] = _make
    """Returns what is made, once idle buffers on the device have made room for it."""
    loop_limit: Callable[[Any], int] = _unlimited
    """Of a device: returns the number of turns after which the Vulkan driver ends loops, 0 where it ends none."""


NO_OWNER = DeviceOwner()
"""For a device that is opened without a driver."""
