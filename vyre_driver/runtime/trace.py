"""The trace of a kernel's compilation and of its last call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.display.line import facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.cache.entry import Verdict
    from vyre_driver.kompute.array_dispatch import StageTimes
    from vyre_driver.vulkan.layer._layer import PipelineExecutable, PipelineFacts


@dataclass(frozen=True, slots=True)
class Trace:
    """Where the time of one call went, and what the cache said.

    ``reason`` names a crash too that the entry was set aside for. ``compile_ns`` is ``Driver.compile`` as a whole,
    ``lookup_ns`` the cache's part of it; ``pipeline_ns`` is 0 when the call replayed a pipeline already made. ``pipeline`` and
    ``stages`` are None before the first call. A call on buffers has no stages.

    ``executables`` has the driver's statistics of the compiled code, under its own names: registers, spills, the subgroups'
    size. Empty before the first call or ``bind``, without VYRE_PIPELINE_STATISTICS, and where the driver tells nothing.
    """

    key: str
    verdict: Verdict
    reason: str
    compile_ns: int
    lookup_ns: int
    pipeline_ns: int
    pipeline: PipelineFacts | None
    stages: StageTimes | None
    executables: tuple[PipelineExecutable, ...] = ()

    def _repr_html_(self) -> str:
        ms = {"compile": self.compile_ns, "of it, cache": self.lookup_ns, "pipeline": self.pipeline_ns}
        if self.stages is not None:
            ms |= {"upload": self.stages.upload_ns, "dispatch": self.stages.dispatch_ns, "read back": self.stages.readback_ns}
        times = {name: f"{ns / 1e6:.3f} ms" for name, ns in ms.items()}
        told = statistics_by_name(self.executables)
        return facts("Trace", {"cache": f"{self.verdict.value}: {self.reason}", **times, **told, "key": self.key})


def statistics_by_name(executables: Sequence[PipelineExecutable]) -> dict[str, bool | float | None]:
    """Return the statistics of compiled code and its subgroups' size by name; of several under the name of each."""
    found: dict[str, bool | float | None] = {}
    for place, one in enumerate(executables):
        front = f"{place} {one.name}: " if len(executables) > 1 else ""
        size = {"subgroup size": one.subgroup_size} if one.subgroup_size else {}
        found |= {front + name: value for name, value in ({stat.name: stat.value for stat in one.statistics} | size).items()}
    return found
