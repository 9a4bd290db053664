"""What the tuner found best, by kernel and adapter, what may be tuned, and the search for the best."""

from vyre_driver.autotune.outcomes import Budget, Outcome, Progress, SearchResult, Status, Trial
from vyre_driver.autotune.record import AutotuneKey, AutotuneRecord
from vyre_driver.autotune.space import Axis, Candidate, Place, TuningSpace
from vyre_driver.autotune.store import AutotuneStore, AutotuneWarning

__all__ = [
    "AutotuneKey",
    "AutotuneRecord",
    "AutotuneStore",
    "AutotuneWarning",
    "Axis",
    "Budget",
    "Candidate",
    "Outcome",
    "Place",
    "Progress",
    "SearchResult",
    "Status",
    "Trial",
    "TuningSpace",
]
