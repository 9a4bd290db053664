"""Arrays, programs and shaders in, results out: the Vulkan driver layer of the vyre GPU compiler.

Importing this touches neither Vulkan nor kompute nor the disk. Each name is imported when it is first asked for: who wants keys
or a cache only does not wait for the rest.
"""

from typing import TYPE_CHECKING

from vyre_driver._version import __version__

if TYPE_CHECKING:
    from vyre_driver import errors, kernels
    from vyre_driver.autotune.search.space import TuningSpace
    from vyre_driver.backends.acquisition import acquire, acquire_preferred_dispatch_backend
    from vyre_driver.driver import Driver
    from vyre_driver.embedding import get_include
    from vyre_driver.errors import VyreError
    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.ir.program import Program
    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.pool import DriverPool, devices
    from vyre_driver.runtime.batch import Batch
    from vyre_driver.runtime.bound import BoundKernel, DispatchFuture
    from vyre_driver.runtime.kernel import Kernel, Trace
    from vyre_driver.specialization import SpecMap, SpecValue
    from vyre_driver.spirv import SpirvModule
    from vyre_driver.target.config import DispatchConfig

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
    """Import a name's module; what most programs use comes with the driver."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = _of_the_driver(name) if name in _OF_THE_DRIVER else _of_its_module(name)
    globals()[name] = found  # asked for once
    return found


_OF_THE_DRIVER = frozenset(
    {
        "Batch",
        "BoundKernel",
        "Buffer",
        "DispatchConfig",
        "DispatchFuture",
        "Driver",
        "Kernel",
        "SpecMap",
        "SpecValue",
        "SpirvModule",
        "Trace",
    }
)


def _of_the_driver(name: str) -> object:
    from vyre_driver import driver, specialization, spirv
    from vyre_driver.kompute import buffer
    from vyre_driver.runtime import batch, bound, kernel
    from vyre_driver.target import config

    homes = (driver, kernel, buffer, bound, batch, spirv, specialization, config)
    return next(vars(home)[name] for home in homes if name in vars(home))


def _of_its_module(name: str) -> object:
    if name in {"errors", "VyreError"}:
        import vyre_driver.errors

        return vyre_driver.errors if name == "errors" else vyre_driver.errors.VyreError
    if name == "kernels":
        import vyre_driver.kernels

        return vyre_driver.kernels
    if name in {"DataType", "Program"}:
        from vyre_driver import ir

        return getattr(ir, name)
    if name in {"DriverPool", "devices"}:
        from vyre_driver import pool

        return getattr(pool, name)
    if name == "TuningSpace":
        from vyre_driver import autotune

        return autotune.TuningSpace
    if name == "get_include":
        from vyre_driver import embedding

        return embedding.get_include
    from vyre_driver.backends import acquisition

    return getattr(acquisition, name)


def __dir__() -> list[str]:
    """Name the late ones too."""
    return sorted({*globals(), *__all__})
