"""The arrays of a convolution: how windows lie on the images, what comes out, and which product that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vyre_driver.checks import integer
from vyre_driver.errors import InvalidInput, LimitExceeded
from vyre_driver.kernels.product_shapes import ProductShape

if TYPE_CHECKING:
    from vyre_driver.autotune.measure.definition import Size
    from vyre_driver.kernels.product_shapes import Shape

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
        """The push constants of the images: :data:`~vyre_driver.matrices.convolution.IMAGE`."""
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
