"""The memory types of a device, and how much of each heap is left for this process.

Source: Vulkan 1.3 ``VkMemoryType`` and extension ``VK_EXT_memory_budget``.
"""

from __future__ import annotations

from dataclasses import dataclass

_DEVICE_LOCAL, _HOST_VISIBLE, _HOST_COHERENT, _HOST_CACHED = 0x1, 0x2, 0x4, 0x8


@dataclass(frozen=True, slots=True)
class MemoryType:
    """One kind of memory: ``flags`` are ``VkMemoryPropertyFlagBits``, ``heap`` is an index into the device's heaps."""

    flags: int
    heap: int

    @property
    def device_local(self) -> bool:
        """Whether it is the device's own."""
        return bool(self.flags & _DEVICE_LOCAL)

    @property
    def host_visible(self) -> bool:
        """Whether the host can map it."""
        return bool(self.flags & _HOST_VISIBLE)

    @property
    def host_coherent(self) -> bool:
        """Whether host and device see each other's writes without flushing."""
        return bool(self.flags & _HOST_COHERENT)

    @property
    def host_cached(self) -> bool:
        """Whether host reads go through the host's caches."""
        return bool(self.flags & _HOST_CACHED)


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Bytes of one heap at the moment of the probe: what this process may have in all, and what it has already."""

    budget_bytes: int
    used_bytes: int

    @property
    def left_bytes(self) -> int:
        """Bytes that may still be allocated; other processes may take them first."""
        return max(0, self.budget_bytes - self.used_bytes)
