"""One Vulkan device opened through kompute."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from vyre_driver.backends.kompute._kp import load_kompute
from vyre_driver.errors import DeviceOutOfMemory, DispatchFailed, ForkError, UnsupportedFeature

if TYPE_CHECKING:
    from vyre_driver.vulkan.devices import PhysicalDevice

BACKEND_ID = "kompute"


class KomputeDevice:
    """A kompute Manager on one physical device, and the bytes allocated through it.

    Not to be used after ``close``, nor in a forked child; both are told apart from a crash by an error.
    """

    def __init__(self, physical: PhysicalDevice) -> None:
        """Open the device on its queue family for compute.

        Raises
        ------
        BackendUnavailable
            2004 if kp cannot be imported.
        UnsupportedFeature
            1002 if the device has no queue for compute.
        DispatchFailed
            1005 if kompute cannot open the device, or opens another one.
        """
        family = physical.compute_family
        if family is None:
            raise UnsupportedFeature(f"{physical.name!r} has no queue for compute", fix="choose another device")
        self.physical = physical
        self.api = load_kompute()
        self.lock = threading.Lock()
        self._pid = os.getpid()
        self._allocated = 0
        try:
            self._manager: Any = self.api.manager(physical.index, [family.index], [])
        except RuntimeError as error:
            raise DispatchFailed(
                f"kompute cannot open {physical.name!r} ({error})", fix="run vulkaninfo to see whether the device works"
            ) from error
        opened = self._manager.get_device_properties()["device_name"]
        if opened != physical.name:
            self.close()
            raise DispatchFailed(
                f"kompute opened {opened!r} where {physical.name!r} was asked for: the loader lists devices in another order",
                fix="hide the other devices (VK_DRIVER_FILES, MESA_VK_DEVICE_SELECT)",
                opened=opened,
            )

    @property
    def manager(self) -> Any:  # noqa: ANN401 -- kp has no types
        """The kompute Manager; raises as ``check_usable``."""
        self.check_usable()
        return self._manager

    def check_usable(self) -> None:
        """Return if the device may be touched: kompute would crash on a closed one, and hang in a fork.

        Raises
        ------
        ForkError
            2005 in a process forked after the device was opened.
        DispatchFailed
            1005 if the device is closed.
        """
        if os.getpid() != self._pid:
            raise ForkError(
                f"{self.physical.name!r} was opened in process {self._pid} and is used in its fork {os.getpid()}",
                fix="open the driver after the fork, or start processes with the spawn method",
            )
        if self._manager is None:
            raise DispatchFailed(f"{self.physical.name!r} is closed", fix="make a new Driver")

    def reserve(self, byte_len: int) -> None:
        """Count bytes about to be allocated, buffer and staging copy each; kompute itself ignores a failed allocation.

        Raises
        ------
        DeviceOutOfMemory
            1001 if the device's largest heap cannot hold them.
        """
        heaps = self.physical.memory_heaps
        # One heap holds a buffer and its staging copy; with several, the copy is elsewhere.
        factor = 2 if len(heaps) == 1 else 1
        total = max(size for size, _ in heaps) if len(heaps) == 1 else self.physical.device_local_bytes
        with self.lock:
            available = total - factor * self._allocated
            if factor * byte_len > available:
                raise DeviceOutOfMemory(
                    f"the buffers need {factor * byte_len} bytes on {self.physical.name!r}, which has {available} bytes left "
                    f"of {total} bytes",
                    fix="pass smaller arrays, in several calls",
                    requested_bytes=factor * byte_len,
                    available_bytes=available,
                )
            self._allocated += byte_len

    def release(self, byte_len: int) -> None:
        """Take back what ``reserve`` counted."""
        with self.lock:
            self._allocated -= byte_len

    def close(self) -> None:
        """Destroy the device and all that was made on it; a second call does nothing."""
        manager, self._manager = self._manager, None
        # The parent's device is not the child's to destroy: kompute would wait for threads that did not survive the fork.
        if manager is not None and os.getpid() == self._pid:
            manager.destroy()
