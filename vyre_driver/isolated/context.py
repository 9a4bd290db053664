"""Of the context of a driver what an isolated one has in this process: for kernels that are made of several dispatches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from vyre_driver.isolated.device import not_here
from vyre_driver.runtime.room import Room
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from vyre_driver.isolated.device import IsolatedDevice
    from vyre_driver.isolated.process import Child
    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.telemetry.events import Events
    from vyre_driver.vulkan.devices import PhysicalDevice

_OF_CALLS = (EventKind.DISPATCH, EventKind.COMPLETE, EventKind.TUNE, EventKind.FAILURE)


class IsolatedRoom(Room):
    """What keeps buffers of the child between calls."""

    def empty(self) -> None:
        """Have all let go of what is not in use: it was in a process that is gone."""
        while self._let_go():
            pass


class DriverOfChild(Protocol):
    """An isolated driver, as its kernels and its context know it."""

    device: PhysicalDevice
    events: Events
    strict: bool
    room: IsolatedRoom

    def child(self) -> Child:
        """Return the process that is there."""

    def here(self) -> IsolatedDevice:
        """Return the device of that process."""

    def adopted(self, child: Child, number: int, _offset: int, shape: tuple[int, ...], dtype: Any) -> Buffer:  # noqa: ANN401 -- a type
        """Return a buffer that the child has made for the output of a call."""


class IsolatedContext:
    """What code above the driver finds of it."""

    def __init__(self, driver: DriverOfChild) -> None:
        """Be that of a driver."""
        self._driver = driver

    @property
    def device(self) -> IsolatedDevice:
        """The device of the process that is there; raises as ``IsolatedDriver.child``."""
        return self._driver.here()

    @property
    def room(self) -> IsolatedRoom:
        """What makes room on it, emptied where the process was replaced; raises as ``IsolatedDriver.child``."""
        self._driver.here()
        return self._driver.room

    @property
    def is_strict(self) -> bool:
        """Whether every call is checked."""
        return self._driver.strict

    def snapshot(self) -> dict[str, Any]:
        """Return what is known of the driver: of its process, and of calls what was counted in this one."""
        found: dict[str, Any] = self._driver.child().ask("the counters", "snapshot")
        ours, theirs = self._driver.events.snapshot(), found["events"]
        kinds = {**theirs["kinds"], **{kind.value: ours["kinds"][kind.value] for kind in _OF_CALLS}}
        return {**found, "events": {**ours, "kinds": kinds}}

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse the rest: it is in the child."""
        raise not_here(f"context.{name}")
