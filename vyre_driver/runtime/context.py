"""What the kernels, buffers and batches of one driver share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.runtime.pipelines import FirstPipelines
    from vyre_driver.runtime.recording import RecordingFile
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
    recording: RecordingFile | None = None

    def snapshot(self) -> dict[str, Any]:
        """Return what is known of the driver now as plain data, for metrics and ``vyre-driver top``.

        ``memory`` has the bytes of buffers, without staging copies, and of each name the number of buffers and their bytes;
        ``moved`` the bytes of arrays that went up to the device and came down.
        """
        device, physical = self.device, self.device.physical
        return {
            "device": physical.name,
            "uuid": physical.device_uuid.hex(),
            "is_closed": device.in_use.closed,
            "is_lost": device.is_lost,
            "memory": {"bytes": device.allocated, "buffers": device.memory.storage.by_name()},
            "moved": {"up": device.moved.up, "down": device.moved.down},
            "events": self.events.snapshot(),
            "report": self.report(),
        }

    def report(self) -> dict[str, object]:
        """Return the device, the backend and the cache's counters, as plain data."""
        physical, remote = self.device.physical, self.first_pipelines.remote
        return {
            "device": physical.name,
            "device_type": physical.device_type.name.lower(),
            "is_software": physical.is_software,
            "driver": f"{physical.driver_name} {physical.driver_info}".strip(),
            "api_version": physical.api,
            "backend": f"{self.device.backend_id} {self.device.api.flavour}",
            "layer": self.device.report(),
            "cache": self.cache.stats() if remote is None else {**self.cache.stats(), "remote": remote.facts()},
        }
