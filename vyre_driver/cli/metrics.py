"""``vyre-driver metrics``: the devices and cache of this machine as text for Prometheus; no device is opened.

Counters of a running program are that program's: ``driver.metrics()``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver._version import __version__
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cli.cache_entries import physical_devices
from vyre_driver.cli.options import add_json, tell
from vyre_driver.telemetry.prometheus import MetricsText

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print them; with --json as the text in a document."""
    text = MetricsText()
    text.gauge("package_info", "The package that tells this; always 1.", 1, version=__version__)
    _tell_devices(text)
    _tell_cache(text)
    tell(options, {"metrics": str(text)}, str(text).removesuffix("\n"))
    return 0


def _tell_devices(text: MetricsText) -> None:
    devices = physical_devices()
    text.gauge("devices", "Vulkan devices that the loader lists; 0 where there is no loader or driver.", len(devices))
    for device in devices:
        named = {"device": device.name, "uuid": device.device_uuid.hex()}
        text.gauge(
            "device_info",
            "A Vulkan device; always 1.",
            1,
            **named,
            type=device.device_type.name.lower(),
            vulkan=device.api,
            driver=f"{device.driver_name} {device.driver_info}".strip(),
        )
        text.gauge("device_memory_bytes", "Bytes of the device's largest own heap.", device.device_local_bytes, **named)
        left = device.device_local_left_bytes
        if left is not None:
            text.gauge("device_memory_left_bytes", "Bytes of that heap that are left for a new process.", left, **named)


def _tell_cache(text: MetricsText) -> None:
    cache = DiskPipelineCache.from_settings()
    usage = cache.usage()
    named = {"root": "" if cache.root is None else str(cache.root)}
    is_used = cache.root is not None and cache.stats()["refused"] is None
    text.gauge("cache_usable", "Whether the pipeline cache's directory is used.", int(is_used), **named)
    text.gauge("cache_entries", "Entries in the pipeline cache.", usage.entries, **named)
    text.gauge("cache_bytes", "Bytes of the file system that the directory takes.", usage.allocated_bytes, **named)
