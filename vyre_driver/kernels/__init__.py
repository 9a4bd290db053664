"""Kernels worth tuning: on arrays they just work, with the best that the tuner found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.kernels.histogram import Histogram
from vyre_driver.kernels.matmul import MATMUL, MATMUL_F16
from vyre_driver.kernels.reduction import Reduction
from vyre_driver.kernels.saxpy import Saxpy
from vyre_driver.kernels.scan import InclusiveScan
from vyre_driver.kernels.softmax import SOFTMAX
from vyre_driver.kernels.transpose import TRANSPOSE

if TYPE_CHECKING:
    from vyre_driver.kernels.definition import KernelDefinition

__all__ = ["KERNELS"]

KERNELS: dict[str, KernelDefinition] = {
    one.name: one
    for one in (
        Saxpy(),
        Reduction("reduce_sum", is_sum=True),
        Reduction("reduce_max", is_sum=False),
        InclusiveScan(),
        Histogram(),
        MATMUL,
        MATMUL_F16,
        TRANSPOSE,
        SOFTMAX,
    )
}
