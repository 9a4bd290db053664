"""What the tuner found best, by kernel and adapter, what may be tuned, and the search for the best."""

from vyre_driver.autotune.search.outcomes import Budget, Outcome, Progress, SearchResult, Status, Trial
from vyre_driver.autotune.search.space import Axis, Candidate, TuningSpace
from vyre_driver.autotune.store.record import AutotuneKey, AutotuneRecord
from vyre_driver.autotune.store.store import AutotuneStore, AutotuneWarning

__all__ = [
    "AutotuneKey",
    "AutotuneRecord",
    "AutotuneStore",
    "AutotuneWarning",
    "Axis",
    "Budget",
    "Candidate",
    "Outcome",
    "Progress",
    "SearchResult",
    "Status",
    "Trial",
    "TuningSpace",
]
