"""Ready-made tunable kernels: call them on arrays, with the best known constants for the device and the size.

Each function returns a ``TunedKernel`` on a driver: called with numpy arrays and resident buffers, or bound to buffers. All are
right for every size, and refuse by name what they do not take. ``KERNELS`` has their definitions by name (docs/kernels.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.kernels.histogram import Histogram
from vyre_driver.kernels.linear import LINEAR_INT4, LINEAR_INT8
from vyre_driver.kernels.matmul import MATMUL, MATMUL_F16
from vyre_driver.kernels.normalization import LAYERNORM, RMSNORM
from vyre_driver.kernels.quantized import quantized_int4, quantized_int8
from vyre_driver.kernels.reduction import Reduction
from vyre_driver.kernels.saxpy import Saxpy
from vyre_driver.kernels.scan import InclusiveScan
from vyre_driver.kernels.softmax import SOFTMAX
from vyre_driver.kernels.transpose import TRANSPOSE

if TYPE_CHECKING:
    from vyre_driver.autotune.measure.definition import KernelDefinition
    from vyre_driver.driver import Driver

__all__ = [
    "KERNELS",
    "TunedKernel",
    "histogram",
    "inclusive_scan",
    "layernorm",
    "linear_int4",
    "linear_int8",
    "matmul",
    "matmul_f16",
    "quantized_int4",
    "quantized_int8",
    "reduce_max",
    "reduce_sum",
    "rmsnorm",
    "saxpy",
    "softmax",
    "transpose",
]

KERNELS: dict[str, KernelDefinition] = {
    one.name: one
    for one in (
        Saxpy(),
        Reduction("reduce_sum", is_sum=True),
        Reduction("reduce_max", is_sum=False),
        InclusiveScan(),
        Histogram(),
        TRANSPOSE,
        SOFTMAX,
        LAYERNORM,
        RMSNORM,
        MATMUL,
        MATMUL_F16,
        LINEAR_INT4,
        LINEAR_INT8,
    )
}


def saxpy(driver: Driver) -> TunedKernel:
    """Return ``(x, y, alpha=1.0) -> alpha * x + y`` of float32 arrays of one length, bit for bit as numpy's."""
    return TunedKernel(driver, KERNELS["saxpy"])


def reduce_sum(driver: Driver) -> TunedKernel:
    """Return ``(x) -> sum`` of a float32, uint32 or int32 array, as an array of one element; integers wrap around."""
    return TunedKernel(driver, KERNELS["reduce_sum"])


def reduce_max(driver: Driver) -> TunedKernel:
    """Return ``(x) -> largest`` of a float32, uint32 or int32 array, as an array of one element; a NaN is above all."""
    return TunedKernel(driver, KERNELS["reduce_max"])


def inclusive_scan(driver: Driver) -> TunedKernel:
    """Return ``(x) -> sums`` of a float32 or uint32 array up to and with each element; integers wrap around."""
    return TunedKernel(driver, KERNELS["inclusive_scan"])


def histogram(driver: Driver) -> TunedKernel:
    """Return ``(x, bins=256) -> counts``: how often each number below ``bins`` stands in a uint32 array, as uint32."""
    return TunedKernel(driver, KERNELS["histogram"])


def transpose(driver: Driver) -> TunedKernel:
    """Return ``(a) -> a.T`` of a matrix of float32, uint32 or int32, by its bits."""
    return TunedKernel(driver, KERNELS["transpose"])


def softmax(driver: Driver) -> TunedKernel:
    """Return ``(x) -> softmax`` along the rows of a float32 matrix."""
    return TunedKernel(driver, KERNELS["softmax"])


def layernorm(driver: Driver) -> TunedKernel:
    """Return ``(x, weight, bias, eps=1e-5) -> y``, ``(x - mean) / sqrt(variance + eps) * weight + bias`` along rows.

    ``x`` and ``y`` are matrices (rows, columns) of float32, or of float16 where the device has ``storageBuffer16BitAccess``;
    ``weight`` and ``bias`` are (columns,) of the same type. Sums are float32. ``eps`` is a number from 0 on.
    """
    return TunedKernel(driver, KERNELS["layernorm"])


def rmsnorm(driver: Driver) -> TunedKernel:
    """Return ``(x, weight, eps=1e-6) -> y``, ``x / sqrt(mean(x * x) + eps) * weight`` along rows.

    Arrays and ``eps`` are as in ``layernorm``.
    """
    return TunedKernel(driver, KERNELS["rmsnorm"])


def matmul(driver: Driver) -> TunedKernel:
    """Return ``(a, b) -> a @ b`` of float32 matrices."""
    return TunedKernel(driver, KERNELS["matmul"])


def matmul_f16(driver: Driver) -> TunedKernel:
    """Return ``(a, b) -> a @ b`` of float16 matrices, summed and returned in float32.

    Raises
    ------
    UnsupportedFeature
        If the device is open without ``storageBuffer16BitAccess``.
    """
    return TunedKernel(driver, KERNELS["matmul_f16"])


def linear_int4(driver: Driver) -> TunedKernel:
    """Return ``(x, weight, scales) -> y``, ``x @ w.T`` with weights of 4 bits, ``(nibble - 8) * scale``.

    ``x`` is (batch, k) and ``y`` (batch, n), float16 or float32; ``weight`` is (n, k / 2) uint8, of each pair the first in the
    lower half of a byte; ``scales`` are (n, k / group) float16, for groups of a multiple of 32 that divides k. Sums are
    float32. ``quantized_int4`` makes weights and scales of floats.

    Raises
    ------
    UnsupportedFeature
        If the device is open without ``storageBuffer16BitAccess``.
    """
    return TunedKernel(driver, KERNELS["linear_int4"])


def linear_int8(driver: Driver) -> TunedKernel:
    """Return ``(x, weight, scales) -> y``, as ``linear_int4``, with weights of 8 bits: ``weight`` is (n, k) int8.

    Raises
    ------
    UnsupportedFeature
        If the device is open without ``storageBuffer16BitAccess``.
    """
    return TunedKernel(driver, KERNELS["linear_int8"])
