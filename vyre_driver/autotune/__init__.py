"""Tuning: stored records of the best constants of each kernel and device, search spaces, and the search itself."""

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
