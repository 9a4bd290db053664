"""The Vulkan devices of this machine, and the choice of one."""

from vyre_driver.vulkan.devices import (
    DeviceLimits,
    DeviceType,
    MemoryBudget,
    MemoryType,
    PhysicalDevice,
    PipelineBinaryProperties,
    QueueFamily,
    SubgroupSizeControl,
    enumerate_devices,
)
from vyre_driver.vulkan.matrices import CooperativeMatrixShape
from vyre_driver.vulkan.selection import select_device

__all__ = [
    "CooperativeMatrixShape",
    "DeviceLimits",
    "DeviceType",
    "MemoryBudget",
    "MemoryType",
    "PhysicalDevice",
    "PipelineBinaryProperties",
    "QueueFamily",
    "SubgroupSizeControl",
    "enumerate_devices",
    "select_device",
]
