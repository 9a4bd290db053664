"""What the kernels, buffers and batches of one driver share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.runtime.pipelines import FirstPipelines
    from vyre_driver.runtime.room import Room
    from vyre_driver.telemetry.events import Events


@dataclass(frozen=True, slots=True)
class Context:
    """The open device, and what all kernels on it go through; made by ``Driver``, and not part of the public interface."""

    device: KomputeDevice
    cache: DiskPipelineCache
    room: Room
    first_pipelines: FirstPipelines
    events: Events
    is_strict: bool
