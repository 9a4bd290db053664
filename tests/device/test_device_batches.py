"""Many dispatches in one submission: independent ones, and those that need each other's results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import SHIFT, STEP

from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import CompileText
    from numpy.typing import NDArray

    from vyre_driver import Driver

pytestmark = pytest.mark.device

LINKS = 1000


def shifted(values: NDArray[np.uint32], times: int) -> NDArray[np.uint32]:
    for _ in range(times):
        values = 3 * np.roll(values, -67) + np.uint32(1)
    return values


def steps(values: int, pairs: Sequence[tuple[int, int]]) -> int:
    for factor, summand in pairs:
        values = (factor * values + summand) % 2**32
    return values


def test_a_thousand_dispatches_that_each_need_the_one_before_give_the_right_numbers(
    driver: Driver, compiled: CompileText
) -> None:
    given = np.random.default_rng(1).integers(0, 2**32, 300, np.uint32)
    one, other = driver.buffer(given), driver.empty(300, np.uint32)
    kernel, batch = compiled(SHIFT), driver.batch()
    there, back = kernel.bind(one, other), kernel.bind(other, one)
    for _ in range(LINKS // 2):
        batch.add(there)
        batch.add(back)
    batch.run()
    np.testing.assert_array_equal(one.read(), shifted(given, LINKS), strict=True)


def test_a_thousand_dispatches_on_one_buffer_run_in_order(driver: Driver, compiled: CompileText) -> None:
    buffer = driver.buffer(np.arange(70, dtype=np.uint32))
    pairs = [(2 * number + 1, number) for number in range(10)]
    kernel = compiled(STEP)
    bound = [kernel.bind(buffer, push_constants={"factor": factor, "summand": summand}) for factor, summand in pairs]
    batch = driver.batch()
    for number in range(LINKS):
        batch.add(bound[number * 7 % 10])
    batch.run()
    order = [pairs[number * 7 % 10] for number in range(LINKS)]
    assert buffer.read().tolist() == [steps(value, order) for value in range(70)]


def test_independent_dispatches_each_do_their_own(driver: Driver, compiled: CompileText) -> None:
    kernel = compiled(STEP)
    buffers = [driver.buffer(np.full(5, number, np.uint32)) for number in range(100)]
    with driver.batch() as batch:
        for number, buffer in enumerate(buffers):
            batch.add(kernel.bind(buffer, push_constants={"factor": 2, "summand": number}))
    assert [buffer.read().tolist() for buffer in buffers] == [[3 * number] * 5 for number in range(100)]


def test_many_may_read_what_one_wrote_before_another_overwrites_it(driver: Driver, compiled: CompileText) -> None:
    shift, step = compiled(SHIFT), compiled(STEP)
    source = driver.buffer(np.full(64, 5, np.uint32))
    copies = [driver.empty(64, np.uint32) for _ in range(10)]
    with driver.batch() as batch:
        batch.add(step.bind(source, push_constants={"factor": 2, "summand": 0}))
        for copy in copies:
            batch.add(shift.bind(source, copy))
        batch.add(step.bind(source, push_constants={"factor": 0, "summand": 9}))
        batch.add(shift.bind(source, copies[0]))
    assert [one.read()[0] for one in (source, *copies)] == [9, 28] + [31] * 9


def test_a_bound_kernel_twice_in_a_batch_runs_twice(driver: Driver, compiled: CompileText) -> None:
    buffer = driver.buffer(np.ones(3, np.uint32))
    bound = compiled(STEP).bind(buffer, push_constants={"factor": 10, "summand": 1})
    with driver.batch() as batch:
        batch.add(bound)
        batch.add(bound)
    assert buffer.read().tolist() == [111] * 3


def test_a_batch_may_run_again_and_be_added_to(driver: Driver, compiled: CompileText) -> None:
    kernel, buffer = compiled(STEP), driver.buffer(np.zeros(3, np.uint32))
    batch, seen = driver.batch(), []
    batch.add(kernel.bind(buffer, push_constants={"factor": 1, "summand": 1}))
    for _ in range(2):
        batch.run()
        seen.append(int(buffer.read()[0]))
    batch.add(kernel.bind(buffer, push_constants={"factor": 100, "summand": 0}))
    batch.run()
    assert [*seen, int(buffer.read()[0])] == [1, 2, 300]


def test_a_bound_kernel_runs_alone_while_it_is_in_a_batch(driver: Driver, compiled: CompileText) -> None:
    buffer = driver.buffer(np.zeros(3, np.uint32))
    bound = compiled(STEP).bind(buffer, push_constants={"factor": 2, "summand": 1})
    batch = driver.batch()
    batch.add(bound)
    for run in (batch.run, bound.run, batch.run):
        run()
    assert buffer.read().tolist() == [7] * 3


def test_a_with_block_runs_once_at_its_end(driver: Driver, compiled: CompileText) -> None:
    buffer = driver.buffer(np.zeros(3, np.uint32))
    with driver.batch() as batch:
        batch.add(compiled(STEP).bind(buffer, push_constants={"factor": 1, "summand": 1}))
        inside = buffer.read().tolist()
    after = buffer.read().tolist()
    batch.run()
    assert (inside, after, buffer.read().tolist()) == ([0] * 3, [1] * 3, [2] * 3)


def test_a_with_block_that_raises_runs_nothing_and_the_batch_is_still_good(driver: Driver, compiled: CompileText) -> None:
    buffer = driver.buffer(np.zeros(3, np.uint32))
    batch = driver.batch()

    def fill_and_fail() -> None:
        with batch:
            batch.add(compiled(STEP).bind(buffer, push_constants={"factor": 1, "summand": 1}))
            raise LookupError("in the block")

    with pytest.raises(LookupError, match="in the block"):
        fill_and_fail()
    before = buffer.read().tolist()
    batch.run()
    assert (before, buffer.read().tolist()) == ([0] * 3, [1] * 3)


def test_a_with_block_that_adds_nothing_runs_nothing(driver: Driver) -> None:
    with driver.batch() as batch:
        pass
    with pytest.raises(InvalidInput) as refused:
        batch.run()
    assert (refused.value.code, str(refused.value)) == (2201, "the batch is empty. Fix: add a bound kernel to it.")


def test_what_is_bound_in_a_batch_outlives_the_callers_names(driver: Driver, compiled: CompileText) -> None:
    batch, seen = driver.batch(), driver.empty(4, np.uint32)

    def fill() -> None:
        source = driver.buffer(np.arange(4, dtype=np.uint32))
        batch.add(compiled(SHIFT).bind(source, seen))
        source.close()

    fill()
    driver.buffer(np.full(4, 9, np.uint32))
    batch.run()
    assert seen.read().tolist() == [10, 1, 4, 7]
