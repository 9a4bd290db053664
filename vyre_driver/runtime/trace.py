"""The trace of a kernel's compilation and of its last call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.display.tables import facts

if TYPE_CHECKING:
    from vyre_driver.cache.entry import Verdict
    from vyre_driver.kompute.pipeline import StageTimes
    from vyre_driver.vulkan.layer._layer import PipelineFacts


@dataclass(frozen=True, slots=True)
class Trace:
    """Where the time of one call went, and what the cache said.

    ``reason`` names a crash too that the entry was set aside for. ``compile_ns`` is ``Driver.compile`` as a whole,
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

    def _repr_html_(self) -> str:
        ms = {"compile": self.compile_ns, "of it, cache": self.lookup_ns, "pipeline": self.pipeline_ns}
        if self.stages is not None:
            ms |= {"upload": self.stages.upload_ns, "dispatch": self.stages.dispatch_ns, "read back": self.stages.readback_ns}
        times = {name: f"{ns / 1e6:.3f} ms" for name, ns in ms.items()}
        return facts("Trace", {"cache": f"{self.verdict.value}: {self.reason}", **times, "key": self.key})
