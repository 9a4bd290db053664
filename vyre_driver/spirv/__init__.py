"""SPIR-V modules from outside, and what they ask of a caller and a device."""

from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.reflect import Reflection

__all__ = ["Reflection", "SpirvModule"]
