"""A driver as telemetry looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from vyre_driver.telemetry.events import Events
    from vyre_driver.vulkan.devices import PhysicalDevice


class ObservedDriver(Protocol):
    """An object with events and counters of one device."""

    number: int
    device: PhysicalDevice
    events: Events

    @property
    def context(self) -> Any:  # noqa: ANN401 -- of a later stage, and of an isolated driver another one
        """The open device, and what is kept for it."""

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
