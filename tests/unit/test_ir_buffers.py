"""Buffer declarations, operators' tags and shape predicates."""

from __future__ import annotations

import dataclasses
import json

import pytest

from vyre_driver import DataType, Program
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, CacheLocality, LinearType, MemoryHints, MemoryKind
from vyre_driver.ir.operators import WORLD, AtomicOp, BinOp, CollectiveOp, MemoryOrdering, OpaqueOp, TernaryOp, UnOp
from vyre_driver.ir.predicates import (
    MAX_PREDICATE_DEPTH,
    MAX_PREDICATES,
    AffineRange,
    And,
    AtLeast,
    AtMost,
    Exactly,
    ModEquals,
    MultipleOf,
    Not,
    Or,
    ShapePredicate,
)
from vyre_driver.lowering.recorded import program_of, values_of


def test_each_constructor_sets_access_kind_and_flags() -> None:
    made = [
        BufferDecl.read("b", 1, DataType.U32),
        BufferDecl.read_write("b", 1, DataType.U32),
        BufferDecl.output("b", 1, DataType.U32),
        BufferDecl.uniform("b", 1, DataType.U32),
        BufferDecl.workgroup("b", 64, DataType.U32),
        *(BufferDecl.storage("b", 1, access, DataType.U32) for access in BufferAccess),
    ]
    facts = [(one.binding, one.access.name, one.kind.name, one.count, one.is_output, one.pipeline_live_out) for one in made]
    assert facts == [
        (1, "READ_ONLY", "READONLY", 0, False, False),
        (1, "READ_WRITE", "GLOBAL", 0, False, False),
        (1, "READ_WRITE", "GLOBAL", 0, True, True),
        (1, "UNIFORM", "UNIFORM", 0, False, False),
        (0, "WORKGROUP", "SHARED", 64, False, False),
        (1, "READ_ONLY", "READONLY", 0, False, False),
        (1, "READ_WRITE", "GLOBAL", 0, False, False),
        (1, "UNIFORM", "UNIFORM", 0, False, False),
        (1, "WRITE_ONLY", "GLOBAL", 0, False, False),
        (1, "WORKGROUP", "SHARED", 0, False, False),
    ]


def test_each_builder_changes_its_field_and_nothing_else() -> None:
    plain = BufferDecl.read("b", 1, DataType.U32)
    hints = MemoryHints(1, 16, CacheLocality.RANDOM)
    changed = {
        "count": plain.with_count(7),
        "kind": plain.with_kind(MemoryKind.PUSH),
        "hints": plain.with_hints(hints),
        "pipeline_live_out": plain.with_pipeline_live_out(True),
        "output_byte_range": plain.with_output_byte_range(range(4, 8)),
        "bytes_extraction": plain.with_bytes_extraction(True),
        "linear_type": plain.with_linear_type(LinearType.AFFINE),
        "shape_predicate": plain.with_shape_predicate(AtLeast(3)),
    }
    values = [7, MemoryKind.PUSH, hints, True, (4, 8), True, LinearType.AFFINE, AtLeast(3)]
    assert [dataclasses.replace(plain, **{name: value}) for name, value in zip(changed, values, strict=True)] == [
        *changed.values()
    ]
    assert changed["output_byte_range"].with_output_byte_range(None) == plain.with_output_byte_range(
        (4, 8)
    ).with_output_byte_range(None)


def test_a_static_length_is_that_of_the_packed_elements() -> None:
    buffers = [BufferDecl.read("b", 0, dtype).with_count(3) for dtype in (DataType.I4, DataType.F32, DataType.Tensor)]
    assert [one.static_byte_len() for one in [*buffers, BufferDecl.read("b", 0, DataType.F32)]] == [2, 12, None, None]


def test_only_three_accesses_may_be_written() -> None:
    writable = {access.name for access in BufferAccess if BufferDecl.storage("b", 0, access, DataType.U32).is_writable}
    assert writable == {"READ_WRITE", "WRITE_ONLY", "WORKGROUP"}


@pytest.mark.parametrize(
    "change",
    [
        {"name": 7},
        {"name": "\ud800"},
        {"binding": -1},
        {"binding": 2**32},
        {"binding": True},
        {"access": 1},
        {"kind": "global"},
        {"element": "u32"},
        {"count": 2**32},
        {"count": 1.0},
        {"is_output": 1},
        {"hints": None},
        {"linear_type": 3},
        {"shape_predicate": "count > 3"},
        {"output_byte_range": (1,)},
        {"output_byte_range": (-1, 2)},
        {"output_byte_range": (0, 2**64)},
    ],
    ids=str,
)
def test_a_field_of_the_wrong_kind_is_refused_with_advice(change: dict[str, object]) -> None:
    with pytest.raises(InvalidProgram, match="Fix: "):
        dataclasses.replace(BufferDecl.read("b", 1, DataType.U32), **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: MemoryHints(256),
        lambda: MemoryHints(preferred_alignment=2**32),
        lambda: MemoryHints(cache_locality=1),  # type: ignore[arg-type]
        lambda: BufferDecl.read("b", 1, DataType.U32).with_output_byte_range(range(0, 8, 2)),
        lambda: OpaqueOp(2**32),
        lambda: AtLeast(-1),
        lambda: AffineRange(2**63, 0, 0, 0),
        lambda: Not("x"),  # type: ignore[arg-type]
    ],
)
def test_other_values_without_encoding_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidProgram):
        make()


def test_enum_positions_and_wire_tags_are_upstreams() -> None:
    assert {one.name: (one.value, one.wire_tag) for one in BufferAccess} == {
        "READ_ONLY": (0, 0),
        "READ_WRITE": (1, 1),
        "UNIFORM": (2, 2),
        "WRITE_ONLY": (3, 4),
        "WORKGROUP": (4, 3),
    }
    assert {one.name: (one.value, one.wire_tag) for one in MemoryKind} == {
        "GLOBAL": (0, 0),
        "SHARED": (1, 1),
        "UNIFORM": (2, 2),
        "LOCAL": (3, 3),
        "READONLY": (4, 4),
        "PERSISTENT": (5, 6),
        "PUSH": (6, 5),
    }
    assert [one.name for one in sorted(CacheLocality, key=lambda one: one.wire_tag)] == ["STREAMING", "TEMPORAL", "RANDOM"]


def test_operator_tags_are_those_of_both_tables() -> None:
    differing = {op.name: (op.wire_tag, op.spec_tag) for op in BinOp if op.wire_tag != op.spec_tag}
    assert differing == {"LE": (15, 16), "GE": (16, 17), "AND": (17, 18), "OR": (18, 19), "ABS_DIFF": (19, 15)}
    assert len({op.spec_tag for op in BinOp}) == len(BinOp) == 33
    assert [op.wire_tag for op in BinOp] == [*range(1, 34)]
    assert [op.wire_tag for op in UnOp] == [op.spec_tag for op in UnOp] == [*range(1, 37)]
    assert [op.wire_tag for op in AtomicOp] == [*range(1, 12)]
    assert [(op.name, op.value) for op in TernaryOp] == [("FMA", 1), ("SELECT", 2)]
    assert [op.name for op in CollectiveOp] == ["SUM", "MIN", "MAX", "BIT_AND", "BIT_OR", "BIT_XOR"]
    assert [op.name for op in MemoryOrdering] == ["RELAXED", "ACQUIRE", "RELEASE", "ACQ_REL", "SEQ_CST", "GRID_SYNC"]
    assert (OpaqueOp(1).wire_tag, OpaqueOp(1).spec_tag, OpaqueOp(0x0102).encoded.hex(), WORLD) == (0x80, 0x80, "8002010000", 0)


@pytest.mark.parametrize(
    ("predicate", "holding", "failing", "text"),
    [
        (AtLeast(64), [64, 65], [0, 63], "count >= 64"),
        (AtMost(7), [0, 7], [8], "count <= 7"),
        (Exactly(7), [7], [6, 8], "count == 7"),
        (MultipleOf(4), [0, 8], [1, 6], "count % 4 == 0"),
        (MultipleOf(0), [], [0, 1], "count % 0 == 0"),
        (ModEquals(4, 1), [1, 5], [0, 4], "count % 4 == 1"),
        (ModEquals(4, 4), [], [0, 4], "count % 4 == 4"),
        (ModEquals(0, 0), [], [0, 4], "count % 0 == 0"),
        (AffineRange(-2, 10, 0, 4), [3, 5], [2, 6], "0 <= count * -2 + 10 <= 4"),
        (AffineRange(2**62, 0, 0, 2**63 - 1), [0, 1], [2, 2**32 - 1], f"0 <= count * {2**62} + 0 <= {2**63 - 1}"),
        (And(AtLeast(2), AtMost(3)), [2, 3], [1, 4], "(count >= 2 and count <= 3)"),
        (Or(Exactly(1), Exactly(3)), [1, 3], [2], "(count == 1 or count == 3)"),
        (Not(Exactly(1)), [0, 2], [1], "not count == 1"),
    ],
)
def test_a_predicate_holds_as_it_says(predicate: ShapePredicate, holding: list[int], failing: list[int], text: str) -> None:
    assert ([*map(predicate.holds, holding)], [*map(predicate.holds, failing)]) == (
        [True] * len(holding),
        [False] * len(failing),
    )
    assert predicate.describe() == text


def test_predicates_are_made_of_a_bounded_number() -> None:
    predicate: ShapePredicate = AtLeast(1)
    while predicate.size < MAX_PREDICATES - 1:
        predicate = And(predicate, predicate)
    predicate = Not(predicate)
    assert (predicate.size, predicate.depth, predicate.holds(0)) == (MAX_PREDICATES, 13, True)
    with pytest.raises(InvalidProgram, match="is made of 4097 parts, over the limit of 4096"):
        Not(predicate)


def test_predicates_nest_to_a_limit() -> None:
    predicate: ShapePredicate = AtLeast(1)
    for _ in range(MAX_PREDICATE_DEPTH - 1):
        predicate = Not(predicate)
    assert (predicate.depth, hash(predicate) == hash(predicate), predicate.holds(0)) == (MAX_PREDICATE_DEPTH, True, True)
    with pytest.raises(InvalidProgram, match="nests 65 deep, over the limit of 64"):
        Not(predicate)


def test_the_base_of_predicates_is_none_itself() -> None:
    with pytest.raises(InvalidProgram, match="ShapePredicate is the base of the shape predicates, and compares nothing"):
        ShapePredicate()


def test_no_recording_has_the_base_of_predicates_in_it() -> None:
    buffer = BufferDecl.read("a", 0, DataType.U32).with_shape_predicate(AtLeast(1))
    written = json.dumps(values_of(Program.wrapped([buffer], (1, 1, 1), [])))
    assert written.count('{"AtLeast": [1]}') == 1
    with pytest.raises(ValueError, match="its program is none"):
        program_of(json.loads(written.replace('{"AtLeast": [1]}', '{"ShapePredicate": []}')))
