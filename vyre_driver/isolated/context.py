"""Of the context of a driver what an isolated one has in this process: for kernels that are made of several dispatches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from vyre_driver.isolated.device import not_here
from vyre_driver.runtime.room import Room

if TYPE_CHECKING:
    from vyre_driver.isolated.device import IsolatedDevice
    from vyre_driver.isolated.driver import IsolatedDriver


class IsolatedRoom(Room):
    """What keeps buffers of the child between calls."""

    def empty(self) -> None:
        """Have all let go of what is not in use: it was in a process that is gone."""
        while self._let_go():
            pass


class IsolatedContext:
    """What code above the driver finds of it."""

    def __init__(self, driver: IsolatedDriver) -> None:
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

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse the rest: it is in the child."""
        raise not_here(f"context.{name}")
