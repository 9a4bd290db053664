"""What the tuner found best, by kernel and adapter."""

from vyre_driver.autotune.record import AutotuneKey, AutotuneRecord
from vyre_driver.autotune.store import AutotuneStore, AutotuneWarning

__all__ = ["AutotuneKey", "AutotuneRecord", "AutotuneStore", "AutotuneWarning"]
