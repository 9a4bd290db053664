"""Included kernels on arrays with batch axes: row-wise kernels along the last axis, products as numpy.matmul has them."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from literals import refusal

from vyre_driver import kernels
from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from vyre_driver import Driver, TunedKernel

pytestmark = pytest.mark.device

F32 = np.float32
SHAPES = [(5,), (2, 3, 5), (2, 1, 3, 8), (1, 2, 20_000), (0, 3, 5), (2, 0, 4), (2, 3, 0)]


def numbers(*shape: int, dtype: type[np.generic] = F32) -> NDArray[Any]:
    return np.random.default_rng(sum(shape)).random(shape, F32).astype(dtype) - dtype(0.5)


ROW_KERNELS: dict[str, tuple[Callable[[Driver], TunedKernel], int]] = {
    "softmax": (kernels.softmax, 0),
    "layernorm": (kernels.layernorm, 2),
    "rmsnorm": (kernels.rmsnorm, 1),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ROW_KERNELS)
def test_rows_of_any_number_of_axes_are_those_of_a_matrix(opened: Driver, name: str, shape: tuple[int, ...]) -> None:
    make, others = ROW_KERNELS[name]
    kernel, x = make(opened), numbers(*shape)
    weights = [numbers(shape[-1]) for _ in range(others)]
    matrix = kernel(x.reshape(math.prod(shape[:-1]), shape[-1]), *weights)
    out, resident_out = np.empty_like(x), opened.empty(shape, F32)
    results = [kernel(x, *weights), kernel(x, *weights, out=out)]
    buffers = [opened.buffer(array) for array in (x, *weights)]
    results += [kernel(*buffers).read(), kernel(*buffers, out=resident_out).read()]
    kernel.bind(*buffers, out=resident_out).run()
    results.append(resident_out.read())
    assert [result.shape for result in results] == [shape] * 5
    assert [np.array_equal(result.reshape(matrix.shape), matrix) for result in results] == [True] * 5
    assert results[1] is out


PRODUCTS = [
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 2, 3, 4), (2, 2, 4, 8)),
    ((1, 3, 4), (1, 4, 5)),
    ((0, 3, 4), (0, 4, 5)),
    ((2, 0, 4), (4, 5)),
    ((2, 3, 0), (2, 0, 5)),
    ((2, 3, 0), (0, 5)),
]


@pytest.mark.parametrize(("a_shape", "b_shape"), PRODUCTS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_batches_are_multiplied_as_numpy_does(
    opened: Driver, dtype: str, a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kernels.PerformanceWarning)
        kernel = kernels.matmul(opened, dtype)
    a, b = numbers(*a_shape).astype(dtype), numbers(*b_shape).astype(dtype)
    right = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(F32)
    out, resident_out = np.empty_like(right), opened.empty(right.shape, F32)
    buffers = opened.buffer(a), opened.buffer(b)
    results = [kernel(a, b), kernel(a, b, out=out), kernel(*buffers).read(), kernel(*buffers, out=resident_out).read()]
    kernel.bind(*buffers, out=resident_out).run()
    results.append(resident_out.read())
    assert [result.shape for result in results] == [right.shape] * 5
    assert [bool(np.allclose(result, right, rtol=0, atol=1e-5)) for result in results] == [True] * 5
    assert results[1] is out


def test_a_batch_of_rows_times_one_matrix_is_bit_for_bit_the_product_of_two_matrices(opened: Driver) -> None:
    kernel, a, b = kernels.matmul(opened), numbers(3, 17, 70), numbers(70, 33)
    assert np.array_equal(kernel(a, b).reshape(51, 33), kernel(a.reshape(51, 70), b))


def test_a_batch_of_float32_takes_no_scale_as_two_matrices_take_none(opened: Driver) -> None:
    kernel = kernels.matmul(opened)
    message = "matmul takes no parameters and got 'scale'. Fix: leave 'scale' out."
    for b in (numbers(4, 5), numbers(2, 4, 5)):
        assert refusal(lambda b=b: kernel(numbers(2, 3, 4), b, scale=2.0)) == (InvalidInput, 2201, message)


def test_forgetting_and_closing_reach_the_kernel_of_batches(opened: Driver) -> None:
    kernel, a, b = kernels.matmul(opened), numbers(2, 3, 4), numbers(2, 4, 5)
    first = kernel(a, b)
    count = len(kernel.kernels)
    kernel.forget()
    kernel.close()
    assert (np.array_equal(kernel(a, b), first), len(kernel.kernels)) == (True, count)


@pytest.mark.parametrize("shape", [(2, 3, 64), (1, 1, 1, 64), (2, 0, 64)], ids=str)
def test_quantized_layers_take_batches(opened: Driver, shape: tuple[int, ...]) -> None:
    weight, scales = kernels.quantized_int4(numbers(6, 64))
    kernel, x = kernels.linear_int4(opened), numbers(*shape)
    matrix = kernel(x.reshape(math.prod(shape[:-1]), 64), weight, scales)
    result = kernel(x, weight, scales)
    assert (result.shape, np.array_equal(result.reshape(matrix.shape), matrix)) == ((*shape[:-1], 6), True)


def expected_of(definition: str, *arrays: NDArray[Any]) -> NDArray[Any]:
    found = kernels.KERNELS[definition].expected(*arrays)
    assert found is not None
    return found


def test_what_is_expected_of_a_batch_is_that_of_its_rows() -> None:
    x, weight, bias = numbers(2, 3, 4), numbers(4), numbers(4)
    for name, others in {"softmax": (), "layernorm": (weight, bias), "rmsnorm": (weight,)}.items():
        rows = expected_of(name, x.reshape(6, 4), *others)
        assert np.array_equal(expected_of(name, x, *others), rows.reshape(2, 3, 4))
