"""Programs that upstream 0.7 made legal: unpacking, casts of halves, stores of equal bits, reductions, common exits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from lacking_devices import lack_features

from vyre_driver import Driver
from vyre_driver.backends.reference import interpret
from vyre_driver.ir import (
    BufferDecl,
    DataType,
    Program,
    barrier,
    cast,
    gid_x,
    if_,
    lid_x,
    load,
    loop,
    return_,
    store,
    unop,
    var,
    wid_x,
)
from vyre_driver.ir.expressions import SubgroupReduce
from vyre_driver.ir.operators import BITWISE_REDUCTIONS, SubgroupOp, UnOp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from vyre_driver.ir import Expr

pytestmark = pytest.mark.device

U32, I32, U64, I64, F32, BOOL = (
    DataType.U32,
    DataType.I32,
    DataType.U64,
    DataType.I64,
    DataType.F32,
    DataType.Bool,
)
NUMPY = {U32: np.uint32, I32: np.int32, U64: np.uint64, I64: np.int64, F32: np.float32, BOOL: np.bool_}
WORDS = np.array([0, 1, 2, 0xF, 0x10, 0xF0, 0xFF, 0x1234_5678, 0x7FFF_FFFF, 0x8000_0000, 0xFEDC_BA98, 0xFFFF_FFFF], np.uint32)


@pytest.fixture(scope="module", params=[True, False], ids=["with features", "without features"])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A device with its number types, and the same without any."""
    with pytest.MonkeyPatch.context() as changed:
        if not request.param:
            lack_features(changed)
        with Driver(allow_software=True, cache=tmp_path_factory.mktemp("pipelines")) as driver:
            yield driver


def run(driver: Driver, program: Program, *arrays: NDArray[Any], **options: Any) -> NDArray[Any]:  # noqa: ANN401 -- of interpret
    """Return what a device and the reference both give."""
    results = np.asarray(driver.compile(program)(*arrays))
    (expected,) = interpret(program, list(arrays), **options).outputs
    assert (results.dtype, results.tobytes()) == (expected.dtype, np.asarray(expected).reshape(results.shape).tobytes())
    return results


def elementwise(source: DataType, target: DataType, expression: Callable[[Expr], Expr], count: int) -> Program:
    numbers, out = BufferDecl.read("numbers", 0, source), BufferDecl.output("out", 1, target).with_count(count)
    return Program.wrapped([numbers, out], (64, 1, 1), [store(out, gid_x(), expression(load(numbers, gid_x())))])


@pytest.mark.parametrize("dtype", [U32, I32], ids=str)
@pytest.mark.parametrize(
    ("op", "shift", "mask"),
    [(UnOp.UNPACK4_LOW, 0, 15), (UnOp.UNPACK4_HIGH, 4, 15), (UnOp.UNPACK8_LOW, 0, 255), (UnOp.UNPACK8_HIGH, 24, 255)],
)
def test_unpacking_takes_bits_of_a_word(opened: Driver, op: UnOp, shift: int, mask: int, dtype: DataType) -> None:
    program = elementwise(dtype, U32, lambda value: unop(op, value), len(WORDS))
    assert run(opened, program, WORDS.view(NUMPY[dtype])).tolist() == (WORDS >> shift & mask).tolist()


def test_casts_of_f16_round_to_the_nearest_and_back(opened: Driver) -> None:
    numbers = np.array([0, -0.0, 1, 1 + 2**-11, 1 + 3 * 2**-11, 65504, 65520, -1e9, np.inf, 2**-24, 2**-25, 1 / 3], np.float32)
    there = elementwise(F32, DataType.F16, lambda value: cast(DataType.F16, value), len(numbers))
    halves = run(opened, there, numbers)
    with np.errstate(over="ignore"):
        assert halves.view(np.uint16).tolist() == numbers.astype(np.float16).view(np.uint16).tolist()
    back = elementwise(DataType.F16, F32, lambda value: cast(F32, value), len(halves))
    assert run(opened, back, halves).tolist() == halves.view(np.float16).astype(np.float32).tolist()


def test_casts_of_bf16_round_to_the_nearest_and_back(opened: Driver) -> None:
    numbers = np.array([0, 1, 1 + 2**-8, 1 + 3 * 2**-8, -3.1415927, 1e30, -np.inf], np.float32)
    program = elementwise(F32, F32, lambda value: cast(F32, cast(DataType.BF16, value)), len(numbers))
    words = numbers.view(np.uint32)
    rounded = (words + 0x7FFF + (words >> 16 & 1)) >> 16 << 16
    assert run(opened, program, numbers).view(np.uint32).tolist() == rounded.tolist()


@pytest.mark.parametrize(("source", "target"), [(U32, I32), (I32, U32), (U64, I64), (I64, U64)], ids=str)
def test_a_store_keeps_the_bits_of_the_other_sign(opened: Driver, source: DataType, target: DataType) -> None:
    numbers = np.concatenate([WORDS, WORDS[::-1]]).view(NUMPY[source])
    results = run(opened, elementwise(source, target, lambda value: value, len(numbers)), numbers)
    assert (results.dtype, results.tobytes()) == (NUMPY[target], numbers.tobytes())


def test_a_truth_is_stored_as_a_word_and_a_word_as_a_truth(opened: Driver) -> None:
    truths = run(opened, elementwise(U32, BOOL, lambda value: value, len(WORDS)), WORDS)
    assert truths.view(np.uint32).tolist() == (WORDS != 0).tolist()  # a bool is a word there
    words = run(opened, elementwise(U32, U32, lambda value: value > 15, len(WORDS)), WORDS)
    assert words.tolist() == (WORDS > 15).tolist()


@pytest.mark.parametrize("dtype", [U32, I32, F32], ids=str)
@pytest.mark.parametrize("op", SubgroupOp, ids=lambda op: op.name.lower())
def test_a_subgroup_reduces_by_each_operator(opened: Driver, op: SubgroupOp, dtype: DataType) -> None:
    if dtype == F32 and op in BITWISE_REDUCTIONS:
        pytest.skip("refused: V047")
    small = np.array([1, 2, 1, 1, 3, 1, 1, 2, 5, 1, 1, 7, 4], np.int64)
    numbers = (np.resize(small, 100) * np.where(np.arange(100) % 7, 1, -1 if dtype == I32 else 1)).astype(NUMPY[dtype])
    program = elementwise(dtype, dtype, lambda value: SubgroupReduce(op, value), len(numbers))
    if dtype == F32 and op is SubgroupOp.MUL:
        numbers = np.where(np.arange(100) % 3, np.float32(1), np.float32(2))  # exact in any order
    run(opened, program, numbers, subgroup_lanes=opened.device.subgroup_size)


@pytest.mark.parametrize("op", [op for op in SubgroupOp if op is not SubgroupOp.MUL], ids=lambda op: op.name.lower())
def test_a_subgroup_reduces_numbers_of_64_bits(opened: Driver, op: SubgroupOp) -> None:
    random = np.random.default_rng(1)
    numbers = np.concatenate([random.integers(0, 2**64, 40, np.uint64), random.integers(2**63, 2**63 + 2**32, 60, np.uint64)])
    program = elementwise(U64, U64, lambda value: SubgroupReduce(op, value), len(numbers))
    run(opened, program, numbers, subgroup_lanes=opened.device.subgroup_size)


def test_the_invocations_of_a_workgroup_leave_a_loop_together(opened: Driver) -> None:
    """The deciding number is loaded after a barrier, from memory that the workgroup shares."""
    flag, out = BufferDecl.workgroup("flag", 1, U32), BufferDecl.output("out", 0, U32).with_count(256)
    turn = var("turn", U32)
    body = [
        loop(
            "turn",
            0,
            8,
            [
                barrier(),
                if_(lid_x().eq(0), [store("flag", 0, turn.eq(wid_x() + 2))]),
                barrier(),
                if_(load("flag", 0), [return_()]),
                store(out, gid_x(), turn + 1),
            ],
        )
    ]
    results = run(opened, Program.wrapped([flag, out], (64, 1, 1), body))
    assert results.tolist() == np.repeat([2, 3, 4, 5], 64).tolist()
