"""SPIR-V modules from outside, and what they require of a caller and a device."""

from vyre_driver.process.imports import check_required

check_required()

from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.reflection import Reflection

__all__ = ["Reflection", "SpirvModule"]
