from collections.abc import Callable
from typing import Any

from vyre_driver.telemetry._counters import Replays

class Ring:
    first: Any

class ToldRuns:
    _recordings: Any
    def __init__(self, recordings: Ring, replays: Replays, failed: Callable[[Exception, int], object]) -> None: ...
    def run(self, timeout: float | None = None) -> None: ...
