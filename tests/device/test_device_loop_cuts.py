"""Loops that llvmpipe ends early: what is wrong is an error, and what is right is never refused."""

# ruff: noqa: ANN001, ANN201, ANN202, SIM113 -- kernels return nothing, and have no enumerate
# mypy: ignore-errors

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from loop_limits import LIMIT, skip_unless_limited

from vyre_driver.errors import LoopCut
from vyre_driver.lang import Group, In, Index, InOut, Out, atomic_add, f32, i32, i64, kernel

pytestmark = pytest.mark.device


@kernel(over="out")
def counts(i: Index, n: In[i32], out: Out[i32]):
    t = 0
    for _ in range(n[i]):
        t += 1
    out[i] = t


@kernel(over="out")
def waits(i: Index, n: In[i32], out: Out[i32]):
    t, most = 0, n[i]
    while t < most:
        t += 1
    out[i] = t


@kernel(over="out")
def waits_for_memory(i: Index, n: In[i32], out: Out[i32]):
    t = 0
    while t < n[i]:
        t += 1
    out[i] = t


@kernel(over="out")
def differs(i: Index, n: In[i32], out: Out[i32]):
    t, most = 0, n[i]
    while t != most and t >= 0:
        t += 1
    out[i] = t


@kernel(over="out")
def waits_in_f32(i: Index, n: In[i32], out: Out[i32]):
    t, most = 0.0, f32(n[i])
    while t < most:
        t += 1.0
    out[i] = i32(t)


@kernel(over="out")
def waits_in_i64(i: Index, n: In[i32], out: Out[i32]):
    t, most = i64(0), i64(n[i])
    while t < most:
        t += 1
    out[i] = i32(t)


@kernel(over="out")
def breaks(i: Index, n: In[i32], out: Out[i32]):
    t = 0
    for _ in range(100_000):
        if t == n[i]:
            break
        t += 1
    out[i] = t


@kernel(over="out")
def returns(i: Index, n: In[i32], out: Out[i32]):
    t = 0
    for _ in range(100_000):
        if t == n[i]:
            out[i] = t
            return
        t += 1
    out[i] = -1


@kernel(over="out")
def counts_twice(i: Index, n: In[i32], out: Out[i32]):
    t, half = 0, n[i] // 2
    for _ in range(half):
        t += 1
    for _ in range(n[i] - half):
        t += 1
    out[i] = t


@kernel(over="out", checks=True)
def checked(i: Index, n: In[i32], out: Out[i32]):
    t = 0
    for _ in range(n[i]):
        t += 1
    out[i] = t


def helper(most):
    t = 0
    for _ in range(most):
        t += 1
    return t


@kernel(over="out")
def calls(i: Index, n: In[i32], out: Out[i32]):
    half = n[i] // 2
    out[i] = helper(half) + helper(n[i] - half)


KERNELS = [
    counts, waits, waits_for_memory, differs, waits_in_f32, waits_in_i64, breaks, returns, counts_twice, checked, calls,
]  # fmt: skip


@pytest.fixture(autouse=True)
def _is_limited(driver) -> None:
    skip_unless_limited(driver)


@pytest.fixture(params=KERNELS, ids=lambda one: one.__name__)
def counting(request):
    return request.param


def run(kernel, driver, turns):
    n = np.array(turns, np.int32)
    return kernel.on(driver)(n, np.zeros_like(n)).tolist()


def test_sixty_thousand_turns_are_right(counting, driver) -> None:
    assert run(counting, driver, [60_000] * 9 + [5, 0, 60_000, 1]) == [60_000] * 9 + [5, 0, 60_000, 1]


def test_seventy_thousand_turns_are_an_error(counting, driver) -> None:
    with pytest.raises(LoopCut) as caught:
        run(counting, driver, [70_000] * 3)
    name, device = counting.__name__, driver.device.name
    assert str(caught.value) == (
        f"the driver of {device!r} has ended a loop of kernel {name!r} before its condition failed, and the results are wrong: "
        "it leaves every loop once all loops of an invocation have made 65,535 turns together, where those of the invocations "
        "beside it count, and those that %, // and math.fmod are made of. Fix: have each invocation make fewer turns, by "
        "several calls or more invocations for parts of the range, or use another device."
    )
    assert caught.value.context == {"limit": LIMIT}


@pytest.mark.parametrize("kernel", [counts, waits, differs, waits_in_f32, waits_in_i64], ids=lambda one: one.__name__)
def test_as_many_turns_as_the_limit_are_right_and_one_more_is_an_error(kernel, driver) -> None:
    assert run(kernel, driver, [LIMIT, 7]) == [LIMIT, 7]
    with pytest.raises(LoopCut):
        run(kernel, driver, [LIMIT + 1, 7])


def test_a_call_after_one_that_was_cut_is_right(driver) -> None:
    with pytest.raises(LoopCut):
        run(counts, driver, [70_000, 7])
    assert run(counts, driver, [60_000, 7]) == [60_000, 7]


def test_only_the_sum_of_turns_counts_for_loops_in_loops(driver) -> None:
    @kernel(over="out")
    def nests(i: Index, n: In[i32], out: Out[i32]):
        t = 0
        for _ in range(n[i]):
            for _ in range(n[i]):
                t += 1
        out[i] = t

    assert run(nests, driver, [255, 3]) == [255 * 255, 9]
    with pytest.raises(LoopCut):
        run(nests, driver, [256, 3])
    with pytest.raises(LoopCut):  # by the invocation beside it
        run(nests, driver, [255, 400])


def test_loops_of_constant_lengths_share_the_limit(driver) -> None:
    @kernel(over="out")
    def long(i: Index, x: In[i32], out: Out[i32]):
        t = 0
        for _ in range(40_000):
            t += x[i]
        for _ in range(40_000):
            t += x[i]
        out[i] = t

    @kernel(over="out")
    def short(i: Index, x: In[i32], out: Out[i32]):
        t = 0
        for _ in range(30_000):
            t += x[i]
        for _ in range(30_000):
            t += x[i]
        out[i] = t

    assert run(short, driver, [1] * 5) == [60_000] * 5
    with pytest.raises(LoopCut):
        run(long, driver, [1] * 5)


def test_loops_in_a_branch_that_is_not_taken_count_a_turn_each(driver) -> None:
    @kernel(over="out")
    def skips(i: Index, n: In[i32], x: In[i32], out: Out[i32]):
        t = 0
        for _ in range(n[i]):
            t += 1
            if x[i] > 9:
                for _ in range(x[i]):
                    t += x[t]
                for _ in range(x[i] + 1):
                    t += x[t]
                for _ in range(x[i] + 2):
                    t += x[t]
        out[i] = t

    call, few, many = skips.on(driver), np.full(8, 16_000, np.int32), np.full(8, 17_000, np.int32)
    x, out = np.ones(8, np.int32), np.zeros(8, np.int32)
    assert call(few, x, out).tolist() == few.tolist()
    with pytest.raises(LoopCut):
        call(many, x, out)


def test_the_loop_of_a_remainder_counts(driver) -> None:
    @kernel(over="out")
    def wraps(i: Index, x: In[f32], n: In[i32], out: Out[f32]):
        t = 0.0
        for _ in range(n[i]):
            t += x[i] % 3.5
        out[i] = t

    x = np.full(4, 1e30, np.float32)
    call = wraps.on(driver)
    right = call(x, np.full(4, 4_000, np.int32), np.zeros(4, np.float32))
    np.testing.assert_array_equal(right, np.full(4, 4_000 * float(np.fmod(x[0], np.float32(3.5))), np.float32))
    with pytest.raises(LoopCut):
        call(x, np.full(4, 6_000, np.int32), np.zeros(4, np.float32))


def test_an_atomic_that_tries_anew_is_cut_only_where_it_is_lost(driver) -> None:
    @kernel(over="n", floats="exact")
    def adds(i: Index, n: In[i32], total: InOut[f32]):
        for _ in range(n[i]):
            pass
        atomic_add(total, 0, 1.0)

    call = adds.on(driver)
    assert call(np.full(16, 65_500, np.int32), np.zeros(1, np.float32)).tolist() == [16]
    with pytest.raises(LoopCut):
        call(np.full(16, 65_530, np.int32), np.zeros(1, np.float32))


def test_a_loop_with_a_barrier_is_watched(driver) -> None:
    @kernel
    def steps(g: Group[64], n: i32, out: Out[i32]):
        part = g.shared(i32, 64)
        part[g.local] = 0
        g.barrier()
        for _ in range(n):
            part[g.local] += 1
            g.barrier()
        out[g.index] = part[63 - g.local]

    call = steps.on(driver)
    assert call(3_000, np.zeros(64, np.int32)).tolist() == [3_000] * 64
    with pytest.raises(LoopCut):
        call(70_000, np.zeros(64, np.int32))


def test_a_program_that_has_all_buffers_of_the_device_is_run_with_a_warning(driver, monkeypatch) -> None:
    opened = driver.context.device
    limits = dataclasses.replace(opened.physical.limits, max_per_stage_descriptor_storage_buffers=2)
    monkeypatch.setattr(opened, "physical", dataclasses.replace(opened.physical, limits=limits))
    said = (
        f"the program has 2 buffers, and {opened.physical.name!r} binds 2: there is none left by which it could say that the "
        "driver has ended a loop, which it does after 65,535 turns. Fix: use 1 or fewer."
    )
    with pytest.warns(RuntimeWarning, match=f"^{re.escape(said)}$"):
        assert run(counts, driver, [60_000]) == [60_000]
