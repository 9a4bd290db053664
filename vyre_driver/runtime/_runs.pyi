from collections.abc import Callable
from typing import Any

from vyre_driver.telemetry._counters import Dispatches

class Ring:
    first: Any

class ToldRuns:
    _recordings: Any
    def __init__(self, recordings: Ring, dispatches: Dispatches, failed: Callable[[Exception, int], object]) -> None: ...
    def run(self, timeout: float | None = None) -> None: ...
