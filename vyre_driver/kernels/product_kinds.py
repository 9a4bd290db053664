"""The products that may be asked for: their types, layouts and results as a definition with a name of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.kernels.ordinary_units import warn_once
from vyre_driver.kernels.product_numbers import element_of, name_of
from vyre_driver.kernels.products import Product
from vyre_driver.matrices.description import SCALAR, ProductDescription, Result, Tiling
from vyre_driver.matrices.elements import BF16, F16, F32, S8, S32
from vyre_driver.matrices.epilogue import ACTIVATIONS

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from vyre_driver.driver import Driver
    from vyre_driver.kernels.attention import Attention
    from vyre_driver.matrices.elements import ElementType

TENSOR = "tensor"
_OPERANDS = {"float16": F16, "bfloat16": BF16, "int8": S8, "float32": F32}
_RESULTS = {"float16": F16, "bfloat16": BF16, "float32": F32, "int32": S32}
SHORT = {F16: "f16", BF16: "bf16", F32: "f32", S8: "int8", S32: "int32"}
_UNCUT = Tiling((1, 1, 1), (1, 1), SCALAR, 1)  # until a device and a candidate are known


def product(  # noqa: PLR0913 -- by keyword
    dtype: DTypeLike,
    *,
    out_dtype: DTypeLike | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    bias: bool = False,
    residual: bool = False,
    activation: str | None = None,
    names: tuple[str, str] = ("a", "b"),
) -> Product:
    """Return the definition of a product.

    Raises
    ------
    InvalidInput
        If there is none of such types, or with such an activation.
    """
    operand = element_of(dtype, _OPERANDS, "operands")
    accumulator = F32 if operand.is_float else S32
    out = accumulator if out_dtype is None else element_of(out_dtype, _RESULTS, "results")
    if not out.is_float and (operand.is_float or bias or residual or activation is not None):
        raise InvalidInput(
            f"results of {name_of(out)} are sums of int8 as they are, and {name_of(operand)} with "
            f"bias={bias}, residual={residual}, activation={activation!r} was asked for",
            fix="give out_dtype float32, float16 or bfloat16",
        )
    for name, flag in {"transpose_a": transpose_a, "transpose_b": transpose_b, "bias": bias, "residual": residual}.items():
        if type(flag) is not bool:
            raise InvalidInput(
                f"{name} is of type {type(flag).__name__}, and says whether there is one",
                fix="give True or False, and arrays with each call",
                parameter=name,
            )
    if activation is not None and (not isinstance(activation, str) or activation not in ACTIVATIONS):
        raise InvalidInput(
            f"there is no activation {activation!r}",
            fix=f"give None or one of {', '.join(ACTIVATIONS)}",
            parameter="activation",
        )
    result = Result(accumulator, out, bias, residual, activation)
    layout = ("t" if transpose_a else "n") + ("t" if transpose_b else "n")
    parts = ["product", SHORT[operand], *([] if layout == "nn" else [layout]), *([] if out == accumulator else [SHORT[out]])]
    name = "_".join([*parts, *result.extra_buffers, *([] if activation is None else [activation])])
    description = ProductDescription(operand, result, _UNCUT, transpose_a, transpose_b, is_aligned=False, is_direct=False)
    return Product(name, description, (*names, *result.extra_buffers))


def on_driver(driver: Driver, definition: Product | Attention, element: ElementType, require: str | None) -> TunedKernel:
    """Return a kernel on a driver; that the device has no matrices for its operands is warned of once (PerformanceWarning).

    Raises
    ------
    InvalidInput
        If ``require`` is neither None nor ``"tensor"``.
    UnsupportedFeature
        If it is ``"tensor"`` and the device has no such matrices; as ``TunedKernel``.
    """
    if require is not None and (not isinstance(require, str) or require != TENSOR):
        raise InvalidInput(f"require is {require!r}", fix=f"give None or {TENSOR!r}", parameter="require")
    kernel = TunedKernel(driver, definition)
    if definition.is_on_matrices(kernel.device):
        return kernel
    lack = definition.lack(kernel.device)
    if require is not None:
        raise UnsupportedFeature(
            f"{definition.public_name} is to run on tensor cores, and {lack}",
            fix="leave require out to run it on ordinary units, or choose another device",
            feature="cooperativeMatrix",
        )
    if element is not F32:
        warn_once(f"{lack}: it is multiplied on ordinary units, which are slower")
    return kernel
