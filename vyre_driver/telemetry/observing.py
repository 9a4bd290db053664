"""What the environment asks to be done with the events and counters of a driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver import settings

if TYPE_CHECKING:
    from vyre_driver.telemetry.drivers import ObservedDriver


def observe(driver: ObservedDriver, *, is_isolated: bool = False) -> None:
    """Hand a driver that has just been opened to OpenTelemetry and to ``vyre-driver top``, as the settings say.

    The process of an isolated driver shows itself to ``top``: this one would have to wait for it.

    Raises
    ------
    InvalidSetting
        If VYRE_OPENTELEMETRY is on, and the package for that is not installed, or a switch is not one.
    """
    if settings.switch(settings.OPENTELEMETRY):
        from vyre_driver.telemetry.opentelemetry import export  # late: most are not exported

        export(driver)
    if settings.switch(settings.TOP) and not is_isolated:
        from vyre_driver.telemetry.serving import serve  # late: most are not shown

        serve(driver)
