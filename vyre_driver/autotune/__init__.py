"""Tuning: stored records of the best constants of each kernel and device, search spaces, and the search itself.

Each name is imported when it is first asked for: a driver looks here for records before it knows that there are any.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

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


def __getattr__(name: str) -> object:
    """Import a name's module, and keep what it is: it is asked for once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(_home(name), name)
    return found


def _home(name: str) -> "ModuleType":
    home: ModuleType
    match name:
        case "AutotuneKey" | "AutotuneRecord":
            from vyre_driver.autotune.store import record as home
        case "AutotuneStore" | "AutotuneWarning":
            from vyre_driver.autotune.store import store as home
        case "Axis" | "Candidate" | "TuningSpace":
            from vyre_driver.autotune.search import space as home
        case _:
            from vyre_driver.autotune.search import outcomes as home
    return home


def __dir__() -> list[str]:
    """Name the late ones too."""
    return sorted({*globals(), *__all__})
