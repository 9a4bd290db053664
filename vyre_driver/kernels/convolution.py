"""Convolutions of images on tensor cores: products whose rows are windows of the images, which are read where they lie.

The code is emitted by :mod:`vyre_driver.matrices.convolution`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, Operand, Plan, Size
from vyre_driver.kernels.convolution_shapes import ConvolutionShape, Window, convolution_shape
from vyre_driver.kernels.product_kinds import SHORT, product
from vyre_driver.kernels.product_numbers import as_float64
from vyre_driver.kernels.product_plans import ProductPlan
from vyre_driver.kernels.product_tilings import untuned
from vyre_driver.kernels.products import OUT, Product
from vyre_driver.kernels.zeros import zeros_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray

    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.kernels.product_shapes import ProductShape
    from vyre_driver.matrices.elements import ElementType


@dataclass(frozen=True, slots=True)
class Convolution(Product):
    """``activation(scale * conv2d(x, weight) + bias) + residual``.

    A size is (batch, height, width, channels, out channels, kernel height, kernel width), without the window: what is measured
    of one holds for others.
    """

    window: Window = field(default_factory=Window)
    sizes = tuple((32, side, side, 4096 // side, 4096 // side, 3, 3) for side in (64, 32, 16))

    @property
    def public_name(self) -> str:
        """What messages call the kernel."""
        return "conv2d"

    def untuned(self, candidates: Sequence[Candidate], size: Size) -> Candidate:
        """Return what makes enough workgroups for a large device."""
        return untuned(candidates, self._product_size(size))

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return the size; raises as that of a product."""
        Product.size(self, operands, parameters)
        return self._images(operands).size

    def plan(self, call: Call) -> Plan:
        """Return one dispatch, or two where the sums are made in parts."""
        images, out = self._images(call.operands), self._out_dtype(call.operands)
        if 0 in images.out:
            return zeros_plan(OUT, images.out, out)
        description = replace(self.description, is_convolution=not images.is_pixelwise)
        result, scale = (OUT, Operand(images.out, out)), self._scale(call.parameters)
        return ProductPlan(call, description, images.product, self.inputs, result, scale, images).plan()

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return numbers as those of a product."""
        images, description = ConvolutionShape(self.window, *size), self.description
        batch, height, width, channels, n, down, across = size
        extra: dict[str, tuple[int, ...]] = {"bias": (n,), "residual": images.out}
        wanted: list[tuple[tuple[int, ...], ElementType]] = [
            ((batch, height, width, channels), description.operand),
            ((n, down, across, channels), description.operand),
            *((extra[role], description.result.out) for role in description.result.extra_buffers),
        ]
        return self._drawn(wanted, seed), {}

    def expected(self, *arrays: NDArray[Any], scale: float = 1.0, **_: object) -> NDArray[Any]:
        """Return the convolution and what becomes of it in float64, rounded once."""
        x, weight = (as_float64(one, self.description.operand) for one in arrays[:2])
        images = ConvolutionShape(self.window, *x.shape, *weight.shape[:3])
        (above, beside), (down, across), (dy, dx) = self.window.padding, self.window.stride, self.window.dilation
        padded = np.pad(x, ((0, 0), (above, above), (beside, beside), (0, 0)))
        height, width = images.out[1:3]
        found = np.zeros(images.out)
        with np.errstate(all="ignore"):
            for ky, kx in np.ndindex(images.kernel_height, images.kernel_width):
                rows = padded[:, ky * dy :, kx * dx :][:, ::down, ::across][:, :height, :width]
                found += rows @ weight[:, ky, kx].T
        return self._finished(found, arrays, scale)

    def tolerance(self, size: Size) -> float:
        """Return that of the product."""
        return Product.tolerance(self, self._product_size(size))

    def moved_bytes(self, size: Size) -> int:
        """Return the bytes of images, weights and the result."""
        batch, height, width, channels, n, down, across = size
        _, m, _, _ = self._product_size(size)
        numbers = batch * height * width * channels + n * down * across * channels
        return numbers * self.description.operand.byte_len + m * n * self.description.result.out.byte_len

    def operations(self, size: Size) -> int:
        """Return a multiplication and an addition for each product, those with zeros outside of images too."""
        return Product.operations(self, self._product_size(size))

    def _product_size(self, size: Size) -> Size:
        return ConvolutionShape(self.window, *size).product.size

    def _images(self, operands: Mapping[str, Operand]) -> ConvolutionShape:
        return convolution_shape(self.public_name, operands["x"].shape, operands["weight"].shape, self.window)

    def _shape(self, operands: Mapping[str, Operand]) -> ProductShape:
        return self._images(operands).product


def convolution(  # noqa: PLR0913 -- by keyword
    dtype: DTypeLike,
    *,
    out_dtype: DTypeLike | None = None,
    bias: bool = True,
    residual: bool = False,
    activation: str | None = None,
    window: Window | None = None,
) -> Convolution:
    """Return the definition of a convolution; ``out_dtype`` None is ``dtype``, of int8 int32.

    Raises
    ------
    InvalidInput
        If there is none of such types, with such an activation or window.
    """
    window = Window() if window is None else window
    window.check()
    operand = product(dtype).description.operand
    out = dtype if out_dtype is None and operand.is_float else out_dtype
    like = product(dtype, out_dtype=out, transpose_b=True, bias=bias, residual=residual, activation=activation)
    result = like.description.result
    others = [*([] if bias else ["no_bias"]), *(["residual"] if residual else [])]
    usual = operand if operand.is_float else result.accumulator
    given = ["conv2d", SHORT[operand], *([] if result.out == usual else [SHORT[result.out]])]
    name = "_".join([*given, *others, *([] if activation is None else [activation])])
    description = replace(like.description, is_convolution=True)
    return Convolution(name, description, ("x", "weight", *result.extra_buffers), window)
