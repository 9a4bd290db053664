"""Kernels written as Python functions.

Examples
--------
>>> from vyre_driver.lang import kernel, Index, In, InOut, f32
>>> @kernel
... def saxpy(i: Index, x: In[f32], y: InOut[f32], a: f32):
...     y[i] = a * x[i] + y[i]
"""

from vyre_driver.process.imports import check_required

check_required()

from vyre_driver.lang import types
from vyre_driver.lang.elementwise import Elementwise, elementwise, fuse
from vyre_driver.lang.frontend import intrinsics
from vyre_driver.lang.frontend.builtins import own
from vyre_driver.lang.frontend.builtins.own import *  # noqa: F403 -- the names of its __all__
from vyre_driver.lang.frontend.intrinsics import *  # noqa: F403 -- the same
from vyre_driver.lang.function import function
from vyre_driver.lang.kernel import Kernel, kernel
from vyre_driver.lang.launch.default_driver import default_driver
from vyre_driver.lang.launch.races import RaceWarning
from vyre_driver.lang.reductions import Reduction, Scan, reduction, scan
from vyre_driver.lang.types import *  # noqa: F403 -- the same

__all__ = [
    "Elementwise",
    "Kernel",
    "RaceWarning",
    "Reduction",
    "Scan",
    "default_driver",
    "elementwise",
    "function",
    "fuse",
    "kernel",
    "reduction",
    "scan",
]
__all__ += own.__all__
__all__ += intrinsics.__all__
__all__ += types.__all__
