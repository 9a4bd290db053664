"""Arrays and shaders in, results out: the Vulkan driver layer of the vyre GPU compiler.

Importing this touches neither Vulkan nor kompute nor the disk.
"""

from vyre_driver.driver import Driver
from vyre_driver.errors import VyreError
from vyre_driver.kernel import Kernel
from vyre_driver.spirv import SpirvModule

__all__ = ["Driver", "Kernel", "SpirvModule", "VyreError"]
