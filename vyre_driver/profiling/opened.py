"""What is done with a driver that has just been opened: export, ``vyre-driver top``, and profiles of whole programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.runtime.base import OPENED

if TYPE_CHECKING:
    from vyre_driver.runtime.base import BaseDriver


def tell_opened(driver: BaseDriver, *, is_isolated: bool = False) -> None:
    """Hand a driver that has just been opened to OpenTelemetry, to ``vyre-driver top`` and to profiles, as the settings say.

    The process of an isolated driver shows itself to ``top``: this one would have to wait for it.

    Raises
    ------
    InvalidSetting
        If VYRE_OPENTELEMETRY is on, and the package for that is not installed, a switch is not one, or VYRE_TRACE names what
        cannot be written.
    """
    if settings.switch(settings.OPENTELEMETRY):
        from vyre_driver.telemetry.opentelemetry import export  # late: most are not exported

        export(driver)
    if settings.switch(settings.TOP) and not is_isolated:
        from vyre_driver.telemetry.serving import serve  # late: most are not shown

        serve(driver)
    if settings.text(settings.TRACE):
        from vyre_driver.profiling.profile import trace_until_exit  # late: most are not traced

        trace_until_exit()
    for tell in OPENED:
        tell(driver)
