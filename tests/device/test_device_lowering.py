"""Programs on a device give what the reference interpreter gives, operator by operator and for random programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from random_programs import (
    BITS,
    BOOL,
    F32,
    FLOATS,
    I32,
    INTEGER,
    ORDER,
    SATURATING,
    U32,
    U64,
    UNSIGNED,
    WORDS,
    WRAPPING,
    RandomPrograms,
    random_inputs,
)

from vyre_driver import Driver
from vyre_driver.backends.reference import interpret
from vyre_driver.binding import BindingPlan
from vyre_driver.conformance.case import EXACT, TOLERANCES, Tolerance
from vyre_driver.conformance.suite import float_differences
from vyre_driver.errors import InvalidSpecialization, UnsupportedFeature
from vyre_driver.ir import (
    BufferDecl,
    DataType,
    Program,
    atomic,
    atomic_add,
    atomic_compare_exchange,
    binop,
    buf_len,
    cast,
    fma,
    gid_x,
    if_,
    let,
    load,
    loop,
    select,
    store,
    trap,
    u32,
    unop,
    var,
)
from vyre_driver.ir.operators import AtomicOp, BinOp, UnOp
from vyre_driver.lowering.emit.target import FLUSH, PRESERVE, ROUND_TO_EVEN, LoweringTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Lower
    from numpy.typing import NDArray


pytestmark = pytest.mark.device
WIDE = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 0xDEADBEEFCAFEF00D, 7, 2**40 + 3]


def values(dtype: DataType) -> NDArray[Any]:
    if dtype == F32:
        return np.array(FLOATS, np.float32)
    if dtype == U64:
        return np.array(WIDE, np.uint64)
    words = np.array(WORDS, np.uint32)
    return words.view(np.int32) if dtype == I32 else words


def pairs(dtype: DataType) -> tuple[NDArray[Any], NDArray[Any]]:
    one = values(dtype)
    return np.repeat(one, len(one)), np.tile(one, len(one))


def same(found: NDArray[Any], wanted: NDArray[Any], tolerance: Tolerance = EXACT) -> None:
    """Equal bit by bit; floats within a tolerance, and any NaN for a NaN."""
    if found.dtype != np.float32:
        np.testing.assert_array_equal(found, wanted)
        return
    far = float_differences(wanted.reshape(-1).view(np.uint32), found.reshape(-1).view(np.uint32), tolerance)
    assert not far.any(), (np.flatnonzero(far)[:8], found.reshape(-1)[far][:8], wanted.reshape(-1)[far][:8])


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver(allow_software=True, cache=tmp_path_factory.mktemp("pipelines")) as driver:
        yield driver


def elementwise(inputs: list[DataType], output: DataType, expression: Any) -> Program:  # noqa: ANN401 -- a function of loads
    buffers = [BufferDecl.read(f"in{place}", place, dtype) for place, dtype in enumerate(inputs)]
    out = BufferDecl.output("out", len(inputs), output)
    loads = [load(buffer, gid_x()) for buffer in buffers]
    return Program.wrapped(
        [*buffers, out], (64, 1, 1), [if_(gid_x() < buf_len(out), [store(out, gid_x(), expression(*loads))])]
    )


def compare(driver: Driver, program: Program, inputs: list[NDArray[Any]], tolerance: Tolerance = EXACT) -> None:
    outputs = [
        one.name for one in BindingPlan.build(program).descriptors if one.output_index is not None and one.input_index is None
    ]
    counts = {name: len(inputs[0]) for name in outputs if not program.buffer(name).count}  # type: ignore[union-attr]
    with np.errstate(all="ignore"):
        wanted = interpret(program, inputs, element_counts=counts).outputs
    found = driver.compile(program)(*inputs, out_shapes=counts)
    for one, other in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        same(one, np.asarray(other).reshape(one.shape), tolerance)


CASES = [
    *((op, U32) for op in [*INTEGER, *WRAPPING, *UNSIGNED, *SATURATING]),
    *((op, I32) for op in [*INTEGER, *WRAPPING]),
    *((op, F32) for op in [BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.DIV, BinOp.MIN, BinOp.MAX, BinOp.ABS_DIFF]),
    *((op, U64) for op in [*WRAPPING, BinOp.MUL_HIGH]),
]


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=str)
def test_a_binary_operator_gives_what_the_reference_gives(opened: Driver, op: BinOp, dtype: DataType) -> None:
    compare(opened, elementwise([dtype, dtype], dtype, lambda a, b: binop(op, a, b)), list(pairs(dtype)))


@pytest.mark.parametrize("op", [BinOp.DIV, BinOp.MOD])
def test_a_signed_division_gives_what_the_reference_gives_where_it_is_defined(opened: Driver, op: BinOp) -> None:
    left, right = pairs(I32)
    defined = (right != 0) & ~((left == -(2**31)) & (right == -1))
    compare(opened, elementwise([I32, I32], I32, lambda a, b: binop(op, a, b)), [left[defined], right[defined]])


@pytest.mark.parametrize("op", ORDER, ids=str)
@pytest.mark.parametrize("dtype", [U32, I32, F32, U64], ids=str)
def test_a_comparison_gives_what_the_reference_gives(opened: Driver, op: BinOp, dtype: DataType) -> None:
    program = elementwise(
        [dtype, dtype], U32, lambda a, b: cast(U32, binop(op, a, b)) + select(binop(op, a, b).not_(), 2, u32(0))
    )
    compare(opened, program, list(pairs(dtype)))


EXACTLY = [UnOp.NEGATE, UnOp.ABS, UnOp.FLOOR, UnOp.CEIL, UnOp.ROUND, UnOp.TRUNC, UnOp.SIGN, UnOp.RECIPROCAL]


@pytest.mark.parametrize(
    ("op", "dtype"),
    [(UnOp.NEGATE, U32), *((op, dtype) for op in BITS for dtype in (U32, I32, U64)), *((op, F32) for op in EXACTLY)],
    ids=str,
)
def test_a_unary_operator_gives_what_the_reference_gives(opened: Driver, op: UnOp, dtype: DataType) -> None:
    compare(opened, elementwise([dtype], dtype, lambda a: unop(op, a)), [values(dtype)])


@pytest.mark.parametrize("op", [UnOp.IS_NAN, UnOp.IS_INF, UnOp.IS_FINITE], ids=str)
def test_a_question_about_a_float_gives_what_the_reference_gives(opened: Driver, op: UnOp) -> None:
    compare(opened, elementwise([F32], U32, lambda a: cast(U32, unop(op, a))), [values(F32)])


@pytest.mark.parametrize(
    ("source", "target"),
    [(F32, U32), (F32, I32), (U32, F32), (I32, F32), (U32, I32), (I32, U32), (U32, U64), (I32, U64), (U64, U32), (U64, I32)],
    ids=str,
)
def test_a_cast_gives_what_the_reference_gives(opened: Driver, source: DataType, target: DataType) -> None:
    compare(opened, elementwise([source], target, lambda a: cast(target, a)), [values(source)])


@pytest.mark.parametrize("source", [U32, I32, F32, U64], ids=str)
def test_what_counts_as_true_is_what_the_reference_says(opened: Driver, source: DataType) -> None:
    compare(opened, elementwise([source], U32, lambda a: cast(U32, cast(BOOL, a))), [values(source)])


@pytest.mark.parametrize("op", [BinOp.AND, BinOp.OR], ids=str)
@pytest.mark.parametrize("both", [False, True], ids=["numbers", "a number and a bool"])
def test_a_logical_operator_takes_numbers_and_bools(opened: Driver, op: BinOp, *, both: bool) -> None:
    program = elementwise([U32, U32], U32, lambda a, b: cast(U32, binop(op, a, b > 3 if both else b)))
    compare(opened, program, list(pairs(U32)))


@pytest.mark.parametrize("op", [BinOp.EQ, BinOp.NE, BinOp.AND, BinOp.OR], ids=str)
def test_bools_are_compared_and_combined_as_the_reference_does(opened: Driver, op: BinOp) -> None:
    bools = [np.array([0, 0, 1, 1, 7, 7, 0, 1], np.uint32), np.array([0, 1, 0, 1, 1, 7, 7, 0], np.uint32)]
    program = elementwise([BOOL, BOOL], BOOL, lambda a, b: select(a.not_(), b, binop(op, a, b)))
    found = opened.compile(program)(*bools, out_shapes={"out": 8})
    left, right = (one != 0 for one in bools)
    truth = {BinOp.EQ: left == right, BinOp.NE: left != right, BinOp.AND: left & right, BinOp.OR: left | right}[op]
    assert np.asarray(found).view(np.uint32).tolist() == np.where(~left, right, truth).astype(int).tolist()


@pytest.mark.parametrize("op", [BinOp.DIV, BinOp.MOD])
def test_a_signed_division_without_a_result_gives_what_is_documented(opened: Driver, op: BinOp) -> None:
    """The reference stops there: a quotient by 0 is 0, the least number by -1 wraps, and the remainders are 0."""
    left, right = np.array([5, -5, 0, -(2**31), -(2**31)], np.int32), np.array([0, 0, 0, -1, 0], np.int32)
    found = opened.compile(elementwise([I32, I32], I32, lambda a, b: binop(op, a, b)))(left, right, out_shapes={"out": 5})
    assert found.tolist() == {BinOp.DIV: [0, 0, 0, -(2**31), 0], BinOp.MOD: [0, 0, 0, 0, 0]}[op]


FUNCTIONS = [UnOp.EXP, UnOp.LOG, UnOp.LOG2, UnOp.SQRT, UnOp.INVERSE_SQRT, UnOp.COSH, UnOp.SIN, UnOp.COS, UnOp.TAN, UnOp.EXP2]
FUNCTIONS += [UnOp.ACOS, UnOp.ASIN, UnOp.ATAN, UnOp.SINH, UnOp.TANH]


@pytest.mark.parametrize("op", FUNCTIONS, ids=str)
def test_a_function_of_a_float_is_as_near_to_the_reference_as_vulkan_says(opened: Driver, op: UnOp) -> None:
    given = np.array([0.0, 1.0, 0.03, 0.25, 0.5, 0.75, 0.9, 0.99, 0.125, 0.6, np.nan], np.float32)
    compare(opened, elementwise([F32], F32, lambda a: unop(op, a)), [given], TOLERANCES.get(op, EXACT))


@pytest.mark.parametrize(
    ("source", "target"),
    [(source, target) for source in (U32, I32, BOOL) for target in ("Vec2U32", "Vec4U32")] + [(U64, "Vec2U32")],
    ids=str,
)
def test_a_scalar_fills_the_low_words_of_a_vector_and_comes_out_of_them(opened: Driver, source: DataType, target: str) -> None:
    vector = getattr(DataType, target)
    given = np.array([0, 1, 1, 0], np.uint32) if source == BOOL else values(source)
    compare(opened, elementwise([source], U32, lambda a: cast(U32, cast(U64, cast(vector, a)))), [given])


def test_an_fma_rounds_once(opened: Driver) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(20_000).astype(np.float32) for _ in range(2))
    c = np.where(rng.random(20_000) < 0.7, -(a * b), rng.standard_normal(20_000)).astype(np.float32)
    edges = [np.concatenate([one, other]) for one, other in zip((a, b, c), (*pairs(F32), pairs(F32)[1][::-1]), strict=True)]
    compare(opened, elementwise([F32, F32, F32], F32, fma), edges)


def test_out_of_range_a_load_gives_zero_a_store_and_an_atomic_do_nothing(opened: Driver) -> None:
    data = BufferDecl.read("data", 0, U32).with_count(8)
    kept = BufferDecl.read_write("kept", 1, U32).with_count(8)
    counts = BufferDecl.read_write("counts", 2, U32).with_count(4)
    seen = BufferDecl.output("seen", 3, U32).with_count(64)
    i = gid_x()
    body = [
        store(kept, i + 4, load(data, i) + 1),
        store(seen, i, atomic_add(counts, i, 7) + load(data, u32(2**32 - 1)) + load(data, i * 3)),
    ]
    program = Program.wrapped([data, kept, counts, seen], (64, 1, 1), body)
    inputs = [np.arange(8, dtype=np.uint32), np.full(8, 9, np.uint32), np.full(4, 5, np.uint32)]
    compare(opened, program, inputs)


@pytest.mark.parametrize(
    "op", [one for one in AtomicOp if one not in {AtomicOp.COMPARE_EXCHANGE_WEAK, AtomicOp.FETCH_NAND}], ids=str
)
def test_an_atomic_gives_what_was_there(opened: Driver, op: AtomicOp) -> None:
    data, before = BufferDecl.read_write("data", 0, U32), BufferDecl.output("before", 1, U32)
    value = gid_x() * 0x9E3779B9
    changed = (
        atomic_compare_exchange(data, gid_x(), 1, value)
        if op is AtomicOp.COMPARE_EXCHANGE
        else atomic(op, data, gid_x(), value)
    )
    compare(opened, Program.wrapped([data, before], (64, 1, 1), [store(before, gid_x(), changed)]), [values(U32)])


@pytest.mark.parametrize("dtype", ["U8", "U16", "I8", "I16", "F16", "I64", "F64", "Bool", "Vec2U32", "Vec4U32"])
def test_elements_of_any_width_are_copied_whole(opened: Driver, dtype: str) -> None:
    kind = getattr(DataType, dtype)
    source, target = BufferDecl.read("source", 0, kind), BufferDecl.read_write("target", 1, kind)
    program = Program.wrapped([source, target], (64, 1, 1), [store(target, gid_x(), load(source, gid_x() + 1))])
    data = np.random.default_rng(1).integers(1, 255, 64 * (kind.size_bytes or 0), dtype=np.uint8)
    if dtype == "Bool":
        data = (data.view(np.uint32) % 2).astype(np.uint32).view(np.uint8)
    shift = kind.size_bytes or 0
    found = np.asarray(opened.compile(program)(data.tobytes(), bytes(len(data))))
    assert found.view(np.uint8).reshape(-1).tobytes() == data.tobytes()[shift:] + bytes(shift)


@pytest.mark.parametrize("lacking", ["storageBuffer8BitAccess", "storageBuffer16BitAccess"])
@pytest.mark.parametrize("dtype", ["U8", "U16"])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_last_elements_are_whole_on_a_device_with_bytes_or_halves_only(lacking: str, dtype: str, count: int) -> None:
    """The ones are declared as such, the others are parts of words, of which the last is not filled."""
    kind = getattr(DataType, dtype)
    source, target = (BufferDecl.read("source", 0, kind), BufferDecl.read_write("target", 1, kind))
    copied = cast(kind, cast(U32, load(source, gid_x())) + unop(UnOp.POPCOUNT, gid_x()))
    program = Program.wrapped([source, target], (8, 1, 1), [store(target, gid_x(), copied)])
    data = (np.arange(1, count + 1) * 7).astype(f"u{kind.size_bytes}")
    with Driver(allow_software=True) as driver:
        driver.context.device.features -= {lacking}
        found = driver.compile(program)(data, np.zeros_like(data))
        resident = driver.buffer(data), driver.buffer(np.zeros_like(data))
        driver.compile(program).bind(*resident).run()
        expected = [one + place.bit_count() for place, one in enumerate(data.tolist())]
        assert (np.asarray(found).tolist(), resident[1].read().tolist()) == (expected, expected)


def test_a_let_of_a_literal_is_specialized_by_its_name(opened: Driver) -> None:
    out = BufferDecl.output("out", 0, U32).with_count(4)
    program = Program.wrapped([out], (4, 1, 1), [let("SCALE", u32(3)), store(out, gid_x(), gid_x() * var("SCALE", U32))])
    found = [opened.compile(program, specs)().tolist() for specs in (None, {"SCALE": 5}, {"SCALE": 3})]
    assert found == [[0, 3, 6, 9], [0, 5, 10, 15], [0, 3, 6, 9]]
    with pytest.raises(InvalidSpecialization, match="no such let"):
        opened.compile(program, {"OTHER": 5})


def test_what_has_no_lowering_is_refused_with_its_place(lower: Lower) -> None:
    out = BufferDecl.output("out", 0, U32).with_count(4)
    program = Program.wrapped([out], (4, 1, 1), [store(out, 0, u32(1)), if_(gid_x() < 1, [trap(u32(0), "t")])])
    with pytest.raises(UnsupportedFeature) as refused:
        lower(program)
    assert (refused.value.code, refused.value.context["path"]) == (1002, "body[1].then[0]")


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_programs_give_what_the_reference_gives(opened: Driver, first: int) -> None:
    for seed in range(first, first + 10):
        program = RandomPrograms(seed).program()
        try:
            compare(opened, program, random_inputs(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{program}") from error


FEATURES = {"shaderInt64", "shaderFloat64", "storageBuffer8BitAccess", "storageBuffer16BitAccess"}
CONTROLS = {FLUSH, PRESERVE, ROUND_TO_EVEN}


@pytest.mark.validation
@pytest.mark.parametrize(
    "target",
    [LoweringTarget(), LoweringTarget(frozenset(FEATURES), fuses=False), LoweringTarget(frozenset(FEATURES | CONTROLS))],
)
def test_what_is_emitted_passes_the_validator(lower: Lower, target: LoweringTarget) -> None:
    for seed in range(25):
        lower(RandomPrograms(seed).program(), (), target)


def test_an_atomic_with_an_order_in_a_loop_of_different_lengths_holds_nobody_up(opened: Driver) -> None:
    """llvmpipe makes a barrier of the workgroup of its order, at which whoever takes more turns ends."""
    out, counters = BufferDecl.read_write("out", 0, U32), BufferDecl.read_write("counters", 1, U32).with_count(1)
    body = [loop("k", 1, gid_x(), [let("found", atomic_add(counters, 0, 1))]), store(out, gid_x(), u32(7))]
    program = Program.wrapped([out, counters], (32, 1, 1), body)
    found = opened.compile(program)(np.zeros(32, np.uint32), np.zeros(1, np.uint32), workgroups=(1, 1, 1))
    assert [one.tolist() for one in found] == [[7] * 32, [sum(range(31))]]
