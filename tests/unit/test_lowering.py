"""What lowering emits: comparisons only where nothing proves the index, what each device can run, and the same bytes again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from blake3 import blake3
from example_programs import example
from literals import device
from spirv_machine import decoded

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir import (
    AtomicOp,
    BinOp,
    BufferDecl,
    DataType,
    Program,
    UnOp,
    absolute,
    assign,
    atomic,
    binop,
    buf_len,
    cast,
    f32,
    forever,
    gid_x,
    i32,
    if_,
    let,
    lid_x,
    load,
    loop,
    maximum,
    return_,
    select,
    sqrt,
    store,
    subgroup_add,
    subgroup_ballot,
    subgroup_shuffle,
    u32,
    unop,
    var,
)
from vyre_driver.ir.extensions import EXTENSIONS, extension
from vyre_driver.lowering.emit.target import (
    EMITTER_VERSION,
    FLUSH,
    HIDING_VERSION,
    PRESERVE,
    ROUND_TO_EVEN,
    STRICT_VERSION,
    LoweringTarget,
)
from vyre_driver.lowering.program import prepare, target_for
from vyre_driver.spirv.opcodes import Ins
from vyre_driver.target.config import DispatchConfig
from vyre_driver.target.profile import capabilities_of

if TYPE_CHECKING:
    from conftest import Lower


ORDERS = {Ins.ULessThan, Ins.UGreaterThan, Ins.ULessThanEqual, Ins.UGreaterThanEqual}
FIXED = BufferDecl.read_write("fixed", 0, DataType.U32).with_count(64)
OPEN = BufferDecl.read_write("open", 1, DataType.U32)


def program(*nodes: object) -> Program:
    return Program.wrapped([FIXED, OPEN], (64, 1, 1), list(nodes))  # type: ignore[arg-type]


def instructions(code: bytes) -> list[int]:
    return [opcode for opcode, _ in decoded(code)]


INDEX, LENGTH, NEXT = gid_x(), buf_len(OPEN), gid_x() + 1
WRITE = store(OPEN, INDEX, u32(1))


@pytest.mark.parametrize(
    ("nodes", "comparisons"),
    [
        ([WRITE], 1),
        ([if_(INDEX < LENGTH, [WRITE])], 1),
        ([if_(binop(BinOp.GT, LENGTH, INDEX), [WRITE])], 1),
        ([if_((INDEX >= LENGTH).not_(), [WRITE])], 1),
        ([if_((INDEX < LENGTH).and_(INDEX < 9), [WRITE])], 2),
        ([if_(INDEX >= LENGTH, [return_()]), WRITE], 1),
        ([if_(INDEX <= LENGTH, [WRITE])], 2),
        ([if_(INDEX > LENGTH, [return_()]), WRITE], 2),
        ([if_(INDEX >= LENGTH, [WRITE])], 2),
        ([if_(INDEX < LENGTH, []), WRITE], 1),  # the same comparison, for another branch
        ([store(FIXED, lid_x(), u32(1))], 0),
        ([store(FIXED, lid_x() + 1, u32(1))], 1),
        ([store(FIXED, INDEX % 64, u32(1))], 0),
        ([store(FIXED, INDEX & 63, u32(1))], 0),
        ([if_(INDEX < 64, [store(FIXED, INDEX, u32(1))])], 1),
        ([if_(INDEX <= 63, [store(FIXED, INDEX, u32(1))])], 1),
        ([if_(INDEX <= 64, [store(FIXED, INDEX, u32(1))])], 2),
        # What a guard proves of a value that was computed before it holds inside the guard only.
        ([let("next", NEXT), if_(INDEX < 8, [store(FIXED, NEXT, u32(1))]), store(FIXED, NEXT, u32(2))], 2),
    ],
)
def test_an_index_is_compared_once_where_a_guard_proves_it_and_again_where_none_does(
    lower: Lower, nodes: list[object], comparisons: int
) -> None:
    found = instructions(lower(program(*nodes)).code)
    assert sum(one in ORDERS for one in found) == comparisons


@pytest.mark.parametrize("features", [frozenset(), frozenset({"storageBuffer8BitAccess", "storageBuffer16BitAccess"})])
@pytest.mark.parametrize(
    ("element", "count", "checks"),
    [
        (DataType.U8, 256, 1),
        (DataType.U8, 255, 2),
        (DataType.I8, 256, 2),
        (DataType.U16, 65_536, 1),
        (DataType.U16, 65_535, 2),
        (DataType.I16, 65_536, 2),
    ],
)
def test_a_small_element_is_an_index_without_a_check_where_every_value_is_in_range(
    lower: Lower, features: frozenset[str], element: DataType, count: int, checks: int
) -> None:
    small, counts = BufferDecl.read("small", 0, element), BufferDecl.read_write("counts", 1, DataType.U32).with_count(count)
    add = let("old", atomic(AtomicOp.ADD, counts, cast(DataType.U32, load(small, INDEX)), u32(1)))
    made = lower(Program.wrapped([small, counts], (64, 1, 1), [add]), (), LoweringTarget(features))
    assert len(made.checked) == checks  # that of the load is one


def test_equal_expressions_are_emitted_once_until_something_is_written(lower: Lower) -> None:
    value = load(OPEN, INDEX) * 3
    found = instructions(
        lower(program(store(FIXED, 0, value + value), store(FIXED, 1, value), WRITE, store(FIXED, 2, value))).code
    )
    assert (found.count(Ins.IMul), found.count(Ins.IAdd)) == (2, 1)


EVERYTHING = frozenset({"shaderInt64", "shaderFloat64", "storageBuffer8BitAccess", FLUSH, PRESERVE, ROUND_TO_EVEN})
TARGETS = [
    LoweringTarget(),
    LoweringTarget(frozenset({"shaderFloat64"}), fuses=False, fences=False, hides=True),
    LoweringTarget(EVERYTHING),
    LoweringTarget(strict=False),
    LoweringTarget(divides=True),
]


def programs() -> list[Program]:
    """The examples, and what they leave out: divisions, rotations, casts, bytes, 64 bits, atomics in a row."""
    small = BufferDecl.read_write("small", 2, DataType.U8)
    wide = BufferDecl.read_write("wide", 3, DataType.U64)
    signed = BufferDecl.read_write("signed", 4, DataType.I32)
    left = var("left", DataType.U32)
    quotients = [
        binop(op, load(signed, INDEX), one) for op in (BinOp.DIV, BinOp.MOD) for one in (i32(7), i32(-7), load(signed, 0))
    ]
    nand = atomic(AtomicOp.FETCH_NAND, FIXED, INDEX, 5)
    others = [
        if_(INDEX < LENGTH, [store(OPEN, INDEX, load(FIXED, INDEX) / load(OPEN, INDEX))]),
        store(small, INDEX, load(small, INDEX + 1)),
        store(wide, INDEX, binop(BinOp.MUL_HIGH, load(wide, INDEX), binop(BinOp.WRAPPING_ADD, load(wide, 1), load(wide, 2)))),
        store(OPEN, INDEX, nand + atomic(AtomicOp.MAX, OPEN, 0, 1)),
        *[store(signed, INDEX, one) for one in quotients],
        store(OPEN, INDEX, subgroup_shuffle(subgroup_ballot(INDEX < 3), subgroup_add(INDEX))),
        store(OPEN, INDEX, binop(BinOp.ROTATE_LEFT, binop(BinOp.ROTATE_RIGHT, INDEX, u32(33)), INDEX)),
        store(OPEN, INDEX, cast(DataType.U32, cast(DataType.F32, load(OPEN, INDEX)))),
        store(OPEN, INDEX, cast(DataType.U32, select(INDEX < 3, f32(1.5), f32(16777216.0)) + f32(3.0) * f32(0.1))),
        store(OPEN, INDEX, cast(DataType.U32, sqrt(cast(DataType.F32, INDEX)) / absolute(cast(DataType.F32, LENGTH)))),
        store(OPEN, INDEX, unop(UnOp.POPCOUNT, INDEX) - load(FIXED, INDEX)),
        store(OPEN, INDEX, atomic(AtomicOp.MIN, OPEN, load(FIXED, INDEX), 1)),
        if_(binop(BinOp.LT, cast(DataType.U32, INDEX < 3), u32(1)), [store(OPEN, INDEX, unop(UnOp.NEGATE, INDEX))]),
        store(signed, INDEX, select(INDEX < 3, load(signed, INDEX), load(signed, 0))),
        store(wide, INDEX, select(INDEX < 3, load(wide, INDEX), binop(BinOp.WRAPPING_SUB, load(wide, 1), load(wide, 2)))),
        store(signed, INDEX, maximum(load(signed, INDEX) - load(signed, 0), load(signed, 0))),
        let("left", load(OPEN, INDEX)),
        forever([if_(binop(BinOp.GT, left, u32(0)), [assign(left, left / 3)])]),
        loop("turn", 1, 99, [if_(left < LENGTH, [store(OPEN, left, var("turn", DataType.U32)), assign(left, left + 1)])]),
    ]
    examples = [example("saxpy", 2.0), example("histogram", 256), example("matmul", 64), example("prefix_sum")]
    return [*examples, Program.wrapped([FIXED, OPEN, small, wide, signed], (64, 1, 1), others)]


def test_the_bytes_of_programs_change_with_the_emitter_version_only(lower: Lower) -> None:
    """When this fails, raise EMITTER_VERSION with the digest: caches hold what the old one emitted.

    Where it is the digest of targets that hide alone, raise HIDING_VERSION, and STRICT_VERSION for exact floats alone: the
    other entries stay.
    """
    digests = {}
    for hides in (False, True):
        targets = [target for target in TARGETS if target.hides is hides]
        first, second = ([lower(one, (), target).code for one in programs() for target in targets] for _ in range(2))
        assert first == second
        digests[hides] = blake3(b"".join(first)).hexdigest()[:16]
    assert (EMITTER_VERSION, digests[False]) == (20, "6e23c36f3759d65e")
    assert (HIDING_VERSION, digests[True]) == (3, "51cdc371705f9a6d")
    assert (LoweringTarget().options()["hides"], LoweringTarget(hides=True).options()["hides"]) == (0, HIDING_VERSION)
    assert (LoweringTarget(strict=False).options()["strict"], LoweringTarget().options()["strict"]) == (0, STRICT_VERSION)


def test_the_code_of_every_operator_of_ours_is_what_it_was(lower: Lower) -> None:
    """When this fails, raise EMITTER_VERSION with the digest: the bodies of functions are part of what emits them."""
    code = []
    for name, operator in EXTENSIONS.items():
        types = [one[0] for one in operator.operands]
        given = [BufferDecl.read(f"given{place}", place, one) for place, one in enumerate(types)]
        out = BufferDecl.output("out", len(given), operator.result).with_count(64)
        value = extension(name, *(load(one, gid_x()) for one in given))
        target = LoweringTarget(frozenset({"shaderFloat64"}))
        code.append(lower(Program.wrapped([*given, out], (64, 1, 1), [store(out, gid_x(), value)]), (), target).code)
    assert blake3(b"".join(code)).hexdigest()[:16] == "6baffca035418882"


VULKAN_1_1, VULKAN_1_2 = 1 << 22 | 1 << 12, 1 << 22 | 2 << 12
NVIDIA, LLVMPIPE, RADV = 4, 13, 3
ALL = frozenset({FLUSH, PRESERVE, ROUND_TO_EVEN, "denormBehaviorIndependence", "roundingModeIndependence"})


@pytest.mark.parametrize(
    ("told", "version", "controls"),
    [
        (ALL, VULKAN_1_2, {FLUSH, PRESERVE, ROUND_TO_EVEN}),
        (ALL, None, {FLUSH, PRESERVE, ROUND_TO_EVEN}),
        (ALL, VULKAN_1_1, set()),  # there it would be an extension, which nobody switches on
        (ALL - {"denormBehaviorIndependence"}, VULKAN_1_2, {PRESERVE, ROUND_TO_EVEN}),
        (ALL - {"roundingModeIndependence"}, VULKAN_1_2, {FLUSH, PRESERVE}),
        ({"shaderDenormPreserveFloat32", "denormBehaviorIndependence"}, VULKAN_1_2, set()),
    ],
)
def test_float_controls_are_used_where_one_width_may_be_told_by_itself(
    told: frozenset[str], version: int | None, controls: set[str]
) -> None:
    found = target_for(device(float_controls=frozenset(told)), {"shaderInt64"}, None, version)
    assert found.features == controls | {"shaderInt64"}


@pytest.mark.parametrize(
    ("driver_id", "options"),
    [
        (NVIDIA, {"fuses": True, "divides": False, "fences": True, "hides": False}),
        (LLVMPIPE, {"fuses": False, "divides": False, "fences": False, "hides": True}),
        (RADV, {"fuses": False, "divides": False, "fences": True, "hides": False}),
    ],
)
def test_what_is_known_of_a_driver_decides_what_is_left_to_it(driver_id: int, options: dict[str, bool]) -> None:
    one = device(driver_id=driver_id, float_controls=frozenset())
    found = [target_for(one, (), config) for config in (None, DispatchConfig(ulp_budget=0), DispatchConfig(ulp_budget=1))]
    assert found == [LoweringTarget(strict=strict, **options) for strict in (True, True, False)]


@pytest.mark.parametrize(
    ("driver_id", "told", "version", "divides"),
    [
        (NVIDIA, ALL, VULKAN_1_2, True),
        (NVIDIA, ALL - {ROUND_TO_EVEN}, VULKAN_1_2, False),  # a third of its quotients would differ
        (NVIDIA, ALL - {"roundingModeIndependence"}, VULKAN_1_2, False),
        (NVIDIA, ALL, VULKAN_1_1, False),
        (RADV, ALL, VULKAN_1_2, False),
    ],
)
def test_quotients_are_the_devices_own_where_that_was_tried_and_it_can_be_told_how_to_round(
    driver_id: int, told: frozenset[str], version: int, *, divides: bool
) -> None:
    assert target_for(device(driver_id=driver_id, float_controls=told), (), None, version).divides is divides


@pytest.mark.parametrize(
    "buffers", [[], [BufferDecl.workgroup("tile", 4, DataType.U32)], [BufferDecl.push("n", 0, DataType.U32)]]
)
def test_a_program_that_binds_nothing_is_refused_by_name(buffers: list[BufferDecl]) -> None:
    with pytest.raises(UnsupportedFeature) as refused:
        prepare(Program.wrapped(buffers, (1, 1, 1), []), None, None, capabilities_of(device()), LoweringTarget())
    assert str(refused.value) == (
        "the program cannot run through kompute, which makes no pipeline without a buffer: "
        f"it declares {len(buffers)}, and 0 of them outside workgroup memory and push constants. Fix: add an output buffer."
    )
    assert refused.value.code == 1002
