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

from vyre_driver.lang.decorator import kernel
from vyre_driver.lang.elementwise import Elementwise, elementwise, fuse
from vyre_driver.lang.frontend.builtins import own
from vyre_driver.lang.frontend.builtins.own import *  # noqa: F403 -- the names of its __all__
from vyre_driver.lang.frontend.intrinsics import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_exchange,
    atomic_load,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xor,
    ballot,
    bitcast,
    lane,
    local,
    select,
    shuffle,
    shuffle_xor,
    static_range,
    subgroup_size,
    subgroup_sum,
)
from vyre_driver.lang.function import function
from vyre_driver.lang.kernel import Kernel
from vyre_driver.lang.launch.default_driver import default_driver
from vyre_driver.lang.launch.races import RaceWarning
from vyre_driver.lang.reductions import Reduction, reduction
from vyre_driver.lang.scans import Scan, scan
from vyre_driver.lang.types import (
    Const,
    Group,
    In,
    In1,
    In2,
    In3,
    Index,
    InOut,
    InOut1,
    InOut2,
    InOut3,
    Out,
    Out1,
    Out2,
    Out3,
    bf16,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)

__all__ = [
    "Const",
    "Elementwise",
    "Group",
    "In",
    "In1",
    "In2",
    "In3",
    "InOut",
    "InOut1",
    "InOut2",
    "InOut3",
    "Index",
    "Kernel",
    "Out",
    "Out1",
    "Out2",
    "Out3",
    "RaceWarning",
    "Reduction",
    "Scan",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_exchange",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xor",
    "ballot",
    "bf16",
    "bitcast",
    "bool_",
    "default_driver",
    "elementwise",
    "f16",
    "f32",
    "f64",
    "function",
    "fuse",
    "i8",
    "i16",
    "i32",
    "i64",
    "kernel",
    "lane",
    "local",
    "reduction",
    "scan",
    "select",
    "shuffle",
    "shuffle_xor",
    "static_range",
    "subgroup_size",
    "subgroup_sum",
    "u8",
    "u16",
    "u32",
    "u64",
]
__all__ += own.__all__
