"""SPIR-V modules from outside, and what they require of a caller and a device."""

from vyre_driver.spirv.contract import Reflection
from vyre_driver.spirv.module import SpirvModule

__all__ = ["Reflection", "SpirvModule"]
