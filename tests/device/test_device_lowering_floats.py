"""Floats at the edges of what lowered code leaves out: subnormals that are moved, then computed with; sums close to a tie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import Driver
from vyre_driver.backends.reference import interpret
from vyre_driver.ir import (
    BinOp,
    BufferDecl,
    DataType,
    Program,
    assign,
    barrier,
    binop,
    cast,
    f32,
    fma,
    gid_x,
    if_,
    let,
    load,
    loop,
    select,
    store,
    var,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from vyre_driver.ir.expressions import Expr

pytestmark = pytest.mark.device
F32, U32 = DataType.F32, DataType.U32
GIVEN = np.array([1e-40, -1e-40, 1.1754942e-38, 1.1754944e-38, -0.0, 1.0, 3e-39, -2.5], np.float32)
COUNT = len(GIVEN)
ARRAYS = GIVEN, np.zeros_like(GIVEN), np.zeros_like(GIVEN)
IN = BufferDecl.read("in", 0, F32).with_count(COUNT)
OUT, COPY = (BufferDecl.read_write(name, place, F32).with_count(COUNT) for place, name in enumerate(("out", "copy"), 1))
TILE = BufferDecl.workgroup("tile", COUNT, F32)
OWN, LARGE = gid_x(), f32(2.0**100)  # what makes a subnormal that was not flushed a large number


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver(allow_software=True, cache=tmp_path_factory.mktemp("pipelines")) as driver:
        yield driver


def agree(driver: Driver, program: Program, *inputs: NDArray[np.float32]) -> None:
    """The device gives the reference's bits, but for which NaN it is."""
    with np.errstate(all="ignore"):
        wanted = interpret(program, inputs, grid=(-(-len(inputs[0]) // program.workgroup_size[0]), 1, 1)).outputs
    found = driver.compile(program)(*inputs)
    for one, other in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
        np.testing.assert_array_equal(*(np.where(np.isnan(side), 0, side.view(np.uint32)) for side in (one, other)))


@pytest.mark.parametrize(
    "first",
    [
        lambda: f32(1e-40),
        lambda: cast(F32, load(IN, OWN)),
        lambda: cast(F32, cast(F32, load(IN, OWN))),
        lambda: cast(F32, select(OWN < 4, load(IN, OWN), f32(1.0))),
        lambda: cast(F32, var("moved", F32)),
        lambda: load(IN, OWN),
        lambda: load(IN, OWN) * 0.5,
        lambda: cast(F32, OWN),
    ],
)
def test_a_variable_that_got_a_subnormal_keeps_it_and_is_computed_with_as_zero(
    opened: Driver, first: Callable[[], Expr]
) -> None:
    held, last = var("held", F32), var("last", F32)
    body = [
        let("moved", load(IN, OWN)),
        let(last, 0.0),
        let(held, first()),
        loop("k", 0, 3, [assign(last, held * LARGE), if_(var("k", U32).eq(7), [assign(held, held + 1.0)])]),
        store(OUT, OWN, last),
        store(COPY, OWN, held),
    ]
    agree(opened, Program.wrapped([IN, OUT, COPY], (COUNT, 1, 1), body), *ARRAYS)


@pytest.mark.parametrize("is_copied", [False, True])
def test_workgroup_memory_keeps_subnormals_where_they_can_be_seen(opened: Driver, *, is_copied: bool) -> None:
    other = (OWN + 1) & (COUNT - 1)
    computed = store(OUT, OWN, fma(load(TILE, other), LARGE, load(TILE, OWN) * LARGE))
    copied = store(COPY, OWN, load(TILE, other) if is_copied else load(IN, other))
    body = [store(TILE, OWN, load(IN, OWN)), barrier(), computed, copied]
    agree(opened, Program.wrapped([IN, OUT, COPY, TILE], (COUNT, 1, 1), body), *ARRAYS)


@pytest.mark.parametrize("way", ["select", "variable", "another index"])
def test_workgroup_memory_that_is_moved_before_it_is_computed_with_keeps_its_bits(opened: Driver, way: str) -> None:
    value = load(TILE, OWN)
    moved = {"select": select(OWN < 4, value, f32(2.0)), "variable": var("held", F32), "another index": load(TILE, OWN ^ 1)}[
        way
    ]
    body = [
        store(TILE, OWN, load(IN, OWN)),
        barrier(),
        let("held", value if way == "variable" else f32(0.0)),
        store(OUT, OWN, moved * LARGE),
        store(COPY, OWN, moved),
    ]
    agree(opened, Program.wrapped([IN, OUT, COPY, TILE], (COUNT, 1, 1), body), *ARRAYS)


def near_ties(seed: int, count: int) -> list[NDArray[np.float32]]:
    """Products and addends of few bits, so that sums lie on ties or a little beside, about 1, about 2**-126 and 2**128."""
    rng = np.random.default_rng(seed)
    found = []
    for scale, spread in ((0, 60), (-63, 30), (63, 30)):
        parts = [(1 + 2.0 ** -rng.integers(0, 24, count)) * rng.choice([-1, 1], count) for _ in range(3)]
        powers = [scale + rng.integers(-2, 3, count), scale + rng.integers(-2, 3, count)]
        powers.append(2 * scale + rng.integers(-spread, spread + 1, count))
        with np.errstate(all="ignore"):
            found.append([np.ldexp(part, power).astype(np.float32) for part, power in zip(parts, powers, strict=True)])
    # A hair below the middle of the largest subnormal and the least normal number, which is a tie in f64.
    edge = np.float32(-8_390_656 * 2.0**-98), np.float32(16_773_121 * 2.0**-99), np.float32(2.0**-126)
    found.append([np.array([one, sign * one], np.float32) for one, sign in zip(edge, (1, -1, -1), strict=True)])
    return [np.concatenate(side) for side in zip(*found, strict=True)]


@pytest.mark.parametrize("seed", range(4))
def test_an_fma_near_a_tie_rounds_once(opened: Driver, seed: int) -> None:
    inputs = near_ties(seed, 1 << 14)
    count = len(inputs[0])
    buffers = [BufferDecl.read(f"in{place}", place, F32).with_count(count) for place in range(3)]
    out = BufferDecl.output("out", 3, F32).with_count(count)
    body = [if_(count > OWN, [store(out, OWN, fma(*(load(one, OWN) for one in buffers)))])]
    agree(opened, Program.wrapped([*buffers, out], (64, 1, 1), body), *inputs)


def test_sums_of_an_f32_that_is_specialized_are_each_rounded(opened: Driver) -> None:
    """NVIDIA's compiler rounds only the last of sums of constants, and has this one when a pipeline is made."""
    out = BufferDecl.output("out", 0, DataType.I32).with_count(1)
    far = binop(BinOp.ABS_DIFF, var("a", F32), f32(8388607.5)) - 2.5
    program = Program.wrapped([out], (1, 1, 1), [let("a", f32(-101.0)), store(out, 0, cast(DataType.I32, far))])
    found = [opened.compile(program, specs)().tolist() for specs in (None, {"a": -100.0})]
    assert found == [interpret(program, (), constants=specs).outputs[0].tolist() for specs in ({}, {"a": -100.0})]
    assert found[1] == [8388706]
