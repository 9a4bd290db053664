"""Programs on devices that have less: 64 bits as pairs of words, bytes and halves packed into words; and rarer operations."""

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
    Expr,
    Program,
    SubgroupAdd,
    SubgroupBallot,
    SubgroupLocalId,
    SubgroupShuffle,
    SubgroupSize,
    atomic,
    barrier,
    binop,
    boolean,
    cast,
    f32,
    gid_x,
    i32,
    if_,
    let,
    lid_x,
    load,
    loop,
    select,
    store,
    u32,
    unop,
    var,
)
from vyre_driver.ir.operators import AtomicOp, BinOp, MemoryOrdering, UnOp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

pytestmark = pytest.mark.device

U32, I32, F32, U64, BOOL = DataType.U32, DataType.I32, DataType.F32, DataType.U64, DataType.Bool
WIDE = np.array([0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 0xDEADBEEFCAFEF00D, 7, 2**40 + 3, 2**63 - 1, 2**33 - 1], np.uint64)
NARROW = {"U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16}


@pytest.fixture(scope="module", params=[True, False], ids=["with features", "without features"])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A device with its number types, and the same without any."""
    with pytest.MonkeyPatch.context() as changed:
        if not request.param:
            lack_features(changed)
        with Driver(allow_software=True, cache=tmp_path_factory.mktemp("pipelines")) as driver:
            assert ("shaderInt64" in driver.context.device.features) is request.param
            yield driver


def agree(driver: Driver, program: Program, *inputs: NDArray[Any]) -> list[NDArray[Any]]:
    """Run a program whose outputs all come in too, on the device and by the reference."""
    found = driver.compile(program)(*inputs)
    wanted = interpret(program, list(inputs)).outputs
    for one, other in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        np.testing.assert_array_equal(one, np.asarray(other).reshape(one.shape))
    return [np.asarray(one) for one in wanted]


def over_pairs(source: DataType, target: DataType, expression: Callable[[Expr, Expr], Expr]) -> Program:
    left, right = BufferDecl.read("left", 0, source), BufferDecl.read("right", 1, source)
    out = BufferDecl.read_write("out", 2, target)
    i = gid_x()
    return Program.wrapped([left, right, out], (64, 1, 1), [store(out, i, expression(load(left, i), load(right, i)))])


COMPARISONS = [BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE]


@pytest.mark.parametrize("op", [BinOp.WRAPPING_ADD, BinOp.WRAPPING_SUB, BinOp.MUL_HIGH, *COMPARISONS], ids=str)
def test_a_binary_operator_of_64_bits_gives_what_the_reference_gives(opened: Driver, op: BinOp) -> None:
    left, right = np.repeat(WIDE, len(WIDE)), np.tile(WIDE, len(WIDE))
    target, dtype = (U32, np.uint32) if op in COMPARISONS else (U64, np.uint64)
    agree(opened, over_pairs(U64, target, lambda a, b: cast(target, binop(op, a, b))), left, right, np.zeros(len(left), dtype))


@pytest.mark.parametrize("op", [UnOp.BIT_NOT, UnOp.POPCOUNT, UnOp.CLZ, UnOp.CTZ, UnOp.REVERSE_BITS], ids=str)
def test_a_unary_operator_of_64_bits_gives_what_the_reference_gives(opened: Driver, op: UnOp) -> None:
    agree(opened, over_pairs(U64, U64, lambda a, _: unop(op, a)), WIDE, WIDE, np.zeros_like(WIDE))


@pytest.mark.parametrize("target", [U32, I32, BOOL], ids=str)
def test_64_bits_are_cut_tested_chosen_and_widened_as_the_reference_does(opened: Driver, target: DataType) -> None:
    def through(a: Expr, b: Expr) -> Expr:
        return select(binop(BinOp.LT, a, b), cast(U64, cast(target, a)), b)

    agree(opened, over_pairs(U64, U64, through), WIDE, WIDE[::-1].copy(), np.zeros_like(WIDE))


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("source", [U32, I32], ids=str)
def test_narrow_elements_are_cut_and_extended_as_the_reference_does(opened: Driver, name: str, source: DataType) -> None:
    kind = getattr(DataType, name)
    words, narrow = BufferDecl.read("words", 0, source), BufferDecl.read_write("narrow", 1, kind)
    back = BufferDecl.read_write("back", 2, source)
    i = gid_x()
    body = [store(narrow, i, cast(kind, load(words, i))), store(back, i, cast(source, load(narrow, i)))]
    given = np.array([0, 1, 127, 128, 129, 255, 256, 32767, 32768, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
    size, words_dtype = len(given), np.uint32 if source == U32 else np.int32
    program = Program.wrapped([words, narrow, back], (64, 1, 1), body)
    agree(opened, program, given.view(words_dtype), np.zeros(size, NARROW[name]), np.zeros(size, words_dtype))


@pytest.mark.parametrize("name", NARROW)
def test_no_store_is_lost_beside_others_to_the_same_word(opened: Driver, name: str) -> None:
    """Invocations of different workgroups, and of one, own the parts of each word, and write them again and again."""
    kind = getattr(DataType, name)
    narrow = BufferDecl.read_write("narrow", 0, kind)
    i, k, count = gid_x(), var("k", U32), 4096
    place = (i * 1021) % count  # neighbours in memory are far apart in the grid
    body = [
        loop("k", 0, 8, [store(narrow, place, cast(kind, place * 7 + k))]),
        store(narrow, place, cast(kind, cast(U32, load(narrow, place)) + 1)),
    ]
    program = Program.wrapped([narrow.with_count(count)], (64, 1, 1), body)
    found = opened.compile(program)(np.zeros(count, NARROW[name]), workgroups=(count // 64, 1, 1))
    assert found.tolist() == (np.arange(count) * 7 + 8).astype(NARROW[name]).tolist()


@pytest.mark.parametrize("name", ["U8", "I16", "U64", "Bool", "Vec4U32", "F32"])
def test_workgroup_memory_of_any_width_begins_with_zeros_and_is_shared(opened: Driver, name: str) -> None:
    kind = getattr(DataType, name)
    shared = BufferDecl.workgroup("shared", 100, kind)
    given, first, after = (BufferDecl.read_write(one, place, kind) for place, one in enumerate(("given", "first", "after")))
    i, own = gid_x(), lid_x()
    body = [
        store(first, i, load(shared, own + 60)),
        barrier(),
        store(shared, own, load(given, i)),
        barrier(),
        store(after, i, load(shared, own ^ 5)),
    ]
    program = Program.wrapped([given, first, after, shared], (64, 1, 1), body)
    data = np.random.default_rng(4).integers(0, 2**32, 128 * kind.size_bytes // 4, np.uint32)  # type: ignore[operator]
    data = data % 2 if name == "Bool" else (data.view(np.float32) if name == "F32" else data)
    data = np.nan_to_num(data, nan=1.0, posinf=2.0, neginf=3.0) if name == "F32" else data
    whole = data.tobytes()
    found = [np.asarray(one).tobytes() for one in opened.compile(program)(whole, bytes(len(whole)), bytes(len(whole)))]
    swapped = np.frombuffer(whole, np.uint8).reshape(128, -1)[np.arange(128) ^ 5].tobytes()
    assert found == [whole, bytes(len(whole)), swapped]


ORDERINGS = [one for one in MemoryOrdering if one is not MemoryOrdering.GRID_SYNC]


@pytest.mark.parametrize("ordering", ORDERINGS, ids=str)
def test_fetch_nand_negates_the_conjunction_and_gives_what_was_there(opened: Driver, ordering: MemoryOrdering) -> None:
    data, before = BufferDecl.read_write("data", 0, U32), BufferDecl.read_write("before", 1, U32)
    nand = atomic(AtomicOp.FETCH_NAND, data, gid_x(), gid_x() * 0x9E3779B9, ordering=ordering)
    program = Program.wrapped([data, before], (64, 1, 1), [store(before, gid_x(), nand)])
    given = np.random.default_rng(5).integers(0, 2**32, 40, np.uint32)
    found = opened.compile(program)(given, np.full(64, 9, np.uint32))
    values = np.arange(40, dtype=np.uint32) * np.uint32(0x9E3779B9)
    assert [one.tolist() for one in found] == [(~(given & values)).tolist(), [*given.tolist(), *[0] * 24]]


def test_fetch_nand_of_many_invocations_loses_none(opened: Driver) -> None:
    """With all bits set a nand inverts: after an even number of them the word is as it was."""
    data = BufferDecl.read_write("data", 0, U32).with_count(3)
    nand = atomic(AtomicOp.FETCH_NAND, data, gid_x() % 3, u32(0xFFFF_FFFF))
    program = Program.wrapped([data], (64, 1, 1), [if_(gid_x() < 3 * 85, [let("before", nand)])])
    found = opened.compile(program)(np.array([1, 2, 3], np.uint32), workgroups=(4, 1, 1))
    assert found.tolist() == [0xFFFF_FFFE, 0xFFFF_FFFD, 0xFFFF_FFFC]


def test_a_weak_compare_exchange_succeeds_wherever_a_strong_one_does(opened: Driver) -> None:
    data, before = BufferDecl.read_write("data", 0, U32), BufferDecl.read_write("before", 1, U32)
    weak = atomic(AtomicOp.COMPARE_EXCHANGE_WEAK, data, gid_x(), gid_x() + 100, expected=u32(1))
    program = Program.wrapped([data, before], (64, 1, 1), [store(before, gid_x(), weak)])
    given = np.arange(32, dtype=np.uint32) % 3
    found = opened.compile(program)(given, np.zeros(32, np.uint32))
    taken = np.where(given == 1, np.arange(32) + 100, given)
    assert [one.tolist() for one in found] == [taken.tolist(), given.tolist()]


def test_subgroups_sum_vote_and_shuffle_over_as_many_as_the_device_has(opened: Driver) -> None:
    """The reference has subgroups of 32, so what is right is worked out here for the size that the device tells."""
    outs = [BufferDecl.read_write(name, place, U32) for place, name in enumerate(("sizes", "sums", "votes", "moved", "lanes"))]
    wide = BufferDecl.read_write("wide", 5, U64)
    i, lane = gid_x(), SubgroupLocalId()
    big = cast(U64, i + 0xFFFF_FFF0)
    values = [
        SubgroupSize(),
        SubgroupAdd(i * 3),
        SubgroupBallot((i % 3).eq(0)),
        SubgroupShuffle(i + 1, lane + 1),
        lane,
    ]
    body = [store(out, i, value) for out, value in zip(outs, values, strict=True)]
    program = Program.wrapped([*outs, wide], (64, 1, 1), [*body, store(wide, i, SubgroupAdd(big))])
    arrays = [np.zeros(64, np.uint32) for _ in outs]
    found = opened.compile(program)(*arrays, np.zeros(64, np.uint64), workgroups=(1, 1, 1))
    size = opened.device.subgroup_size
    index = np.arange(64)
    groups = index.reshape(-1, size)
    votes = ((groups % 3 == 0) << np.arange(size)).sum(axis=1)
    moved = np.where(index % size == size - 1, 0, index + 2)
    sums = (index.astype(np.uint32) + np.uint32(0xFFFF_FFF0)).astype(np.uint64).reshape(-1, size).sum(axis=1)
    assert [one.tolist() for one in found] == [
        [size] * 64,
        np.repeat((groups * 3).sum(axis=1), size).tolist(),
        np.repeat(votes, size).tolist(),
        moved.tolist(),
        (index % size).tolist(),
        np.repeat(sums, size).tolist(),
    ]


@pytest.mark.parametrize(
    ("dtype", "numbers", "literal"),
    [
        (U32, (3, 0, 2**32 - 1, 64), u32),
        (I32, (3, 0, -1, -(2**31)), i32),
        (F32, (0.5, 0.0, -2.0, 1e30), f32),
        (BOOL, (True, False), boolean),
    ],
    ids=["u32", "i32", "f32", "bool"],
)
def test_a_specialized_program_is_the_program_with_the_literals_of_that_let_replaced(
    opened: Driver, dtype: DataType, numbers: tuple[Any, ...], literal: Callable[[Any], Expr]
) -> None:
    """Also where the value decides what is proven: an index, a divisor, a bound of a loop, in two scopes of one name."""
    out = BufferDecl.read_write("out", 0, F32 if dtype == F32 else U32).with_count(64)
    other = BufferDecl.read_write("other", 1, U32).with_count(64)
    i, scale = gid_x(), var("SCALE", dtype)

    def program(number: object) -> Program:
        word = cast(U32, scale)
        uses: list[Any] = {
            F32: [store(out, i, cast(F32, i) * scale + 1.0)],
            BOOL: [if_(scale, [store(out, i, u32(7))], [store(out, i, u32(8))])],
        }.get(dtype, [store(other, word + i, i / word + 1), loop("k", 0, word & 7, [store(out, i, load(out, i) + i % word)])])
        there = [let(scale, literal(number)), *uses]
        return Program.wrapped([out, other], (64, 1, 1), [if_(i < 32, there), if_(i >= 32, there)])

    given = np.zeros(64, np.float32 if dtype == F32 else np.uint32)
    declared = program(numbers[0])
    for number in numbers:
        inputs = [given, np.zeros(64, np.uint32)]
        found = opened.compile(declared, {"SCALE": number})(*inputs)
        wanted = interpret(program(number), inputs).outputs
        assert [one.tolist() for one in found] == [one.tolist() for one in wanted], number
