"""layernorm and rmsnorm give what float64 gives, at every size and with every extreme of what may be tuned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from columns import candidate_with
from poisoned import distance, on_a_narrow_grid, result, untried

from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.errors import InvalidInput
from vyre_driver.kernels import layernorm, rmsnorm
from vyre_driver.kernels.rows import LAYERNORM, RMSNORM

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Driver
    from vyre_driver.autotune.measure.definition import DeviceFacts, KernelDefinition
    from vyre_driver.autotune.search.space import Candidate

pytestmark = pytest.mark.device

BOTH = [LAYERNORM, RMSNORM]
SPACE = LAYERNORM.space(cast("DeviceFacts", None))
SHAPES = (
    *((1, 1), (1, 70), (70, 1), (3, 5), (4, 8), (9, 31), (9, 32), (2, 33), (5, 127), (3, 4096), (2, 4097), (2, 4100)),
    *((2, 16384), (1, 16387), (2, 40000), (1, 70001)),
)
# What takes every value of every axis, of those that a small CPU device can run.
CANDIDATES = (
    candidate_with(SPACE, (256, 1, 1), 4, (16384, 0, 0)),
    candidate_with(SPACE, (512, 1, 1), 8, (16384, 0, 0)),
    candidate_with(SPACE, (128, 1, 1), 1, (4096, 0, 0)),
    candidate_with(SPACE, (1024, 1, 1), 2, (65536, 0, 0)),
    candidate_with(SPACE, (64, 4, 1), 1, (16384, 0, 0)),
    candidate_with(SPACE, (32, 16, 1), 2, (16384, 0, 0)),
    candidate_with(SPACE, (16, 8, 1), 1, (16384, 0, 0)),
    candidate_with(SPACE, (8, 32, 1), 8, (16384, 0, 0)),
)
# The same for a device of 128 invocations, as far as those above are too large for it.
SMALL_CANDIDATES = (
    candidate_with(SPACE, (32, 4, 1), 4, (16384, 0, 0)),
    candidate_with(SPACE, (8, 16, 1), 2, (16384, 0, 0)),
    candidate_with(SPACE, (128, 1, 1), 2, (65536, 0, 0)),
    candidate_with(SPACE, (128, 1, 1), 8, (16384, 0, 0)),
)


@pytest.fixture
def driver(layered: Driver) -> Driver:
    """A driver under the layer, which switches on that float16 is read."""
    return layered


def skip_without_halves(driver: Driver, byte_len: int) -> None:
    if byte_len == 2 and "storageBuffer16BitAccess" not in driver.context.device.features:
        pytest.skip("the device has no storageBuffer16BitAccess")


CASES = [(definition, byte_len, one) for one in CANDIDATES for definition in BOTH for byte_len in (4, 2)]
SMALL_CASES = [(definition, byte_len, one) for one in SMALL_CANDIDATES for definition in BOTH for byte_len in (4, 2)]


@pytest.mark.parametrize(
    ("definition", "byte_len", "candidate"),
    [
        *(pytest.param(*case, id=f"{case[0].name} {case[1]} {case[2]}") for case in CASES[1::16]),
        *(
            pytest.param(*case, id=f"{case[0].name} {case[1]} {case[2]}", marks=pytest.mark.thorough)
            for case in (*(one for number, one in enumerate(CASES) if number % 16 != 1), *SMALL_CASES)
        ),
    ],
)
def test_results_are_those_of_float64_within_the_tolerance_told(
    driver: Driver, definition: KernelDefinition, byte_len: int, candidate: Candidate
) -> None:
    skip_without_halves(driver, byte_len)
    found = []
    for seed, shape in enumerate(SHAPES):
        size = (*shape, byte_len)
        arrays, _ = definition.example(size, seed)
        off = distance(result(driver, definition, candidate, *arrays), definition.expected(*arrays))
        if not off <= definition.tolerance(size):
            found.append((size, off))
    assert found == []


def test_the_candidates_tried_here_take_every_value_of_every_axis_that_this_device_takes(driver: Driver) -> None:
    kernel = TunedKernel(driver, LAYERNORM)
    assert untried(kernel, (*CANDIDATES, *SMALL_CANDIDATES)) == set()


@pytest.mark.parametrize("byte_len", [4, 2])
def test_a_call_with_arrays_returns_the_same_as_bound_buffers(driver: Driver, byte_len: int) -> None:
    skip_without_halves(driver, byte_len)
    x, weight, bias = LAYERNORM.example((37, 41, byte_len), 1)[0]
    assert np.array_equal(
        layernorm(driver)(x, weight, bias, eps=0.5), result(driver, LAYERNORM, None, x, weight, bias, eps=0.5)
    )
    assert np.array_equal(rmsnorm(driver)(x, weight), result(driver, RMSNORM, None, x, weight))


# One turn from registers, several, and several workgroups a row.
WAYS = [
    (CANDIDATES[0], 40),
    (CANDIDATES[0], 4096),
    (CANDIDATES[2], 4095),
    (CANDIDATES[2], 9000),
    (CANDIDATES[2], 9001),
    (CANDIDATES[6], 300),
    (CANDIDATES[5], 40001),
]


@pytest.mark.parametrize(("candidate", "columns"), WAYS, ids=str)
@pytest.mark.parametrize("offset", [pytest.param(1000.0, marks=pytest.mark.thorough), -3e6])
def test_a_variance_is_right_of_numbers_that_are_far_from_0(
    driver: Driver, candidate: Candidate, columns: int, offset: float
) -> None:
    """A mean of squares less the mean's square would have no right digit, nor a mean that is rounded to float32."""
    (x, weight, bias), _ = LAYERNORM.example((3, columns, 4), 1)
    x += np.float32(offset)
    x[1, 1:] *= np.float32(1.25)  # the first number, which the others are held against, is far away from them
    found, expected = result(driver, LAYERNORM, candidate, x, weight, bias), LAYERNORM.expected(x, weight, bias)
    assert distance(found, expected) <= LAYERNORM.tolerance((3, columns, 4))


@pytest.mark.parametrize(("candidate", "columns"), WAYS, ids=str)
def test_equal_numbers_give_the_bias_to_the_bit(driver: Driver, candidate: Candidate, columns: int) -> None:
    (x, weight, bias), _ = LAYERNORM.example((3, columns, 4), 1)
    x[:] = np.float32([[0.1], [-1e7], [3e38]])
    assert np.array_equal(result(driver, LAYERNORM, candidate, x, weight, bias), np.tile(bias, (3, 1)))


@pytest.mark.parametrize("byte_len", [4, 2])
def test_a_row_of_one_number_is_its_bias_and_its_sign_times_its_weight(driver: Driver, byte_len: int) -> None:
    skip_without_halves(driver, byte_len)
    dtype = np.float32 if byte_len == 4 else np.float16
    x, weight, bias = np.array([[3], [-1000], [0]], dtype), np.array([0.5], dtype), np.array([7.25], dtype)
    assert layernorm(driver)(x, weight, bias).tolist() == [[7.25]] * 3
    assert np.abs(rmsnorm(driver)(x, weight) - np.array([[0.5], [-0.5], [0]])).max() <= RMSNORM.tolerance((3, 1, byte_len))


def special_rows(columns: int, dtype: type) -> NDArray[Any]:
    """Rows with a NaN, an infinity at either end, both infinities, infinities alone; and one without any of them."""
    rows = np.tile(np.arange(columns, dtype=dtype) % 7, (6, 1)) + dtype(1)
    rows[0, columns // 2], rows[1, columns - 1], rows[2, 0] = np.nan, np.inf, -np.inf
    rows[3, 1], rows[3, columns - 2], rows[4] = np.inf, -np.inf, np.inf
    return rows


@pytest.mark.parametrize(("candidate", "columns"), WAYS, ids=str)
@pytest.mark.parametrize("byte_len", [4, 2])
def test_a_row_with_a_nan_or_an_infinity_is_as_pytorch_has_it(
    driver: Driver, candidate: Candidate, columns: int, byte_len: int
) -> None:
    skip_without_halves(driver, byte_len)
    rows = special_rows(columns, np.float32 if byte_len == 4 else np.float16)
    weight, bias = LAYERNORM.example((1, columns, byte_len), 1)[0][1:]
    weight[:] = 2
    normal = result(driver, LAYERNORM, candidate, rows, weight, bias)
    assert np.isnan(normal).all(axis=1).tolist() == [True] * 5 + [False]
    assert distance(normal[5:], LAYERNORM.expected(rows[5:], weight, bias)) <= LAYERNORM.tolerance((1, columns, byte_len))
    found = result(driver, RMSNORM, candidate, rows, weight)
    wanted = np.zeros_like(rows)
    wanted[0], wanted[np.isinf(rows)] = np.nan, np.nan
    assert np.array_equal(found[:5], wanted[:5], equal_nan=True)
    assert distance(found[5:], RMSNORM.expected(rows[5:], weight)) <= RMSNORM.tolerance((1, columns, byte_len))


def test_squares_beyond_float32_leave_the_bias_and_zeros(driver: Driver) -> None:
    x = np.tile(np.array([1e30, -2e30], np.float32), (2, 30))
    weight, bias = np.full(60, 2, np.float32), np.arange(60, dtype=np.float32)
    assert np.array_equal(layernorm(driver)(x, weight, bias), np.tile(bias, (2, 1)))
    assert np.count_nonzero(rmsnorm(driver)(x, weight)) == 0


def test_eps_is_added_to_the_variance_and_0_leaves_it_alone(driver: Driver) -> None:
    x, weight, bias = np.array([[1, -1], [3, 3]], np.float32), np.ones(2, np.float32), np.zeros(2, np.float32)
    given = [layernorm(driver)(x, weight, bias, eps=eps) for eps in (3, 0)]
    assert np.allclose(given[0], [[0.5, -0.5], [0, 0]], rtol=0, atol=2.0**-21)
    assert np.allclose(given[1], [[1, -1], [np.nan, np.nan]], rtol=0, atol=2.0**-21, equal_nan=True)
    squares = rmsnorm(driver)(np.array([[1, -1], [0, 0]], np.float32), weight, eps=0.0)
    assert np.allclose(squares, [[1, -1], [np.nan, np.nan]], rtol=0, atol=2.0**-21, equal_nan=True)


@pytest.mark.parametrize(("candidate", "columns"), WAYS, ids=str)
@pytest.mark.parametrize("definition", BOTH, ids=lambda one: one.name)
@pytest.mark.parametrize("byte_len", [4, 2])
def test_x_may_be_overwritten(
    driver: Driver, definition: KernelDefinition, byte_len: int, candidate: Candidate, columns: int
) -> None:
    skip_without_halves(driver, byte_len)
    arrays, _ = definition.example((5, columns, byte_len), 1)
    x, *others = map(driver.buffer, arrays)
    kernel = TunedKernel(driver, definition)
    kernel.bind(x, *others, out=x, candidate=candidate).run()
    assert np.array_equal(x.read(), result(driver, definition, candidate, *arrays))


def test_a_call_works_in_place_and_a_part_of_x_is_refused(driver: Driver) -> None:
    (x, weight), _ = RMSNORM.example((6, 10, 4), 1)
    kernel, there = rmsnorm(driver), driver.buffer(x)
    assert kernel(there, driver.buffer(weight), out=there) is there
    assert np.array_equal(there.read(), kernel(x, weight))
    with pytest.raises(InvalidInput, match="share"):
        kernel(there[:5], driver.buffer(weight), out=there[1:])


@pytest.mark.parametrize("definition", BOTH, ids=lambda one: one.name)
@pytest.mark.parametrize("byte_len", [4, 2])
def test_a_row_may_have_a_million_numbers(driver: Driver, definition: KernelDefinition, byte_len: int) -> None:
    skip_without_halves(driver, byte_len)
    arrays, _ = definition.example((1, 2**20, byte_len), 1)
    found, expected = result(driver, definition, None, *arrays), definition.expected(*arrays)
    assert distance(found, expected) <= definition.tolerance((1, 2**20, byte_len))


@pytest.mark.parametrize("definition", BOTH, ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("shape", "candidate"), [((10, 3), CANDIDATES[0]), ((4, 5000), CANDIDATES[2]), ((70, 9), CANDIDATES[6])]
)
def test_grids_that_are_full_along_x_go_on_along_y(
    driver: Driver, definition: KernelDefinition, shape: tuple[int, int], candidate: Candidate
) -> None:
    """As on a device that takes three workgroups along x; of the last row of workgroups some have nothing to do."""
    found, expected = on_a_narrow_grid(driver, definition, (*shape, 4), candidate)
    assert distance(found, expected) <= definition.tolerance((*shape, 4))


@pytest.mark.parametrize("definition", BOTH, ids=lambda one: one.name)
@pytest.mark.parametrize("columns", [7, 4096, 20000])
def test_without_subgroup_operations_sums_go_through_shared_memory(
    driver: Driver, definition: KernelDefinition, columns: int
) -> None:
    kernel = TunedKernel(driver, definition)
    kernel.device = replace(kernel.device, physical=replace(driver.device, subgroup_operations=0x1))
    arrays, _ = definition.example((3, columns, 4), 1)
    expected = definition.expected(*arrays)
    out = driver.empty(expected.shape, expected.dtype)
    bound = kernel.bind(*map(driver.buffer, arrays), out=out, candidate=CANDIDATES[3])
    bound.run()
    assert [step.module.name for step in bound.plan.steps] == [f"{definition.name}{'' if columns % 4 else '_wide'}.spv"]
    assert distance(out.read(), expected) <= definition.tolerance((3, columns, 4))
