"""Convolutions of images on tensor cores: products whose rows are windows of the images, which are read where they lie.

The code is emitted by :mod:`vyre_driver.matrices.product`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, Operand, Plan, Size
from vyre_driver.checks import integer
from vyre_driver.errors import InvalidInput, LimitExceeded
from vyre_driver.kernels.common import zeros_plan
from vyre_driver.kernels.product_numbers import as_float64
from vyre_driver.kernels.product_plans import ProductPlan, untuned
from vyre_driver.kernels.products import OUT, SHORT, Product, ProductShape, product

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray

    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.kernels.products import Shape
    from vyre_driver.matrices.elements import ElementType

Pair = tuple[int, int]

MOST = 2**31 - 1
"""What strides, padding, dilation, and images with padding may have: coordinates left of an image are past its right end."""
_AXES = {"x": "batch, height, width, channels", "weight": "out channels, kernel height, kernel width, channels"}
_MOVED = "channels are the last axis: .transpose(0, 2, 3, 1) of an array with channels second; one image is a batch of one"


@dataclass(frozen=True, slots=True)
class Window:
    """How a kernel goes over an image, down and across: pixels from place to place, of zeros around, and from tap to tap."""

    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)

    def check(self) -> None:
        """Raise InvalidInput if these are not such numbers."""
        for name, least in (("stride", 1), ("padding", 0), ("dilation", 1)):
            given: Any = getattr(self, name)
            is_pair = isinstance(given, tuple) and [type(one) for one in given] == [int, int]
            if not is_pair or not all(least <= one <= MOST for one in given):
                raise InvalidInput(
                    f"{name} of conv2d is {given!r}, and must be two ints from {least} to {MOST}, down and across",
                    fix=f"give a tuple such as {_pair_like(given, least)}",
                    parameter=name,
                )


def _pair_like(given: object, least: int) -> Pair:
    """Return the pair that was meant, where one number or two of another type were given; else one that is allowed."""
    down, *others = map(integer, given) if isinstance(given, (tuple, list)) and given else [integer(given)]
    across = others[0] if others else down
    if len(others) > 1 or down is None or across is None or not (least <= down <= MOST and least <= across <= MOST):
        return (1, 1)
    return down, across


@dataclass(frozen=True, slots=True)
class ConvolutionShape:
    """Images, kernels of one size, and how they go over them."""

    window: Window
    batch: int
    height: int
    width: int
    channels: int
    out_channels: int
    kernel_height: int
    kernel_width: int

    @property
    def size(self) -> Size:
        """All but the window."""
        sizes = self.batch, self.height, self.width, self.channels
        return *sizes, self.out_channels, self.kernel_height, self.kernel_width

    @property
    def out(self) -> tuple[int, int, int, int]:
        """The shape of the result."""
        down, across = (
            (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, padding, dilation in self._axes()
        )
        return self.batch, down, across, self.out_channels

    @property
    def product(self) -> ProductShape:
        """The product of windows and weights."""
        batch, down, across, n = self.out
        m, k = batch * down * across, self.kernel_height * self.kernel_width * self.channels
        return ProductShape(1, m, n, k, 0, 0, self.out)

    @property
    def is_pixelwise(self) -> bool:
        """Whether windows are pixels, all of them in their order: the image is the matrix."""
        return (self.kernel_height, self.kernel_width, self.window.stride, self.window.padding) == (1, 1, (1, 1), (0, 0))

    @property
    def pushed(self) -> dict[str, int]:
        """The push constants of the images: :data:`~vyre_driver.matrices.product.IMAGE`."""
        _, down, across, _ = self.out
        of_image = {"height": self.height, "width": self.width, "out_height": down, "out_width": across}
        pairs = {f"{name}_{axis}": getattr(self.window, name)[at] for name in Window.__slots__ for at, axis in enumerate("yx")}
        return {**of_image, "kernel_width": self.kernel_width, **pairs}

    def _axes(self) -> tuple[tuple[int, int, int, int, int], ...]:
        """Return size, kernel, stride, padding and dilation, down and across."""
        sizes, kernels = (self.height, self.width), (self.kernel_height, self.kernel_width)
        return tuple(zip(sizes, kernels, self.window.stride, self.window.padding, self.window.dilation, strict=True))

    def check(self, kernel: str) -> None:
        """Check that the kernel fits on the padded images.

        Raises
        ------
        InvalidInput
            If it does not, or there are no pixels.
        LimitExceeded
            If padded images are too large.
        """
        for what, (size, taps, _, padding, dilation) in zip(("height", "width"), self._axes(), strict=True):
            if 0 in (size, taps):
                raise InvalidInput(
                    f"the {what} of x of {kernel} is {size} and that of weight {taps}, and neither may be 0",
                    fix="give images and kernels of one pixel at least",
                )
            padded, reach = size + 2 * padding, dilation * (taps - 1) + 1
            if padded > MOST:
                raise LimitExceeded(
                    f"x of {kernel} has the {what} {size}, with padding {padded}, and {MOST} are allowed",
                    fix="take less padding, or parts of the images",
                    requested=padded,
                    limit=MOST,
                )
            if reach > padded:
                raise InvalidInput(
                    f"weight of {kernel} reaches over {reach} pixels of the {what} ({taps} taps, dilation {dilation}), and "
                    f"x has {padded} ({size}, padding {padding} on both sides)",
                    fix="take more padding, larger images or a smaller kernel",
                    binding="weight",
                )


def convolution_shape(kernel: str, x: Shape, weight: Shape, window: Window) -> ConvolutionShape:
    """Return what the convolution of arrays of these shapes is.

    Raises
    ------
    InvalidInput
        If the arrays do not fit each other.
    LimitExceeded
        If images are too large.
    """
    for name, shape in (("x", x), ("weight", weight)):
        if len(shape) != 4:
            raise InvalidInput(
                f"{name} of {kernel} has the shape {shape}, and must have four axes: {_AXES[name]}", fix=_MOVED, binding=name
            )
    if x[3] != weight[3]:
        raise InvalidInput(
            f"x of {kernel} has the shape {x} and weight {weight}: {x[3]} and {weight[3]} channels in the last axis, and these "
            "must be as many, since there are no groups",
            fix="move the channels to the last axis of both by .transpose(0, 2, 3, 1); convolve each group by itself",
            binding="weight",
        )
    found = ConvolutionShape(window, *x, *weight[:3])
    found.check(kernel)
    return found


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
