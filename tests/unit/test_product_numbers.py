"""The numbers of products in numpy: types by name, float32 and bfloat16, and what becomes of sums."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from literals import refusal

from vyre_driver.kernels import KERNELS
from vyre_driver.kernels.common import float32_of
from vyre_driver.kernels.product_numbers import ACTIVATION_FUNCTIONS, as_float64, element_of, rounded
from vyre_driver.kernels.products import product
from vyre_driver.matrices.elements import BF16, F16
from vyre_driver.matrices.epilogue import ACTIVATIONS as EMITTED

BITS, BFLOAT16 = np.dtype(np.uint16), np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("given", ["float16", "half", "<f2", np.float16, np.dtype(np.float16), np.float16(1).dtype], ids=repr)
def test_a_type_is_named_as_numpy_takes_it(given: Any) -> None:  # noqa: ANN401 -- anything
    assert element_of(given, {"float16": F16}, "arrays") is F16


def test_bfloat16_is_a_name_and_a_type_of_ml_dtypes() -> None:
    for given in ("bfloat16", ml_dtypes.bfloat16, BFLOAT16):
        assert element_of(given, {"bfloat16": BF16}, "arrays") is BF16
    nothing = object()
    assert refusal(lambda: element_of(nothing, {"bfloat16": BF16}, "arrays"))[2] == (  # type: ignore[arg-type]
        f"there is no such kernel with arrays of {nothing!r}. Fix: give one of bfloat16."
    )


def test_a_number_becomes_a_float32_and_too_large_a_one_infinite() -> None:
    given = [2, 0.1, np.float16(0.5), np.int64(-3), Fraction(1, 4), 1e39, 10**400, -(10**400), Fraction(-(10**400))]
    wanted = [2.0, float(np.float32(0.1)), 0.5, -3.0, 0.25, math.inf, math.inf, -math.inf, -math.inf]
    assert [float32_of(one) for one in given] == wanted
    assert math.isnan(float32_of(math.nan) or 0)
    assert [float32_of(one) for one in (True, np.True_, "1", None, 1j)] == [None] * 5


EDGES = [0.0, -0.0, 1.0, -1.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, 3.38e38, 3.4e38, -3.4e38, 1e39, -1e300]
EDGES += [np.inf, -np.inf, 1e-40, 9.2e-41, -4.6e-41, 1e-46, 2.0**-133, 2.0**-134, 1.5 * 2.0**-133]


def test_numbers_become_bits_of_bfloat16_as_ml_dtypes_has_them() -> None:
    dice = np.random.default_rng(1)
    numbers = np.concatenate([EDGES, dice.standard_normal(10_000) * 10.0 ** dice.integers(-40, 39, 10_000)])
    with np.errstate(over="ignore"):
        want = numbers.astype(np.float32).astype(BFLOAT16)
    bits = rounded(numbers, BF16, BITS)
    assert np.array_equal(bits, want.view(np.uint16))
    assert np.array_equal(rounded(numbers, BF16, BFLOAT16).view(np.uint16), bits)
    assert np.array_equal(as_float64(bits, BF16), want.astype(np.float64))
    assert np.array_equal(as_float64(want, BF16), want.astype(np.float64))


def test_a_nan_stays_one_whatever_its_bits_are() -> None:
    bits = np.array([0x7FF8_0000_0000_0000, 0x7FF0_0000_0000_0001, 0xFFFF_FFFF_FFFF_FFFF, 0xFFF0_0000_2000_0000], np.uint64)
    nans = bits.view(np.float64)
    assert np.isnan(as_float64(rounded(nans, BF16, BITS), BF16)).all()
    assert np.isnan(rounded(nans, F16, np.dtype(np.float16))).all()


def test_what_is_beyond_float16_is_infinite() -> None:
    found = rounded(np.array([65519.0, 65520.0, -65520.0, 1e300]), F16, np.dtype(np.float16))
    assert found.tolist() == [65504.0, np.inf, -np.inf, np.inf]


def test_activations_in_numpy_are_the_formulas() -> None:
    x = np.linspace(-12, 12, 4801)
    gelu = np.array([one / 2 * math.erfc(-one / math.sqrt(2)) for one in x])
    assert np.abs(ACTIVATION_FUNCTIONS["gelu"](x) - gelu).max() < 1.5e-7 * 6
    np.testing.assert_allclose(ACTIVATION_FUNCTIONS["silu"](x), x / (1 + np.exp(-x)), rtol=1e-15)
    assert np.array_equal(ACTIVATION_FUNCTIONS["relu"](x), np.maximum(x, 0))
    assert np.array_equal(ACTIVATION_FUNCTIONS[None](x), x)
    assert set(ACTIVATION_FUNCTIONS) == {None, *EMITTED}
    with np.errstate(all="ignore"):
        of_nan = [np.isnan(one(np.array([np.nan])))[0] for one in ACTIVATION_FUNCTIONS.values()]
    assert of_nan == [True] * 4


def test_results_are_compared_as_numbers_where_they_are_bits() -> None:
    definition = product("bfloat16", out_dtype="bfloat16")
    bits = np.array([0x3F80, 0xBF80, 0x8000, 0x7FC0], np.uint16)
    assert np.array_equal(definition.numbers(bits), [1.0, -1.0, 0.0, np.nan], equal_nan=True)
    halves = np.array([1.5], np.float16)
    assert product("float16", out_dtype="float16").numbers(halves) is halves
    assert KERNELS["matmul"].numbers(bits) is bits
