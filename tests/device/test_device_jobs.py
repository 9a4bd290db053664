"""The shipped shaders give numpy's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Driver, Kernel

pytestmark = pytest.mark.device

SIDE = 64
ITERATIONS = 60


def escape_counts(left: float, top: float, step: float) -> NDArray[Any]:
    along = np.arange(SIDE, dtype=np.float32) * np.float32(step)
    c_real, c_imaginary = np.float32(left) + along[None, :], np.float32(top) - along[:, None]
    real, imaginary, counts = (np.zeros((SIDE, SIDE), np.float32) for _ in range(3))
    for n in range(ITERATIONS):
        norm = real * real + imaginary * imaginary
        leaves = (norm > 256) & (counts == 0)
        counts[leaves] = n + 1 - np.log2(np.float32(0.5) * np.log2(norm[leaves]))
        stays = counts == 0
        moved = real * real - imaginary * imaginary + c_real, 2 * real * imaginary + c_imaginary
        real, imaginary = (np.where(stays, new, np.float32(0)) for new in moved)
    return counts


@pytest.mark.parametrize("count", [1, 255, 256, 257, 100_003])
def test_saxpy_equals_numpy_bit_for_bit(saxpy: Kernel, count: int) -> None:
    random = np.random.default_rng(count)
    x, y = random.standard_normal((2, count), np.float32)
    got = saxpy(x, y, push_constants={"alpha": 2.5, "count": count})
    np.testing.assert_array_equal(got, np.float32(2.5) * x + y, strict=True)


@pytest.mark.parametrize("byte_count", [1, 3, 4, 1023, 65537])
def test_a_histogram_of_any_number_of_bytes_equals_numpy(driver: Driver, byte_count: int) -> None:
    data = np.random.default_rng(byte_count).integers(0, 256, byte_count, np.uint8)
    padded = np.zeros(-(-byte_count // 4) * 4, np.uint8)
    padded[:byte_count] = data
    kernel = driver.compile(shipped_module("byte_histogram"))
    got = kernel(padded.view(np.uint32), np.zeros(256, np.uint32), push_constants={"byte_count": byte_count}, workgroups=(4,))
    np.testing.assert_array_equal(got, np.bincount(data, minlength=256).astype(np.uint32), strict=True)


def test_mandelbrot_equals_numpy(driver: Driver) -> None:
    left, top, step = -0.745, 0.133, 0.0035 / SIDE
    kernel = driver.compile(shipped_module("mandelbrot"), {"MAX_ITERATIONS": ITERATIONS})
    push = {"left": np.float32(left), "top": np.float32(top), "step": np.float32(step), "width": SIDE, "height": SIDE}
    got = kernel(push_constants=push, workgroups=(SIDE // 16, SIDE // 8), out_shapes={"escape": SIDE * SIDE})
    assert isinstance(got, np.ndarray)
    expected = escape_counts(left, top, step).reshape(-1)
    # The orbits are equal; the device's log2 may differ in its last bits.
    assert (got.dtype, np.abs(got - expected).max() < 1e-2) == (np.float32, True)
