"""What Vulkan devices there are, and which one is meant."""

from vyre_driver.vulkan.devices import DeviceLimits, DeviceType, PhysicalDevice, QueueFamily, enumerate_devices
from vyre_driver.vulkan.selection import select_device

__all__ = ["DeviceLimits", "DeviceType", "PhysicalDevice", "QueueFamily", "enumerate_devices", "select_device"]
