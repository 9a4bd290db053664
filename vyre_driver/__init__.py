"""Arrays, programs and shaders in, results out: the Vulkan driver layer of the vyre GPU compiler.

Importing this touches neither Vulkan nor kompute nor the disk. What is not needed by everybody is imported when first asked
for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from vyre_driver.driver import Driver
from vyre_driver.errors import VyreError
from vyre_driver.runtime.kernel import Kernel
from vyre_driver.specialization.values import SpecMap, SpecValue
from vyre_driver.spirv import SpirvModule

if TYPE_CHECKING:
    from vyre_driver.backends.acquisition import acquire, acquire_preferred_dispatch_backend
    from vyre_driver.embedding import get_include
    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.ir.program import Program
    from vyre_driver.pool import DriverPool, devices

__all__ = [
    "DataType",
    "Driver",
    "DriverPool",
    "Kernel",
    "Program",
    "SpecMap",
    "SpecValue",
    "SpirvModule",
    "VyreError",
    "acquire",
    "acquire_preferred_dispatch_backend",
    "devices",
    "get_include",
]

_LATE = {
    "DataType": "vyre_driver.ir.dtypes",
    "DriverPool": "vyre_driver.pool",
    "Program": "vyre_driver.ir.program",
    "acquire": "vyre_driver.backends.acquisition",
    "acquire_preferred_dispatch_backend": "vyre_driver.backends.acquisition",
    "devices": "vyre_driver.pool",
    "get_include": "vyre_driver.embedding",
}


def __getattr__(name: str) -> object:
    """Import what is not needed by everybody."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    """Name the late ones too."""
    return sorted({*globals(), *_LATE})
