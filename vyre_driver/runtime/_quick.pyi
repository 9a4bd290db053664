from collections.abc import Callable
from typing import Any, Protocol

from vyre_driver.telemetry._counters import Dispatches
from vyre_driver.vulkan.layer._layer import Launchable, Part

class Watch(Protocol):
    def is_untouched(self) -> bool: ...

class QuickLaunch:
    def __init__(
        self,
        launchable: Launchable,
        dispatches: Dispatches,
        failed: Callable[..., object],
        device: object,
        array_type: type,
        reference: Callable[[], Any],
        watch: Watch | None,
        part_of: Callable[[Any], Part | None],
        count: int,
        forms: tuple[tuple[int, object, object], ...],
        numbers: tuple[tuple[int, int, int], ...],
        words: tuple[int, ...],
        written: tuple[int, ...],
    ) -> None: ...

class NotQuick: ...

class QuickLaunches:
    def __init__(self, interpret: bytes) -> None: ...
    def add(self, launch: QuickLaunch) -> None: ...
    def run(self, given: tuple[object, ...]) -> Any: ...  # noqa: ANN401 -- what comes back
