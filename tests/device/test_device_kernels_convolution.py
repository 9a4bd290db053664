"""conv2d gives what numpy gives, whatever lies at the edges; on ordinary units where a device has no matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from convolutions import CASES, check, check_numbers_that_are_none

from vyre_driver import kernels
from vyre_driver.kernels.convolution import convolution

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device


@pytest.fixture
def driver(layered: Driver) -> Driver:
    """A driver under the layer, which switches on that float16 is read."""
    if "storageBuffer16BitAccess" not in layered.context.device.features:
        pytest.skip("the device has no storageBuffer16BitAccess")
    return layered


def test_every_window_is_numpys(driver: Driver) -> None:
    for case in CASES:
        check(driver, "float16", case, bias=False)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int8"])
def test_every_type_is_numpys(driver: Driver, dtype: str) -> None:
    for case in ("edges on all sides", "other strides, padding and dilation down than across", "pixels as they are"):
        check(driver, dtype, case, bias=False)


def test_sums_in_parts_and_what_becomes_of_them_are_numpys(driver: Driver) -> None:
    for case in ("more channels than a step", "several rows of taps in a step", "one window of one channel"):
        check(driver, "float16", case, 4, residual=True, activation="relu")


def test_nan_and_infinities_come_out_where_numpy_has_them(driver: Driver) -> None:
    check_numbers_that_are_none(driver)


def test_a_call_takes_channels_from_the_second_axis_and_a_factor(driver: Driver) -> None:
    dice = np.random.default_rng(3)
    x, weight = (dice.integers(-2, 3, shape).astype(np.float32) for shape in ((2, 3, 6, 5), (4, 3, 3, 3)))
    call = kernels.conv2d(driver, "float32", bias=False, padding=(1, 1))
    found = call(x.transpose(0, 2, 3, 1), weight.transpose(0, 2, 3, 1), scale=0.5).transpose(0, 3, 1, 2)
    padded, want = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), np.zeros((2, 4, 6, 5))
    for place in np.ndindex(want.shape):
        image, n, y, column = place
        want[place] = (padded[image, :, y : y + 3, column : column + 3] * weight[n]).sum() / 2
    assert np.array_equal(found, want.astype(np.float32))


def test_int8_becomes_numbers_with_a_bias(driver: Driver) -> None:
    check(driver, "int8", "edges on all sides", out_dtype="float32")


def test_no_images_give_none_and_no_channels_give_the_bias(driver: Driver) -> None:
    call, none = kernels.conv2d(driver, "float32"), convolution("float32").example((0, 5, 5, 4, 3, 3, 3), 0)[0]
    bias = np.arange(3, dtype=np.float32)
    x, weight = np.zeros((2, 4, 5, 0), np.float32), np.zeros((3, 3, 3, 0), np.float32)
    assert call(*none).shape == (0, 3, 3, 3)
    assert np.array_equal(call(x, weight, bias), np.broadcast_to(bias, (2, 2, 3, 3)))


def test_a_kernel_may_be_bound(driver: Driver) -> None:
    definition = convolution("float32")
    arrays, _ = definition.example((1, 5, 6, 4, 3, 2, 3), 0)
    held = [driver.buffer(one) for one in arrays]
    with driver.empty((1, 4, 4, 3), np.float32) as out:
        kernels.conv2d(driver, "float32").bind(*held, out=out).run()
        want = definition.expected(*arrays)
        assert np.abs(out.read() - want).max() <= definition.tolerance((1, 5, 6, 4, 3, 2, 3)) * np.abs(want).max()
