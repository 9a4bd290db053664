"""What there is to tell of a kernel's compilation and of its last call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre_driver.cache.entry import Verdict
    from vyre_driver.kompute.pipeline import StageTimes
    from vyre_driver.vulkan.layer._layer import PipelineFacts


@dataclass(frozen=True, slots=True)
class Trace:
    """Where the time of one call went, and what the cache said.

    ``reason`` tells of a crash too that the entry was set aside for. ``compile_ns`` is ``Driver.compile`` as a whole,
    ``lookup_ns`` the cache's part of it; ``pipeline_ns`` is 0 when the call replayed a pipeline already made. ``pipeline`` and
    ``stages`` are None before the first call; without the layer, ``pipeline`` tells nothing. A call on buffers has no stages.
    """

    key: str
    verdict: Verdict
    reason: str
    compile_ns: int
    lookup_ns: int
    pipeline_ns: int
    pipeline: PipelineFacts | None
    stages: StageTimes | None
