"""Kernels of which a device's compiler made something else while it had integers of 64 bits to work with.

docs/decisions/0038-64-bits-are-pairs-of-words.md; each is what was left of a random kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from device_floats import device_differences

from vyre_driver.lang import In, Index, InOut, bitcast, cdiv, f64, i32, i64, trunc_rem, u32, u64

if TYPE_CHECKING:
    import types

EDGES = [16, -3878758800614872794, 12, 280537929605537166, 2, 4, 11, -1, 0, 7, 3, -2, 2**62, 2**62 + 3, -(2**62) - 1, 2**63 - 1]
X = np.array([*EDGES, -(2**63), 2**63 - 2], np.int64)
GIVEN = np.arange(X.size, dtype=np.uint32) * 5


def a_sum_that_wraps_is_compared(a: Index, x: In[i64], y: InOut[u32]) -> None:
    v = x[a]
    if v + v >= 7:
        return
    y[a] ^= u32(cdiv(v, v))


def a_bit_times_ones_is_divided_by_itself(a: Index, x: In[i64], y: InOut[u32]) -> None:
    v = 4294967295 * (x[a] & 1)
    q = v / v
    if q:  # noqa: SIM108 -- an if is what this is about
        w = v**2
    else:
        w = v  # noqa: F841 -- of no use, and what is left of it did harm
    y[a] ^= u32(v)


def a_quotient_by_the_bits_of_an_f64(a: Index, x: In[i64], y: InOut[u32]) -> None:
    y[a] ^= u32(x[a] // bitcast(i64, f64(0.1)) & 1)


def a_bit_of_one_of_two_constants_beside_a_remainder(a: Index, x: In[i64], y: InOut[u32]) -> None:
    v = i32(0)
    for _ in range(2):
        v |= -3 if v <= a else 0
    r = trunc_rem(x[a], -x[a])
    v &= 1
    y[a] ^= u32(v) ^ u32(r)


def the_bits_of_an_f64_are_compared(a: Index, x: In[i64], y: InOut[u32]) -> None:
    v = bitcast(i64, f64(u64(x[a]))) << 1
    w = i32(3)
    if not 9223372036854775807 >= v < 1099511627776:
        w = i32(a)
    y[a] ^= u32(w)


@pytest.mark.device
@pytest.mark.parametrize(
    "function",
    [
        a_sum_that_wraps_is_compared,
        a_bit_times_ones_is_divided_by_itself,
        a_quotient_by_the_bits_of_an_f64,
        a_bit_of_one_of_two_constants_beside_a_remainder,
        the_bits_of_an_f64_are_compared,
    ],
    ids=lambda one: one.__name__,
)
def test_a_device_gives_what_the_reference_gives(function: types.FunctionType) -> None:
    assert device_differences(function, {"x": X.copy(), "y": GIVEN.copy()}, (X.size,)) == []
