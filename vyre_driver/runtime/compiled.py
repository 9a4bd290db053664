"""What is known of a module or a program once it is compiled, before there are buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre_driver.identity.keys import PipelineCacheKey
    from vyre_driver.kompute.pipeline import PipelineSource
    from vyre_driver.lowering.source import KernelSource


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel's source, the key of its pipeline, and what the pipeline is made of."""

    source: KernelSource
    key: PipelineCacheKey
    pipeline: PipelineSource
