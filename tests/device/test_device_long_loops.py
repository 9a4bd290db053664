"""Included kernels at sizes at which one invocation would make more turns than llvmpipe allows."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import kernels
from vyre_driver.kernels import PerformanceWarning
from vyre_driver.kernels.attention import Attention

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_attention_over_sixty_thousand_keys_of_equal_weight_is_their_mean(layered: Driver, dtype: str) -> None:
    keys = 60_000
    values = np.ones((1, keys, 16), dtype)
    values[:, keys // 2 :] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceWarning)  # of devices without matrices of this type
        attend = kernels.attention(layered, dtype)
    found = attend(np.zeros((1, 1, 16), dtype), np.zeros((1, keys, 16), dtype), values)
    np.testing.assert_allclose(np.asarray(found, np.float64), 0.5, atol=1e-3)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_over_parts_of_the_keys_has_the_bits_of_one_over_all(
    layered: Driver, monkeypatch: pytest.MonkeyPatch, *, is_causal: bool
) -> None:
    dice = np.random.default_rng(7)
    q, k, v = (dice.standard_normal((2, 4, rows, 40)).astype(np.float32) for rows in (21, 700, 700))
    found = []
    for most in (10**9, 500):
        monkeypatch.setattr(sys.modules[Attention.__module__], "_MOST_TURNS", most)
        attend = kernels.attention(layered, "float32", is_causal=is_causal)
        found.append(attend(q, k, v, **({"shift": 300} if is_causal else {})).tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products_of_more_than_a_million_along_k_are_right(layered: Driver, dtype: str) -> None:
    k = 1_200_000
    dice = np.random.default_rng(5)
    a, b = dice.integers(-2, 3, (2, k)).astype(dtype), dice.integers(-2, 3, (k, 3)).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceWarning)
        multiply = kernels.matmul(layered, dtype)
    np.testing.assert_array_equal(multiply(a, b), a.astype(np.float64) @ b.astype(np.float64))
