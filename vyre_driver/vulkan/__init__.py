"""The Vulkan devices of this machine, and the choice of one."""

from vyre_driver.vulkan.devices import DeviceType, MemoryBudget, MemoryType, PhysicalDevice, enumerate_devices
from vyre_driver.vulkan.matrices import CooperativeMatrix2Limits, CooperativeMatrixShape, FlexibleMatrixShape
from vyre_driver.vulkan.selection import select_device

__all__ = [
    "CooperativeMatrix2Limits",
    "CooperativeMatrixShape",
    "DeviceType",
    "FlexibleMatrixShape",
    "MemoryBudget",
    "MemoryType",
    "PhysicalDevice",
    "enumerate_devices",
    "select_device",
]
