"""Notice of the drivers that are opened, for profiles of whole programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.runtime.base import OPENED

if TYPE_CHECKING:
    from vyre_driver.runtime.base import BaseDriver


def tell_opened(driver: BaseDriver) -> None:
    """Begin to trace a driver that has just been opened; raises InvalidSetting if VYRE_TRACE names what cannot be written."""
    if settings.text(settings.TRACE):
        from vyre_driver.profiling.program import trace_until_exit  # late: most are not traced

        trace_until_exit()
    for tell in OPENED:
        tell(driver)
