"""Ready-made tunable kernels: call them on arrays, with the best known constants for the device and the size.

Each function returns a ``TunedKernel`` on a driver: called with numpy arrays and resident buffers, or bound to buffers. All are
right for every size, and refuse by name what they do not take. ``KERNELS`` has their definitions by name (docs/kernels.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.process.imports import check_required

check_required()

from vyre_driver.autotune.measure.tuned import TunedKernel, check_driver
from vyre_driver.kernels.attention import attention_of
from vyre_driver.kernels.convolution import Window, convolution
from vyre_driver.kernels.linear import LINEAR_INT4, LINEAR_INT8, quantized_int4, quantized_int8
from vyre_driver.kernels.long_arrays import Histogram, InclusiveScan, Reduction, Saxpy
from vyre_driver.kernels.matmul import MATMUL, MATMUL_F16, TRANSPOSE, Float32Matmul
from vyre_driver.kernels.product_numbers import FLOATS, element_of
from vyre_driver.kernels.products import TENSOR, PerformanceWarning, on_driver, product
from vyre_driver.kernels.rows import LAYERNORM, RMSNORM, SOFTMAX

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from vyre_driver.autotune.measure.definition import KernelDefinition
    from vyre_driver.driver import Driver

__all__ = [
    "KERNELS",
    "PerformanceWarning",
    "TunedKernel",
    "attention",
    "conv2d",
    "histogram",
    "inclusive_scan",
    "layernorm",
    "linear",
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
        attention_of("float16", is_causal=False),
        attention_of("float16", is_causal=True),
        product("float16"),
        product("float32"),
        product("bfloat16"),
        product("int8"),
        product("float16", out_dtype="float16", transpose_b=True, bias=True, names=("x", "weight")),
        convolution("float16"),
    )
}


def attention(
    driver: Driver,
    dtype: DTypeLike = "float16",
    *,
    is_causal: bool = False,
    heads_first: bool = True,
    require: str | None = None,
) -> TunedKernel:
    """Return ``(q, k, v, scale=None, shift=0) -> softmax(scale * q @ k^T) @ v`` of each head, in one pass over the keys.

    float16 heads of a multiple of 16 elements, to 128, run on tensor cores where the device has cooperative matrices for them;
    other heads, to 256 elements, bfloat16 and float32 run on ordinary units. Sums are float32.

    Parameters
    ----------
    dtype
        The type of all arrays: ``q`` ([batch,] heads, queries, elements), ``k`` and ``v`` ([batch,] kv_heads, keys, elements),
        where ``heads`` are a multiple of ``kv_heads``. float16, bfloat16 (arrays of ml_dtypes, or their bits as uint16) or
        float32.
    is_causal
        Whether query i sees keys up to i + ``shift`` only: ``shift`` 0 is PyTorch's ``is_causal``, ``keys - queries`` has the
        last query see all keys. A query that sees none has zeros.
    heads_first
        False for arrays of shape ([batch,] queries, heads, elements), as linear layers make them.
    require
        ``"tensor"`` refuses a device without such matrices, and in a call heads that they do not take.

    ``scale`` is a number above 0; None is 1 / sqrt(elements).

    Raises
    ------
    InvalidInput
        If there is no attention of such a type.
    UnsupportedFeature
        If the device has not what ``require`` asks for, or no storage of 16 bits in buffers.
    """
    check_driver(driver, "attention")
    definition = attention_of(
        dtype, is_causal=is_causal, heads_first=heads_first, on_matrices_alone=isinstance(require, str) and require == TENSOR
    )
    return on_driver(driver, definition, definition.element, require)


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
    """Return ``(x) -> sums`` of a float32, uint32 or int32 array up to and with each element; integers wrap around."""
    return TunedKernel(driver, KERNELS["inclusive_scan"])


def histogram(driver: Driver) -> TunedKernel:
    """Return ``(x, bins=256) -> counts``: how often each number below ``bins`` stands in a uint32 array, as uint32."""
    return TunedKernel(driver, KERNELS["histogram"])


def transpose(driver: Driver) -> TunedKernel:
    """Return ``(a) -> a.T`` of a matrix of float32, uint32 or int32, by its bits."""
    return TunedKernel(driver, KERNELS["transpose"])


def softmax(driver: Driver) -> TunedKernel:
    """Return ``(x) -> softmax`` along the last axis of a float32 array."""
    return TunedKernel(driver, KERNELS["softmax"])


def layernorm(driver: Driver) -> TunedKernel:
    """Return ``(x, weight, bias, eps=1e-5) -> y``, ``(x - mean) / sqrt(variance + eps) * weight + bias`` along the last axis.

    ``x`` and ``y`` are (..., columns) of float32, or of float16 where the device has ``storageBuffer16BitAccess``;
    ``weight`` and ``bias`` are (columns,) of the same type. Sums are float32. ``eps`` is a number from 0 on.
    """
    return TunedKernel(driver, KERNELS["layernorm"])


def rmsnorm(driver: Driver) -> TunedKernel:
    """Return ``(x, weight, eps=1e-6) -> y``, ``x / sqrt(mean(x * x) + eps) * weight`` along the last axis.

    Arrays and ``eps`` are as in ``layernorm``.
    """
    return TunedKernel(driver, KERNELS["rmsnorm"])


def matmul(  # noqa: PLR0913 -- by keyword
    driver: Driver,
    dtype: DTypeLike = "float32",
    *,
    out_dtype: DTypeLike | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    bias: bool = False,
    residual: bool = False,
    activation: str | None = None,
    require: str | None = None,
) -> TunedKernel:
    """Return ``(a, b, [bias], [residual], scale=1.0) -> activation(scale * (a @ b) + bias) + residual``.

    float16, bfloat16 and int8 are multiplied on tensor cores where the device has cooperative matrices for them, and on
    ordinary units elsewhere, which a PerformanceWarning tells once. Sums are float32, of int8 int32. float32 with nothing else
    asked for takes no ``scale``.

    Parameters
    ----------
    dtype
        The type of ``a`` (..., m, k) and ``b`` (..., k, n): float32, float16, bfloat16 (arrays of ml_dtypes, or their bits as
        uint16) or int8. Axes before the last two are a batch, of the same shape for both, or none for one of them.
    out_dtype
        The type of the result, and of ``bias`` (n,) and ``residual`` (..., m, n): float32, float16, bfloat16, or int32 of int8.
        None is the type of the sums.
    transpose_a, transpose_b
        Whether matrices are stored the other way round: ``a`` (..., k, m), ``b`` (..., n, k).
    bias, residual, activation
        What is added and applied to the sums; activations are ``"relu"``, ``"silu"`` and ``"gelu"`` (with erf, to 1.5e-7).
    require
        ``"tensor"`` refuses a device without such matrices.

    Raises
    ------
    InvalidInput
        If there is no product of such types, or no such activation.
    UnsupportedFeature
        If the device has not what ``require`` asks for, or no storage of 16 or 8 bits in buffers.
    """
    check_driver(driver, "matmul")
    definition = product(
        dtype,
        out_dtype=out_dtype,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        bias=bias,
        residual=residual,
        activation=activation,
    )
    if require is None and definition.name == "product_f32":
        return Float32Matmul(driver)
    return on_driver(driver, definition, definition.description.operand, require)


def matmul_f16(driver: Driver) -> TunedKernel:
    """Return ``(a, b) -> a @ b`` of float16 arrays, summed and returned in float32, on ordinary units.

    ``a`` is (..., m, k) and ``b`` one matrix (k, n). ``matmul(driver, "float16")`` is the same on tensor cores, and takes
    batches of ``b`` too.

    Raises
    ------
    UnsupportedFeature
        If the device is open without ``storageBuffer16BitAccess``.
    """
    return TunedKernel(driver, KERNELS["matmul_f16"])


def linear_int4(driver: Driver) -> TunedKernel:
    """Return ``(x, weight, scales) -> y``, ``x @ w.T`` with weights of 4 bits, ``(nibble - 8) * scale``.

    ``x`` is (..., k), two axes or more, and ``y`` (..., n), float16 or float32; ``weight`` is (n, k / 2) uint8, of each pair
    the first in the lower half of a byte; ``scales`` are (n, k / group) float16, for groups of a multiple of 32 that divides
    k. Sums are float32. ``quantized_int4`` makes weights and scales of floats.

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


def linear(  # noqa: PLR0913 -- by keyword
    driver: Driver,
    dtype: DTypeLike = "float16",
    *,
    bias: bool = True,
    residual: bool = False,
    activation: str | None = None,
    require: str | None = None,
) -> TunedKernel:
    """Return ``(x, weight, [bias], [residual], scale=1.0) -> activation(scale * (x @ weight.T) + bias) + residual``.

    ``x`` is (..., k), two axes or more, ``weight`` (n, k), ``bias`` (n,), the result (..., n): all of ``dtype``, float16,
    bfloat16 or float32; sums are float32. Parameters and errors are those of ``matmul``.
    """
    check_driver(driver, "linear")
    element_of(dtype, FLOATS, "arrays")
    definition = product(
        dtype, out_dtype=dtype, transpose_b=True, bias=bias, residual=residual, activation=activation, names=("x", "weight")
    )
    return on_driver(driver, definition, definition.description.operand, require)


def conv2d(  # noqa: PLR0913 -- by keyword
    driver: Driver,
    dtype: DTypeLike = "float16",
    *,
    out_dtype: DTypeLike | None = None,
    bias: bool = True,
    residual: bool = False,
    activation: str | None = None,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
    require: str | None = None,
) -> TunedKernel:
    """Return ``(x, weight, [bias], [residual], scale=1.0) -> activation(scale * conv2d(x, weight) + bias) + residual``.

    Channels are the last axis, so that those of a pixel lie side by side and are read 16 bytes at once: ``x`` is (batch,
    height, width, channels), ``weight`` (out channels, kernel height, kernel width, channels), ``bias`` (out channels,), the
    result and ``residual`` (batch, out height, out width, out channels). Arrays with channels second get there by
    ``.transpose(0, 2, 3, 1)``, which a call copies unless they are stored so already, as PyTorch's are in channels_last. There
    are no groups: each sum goes over all channels.

    Parameters
    ----------
    dtype
        The type of ``x`` and ``weight``: float16, bfloat16 (arrays of ml_dtypes, or their bits as uint16), float32 or int8.
    out_dtype
        The type of everything else, as of ``matmul``. None is ``dtype``, and int32 of int8, which takes no bias then.
    bias, residual, activation, require
        As of ``matmul``.
    stride, padding, dilation
        Pixels down and across, ints to 2**31 - 1: from one place of the kernel to the next one, of zeros around the images on
        either side, and from tap to tap. A result has (height + 2 * padding - dilation * (kernel height - 1) - 1) // stride + 1
        rows.

    Raises
    ------
    InvalidInput
        If there is no convolution of such types, activation or numbers.
    UnsupportedFeature
        As ``matmul``.
    """
    check_driver(driver, "conv2d")
    window = Window(stride, padding, dilation)
    definition = convolution(dtype, out_dtype=out_dtype, bias=bias, residual=residual, activation=activation, window=window)
    return on_driver(driver, definition, definition.description.operand, require)
