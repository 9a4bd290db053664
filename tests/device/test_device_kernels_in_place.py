"""One buffer given for what a kernel reads and what it writes, beside arrays of the host; and memory that is shared wrongly."""

# mypy: ignore-errors

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang import In, Index, InOut, Out, bool_, elementwise, f32, i32, kernel

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device


@kernel
def combined(i: Index, a: f32, x: In[f32], y: In[f32], out: Out[f32]) -> None:
    out[i] = a * x[i] + y[i]


@kernel
def added(i: Index, x: In[f32], y: InOut[f32], z: In[f32]) -> None:
    y[i] += x[i] + z[i]


@kernel
def parted(i: Index, x: In[i32], low: Out[i32], high: Out[i32], is_even: Out[bool_]) -> None:
    low[i] = x[i] % 10
    high[i] = x[i] // 10
    is_even[i] = x[i] % 2 == 0


def test_a_buffer_is_read_and_written_beside_an_array_of_the_host(driver: Driver) -> None:
    host, there = np.full(8, 0.5, np.float32), driver.buffer(np.arange(8, dtype=np.float32))
    assert combined(2.0, there, host, there) is there
    assert combined(2.0, host, there, there) is there
    assert there.read().tolist() == [2 * k + 1.5 for k in range(8)]
    assert added(there, there, host) is there
    assert there.read().tolist() == [4 * k + 3.5 for k in range(8)]
    result = np.zeros(8, np.float32)
    assert combined(1.0, there, there, result) is result
    assert result.tolist() == [8 * k + 7.0 for k in range(8)]
    combine = elementwise(lambda x, y: x * y)
    assert combine(there, host, out=there) is there
    assert there.read().tolist() == [2 * k + 1.75 for k in range(8)]


def test_each_output_comes_back_where_it_was_given_or_is_made_on_the_host(driver: Driver) -> None:
    x = np.arange(40, 46, dtype=np.int32)
    there = driver.buffer(x)
    low, high, is_even = parted(there, low=there, is_even=np.zeros(6, bool))
    assert (low is there, type(high), is_even.dtype) == (True, np.ndarray, np.bool_)
    assert (low.read().tolist(), high.tolist(), is_even.tolist()) == ([0, 1, 2, 3, 4, 5], [4] * 6, [True, False] * 3)
    words = driver.buffer(np.zeros(6, np.uint32))
    low, high, is_even = parted(x, is_even=words)
    assert (type(low), type(high), is_even is words) == (np.ndarray, np.ndarray, True)
    assert (low.tolist(), words.read().tolist()) == ([0, 1, 2, 3, 4, 5], [1, 0] * 3)
    assert [type(one) for one in parted(driver.buffer(x))] == [Buffer] * 3


@kernel
def first_two(i: Index, x: In[f32], y: Out[f32], z: Out[f32], flags: Out[bool_]) -> None:
    if i < 2:
        y[i] = x[i]
        z[i] = x[i]
        flags[i] = x[i] > 5


@pytest.mark.parametrize("how", ["__call__", "interpret", "python"])
def test_what_is_not_written_of_an_output_stays_in_a_buffer_alone(driver: Driver, how: str) -> None:
    call, x = getattr(first_two, how), np.ones(4, np.float32)
    host, there, flags = (
        np.full(4, 7, np.float32),
        driver.buffer(np.full(4, 7, np.float32)),
        driver.buffer(np.ones(4, np.uint32)),
    )
    call(x, there, host, flags)
    assert (there.read().tolist(), host.tolist(), flags.read().tolist()) == ([1, 1, 7, 7], [1, 1, 0, 0], [0, 0, 1, 1])
    resident = driver.buffer(x * 2)
    y, z, made = call(resident, y=there)
    assert (y.read().tolist(), z.read().tolist(), made.read().tolist()) == ([2, 2, 7, 7], [2, 2, 0, 0], [0, 0, 0, 0])
    assert call(resident, resident, there, flags)[0].read().tolist() == [2, 2, 2, 2]  # in place


def test_memory_that_two_outputs_share_is_refused_in_the_words_of_the_kernel(driver: Driver) -> None:
    x = np.zeros(8, np.int32)
    host, there, flags = np.zeros(12, np.int32), driver.zeros(12, np.int32), np.zeros(8, bool)
    for given, low, high in ((x, host[:8], host[4:]), (x, there[:8], there[:8]), (driver.buffer(x), there[:8], there[4:])):
        with pytest.raises(InvalidInput) as refused:
            parted(given, low, high, flags)
        assert str(refused.value) == (
            "low and high of parted share memory, and both are written. Fix: give each an array of its own."
        )


def test_a_part_of_what_is_read_is_not_written(driver: Driver) -> None:
    there, words = driver.zeros(12, np.int32), driver.zeros(8, np.uint32)
    for call in (parted, parted.bind, parted.interpret):
        with pytest.raises(InvalidInput) as refused:
            call(there[:8], there[4:], driver.zeros(8, np.int32), words)
        assert str(refused.value) == (
            "x and low of parted share a part of their memory, and low is written. Fix: give each a buffer of its own "
            "(copy.copy), or the same buffer for both where each invocation reads only what it writes."
        )
