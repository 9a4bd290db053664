"""Each way to run a kernel reports a loop that llvmpipe has cut, and tells the run that was cut from those that were not."""

# ruff: noqa: ANN001, ANN201 -- kernels return nothing
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import pickle

import numpy as np
import pytest
from loop_limits import LIMIT, skip_unless_limited
from refusals import refusal

from vyre_driver import Driver
from vyre_driver.errors import LoopCut
from vyre_driver.lang import In, Index, Out, elementwise, i32, kernel, reduction, scan

pytestmark = pytest.mark.device

GOOD, CUT = 1_000, 70_000


@kernel(over="n")
def counts(i: Index, n: In[i32], out: Out[i32]):
    t = 0
    for _ in range(n[i]):
        t += 1
    out[i] = t


def turns_of(n):
    t = 0
    for _ in range(n):
        t += 1
    return t


def counted_on(total, n):
    for _ in range(n):
        total += 1
    return total


counted = elementwise(turns_of)


@pytest.fixture(autouse=True)
def _is_limited(layered) -> None:
    skip_unless_limited(layered)


def bound_to(driver, turns):
    n = driver.buffer(np.array([turns], np.int32))
    out = driver.zeros(1, np.int32)
    return counts.on(driver).bind(n, out), n, out


def test_a_future_raises_it_after_its_driver_was_closed() -> None:
    with Driver(allow_software=True) as driver:
        bound, _, _ = bound_to(driver, CUT)
        good, _, _ = bound_to(driver, GOOD)
        future, other = bound.submit(), good.submit()
    with pytest.raises(LoopCut):
        future.result()
    assert other.result() is None


def test_a_bound_kernel_raises_it_and_runs_again(driver) -> None:
    bound, n, out = bound_to(driver, CUT)
    for timeout in (None, 20.0):
        with pytest.raises(LoopCut):
            bound.run(timeout)
    n.write(np.array([GOOD], np.int32))
    bound.run()
    assert out.read().tolist() == [GOOD]


def test_of_several_submissions_under_way_the_one_that_was_cut_has_it(driver) -> None:
    bound, n, out = bound_to(driver, CUT)
    cut = [bound.submit() for _ in range(3)]
    for future in cut:
        assert isinstance(future.exception(), LoopCut)
    n.write(np.array([GOOD], np.int32))
    good = [bound.submit() for _ in range(3)]
    assert [future.result() for future in reversed(good)] == [None] * 3
    assert out.read().tolist() == [GOOD]
    assert isinstance(cut[0].exception(), LoopCut)


def test_a_future_that_is_asked_late_still_has_it(driver) -> None:
    bound, n, _ = bound_to(driver, CUT)
    first = bound.submit()
    bound_to(driver, GOOD)[0].run()  # which waits for all before it
    n.write(np.array([GOOD], np.int32))
    for _ in range(70):
        bound.submit(block=True)
    bound.run()
    assert isinstance(first.exception(), LoopCut)


def test_an_await_raises_it(driver) -> None:
    async def both() -> None:
        cut, good = bound_to(driver, CUT)[0].submit(), bound_to(driver, GOOD)[0].submit()
        await good
        with pytest.raises(LoopCut):
            await cut

    asyncio.run(both())


def test_a_batch_names_its_kernels(driver) -> None:
    batch = driver.batch()
    (good, _, out), (cut, n, _) = bound_to(driver, GOOD), bound_to(driver, CUT)
    batch.add(good)
    batch.add(cut)
    with pytest.raises(LoopCut, match="ended a loop of one of the kernels counts before its condition failed"):
        batch.run()
    good.run()  # which has a word of its own
    assert out.read().tolist() == [GOOD]
    n.write(np.array([GOOD], np.int32))
    batch.run()
    assert batch.submit().result() is None


def test_a_call_with_buffers_raises_it(driver) -> None:
    with pytest.raises(LoopCut):
        counts.on(driver)(driver.buffer(np.array([CUT], np.int32)), driver.zeros(1, np.int32))


def test_a_strict_call_raises_it() -> None:
    with Driver(strict=True) as driver, pytest.raises(LoopCut):
        counts.on(driver)(np.array([CUT], np.int32), np.zeros(1, np.int32))


def test_a_stream_raises_it_for_the_chunk_that_was_cut(driver) -> None:
    chunks = [np.full(4, turns, np.int32) for turns in (GOOD, GOOD, CUT, GOOD)]
    results = driver.stream(counts.on(driver), [{"n": chunk} for chunk in chunks])
    assert [next(results).tolist() for _ in range(2)] == [[GOOD] * 4] * 2
    with pytest.raises(LoopCut):
        next(results)


def test_elementwise_functions_reductions_and_scans_raise_it(driver) -> None:
    n = np.array([CUT, 1, 2], np.int32)
    with pytest.raises(LoopCut):
        counted.on(driver)(n)
    with pytest.raises(LoopCut):
        reduction(lambda a, b: a + b, zero=0, map=turns_of).on(driver)(n)
    with pytest.raises(LoopCut):
        scan(counted_on).on(driver)(n[::-1])


def test_an_isolated_driver_raises_it() -> None:
    with Driver(isolated=True) as driver:
        call = counts.on(driver)
        assert refusal(lambda: call(np.array([CUT], np.int32), np.zeros(1, np.int32)), LoopCut).context == {"limit": LIMIT}
        assert call(np.array([GOOD], np.int32), np.zeros(1, np.int32)).tolist() == [GOOD]
        n, out = driver.buffer(np.array([CUT], np.int32)), driver.zeros(1, np.int32)
        bound = driver.compile(counts).bind(n, out)
        with pytest.raises(LoopCut):
            bound.run()


def test_it_is_pickled_whole(driver) -> None:
    with pytest.raises(LoopCut) as caught:
        counts.on(driver)(np.array([CUT], np.int32), np.zeros(1, np.int32))
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 -- our own
    assert (str(again), again.context, again.code) == (str(caught.value), {"limit": LIMIT}, 2019)
