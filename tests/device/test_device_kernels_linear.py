"""linear_int4 and linear_int8 give what float64 gives, at every size and with every extreme of what may be tuned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from columns import candidate_with
from poisoned import distance, on_a_narrow_grid, result, untried

from vyre_driver.autotune.measure.definition import DeviceFacts
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.kernels import linear_int4, linear_int8, quantized_int4, quantized_int8
from vyre_driver.kernels.linear import LINEAR_INT4, LINEAR_INT8

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver import Driver
    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.kernels.linear import Linear
    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device

BOTH = [LINEAR_INT4, LINEAR_INT8]
SPACE = LINEAR_INT4.space(DeviceFacts(cast("PhysicalDevice", None), frozenset({"storageBuffer16BitAccess"})))
# Batch, n, k, group: one of all; odd numbers of rows and groups; one scale a row; rows for one, some and all invocations.
SIZES = (
    *((1, 1, 32, 32), (1, 3, 96, 32), (2, 17, 64, 64), (3, 33, 1024, 128), (5, 7, 160, 160), (1, 19, 4128, 32)),
    *((33, 9, 96, 96), (4, 16, 2080, 416), (8, 1, 8192, 64), (9, 35, 320, 32)),
)
# What takes every value of every axis.
CANDIDATES = (
    candidate_with(SPACE, (64, 1, 1), 1, (8, 4, 0)),
    candidate_with(SPACE, (32, 1, 1), 2, (2, 8, 0)),
    candidate_with(SPACE, (128, 1, 1), 2, (8, 2, 0)),
    candidate_with(SPACE, (256, 1, 1), 1, (16, 4, 0)),
    candidate_with(SPACE, (512, 1, 1), 2, (4, 8, 0)),
    candidate_with(SPACE, (32, 1, 1), 1, (8, 8, 0)),
)


@pytest.fixture
def driver(layered: Driver) -> Driver:
    """A driver under the layer, which switches on that float16 is read."""
    if "storageBuffer16BitAccess" not in layered.context.device.features:
        pytest.skip("the device has no storageBuffer16BitAccess")
    return layered


CASES = [(definition, byte_len, one) for one in CANDIDATES for definition in BOTH for byte_len in (2, 4)]


@pytest.mark.parametrize(
    ("definition", "byte_len", "candidate"),
    [
        pytest.param(
            *case,
            id=f"{case[0].name} {case[1]} {case[2]}",
            marks=[pytest.mark.thorough] if number % 41 else [],
        )
        for number, case in enumerate(CASES)
    ],
)
def test_results_are_those_of_float64_within_the_tolerance_told(
    driver: Driver, definition: Linear, byte_len: int, candidate: Candidate
) -> None:
    found = []
    for seed, shape in enumerate(SIZES):
        size = (*shape, byte_len)
        arrays, _ = definition.example(size, seed)
        off = distance(result(driver, definition, candidate, *arrays), definition.expected(*arrays))
        if not off <= definition.tolerance(size):
            found.append((size, off))
    assert found == []


def test_the_candidates_tried_here_take_every_value_of_every_axis_that_this_device_takes(driver: Driver) -> None:
    kernel = TunedKernel(driver, LINEAR_INT4)
    assert untried(kernel, CANDIDATES) == set()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_each_of_the_16_numbers_of_4_bits_is_its_nibble_less_8_the_lower_nibble_first(driver: Driver, dtype: type) -> None:
    """A row of x with a single 1 picks one column of the weights; each column has every number."""
    numbers = (np.arange(16)[:, np.newaxis] + np.arange(32)) % 16
    weight = (numbers[:, 0::2] | numbers[:, 1::2] << 4).astype(np.uint8)
    found = linear_int4(driver)(np.eye(32, dtype=dtype), weight, np.full((16, 1), 0.5, np.float16))
    assert np.array_equal(found, ((numbers - 8) * 0.5).T.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_each_of_the_256_numbers_of_8_bits_is_itself(driver: Driver, dtype: type) -> None:
    weight = ((np.arange(256)[:, np.newaxis] + np.arange(32)) % 256).astype(np.uint8).view(np.int8)
    found = linear_int8(driver)(np.eye(32, dtype=dtype), weight, np.full((256, 1), 0.5, np.float16))
    assert np.array_equal(found, (weight * 0.5).T.astype(dtype))


def test_each_group_has_its_own_scale(driver: Driver) -> None:
    scales = np.arange(1, 16, dtype=np.float16).reshape(3, 5)
    for make, quantized in ((linear_int4, quantized_int4), (linear_int8, quantized_int8)):
        weight, _ = quantized(np.full((3, 320), 1, np.float32), 64)
        x = np.zeros((5, 320), np.float32)
        x[np.arange(5), np.arange(5) * 64 + 63] = 1
        most = 7 if make is linear_int4 else 127
        assert np.array_equal(make(driver)(x, weight, scales), (scales * most).T.astype(np.float32))


@pytest.mark.parametrize(("make", "quantized", "most"), [(linear_int4, quantized_int4, 7), (linear_int8, quantized_int8, 127)])
def test_quantized_weights_give_the_product_with_the_floats_within_half_a_step(
    driver: Driver, make: Callable[..., Any], quantized: Callable[..., Any], most: int
) -> None:
    rng = np.random.default_rng(1)
    weight, x = rng.standard_normal((40, 256)).astype(np.float32), rng.random((3, 256), np.float32)
    stored, scales = quantized(weight, 32)
    found = make(driver)(x, stored, scales)
    largest = np.abs(weight.reshape(40, 8, 32)).max(axis=2)
    steps = np.repeat(largest / most * (1 + 2.0**-10), 32, axis=1)  # a scale is rounded to float16
    # A number may be off by half a step, and by what the rounded scale takes from the largest.
    bound = x.astype(np.float64) @ (steps * (0.5 + most * 2.0**-10)).T
    off = np.abs(found - x.astype(np.float64) @ weight.T.astype(np.float64))
    assert np.count_nonzero(off > bound) == 0


@pytest.mark.parametrize("definition", BOTH, ids=lambda one: one.name)
@pytest.mark.parametrize("byte_len", [2, 4])
@pytest.mark.parametrize(
    "candidate", [CANDIDATES[0], *(pytest.param(one, marks=pytest.mark.thorough) for one in CANDIDATES[1:3])], ids=str
)
def test_nan_and_infinities_in_x_and_nan_in_scales_come_out_as_numpys(
    driver: Driver, definition: Linear, byte_len: int, candidate: Candidate
) -> None:
    """Weights are of both signs and 0, so that an infinity times them is an infinity of either sign, or no number."""
    arrays, _ = definition.example((7, 11, 192, 64, byte_len), 1)
    x, weight, scales = arrays
    x[1, 5], x[2, 100], x[3, 191], x[4, [0, 70]] = np.nan, np.inf, -np.inf, (np.inf, -np.inf)
    scales[3, 1], scales[8, 2] = np.nan, 0
    found, expected = result(driver, definition, candidate, x, weight, scales), definition.expected(x, weight, scales)
    special = ~np.isfinite(expected)
    assert np.array_equal(found[special], expected[special], equal_nan=True)
    assert np.isfinite(found[~special]).all()
    assert {str(one) for one in expected[special]} == {"nan", "inf", "-inf"}
    assert distance(found[[0, 5, 6]][:, :3], expected[[0, 5, 6]][:, :3]) <= definition.tolerance((7, 11, 192, 64, byte_len))


@pytest.mark.parametrize("definition", BOTH, ids=lambda one: one.name)
def test_an_infinite_scale_leaves_no_finite_result_in_its_row(driver: Driver, definition: Linear) -> None:
    x, weight, scales = definition.example((3, 5, 256, 128, 2), 1)[0]
    scales[2, 1] = np.inf
    found, expected = result(driver, definition, None, x, weight, scales), definition.expected(x, weight, scales)
    assert np.array_equal(np.isfinite(found), np.isfinite(expected))
    assert np.isfinite(expected).all(axis=0).tolist() == [True, True, False, True, True]


def test_sums_beyond_float16_are_infinite_in_float16_alone(driver: Driver) -> None:
    weight, scales = quantized_int4(np.array([[7] * 64, [-7] * 64], np.float32))
    x = np.full((1, 64), 1000, np.float16)
    assert linear_int4(driver)(x, weight, scales).tolist() == [[np.inf, -np.inf]]
    assert linear_int4(driver)(x.astype(np.float32), weight, scales).tolist() == [[448000, -448000]]


@pytest.mark.parametrize("definition", BOTH, ids=lambda one: one.name)
def test_a_call_with_arrays_returns_the_same_as_bound_buffers(driver: Driver, definition: Linear) -> None:
    arrays, _ = definition.example((3, 37, 128, 32, 2), 1)
    make = {"linear_int4": linear_int4, "linear_int8": linear_int8}[definition.name]
    assert np.array_equal(make(driver)(*arrays), result(driver, definition, None, *arrays))


@pytest.mark.parametrize("definition", BOTH, ids=lambda one: one.name)
def test_a_result_is_the_same_bits_whatever_else_is_in_the_batch(driver: Driver, definition: Linear) -> None:
    arrays, _ = definition.example((5, 20, 256, 32, 4), 1)
    kernel = TunedKernel(driver, definition)
    whole, alone = kernel(*arrays), [kernel(arrays[0][row : row + 1], *arrays[1:])[0] for row in range(5)]
    assert np.array_equal(whole, np.stack(alone))


@pytest.mark.parametrize("definition", BOTH, ids=lambda one: one.name)
@pytest.mark.parametrize("candidate", CANDIDATES[:2], ids=str)
def test_grids_that_are_full_along_x_go_on_along_y(driver: Driver, definition: Linear, candidate: Candidate) -> None:
    """As on a device that takes three workgroups along x; of the last row of workgroups some have nothing to do."""
    found, expected = on_a_narrow_grid(driver, definition, (9, 35, 64, 32, 2), candidate)
    assert distance(found, expected) <= definition.tolerance((9, 35, 64, 32, 2))


@pytest.mark.parametrize(
    "definition", [LINEAR_INT8, pytest.param(LINEAR_INT4, marks=pytest.mark.thorough)], ids=lambda one: one.name
)
@pytest.mark.parametrize("byte_len", [2, pytest.param(4, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("candidate", [CANDIDATES[1], pytest.param(CANDIDATES[3], marks=pytest.mark.thorough)], ids=str)
def test_without_subgroup_operations_sums_go_through_shared_memory(
    driver: Driver, definition: Linear, byte_len: int, candidate: Candidate
) -> None:
    kernel = TunedKernel(driver, definition)
    kernel.device = replace(kernel.device, physical=replace(driver.device, subgroup_operations=0x1))
    for shape in SIZES:
        arrays, _ = definition.example((*shape, byte_len), 1)
        expected = definition.expected(*arrays)
        out = driver.empty(expected.shape, expected.dtype)
        bound = kernel.bind(*map(driver.buffer, arrays), out=out, candidate=candidate)
        bound.run()
        assert [step.module.name for step in bound.plan.steps] == [f"{definition.name}{'' if byte_len == 2 else '_f32'}.spv"]
        assert distance(out.read(), expected) <= definition.tolerance((*shape, byte_len))


@pytest.mark.parametrize("definition", BOTH, ids=lambda one: one.name)
@pytest.mark.parametrize(("batch", "n"), [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_no_rows_give_an_empty_result_of_the_right_shape(
    driver: Driver, definition: Linear, batch: int, n: int, dtype: type
) -> None:
    stored = definition.format.packed(np.zeros((n, 64), np.int8))
    arrays = np.zeros((batch, 64), dtype), stored, np.zeros((n, 2), np.float16)
    kernel = TunedKernel(driver, definition)
    made = (definition.expected(*arrays), kernel(*arrays), kernel(*map(driver.buffer, arrays)))
    assert [(one.shape, one.dtype) for one in made] == [((batch, n), np.dtype(dtype))] * 3
