"""The launches that a kernel's last calls had, by which calls by position of the same form go without being looked at anew."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from vyre_driver import settings
from vyre_driver.lang.launch._watch import is_set

if TYPE_CHECKING:
    from vyre_driver.binding._call_form import PositionalForm
    from vyre_driver.driver import Driver
    from vyre_driver.lang.launch.launch import Launch, Taken

_MOST_RECENT = 4
_INTERPRET = settings.INTERPRET.variable.encode()


class RecentLaunches:
    """A few launches with their forms, the latest first; a driver's go with it."""

    __slots__ = ("_launches",)

    def __init__(self) -> None:
        """Know none."""
        self._launches: tuple[tuple[PositionalForm, weakref.ref[Launch]], ...] = ()

    def find(self, given: tuple[Any, ...], driver: Driver | None) -> tuple[Launch, Taken] | None:
        """Return the launch of a call by position, and the call as its form took it apart.

        None if none is known, and where calls may be interpreted.
        """
        if is_set(_INTERPRET):
            return None
        for form, reference in self._launches:
            taken = form.taken(given)
            if taken is not None:
                launch = reference()
                if launch is not None and launch.is_current(taken[0], driver):
                    return launch, taken
        return None

    def add(self, launch: Launch) -> None:
        """Know calls of a form from now on, if it has one."""
        if launch.form is not None:
            others = [one for one in self._launches if one[1]() not in {None, launch}]
            self._launches = ((launch.form, weakref.ref(launch)), *others[: _MOST_RECENT - 1])
