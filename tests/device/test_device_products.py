"""Products of float16, bfloat16, int8 and float32 on any device are those of float64, in every layout, at every size."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from called_products import made, scattered, smallest, wrong, wrong_on

from vyre_driver import kernels
from vyre_driver.autotune import Budget
from vyre_driver.autotune.measure.tune import tune
from vyre_driver.autotune.search.outcomes import Status
from vyre_driver.autotune.store.records import size_text
from vyre_driver.errors import InvalidInput, LimitExceeded, UnsupportedFeature
from vyre_driver.kernels import products
from vyre_driver.kernels.product_numbers import dtype_of, rounded
from vyre_driver.kernels.products import Product, product

if TYPE_CHECKING:
    from vyre_driver import Driver
    from vyre_driver.autotune.measure.definition import Call, DeviceFacts, Plan
    from vyre_driver.autotune.search.space import TuningSpace

pytestmark = pytest.mark.device

thorough = pytest.mark.thorough
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# Each type of operands with each of results, each layout, each activation and each combination of extras, in some pairs.
ASKED: list[dict[str, Any]] = [
    {"dtype": "float16"},
    {"dtype": "float16", "out_dtype": "float16", "transpose_b": True, "bias": True, "activation": "gelu"},
    {"dtype": "float16", "out_dtype": "bfloat16", "transpose_a": True, "residual": True, "activation": "relu"},
    {"dtype": "bfloat16", "out_dtype": "bfloat16", "transpose_a": True, "transpose_b": True, "bias": True, "residual": True},
    {"dtype": "bfloat16", "transpose_b": True, "bias": True, "activation": "relu"},
    {"dtype": "bfloat16", "out_dtype": "float16", "residual": True},
    {"dtype": "int8"},
    {"dtype": "int8", "out_dtype": "float32", "transpose_b": True, "bias": True, "activation": "gelu"},
    {"dtype": "int8", "out_dtype": "float16", "transpose_a": True, "bias": True, "residual": True, "activation": "silu"},
    {"dtype": "int8", "out_dtype": "bfloat16", "transpose_a": True, "transpose_b": True, "residual": True},
    {"dtype": "float32", "transpose_a": True, "bias": True, "activation": "silu"},
    {"dtype": "float32", "out_dtype": "float16", "transpose_a": True, "transpose_b": True, "bias": True, "residual": True},
    {"dtype": "float32", "out_dtype": "bfloat16", "transpose_b": True, "activation": "gelu"},
]
# Of a batch, m, n, k: around tiles and steps, one of each, no sum at all.
SIZES = [(1, 1, 1, 1), (1, 63, 65, 33), (2, 64, 32, 64), (3, 5, 31, 17), (1, 4, 6, 0), (1, 33, 1, 100)]


def named(asked: dict[str, Any]) -> str:
    return product(**asked).name


@pytest.mark.parametrize("asked", ASKED, ids=named)
def test_a_product_is_that_of_float64_at_every_size(opened: Driver, asked: dict[str, Any]) -> None:
    definition = product(**asked)
    chosen = smallest(made(opened, definition), 1)
    for number, size in enumerate(SIZES):
        arrays, _ = definition.example(size, number)
        scale = {} if definition.name == "product_int8" else {"scale": 2.0**-number}
        assert wrong_on(opened, definition, chosen, *arrays, **scale) is None, size


@pytest.mark.parametrize("asked", [ASKED[number] for number in (1, 3, 6, 8)], ids=named)
def test_parts_of_k_are_summed_side_by_side_though_the_last_one_is_short(opened: Driver, asked: dict[str, Any]) -> None:
    definition = product(**asked)
    chosen = smallest(made(opened, definition), 4)
    for number, size in enumerate([(2, 17, 33, 100), (1, 5, 3, 129), (1, 3, 5, 31), (2, 4, 6, 0)]):
        arrays, _ = definition.example(size, number)
        scale = {} if definition.name == "product_int8" else {"scale": 0.5}
        assert wrong_on(opened, definition, chosen, *arrays, **scale) is None, size


def test_a_sum_in_parts_is_two_dispatches_and_one_without_is_one(opened: Driver) -> None:
    kernel = kernels.matmul(opened, "int8")
    a, b, out = opened.empty((40, 512), np.int8), opened.empty((512, 40), np.int8), opened.empty((40, 40), np.int32)
    steps = {}
    for parts in (1, 2, 16):
        with_parts = kernel.bind(a, b, out=out, candidate=smallest(kernel, parts))
        steps[parts] = len(with_parts.bound), [one.shape for one in with_parts.plan.temporaries.values()]
        with_parts.close()
    assert (steps[1], steps[2]) == ((1, []), (2, [(2 * 40 * 40,)]))
    assert steps[16][1][0][0] % (40 * 40) == 0
    assert 2 < steps[16][1][0][0] // (40 * 40) <= 16  # as few as leave none of them empty


BATCHES = [((3, 2), (3, 2)), ((3, 2), ()), ((), (3, 2)), ((1, 1, 4), (1, 1, 4)), ((2,), ()), ((), ())]


@pytest.mark.parametrize("transposed", [False, True], ids=["", "transposed"])
@pytest.mark.parametrize(("of_a", "of_b"), BATCHES, ids=str)
def test_a_batch_is_of_both_or_of_one_operand(
    opened: Driver,
    of_a: tuple[int, ...],
    of_b: tuple[int, ...],
    transposed: bool,  # noqa: FBT001 -- a case
) -> None:
    kernel = kernels.matmul(opened, "int8", transpose_a=transposed, transpose_b=transposed)
    dice = np.random.default_rng(2)
    a, b = dice.integers(-128, 128, (*of_a, 5, 9), np.int8), dice.integers(-128, 128, (*of_b, 9, 7), np.int8)
    given = [np.ascontiguousarray(one.swapaxes(-1, -2)) for one in (a, b)] if transposed else [a, b]
    want = np.matmul(a.astype(np.int32), b.astype(np.int32))
    for found in (kernel(*given), kernel(*map(opened.buffer, given)).read()):
        assert (found.dtype, found.shape) == (want.dtype, want.shape)
        assert np.array_equal(found, want)


EMPTY = [
    ((0, 4), (4, 3)),
    ((3, 4), (4, 0)),
    ((0, 3, 4), (4, 5)),
    ((0, 3, 4), (0, 4, 5)),
    ((3, 0), (0, 5)),
    ((2, 0, 0), (2, 0, 5)),
]


@pytest.mark.parametrize("out", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("of_a", "of_b"), EMPTY, ids=str)
def test_arrays_without_elements_give_what_numpy_gives(
    opened: Driver, of_a: tuple[int, ...], of_b: tuple[int, ...], out: str
) -> None:
    kernel = kernels.matmul(opened, "float16", out_dtype=out)
    arrays = np.zeros(of_a, np.float16), np.zeros(of_b, np.float16)
    want = np.matmul(*(one.astype(np.float32) for one in arrays))
    for found in (kernel(*arrays), kernel(*map(opened.buffer, arrays)).read()):
        assert (found.shape, found.dtype.name, np.count_nonzero(found)) == (want.shape, out, 0)


def test_a_sum_of_nothing_is_still_biased_and_activated(opened: Driver) -> None:
    kernel = kernels.linear(opened, "float16", residual=True, activation="relu")
    x, weight = np.zeros((3, 0), np.float16), np.zeros((4, 0), np.float16)
    bias, residual = np.array([-2, -1, 1, 2], np.float16), np.full((3, 4), 8, np.float16)
    found = kernel(x, weight, bias, residual, scale=3.0)
    assert (found.dtype, found.tolist()) == (np.float16, [[8.0, 8.0, 9.0, 10.0]] * 3)


def test_nan_and_infinities_come_out_where_numpy_has_them(opened: Driver) -> None:
    for asked in (ASKED[0], ASKED[3], ASKED[11]):
        definition = product(**asked)
        description = definition.description
        (a, b, *more), _ = definition.example((1, 40, 33, 50), 1)
        (a if not description.a_transposed else a.T)[[3, 20, 21], [5, 7, 8]] = np.nan, np.inf, -np.inf
        (b if not description.b_transposed else b.T)[9, 11] = np.inf
        for parts in (1, 4):
            chosen = smallest(made(opened, definition), parts)
            assert wrong_on(opened, definition, chosen, a, b, *more) is None


@pytest.mark.parametrize("out", ["float16", "bfloat16"])
def test_what_is_beyond_the_type_of_the_result_is_infinite(opened: Driver, out: str) -> None:
    large = 60000 if out == "float16" else np.finfo(np.float32).max
    a = np.array([[large, large], [large, 0], [-large, -large]], np.float32)
    b = np.array([[1, 0], [1, 1]], np.float32)
    found = kernels.matmul(opened, "float32", out_dtype=out)(a, b).astype(np.float64)
    finite = float(rounded(np.array([large], np.float64), *of_type(out))[0])
    assert found.tolist() == [[np.inf, finite], [finite, 0.0], [-np.inf, -finite]]


def test_results_are_rounded_to_the_nearest_bfloat16_and_ties_to_even(opened: Driver) -> None:
    numbers = np.array([[1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, -1 - 2.0**-8, 3.4e38, np.nan, 0.0]], np.float32)
    one = np.ones((1, 1), np.float32)
    found = kernels.matmul(opened, "float32", out_dtype="bfloat16")(one, numbers)
    assert found.dtype == BFLOAT16
    assert np.array_equal(found, numbers.astype(BFLOAT16), equal_nan=True)


def of_type(name: str) -> tuple[Any, np.dtype[Any]]:
    definition = product("float32", out_dtype=name)
    dtype = BFLOAT16 if name == "bfloat16" else np.dtype(name)
    return definition.description.result.out, dtype


# What PyTorch has for each, in float32: gelu and silu of minus infinity are NaN there.
X = [np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 3.0e38, -3.0e38, -100.0, 100.0, 1e-30, -1e-30, -6.0]
ACTIVATED: dict[str, list[float]] = {
    "relu": [np.nan, np.inf, 0, 0, 1, 0, 3e38, 0, 0, 100, 1e-30, 0, 0],
    "silu": [np.nan, np.inf, np.nan, 0, 0.73105858, -0.26894142, 3e38, 0, 0, 100, 5e-31, -5e-31, -0.014835738],
    "gelu": [np.nan, np.inf, np.nan, 0, 0.84134475, -0.15865525, 3e38, 0, 0, 100, 5e-31, -5e-31, -5.9195e-9],
}


@pytest.mark.parametrize("activation", ACTIVATED)
def test_activations_of_extremes_are_pytorchs(opened: Driver, activation: str) -> None:
    kernel = kernels.matmul(opened, "float32", activation=activation, require=None)
    found = kernel(np.array(X, np.float32).reshape(-1, 1), np.ones((1, 1), np.float32)).reshape(-1)
    want = np.array(ACTIVATED[activation], np.float32)
    finite = np.isfinite(want)
    assert np.array_equal(np.isnan(found), np.isnan(want))
    assert np.array_equal(found[~finite & ~np.isnan(want)], want[~finite & ~np.isnan(want)])
    np.testing.assert_allclose(found[finite], want[finite], rtol=1e-5, atol=1e-8)


def test_bfloat16_may_be_bits_and_the_result_is_what_the_operands_are(opened: Driver) -> None:
    definition = product(**ASKED[3])
    kernel = made(opened, definition)
    arrays, _ = definition.example((1, 7, 9, 11), 4)
    assert {one.dtype for one in arrays} == {BFLOAT16}
    of_bits = kernel(*(one.view(np.uint16) for one in arrays))
    of_numbers = kernel(*arrays)
    assert (of_bits.dtype, of_numbers.dtype) == (np.uint16, BFLOAT16)
    assert np.array_equal(of_bits, of_numbers.view(np.uint16))
    assert wrong(definition, of_bits, *(one.view(np.uint16) for one in arrays)) is None


def test_resident_buffers_parts_of_them_and_arrays_give_the_same(opened: Driver) -> None:
    definition = product("float16", out_dtype="float16", transpose_b=True, bias=True)
    kernel = made(opened, definition)
    (x, weight, bias), _ = definition.example((1, 20, 24, 40), 5)
    want = kernel(x, weight, bias)
    assert wrong(definition, want, x, weight, bias) is None
    stacked = opened.buffer(np.stack([np.zeros((64, 40), np.float16), np.concatenate([x, weight, x])]))
    at_an_offset = stacked[1, :20], opened.buffer(weight), opened.buffer(bias)
    out = opened.empty((5, 20, 24), np.float16)
    given = kernel(*at_an_offset, out=out[4])
    assert given.shape == (20, 24)
    assert np.array_equal(given.read(), want)
    assert np.array_equal(out[4].read(), want)
    host = np.empty_like(want)
    assert kernel(x, at_an_offset[1], bias, out=host) is host
    assert np.array_equal(host, want)
    assert np.array_equal(kernel(scattered(x), scattered(weight), scattered(bias)), want)


def test_a_bound_product_runs_again_on_what_its_buffers_hold_then(opened: Driver) -> None:
    kernel = kernels.matmul(opened, "int8", transpose_b=True)
    a, b = (np.random.default_rng(seed).integers(-9, 9, (6, 70), np.int8) for seed in (1, 2))
    buffers, out = [opened.buffer(a), opened.buffer(b)], opened.empty((6, 6), np.int32)
    for parts in (1, 2):
        bound = kernel.bind(*buffers, out=out, candidate=smallest(kernel, parts))
        for given in (a, b):
            buffers[0].write(given)
            bound.run()
            assert np.array_equal(out.read(), given.astype(np.int32) @ b.T.astype(np.int32))
        bound.close()


def test_a_product_is_not_written_over_its_operands(opened: Driver) -> None:
    kernel = kernels.linear(opened, "float16", bias=False, residual=True)
    square = [opened.buffer(np.ones((8, 8), np.float16)) for _ in range(3)]
    for over, name in enumerate(("x", "weight", "residual")):
        with pytest.raises(InvalidInput) as caught:
            kernel(*square, out=square[over])
        assert str(caught.value) == (
            f"linear reads {name} after it began to write out, and both are one buffer. Fix: give another buffer as out."
        )


def test_more_matrices_than_the_grid_is_deep_are_refused_before_anything_is_made(opened: Driver) -> None:
    kernel = kernels.matmul(opened, "int8")
    most = opened.device.limits.max_compute_work_group_count[2]
    one = np.zeros((1, 1, 1), np.int8)
    many = np.broadcast_to(one, (most + 1, 1, 1))
    operands = kernel.definition.operands((many, many))
    with pytest.raises(LimitExceeded) as caught:
        kernel.definition.plan(kernel.definition.call(operands, {}, smallest(kernel, 1), kernel.device))
    assert str(caught.value) == (
        f"{most + 1} matrices were to be multiplied, and the device takes {most} at once. "
        f"Fix: multiply at most {most} matrices at once."
    )
    found = kernel(np.broadcast_to(one, (70000, 1, 1)), one[0])  # those of a alone are rows of one
    assert (found.shape, np.count_nonzero(found)) == ((70000, 1, 1), 0)


def test_int8_sums_as_many_products_as_int32_holds_and_no_more(opened: Driver) -> None:
    kernel = kernels.matmul(opened, "int8")
    most = 131_071
    least = np.full((1, most + 1), -128, np.int8)
    found = kernel(least[:, :most], least[:, :most].T)
    assert found.tolist() == [[16384 * most]]
    with pytest.raises(LimitExceeded) as caught:
        kernel(least, least.T)
    assert str(caught.value) == (
        "matmul would sum 131072 products of int8 as int32, which holds the sum of any 131071. "
        "Fix: multiply parts of at most 131071 along k, and add them as int64."
    )


def test_that_a_device_has_no_matrices_is_told_once_and_refused_where_they_are_required(
    opened: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "_said", set())
    lacking = [(dtype, made(opened, product(dtype)).definition) for dtype in ("float16", "bfloat16", "int8")]
    lacking = [one for one in lacking if not one[1].is_on_matrices(made(opened, one[1]).device)]
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        for dtype, _ in lacking * 2:
            kernels.matmul(opened, dtype)
        kernels.matmul(opened, "float32", transpose_a=True)
    why = f"{opened.device.name!r} has no cooperative matrices of %s, or is open without their features"
    told = [(one.category, str(one.message), one.filename) for one in caught_warnings]
    slower = "it is multiplied on ordinary units, which are slower"
    assert told == [(kernels.PerformanceWarning, f"{why % dtype}: {slower}", __file__) for dtype, _ in lacking]
    for dtype in (*(dtype for dtype, _ in lacking), "float32"):
        with pytest.raises(UnsupportedFeature) as caught:
            kernels.matmul(opened, dtype, require="tensor")
        assert str(caught.value) == (
            f"matmul is to run on tensor cores, and {why % dtype}. "
            "Fix: leave require out to run it on ordinary units, or choose another device."
        )


@thorough
@pytest.mark.parametrize("asked", ASKED, ids=named)
def test_every_extreme_of_the_space_is_right(opened: Driver, asked: dict[str, Any]) -> None:
    definition = product(**asked)
    kernel = made(opened, definition)
    if definition.is_on_matrices(kernel.device):
        pytest.skip("the module of each candidate takes long to compile: test_device_product_matrices.py has some")
    tiles = itertools.groupby(kernel.candidates, key=lambda one: (one["TILE_X"], one["TILE_Y"]))
    for _, group in tiles:
        *_, last = group
        arrays, _ = definition.example((2, 65, 70, 530), 3)
        assert wrong_on(opened, definition, last, *arrays) is None, last


class SlightlyWrong(Product):
    """A product of which the candidates with two parts of k are 5 % too large."""

    sizes = ((1, 16, 32, 2048),)

    def space(self, device: DeviceFacts) -> TuningSpace:
        whole = Product.space(self, device)
        kept = {"TILE_X": (64,), "TILE_Y": (64,), "SPLIT_K": (1, 2, 4)}
        axes = [replace(one, values=kept.get(one.constant, one.values[:1])) for one in whole.axes]
        return replace(whole, axes=tuple(axes))

    def plan(self, call: Call) -> Plan:
        return Product.plan(self, replace(call, parameters={"scale": 1.05 if call.candidate["SPLIT_K"] == 2 else 1.0}))


@pytest.mark.parametrize("dtype", [np.dtype(np.uint16), BFLOAT16], ids=["bits, as without ml_dtypes", "numbers"])
def test_a_wrong_candidate_is_found_among_bits_too(
    opened: Driver, dtype: np.dtype[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vyre_driver.kernels.products.dtype_of", lambda one: dtype if one.is_bfloat else dtype_of(one))
    asked = product("bfloat16", out_dtype="bfloat16", transpose_b=True)
    kernel = made(opened, SlightlyWrong("slightly_wrong", asked.description, asked.inputs))
    assert {one.dtype for one in kernel.definition.example(SlightlyWrong.sizes[0], 1)[0]} == {dtype}
    found = tune(kernel, budget=Budget(seconds=20, min_samples=2, max_samples=4))
    assert found.outcomes[0].candidate["SPLIT_K"] == 4  # what runs untuned comes first
    assert {one.candidate["SPLIT_K"]: one.status is Status.WRONG for one in found.outcomes} == {1: False, 2: True, 4: False}


def test_a_record_takes_the_place_of_what_runs_untuned(opened: Driver) -> None:
    kernel = kernels.matmul(opened, "int8")
    size = (1, 20, 24, 64)
    assert kernel.candidate(size) == kernel.definition.untuned(kernel.candidates, size)
    other = next(one for one in kernel.candidates if one["SPLIT_K"] == 8 and one["TILE_X"] == 32)
    record = kernel.target.record(other, 10**6, 100, size_text(kernel.definition.size_class(size)))
    opened.tuning.keep(kernel.target, record, replace=True)
    kernel.forget()
    assert kernel.candidate(size) == other
    a, b = np.ones((20, 64), np.int8), np.ones((64, 24), np.int8)
    assert np.array_equal(kernel(a, b), np.full((20, 24), 64))
    assert kernel.constants == dict(other.constants)
