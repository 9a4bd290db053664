"""Keep what was found out of a device's driver: after how many turns it ends loops, 0 where it ends none.

It stands beside the cache's entries, one small file for each device and driver version; without a cache that can be used a
process finds it out once.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from vyre_driver.cache.files import OPEN_TO_READ, publish
from vyre_driver.cache.flight import FLIGHTS
from vyre_driver.identity.keys import device_fields, manifest_digest
from vyre_driver.identity.manifest import encode_manifest
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.vulkan.devices import PhysicalDevice

_MOST_DIGITS = 8
_known: dict[bytes, int] = {}  # of this process, by device and driver, of which there are few


class LoopLimit:
    """The limit of one device with its driver version."""

    def __init__(self, cache: DiskPipelineCache, device: PhysicalDevice) -> None:
        """Remember them; nothing is read."""
        self._cache, self._physical = cache, device

    @cached_property
    def _device(self) -> bytes:
        """32 bytes for the device and its driver version."""
        return manifest_digest(encode_manifest(device_fields(self._physical)))

    @property
    def _name(self) -> str:
        return f"{self._device.hex()}.loops"

    def known_or(self, find: Callable[[], int]) -> int:
        """Return the limit; where nobody knows it, what ``find`` finds, which is kept."""
        limit = _known.get(self._device)
        if limit is None:
            limit = self._read()
            if limit is None:
                limit = find()
                self._keep(limit)
            _known[self._device] = limit
        return limit

    def _read(self) -> int | None:
        """Return what a process has found before, None where none has."""
        directory = self._cache.own_directory(FLIGHTS, create=False)
        if directory is None:
            return None
        try:
            with Opened(directory / self._name, OPEN_TO_READ) as descriptor:
                text = os.read(descriptor, _MOST_DIGITS + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._cache.note("loop_limit", error)
            return None
        return int(text) if text.isdigit() and len(text) <= _MOST_DIGITS else None

    def _keep(self, limit: int) -> None:
        directory = self._cache.own_directory(FLIGHTS)
        if directory is None:
            return
        try:
            publish(str(directory), self._name, str(limit).encode("ascii"), self._cache.file_mode)
        except OSError as error:
            self._cache.note("loop_limit", error)
