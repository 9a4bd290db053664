"""Arrays, programs and shaders in, results out: the Vulkan driver layer of the vyre GPU compiler.

Importing this touches neither Vulkan nor kompute nor the disk. Each name is imported when it is first asked for: a program that
needs only keys or a cache does not wait for the rest.
"""

from typing import TYPE_CHECKING

from vyre_driver import _loading
from vyre_driver._version import __version__

_loading.check_compiled(__path__[0])
_loading.take_gil_back()

if TYPE_CHECKING:
    from types import ModuleType

    from vyre_driver import errors, kernels
    from vyre_driver.artifacts.opening import from_artifact
    from vyre_driver.autotune.search.space import TuningSpace
    from vyre_driver.backends.acquisition import acquire, acquire_preferred_dispatch_backend
    from vyre_driver.driver import Driver
    from vyre_driver.embedding import get_include
    from vyre_driver.errors import VyreError
    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.ir.program import Program
    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.pool import DriverPool
    from vyre_driver.profiling.profile import Profile
    from vyre_driver.runtime.batch import Batch
    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.runtime.futures import DispatchFuture
    from vyre_driver.runtime.kernel import Kernel
    from vyre_driver.runtime.trace import Trace
    from vyre_driver.specialization import SpecMap, SpecValue
    from vyre_driver.spirv import SpirvModule
    from vyre_driver.target.config import DispatchConfig, ProgramConfig
    from vyre_driver.vulkan.selection import devices

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
    "Profile",
    "Program",
    "ProgramConfig",
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
    "from_artifact",
    "get_include",
    "kernels",
]

_WITHOUT_NUMPY = frozenset(
    ("DispatchConfig", "Profile", "ProgramConfig", "Trace", "TuningSpace", "VyreError", "devices", "errors", "get_include")
)


def __getattr__(name: str) -> object:
    """Import a name's module, and keep what it is: it is asked for once."""
    if name == "_fast":  # PyCapsule_Import, for the C table, imports this package and asks it for the rest
        import vyre_driver._fast

        return vyre_driver._fast  # noqa: SLF001 -- ours
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _loading.missing_is_named():
        if name not in _WITHOUT_NUMPY:
            from vyre_driver.process.imports import import_numpy

            import_numpy()
        home = _home(name)
    _loading.check_numpy()
    found = globals()[name] = home if name in {"errors", "kernels"} else getattr(home, name)
    return found


def _home(name: str) -> "ModuleType":  # noqa: C901, PLR0912 -- a case a module
    home: ModuleType
    match name:
        case "VyreError" | "errors":
            import vyre_driver.errors as home
        case "kernels":
            import vyre_driver.kernels as home
        case "from_artifact":
            from vyre_driver.artifacts import opening as home
        case "acquire" | "acquire_preferred_dispatch_backend":
            from vyre_driver.backends import acquisition as home
        case "Buffer":
            from vyre_driver.kompute import buffer as home
        case "DataType" | "Program":
            from vyre_driver import ir as home
        case "DispatchConfig" | "ProgramConfig":
            from vyre_driver.target import config as home
        case "DispatchFuture":
            from vyre_driver.runtime import futures as home
        case "DriverPool":
            from vyre_driver import pool as home
        case "devices":
            from vyre_driver.vulkan import selection as home
        case "BoundKernel" | "Kernel":
            from vyre_driver.runtime import kernel as home
        case "Profile":
            from vyre_driver.profiling import profile as home
        case "Trace":
            from vyre_driver.runtime import trace as home
        case "SpecMap" | "SpecValue":
            from vyre_driver import specialization as home
        case "SpirvModule":
            from vyre_driver import spirv as home
        case "TuningSpace":
            from vyre_driver import autotune as home
        case "get_include":
            from vyre_driver import embedding as home
        case _:
            from vyre_driver import driver as home
    return home


def __dir__() -> list[str]:
    """Name the late ones too."""
    return sorted({*globals(), *__all__})
