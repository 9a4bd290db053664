"""Arrays, programs and shaders in, results out: the Vulkan driver layer of the vyre GPU compiler.

Importing this touches neither Vulkan nor kompute nor the disk. What is not needed by everybody is imported when first asked
for.
"""

from typing import TYPE_CHECKING

from vyre_driver import errors
from vyre_driver._version import __version__
from vyre_driver.driver import Driver
from vyre_driver.errors import VyreError
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.runtime.batch import Batch
from vyre_driver.runtime.bound import BoundKernel, DispatchFuture
from vyre_driver.runtime.kernel import Kernel, Trace
from vyre_driver.specialization import SpecMap, SpecValue
from vyre_driver.spirv import SpirvModule
from vyre_driver.target.config import DispatchConfig

if TYPE_CHECKING:
    from vyre_driver import kernels
    from vyre_driver.autotune.search.space import TuningSpace
    from vyre_driver.backends.acquisition import acquire, acquire_preferred_dispatch_backend
    from vyre_driver.embedding import get_include
    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.ir.program import Program
    from vyre_driver.pool import DriverPool, devices

__all__ = [
    "Batch",
    "BoundKernel",
    "Buffer",
    "DataType",
    "DispatchConfig",
    "DispatchFuture",
    "Driver",
    "DriverPool",
    "Kernel",
    "Program",
    "SpecMap",
    "SpecValue",
    "SpirvModule",
    "Trace",
    "TuningSpace",
    "VyreError",
    "__version__",
    "acquire",
    "acquire_preferred_dispatch_backend",
    "devices",
    "errors",
    "get_include",
    "kernels",
]


def __getattr__(name: str) -> object:
    """Import what is not needed by everybody."""
    if name in {"DataType", "Program"}:
        from vyre_driver import ir

        return getattr(ir, name)
    if name in {"DriverPool", "devices"}:
        from vyre_driver import pool

        return getattr(pool, name)
    if name in {"acquire", "acquire_preferred_dispatch_backend"}:
        from vyre_driver.backends import acquisition

        return getattr(acquisition, name)
    if name == "TuningSpace":
        from vyre_driver import autotune

        return getattr(autotune, name)
    if name == "get_include":
        from vyre_driver import embedding

        return getattr(embedding, name)
    if name == "kernels":
        import vyre_driver.kernels

        return vyre_driver.kernels
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name the late ones too."""
    return sorted({*globals(), *__all__})
