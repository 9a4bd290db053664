"""What the tuner found best, by kernel and adapter, and what may be tuned."""

from vyre_driver.autotune.record import AutotuneKey, AutotuneRecord
from vyre_driver.autotune.space import Axis, Candidate, Place, TuningSpace
from vyre_driver.autotune.store import AutotuneStore, AutotuneWarning

__all__ = [
    "AutotuneKey",
    "AutotuneRecord",
    "AutotuneStore",
    "AutotuneWarning",
    "Axis",
    "Candidate",
    "Place",
    "TuningSpace",
]
