"""Programs from Driver.compile to results: the examples, guards, loops, the cache, bound buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from example_programs import example

from vyre_driver.cache.entry import Verdict
from vyre_driver.errors import InvalidInput, InvalidPushConstant, UnsupportedFeature
from vyre_driver.ir import BufferDecl, DataType, Program, assign, gid_x, if_, let, load, loop, return_, store, u32, var
from vyre_driver.lowering.emit import entry
from vyre_driver.target.config import DispatchConfig

pytestmark = pytest.mark.device

if TYPE_CHECKING:
    from vyre_driver import Driver

U32 = DataType.U32


def words(*values: int) -> Any:  # noqa: ANN401 -- an array
    return np.array(values, np.uint32)


def test_saxpy_takes_arrays_of_any_length_and_reads_zero_past_the_end_of_a_shorter_one(driver: Driver) -> None:
    kernel = driver.compile(example("saxpy", 2.0))
    x, y = np.arange(1000, dtype=np.float32), np.full(1000, 0.5, np.float32)
    short = np.concatenate([2 * x[:300], np.zeros(700, np.float32)]) + y
    assert [kernel(x, y).tolist(), kernel(x[:300], y).tolist()] == [(2 * x + y).tolist(), short.tolist()]


def test_the_histogram_counts_every_value(driver: Driver) -> None:
    values = np.random.default_rng(1).integers(0, 2**32, 10_000, dtype=np.uint32)
    found = driver.compile(example("histogram", 256))(values, np.zeros(256, np.uint32))
    assert found.tolist() == np.bincount(values % 256, minlength=256).tolist()


def test_the_tiled_product_is_the_product_or_refused_where_an_fma_cannot_round_once(driver: Driver) -> None:
    a, b = np.random.default_rng(2).integers(-8, 8, (2, 64, 64)).astype(np.float32)
    program = example("matmul", 64)
    if driver.device.driver_id == 13 and "shaderFloat64" not in driver.context.device.features:  # llvmpipe
        with pytest.raises(UnsupportedFeature, match="rounds once"):
            driver.compile(program)
        config = DispatchConfig(ulp_budget=4)
    else:
        config = None
    assert driver.compile(program, None, config)(a, b, workgroups=(4, 4)).reshape(64, 64).tolist() == (a @ b).tolist()


def test_the_prefix_sum_sums_each_block(driver: Driver) -> None:
    values = np.random.default_rng(3).integers(0, 2**32, 1024, dtype=np.uint32)
    sums, totals = driver.compile(example("prefix_sum"))(values, np.zeros(1024, np.uint32), np.zeros(4, np.uint32))
    wanted = np.cumsum(values.reshape(4, 256), axis=1, dtype=np.uint32)
    assert (sums.tolist(), totals.tolist()) == (wanted.ravel().tolist(), wanted[:, -1].tolist())


def test_a_bound_program_runs_on_resident_buffers(driver: Driver) -> None:
    kernel = driver.compile(example("saxpy", 3.0))
    x, y = driver.buffer(np.arange(100, dtype=np.float32)), driver.buffer(np.ones(100, np.float32))
    bound = kernel.bind(x, y)
    bound.run()
    bound.run()
    assert y.read().tolist() == (6 * np.arange(100, dtype=np.float32) + 1).tolist()


def test_a_hit_never_lowers(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    first = driver.compile(example("saxpy", 4.0)).trace.verdict
    monkeypatch.setattr(entry._Emitter, "__init__", None)  # noqa: SLF001 -- lowering would fail now
    second = driver.compile(example("saxpy", 4.0))
    assert (first, second.trace.verdict) == (Verdict.MISS, Verdict.HIT)
    assert second(np.ones(4, np.float32), np.ones(4, np.float32)).tolist() == [5.0] * 4


def test_binding_numbers_may_have_gaps_and_any_order(driver: Driver) -> None:
    x = BufferDecl.read("x", 7, U32)
    y = BufferDecl.output("y", 2, U32).with_count(4).with_output_byte_range((4, 12))
    found = driver.compile(Program.wrapped([x, y], (4, 1, 1), [store(y, gid_x(), load(x, gid_x()) + 1)]))(words(1, 2, 3, 4))
    assert found.tolist() == [3, 4]


@pytest.mark.parametrize("guard", ["<=", "not >", "return if >="])
def test_a_guard_that_lets_one_too_many_through_proves_nothing(driver: Driver, guard: str) -> None:
    data, kept = BufferDecl.read_write("data", 0, U32).with_count(4), BufferDecl.read_write("kept", 1, U32).with_count(4)
    i = gid_x()
    body = [store(data, i, u32(7)), store(kept, i, load(data, i) + 1)]
    nodes = {
        "<=": [if_(i <= 4, body)],
        "not >": [if_(i > 4, [], body)],
        "return if >=": [if_(i >= 5, [return_()]), *body],
    }[guard]
    found = driver.compile(Program.wrapped([data, kept], (8, 1, 1), nodes))(words(0, 0, 0, 0), words(0, 0, 0, 0))
    assert [one.tolist() for one in found] == [[7] * 4, [8] * 4]


def test_what_a_loop_assigns_and_stores_is_read_anew_in_each_turn(driver: Driver) -> None:
    data = BufferDecl.read_write("data", 0, U32).with_count(1)
    total = var("total", U32)
    body = [
        let("total", u32(1)),
        let("before", load(data, 0)),
        loop("turn", 0, 4, [assign("total", total + total), store(data, 0, load(data, 0) + total)]),
        store(data, 0, load(data, 0) + var("before", U32)),
    ]
    found = driver.compile(Program.wrapped([data], (1, 1, 1), body))(words(100))
    assert found.tolist() == [100 + 2 + 4 + 8 + 16 + 100]


def test_what_is_no_program_and_a_push_constant_are_refused(driver: Driver) -> None:
    with pytest.raises(InvalidInput, match="give a SpirvModule or a Program"):
        driver.compile("saxpy")  # type: ignore[arg-type]
    with pytest.raises(InvalidPushConstant, match="the program has no push constants, and 'count_x' was given"):
        driver.compile(example("saxpy", 2.0))(np.ones(1, np.float32), np.ones(1, np.float32), push_constants={"count_x": 1})
