"""Attention on any device is that of float64, for every type, length and head, and at extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from called_products import made, scattered, wrong, wrong_on

from vyre_driver.errors import InvalidInput, LimitExceeded
from vyre_driver.kernels.attention import attention_of
from vyre_driver.kernels.product_numbers import dtype_of, rounded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Driver
    from vyre_driver.autotune.measure.tuned import TunedKernel
    from vyre_driver.kernels.attention import Attention

pytestmark = pytest.mark.device

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
HEAD = 20  # no whole fragments: on ordinary units wherever this runs


def drawn(definition: Attention, *shapes: tuple[int, ...], seed: int = 1) -> list[NDArray[Any]]:
    """Return normally distributed q, k and v; k and v are of one shape where two are given."""
    dice, dtype = np.random.default_rng(seed), dtype_of(definition.element)
    return [rounded(dice.standard_normal(one), definition.element, dtype) for one in (*shapes, shapes[-1])[:3]]


def causal(driver: Driver) -> TunedKernel:
    return made(driver, attention_of("float16", is_causal=True))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_attention_of_any_lengths_is_that_of_float64(
    opened: Driver,
    dtype: str,
    is_causal: bool,  # noqa: FBT001 -- a case
) -> None:
    definition = attention_of(dtype, is_causal=is_causal)
    kernel = made(opened, definition)
    for batch, heads, kv_heads, queries, keys in [(2, 4, 2, 9, 130), (1, 1, 1, 1, 1), (1, 6, 1, 8, 128), (1, 2, 2, 127, 129)]:
        arrays = drawn(definition, (batch, heads, queries, HEAD), (batch, kv_heads, keys, HEAD))
        assert wrong_on(opened, definition, kernel.candidates[0], *arrays) is None, (queries, keys)


@pytest.mark.parametrize("head", [1, 3, 65, 127, 129, 200, 256])
def test_heads_have_any_number_of_elements_to_256(opened: Driver, head: int) -> None:
    definition = attention_of("float16", is_causal=False)
    arrays = drawn(definition, (2, 9, head), (1, 33, head))
    assert wrong_on(opened, definition, made(opened, definition).candidates[0], *arrays) is None


def test_larger_heads_are_refused(opened: Driver) -> None:
    kernel = made(opened, attention_of("float32", is_causal=False))
    with pytest.raises(LimitExceeded) as caught:
        kernel(*drawn(attention_of("float32", is_causal=False), (1, 2, 257), (1, 2, 257)))
    assert str(caught.value) == (
        "attention got heads of 257 elements, and takes 256. "
        "Fix: multiply with kernels.matmul, and weigh the scores with kernels.softmax."
    )


# The largest ones are beyond what a row's number may be added to in 32 bits.
SHIFTS = [-(2**31), -13, -12, -5, 0, 3, 129, 2**31 - 9, 2**31 - 1, 2**40, np.int64(117)]


@pytest.mark.parametrize("shift", SHIFTS, ids=str)
def test_a_causal_query_sees_as_many_keys_more_as_the_shift_says(opened: Driver, shift: int) -> None:
    kernel = causal(opened)
    arrays = drawn(attention_of("float16", is_causal=True), (2, 13, HEAD), (2, 130, HEAD))
    found = kernel(*arrays, shift=shift)
    assert wrong(kernel.definition, found, *arrays, shift=shift) is None
    assert [bool(found[:, row].any()) for row in range(13)] == [row + shift >= 0 for row in range(13)]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(5, 0), (0, 5), (0, 0), (1, 127), (129, 1)])
def test_without_queries_nothing_comes_out_and_without_keys_zeros(
    opened: Driver,
    queries: int,
    keys: int,
    is_causal: bool,  # noqa: FBT001 -- a case
) -> None:
    definition = attention_of("float16", is_causal=is_causal)
    kernel = made(opened, definition)
    arrays = drawn(definition, (3, queries, HEAD), (3, keys, HEAD))
    for found in (kernel(*arrays), kernel(*map(opened.buffer, arrays)).read()):
        assert wrong(definition, found, *arrays) is None
        assert bool(found.any()) == bool(queries and keys)


@pytest.mark.parametrize("shape", [(0, 2, 5, 8), (2, 0, 5, 8), (2, 2, 5, 0)], ids=str)
def test_a_batch_or_heads_without_elements_are_empty(opened: Driver, shape: tuple[int, ...]) -> None:
    kernel = made(opened, attention_of("bfloat16", is_causal=False))
    found = kernel(*(np.zeros(shape, BFLOAT16) for _ in range(3)))
    assert (found.shape, found.dtype) == (shape, BFLOAT16)


@pytest.mark.parametrize("scale", [2, 0.125, np.float32(0.5), 1e-30, 3e4])
def test_scores_are_multiplied_by_the_scale(opened: Driver, scale: float) -> None:
    definition = attention_of("float32", is_causal=False)
    arrays = drawn(definition, (2, 9, HEAD), (2, 33, HEAD))
    found = made(opened, definition)(*arrays, scale=scale)
    # Large scores differ by what float32 rounds of them, which weights are powers of.
    right = definition.expected(*arrays, scale=scale)
    np.testing.assert_allclose(found, right, rtol=0, atol=0.05 if scale == 3e4 else 1e-5)


@pytest.mark.parametrize("base", [-60000, 60000])
def test_scores_far_from_zero_are_weighed_as_in_float64(opened: Driver, base: int) -> None:
    definition = attention_of("float16", is_causal=False)
    q, k, v = drawn(definition, (1, 9, HEAD), (1, 300, HEAD))
    q[..., 0], k[..., 0] = 1, base  # exact in float32, beside whole numbers
    assert wrong_on(opened, definition, None, np.round(q), np.round(k), v, scale=1.0) is None


@pytest.mark.parametrize("far", [1.0, -1.0], ids=["rising", "falling"])
def test_scores_that_rise_or_fall_along_the_keys_are_weighed_as_in_float64(opened: Driver, far: float) -> None:
    definition = attention_of("float16", is_causal=False)
    q, k, v = drawn(definition, (1, 9, HEAD), (1, 300, HEAD))
    q[..., 0], k[..., 0] = 8, far * np.arange(300)
    assert wrong_on(opened, definition, None, q, k, v) is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_rows_with_nan_or_plus_infinity_among_their_scores_are_nan_and_no_others(opened: Driver, dtype: str) -> None:
    definition = attention_of(dtype, is_causal=False)
    q, k, v = drawn(definition, (2, 13, HEAD), (2, 150, HEAD))
    k = np.abs(k)
    q[0, 3, 5], q[1, 9, 0], q[1, 12, 1] = np.nan, np.inf, -np.inf
    found = made(opened, definition)(q, k, v)
    assert wrong(definition, found, q, k, v) is None
    assert {(int(h), int(row)) for h, row, _ in np.argwhere(np.isnan(found.astype(np.float32)))} == {(0, 3), (1, 9)}
    assert not found[1, 12].any()  # all scores are minus infinity: it sees nothing


def test_a_key_that_a_query_does_not_see_does_nothing_whatever_it_and_its_value_are(opened: Driver) -> None:
    kernel = causal(opened)
    q, k, v = drawn(attention_of("float16", is_causal=True), (1, 140, HEAD), (1, 140, HEAD))
    want = kernel(q, k, v)
    k[0, 135:], v[0, 135:] = np.nan, np.nan
    found = kernel(q, k, v)
    assert np.array_equal(found[0, :135], want[0, :135])
    assert np.isnan(found[0, 135:]).all()


def test_what_is_beyond_float16_is_infinite_and_small_weights_are_not_lost(opened: Driver) -> None:
    definition = attention_of("float16", is_causal=False)
    q, k = np.zeros((1, 3, 1), np.float16), np.zeros((1, 1000, 1), np.float16)
    v = np.full((1, 1000, 1), 65504, np.float16)
    assert made(opened, definition)(q, k, v).tolist() == [[[65504.0]] * 3]
    v[0, 7] = np.inf
    assert made(opened, definition)(q, k, v).tolist() == [[[np.inf]] * 3]


def test_bfloat16_may_be_bits(opened: Driver) -> None:
    definition = attention_of("bfloat16", is_causal=False)
    arrays = drawn(definition, (2, 9, HEAD), (1, 33, HEAD))
    kernel = made(opened, definition)
    of_bits, of_numbers = kernel(*(one.view(np.uint16) for one in arrays)), kernel(*arrays)
    assert (of_bits.dtype, of_numbers.dtype) == (np.uint16, BFLOAT16)
    assert np.array_equal(of_bits, of_numbers.view(np.uint16))
    assert wrong(definition, of_bits, *(one.view(np.uint16) for one in arrays)) is None


def test_buffers_parts_of_them_and_scattered_arrays_give_the_same(opened: Driver) -> None:
    kernel = causal(opened)
    arrays = drawn(attention_of("float16", is_causal=True), (2, 4, 32, HEAD), (2, 2, 64, HEAD))
    want = kernel(*arrays, shift=32)
    out, q = opened.empty((3, 2, 4, 32, HEAD), np.float16), opened.buffer(np.stack([arrays[0] * 0, arrays[0]]))
    given = kernel(q[1], *map(opened.buffer, arrays[1:]), shift=32, out=out[1])
    assert np.array_equal(given.read(), want)
    assert np.array_equal(out[1].read(), want)
    assert np.array_equal(kernel(*map(scattered, arrays), shift=32), want)
    with kernel.driver.empty(arrays[0].shape, np.float16) as bound_out:
        bound = kernel.bind(q[1], *map(opened.buffer, arrays[1:]), out=bound_out, shift=32)
        bound.run()
        assert np.array_equal(bound_out.read(), want)
        bound.close()


def test_attention_is_not_written_over_what_it_reads(opened: Driver) -> None:
    kernel = causal(opened)
    arrays = [opened.buffer(np.ones((1, 4, HEAD), np.float16)) for _ in range(3)]
    for over, name in enumerate("qkv"):
        with pytest.raises(InvalidInput) as caught:
            kernel(*arrays, out=arrays[over])
        assert str(caught.value) == (
            f"attention reads {name} after it began to write o, and both are one buffer. Fix: give another buffer as out."
        )


def test_a_larger_batch_than_the_grid_is_deep_is_refused(opened: Driver) -> None:
    kernel = causal(opened)
    most = opened.device.limits.max_compute_work_group_count[2]
    many = np.broadcast_to(np.zeros(1, np.float16), (most + 1, 1, 1, 1))
    operands = kernel.definition.operands((many,) * 3)
    with pytest.raises(LimitExceeded) as caught:
        kernel.definition.plan(kernel.definition.call(operands, {}, kernel.candidates[0], kernel.device))
    assert str(caught.value) == (
        f"attention got a batch of {most + 1}, and the device takes {most} at once. Fix: give parts of at most {most}."
    )
