"""Buffer declarations, operators' tags and shape predicates; data types: sizes, layouts, spelling, encoding, numpy."""

from __future__ import annotations

import copy
import dataclasses
import json
import sys

import ml_dtypes
import numpy as np
import pytest

from vyre_driver import DataType, Program
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir import dtypes
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, CacheLocality, LinearType, MemoryHints, MemoryKind
from vyre_driver.ir.builders import cast, let, u32
from vyre_driver.ir.dtypes import MAX_TYPE_NESTING, ElementForm, NumpyElement, extension_id, numpy_element, wire_problem
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
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint, ScaleKind, ZeroPointKind
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


SYMMETRIC = QuantizationScale.per_tensor(), QuantizationZeroPoint.absent()
SPELLED = [
    (DataType.U32, "u32"),
    (DataType.Bool, "bool"),
    (DataType.Vec2U32, "vec2<u32>"),
    (DataType.Vec4U32, "vec4<u32>"),
    (DataType.array(4), "array<4B>"),
    (DataType.Tensor, "tensor"),
    (DataType.handle(7), "handle<7>"),
    (DataType.vec(DataType.F32, 4), "vec<f32, 4>"),
    (DataType.tensor_shaped(DataType.F16, (2, 3)), "tensor<f16, 2x3>"),
    (DataType.tensor_shaped(DataType.F16, ()), "tensor<f16, []>"),
    (DataType.sparse_csr(DataType.F64), "sparse_csr<f64>"),
    (DataType.sparse_coo(DataType.F64), "sparse_coo<f64>"),
    (DataType.sparse_bsr(DataType.I8, 8, 16), "sparse_bsr<i8, 8x16>"),
    (DataType.device_mesh((2, 4)), "device_mesh<2x4>"),
    (
        DataType.quantized(DataType.I4, QuantizationScale.per_group(32), QuantizationZeroPoint.per_channel(1)),
        "quantized<i4, per_group(32), per_channel(1)>",
    ),
    (DataType.quantized(DataType.NF4, *SYMMETRIC), "quantized<nf4, per_tensor, absent>"),
    (DataType.opaque(9), "opaque<9>"),
]


@pytest.mark.parametrize(("dtype", "text"), SPELLED, ids=[text for _, text in SPELLED])
def test_a_type_is_spelled_in_lower_case_with_its_parameters(dtype: DataType, text: str) -> None:
    assert (str(dtype), repr(dtype)) == (text, f"<DataType {text}>")


def test_types_are_equal_and_hash_by_every_parameter() -> None:
    types = [dtype for dtype, _ in SPELLED] + [DataType.vec(DataType.U32, 4), DataType.vec(DataType.F32, 2), DataType.array(8)]
    assert len(set(types)) == len({dtype.encoded for dtype in types}) == len(types)
    assert (DataType.vec(DataType.F32, 4), hash(DataType.vec(DataType.F32, 4))) == (types[7], hash(types[7]))
    assert copy.deepcopy(types[7]) is copy.copy(types[7]) is types[7]


def test_a_type_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        DataType.U32.wire_tag = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("dtype", "count", "size"),
    [
        (DataType.I4, 3, 2),
        (DataType.I4, 4, 2),
        (DataType.NF4, 0, 0),
        (DataType.U32, 3, 12),
        (DataType.Bytes, 5, 5),
        (DataType.vec(DataType.I4, 3), 3, 5),
        (DataType.quantized(DataType.FP4, *SYMMETRIC), 3, 2),
        (DataType.array(12), 2, 24),
        (DataType.device_mesh((2,)), 2, 8),
        (DataType.Tensor, 3, None),
        (DataType.opaque(1), 3, None),
    ],
)
def test_elements_are_packed_by_their_bits(dtype: DataType, count: int, size: int | None) -> None:
    assert dtype.packed_size_bytes(count) == size


@pytest.mark.parametrize("dtype", [DataType.U32, DataType.array(0xFFFF_FFFF), DataType.Vec4U32])
def test_a_size_over_64_bits_is_refused(dtype: DataType) -> None:
    with pytest.raises(InvalidProgram, match="over the limit"):
        dtype.packed_size_bytes(2**64 - 1)


@pytest.mark.parametrize("count", [-1, 2**64, 1.0, True, None])
def test_a_count_that_is_none_is_refused(count: object) -> None:
    with pytest.raises(InvalidProgram, match="a number of elements"):
        DataType.U32.packed_size_bytes(count)  # type: ignore[arg-type]


def test_widths_sizes_and_caps() -> None:
    assert [DataType.I4.bit_width, DataType.U32.bit_width, DataType.Bytes.bit_width, DataType.array(4).bit_width] == [
        4,
        32,
        8,
        None,
    ]
    assert [DataType.Bytes.max_bytes, DataType.array(1).max_bytes, DataType.Tensor.max_bytes, DataType.U32.max_bytes] == [
        64 << 20,
        256 << 20,
        256 << 20,
        None,
    ]


@pytest.mark.parametrize(
    ("dtype", "says"),
    [
        (DataType.array(0), "Array element_size must be > 0"),
        (DataType.vec(DataType.U32, 0), "Vec count must be > 0"),
        (DataType.tensor_shaped(DataType.U32, (2, 0)), "every dimension must be > 0"),
        (DataType.sparse_bsr(DataType.U32, 0, 1), "every dimension must be > 0"),
        (DataType.sparse_bsr(DataType.U32, 1, 0), "every dimension must be > 0"),
        (DataType.device_mesh(()), "must have an axis"),
        (DataType.device_mesh((1, 0)), "every dimension must be > 0"),
        (DataType.quantized(DataType.F32, *SYMMETRIC), "not f32"),
        (DataType.quantized(DataType.I4, QuantizationScale.per_group(0), SYMMETRIC[1]), "scale for groups of 0"),
        (DataType.quantized(DataType.I4, SYMMETRIC[0], QuantizationZeroPoint.per_group(0)), "zero point for groups of 0"),
        (DataType.vec(DataType.vec(DataType.U32, 0), 1), "Vec count must be > 0"),
        (DataType.sparse_csr(DataType.quantized(DataType.F32, *SYMMETRIC)), "not f32"),
    ],
)
def test_a_type_without_layout_is_refused(dtype: DataType, says: str) -> None:
    with pytest.raises(InvalidProgram, match=says):
        dtype.validate_layout()


@pytest.mark.parametrize("dtype", [dtype for dtype, _ in SPELLED])
def test_every_other_type_has_a_layout(dtype: DataType) -> None:
    dtype.validate_layout()


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
        lambda: DataType(0x20),
        lambda: DataType(0x14),
        lambda: DataType(0x01, DataType.U32),
        lambda: DataType(0x01, parameters=(1,)),
        lambda: DataType(0x01, scale=SYMMETRIC[0]),
        lambda: DataType(0x1F, DataType.I4),
        lambda: DataType.vec(DataType.U32, 256),
        lambda: DataType.array(2**64),
        lambda: DataType.opaque(2**32),
        lambda: DataType.array(-1),
        lambda: DataType.array("4"),  # type: ignore[arg-type]
        lambda: DataType.vec("u32", 4),  # type: ignore[arg-type]
        lambda: QuantizationScale(ScaleKind.PER_TENSOR, 1),
        lambda: QuantizationZeroPoint(ZeroPointKind.ABSENT, 1),
        lambda: QuantizationScale("per_tensor"),  # type: ignore[arg-type]
    ],
)
def test_what_has_no_encoding_cannot_be_made(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidProgram):
        make()


def test_types_nest_to_their_limit() -> None:
    dtype = DataType.U32
    for _ in range(MAX_TYPE_NESTING - 1):
        dtype = DataType.sparse_csr(dtype)
    assert len(str(dtype)) > MAX_TYPE_NESTING
    with pytest.raises(InvalidProgram, match="nests 65 deep, over the limit of 64"):
        DataType.sparse_csr(dtype)


def test_extension_ids_are_upstreams() -> None:
    assert extension_id("vyre.test") == 0xB25B5F15


def test_numpy_has_what_it_has() -> None:
    assert {dtype: numpy_element(dtype) for dtype in (DataType.F16, DataType.Bytes, DataType.Bool, DataType.Tensor)} == {
        DataType.F16: NumpyElement(np.dtype("<f2"), ElementForm.NUMBERS),
        DataType.Bytes: NumpyElement(np.dtype("<u1"), ElementForm.NUMBERS),
        DataType.Bool: NumpyElement(np.dtype("<u4"), ElementForm.RAW),
        DataType.Tensor: None,
    }
    assert numpy_element(DataType.Vec2U32) == NumpyElement(np.dtype(("<u4", (2,))), ElementForm.NUMBERS)
    assert numpy_element(DataType.array(12)) == NumpyElement(np.dtype(("<u1", (12,))), ElementForm.RAW)
    assert numpy_element(DataType.vec(DataType.Tensor, 2)) is None
    assert numpy_element(DataType.array(2**31)) is None
    assert numpy_element(DataType.vec(DataType.I4, 3)) is None
    assert [numpy_element(DataType.vec(one, 1)) for one in (DataType.vec(DataType.F32, 0), DataType.array(0))] == [None, None]


def test_vectors_of_vectors_are_sub_arrays_where_numpy_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = DataType.vec(DataType.vec(DataType.F32, 2), 3)
    assert numpy_element(matrix) == NumpyElement(np.dtype(("<f4", (3, 2))), ElementForm.NUMBERS)
    empty = DataType.vec(DataType.F32, 0)
    assert [numpy_element(one) for one in (DataType.vec(empty, 1), DataType.vec(DataType.array(0), 2))] == [None, None]
    monkeypatch.setattr(dtypes, "MAX_AXES", 2)
    assert [numpy_element(one) is None for one in (matrix, DataType.vec(matrix, 1))] == [False, True]


def test_without_ml_dtypes_its_numbers_are_raw_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert [numpy_element(one) for one in (DataType.BF16, DataType.F8E4M3, DataType.I4, DataType.vec(DataType.FP4, 4))] == [
        NumpyElement(np.dtype("<u2"), ElementForm.RAW),
        NumpyElement(np.dtype("<u1"), ElementForm.RAW),
        NumpyElement(np.dtype("<u1"), ElementForm.RAW, packed=True),
        NumpyElement(np.dtype(("<u1", (2,))), ElementForm.RAW),
    ]


def test_with_ml_dtypes_they_are_numbers() -> None:
    quantized = DataType.quantized(DataType.F8E5M2, *SYMMETRIC)
    assert [numpy_element(one) for one in (DataType.BF16, quantized, DataType.I4, DataType.NF4)] == [
        NumpyElement(np.dtype(ml_dtypes.bfloat16), ElementForm.ML_DTYPES),
        NumpyElement(np.dtype(ml_dtypes.float8_e5m2), ElementForm.ML_DTYPES),
        NumpyElement(np.dtype(ml_dtypes.int4), ElementForm.ML_DTYPES, packed=True),
        NumpyElement(np.dtype("<u1"), ElementForm.RAW, packed=True),
    ]


def test_an_array_may_have_elements_of_any_u64_and_on_the_wire_of_any_u32() -> None:
    wide, wider = DataType.array(2**32), DataType.array(2**64 - 1)
    assert (str(wider), wider.size_bytes, wider.min_bytes) == ("array<18446744073709551615B>", 2**64 - 1, 0)
    assert (wide == DataType.array(2**32), wide == wider, len({wide, wider, DataType.array(0)})) == (True, False, 3)
    assert (numpy_element(wide), DataType.vec(wide, 2).size_bytes, DataType.vec(wider, 2).size_bytes) == (None, 2**33, None)
    problem = "an array's element of 4294967296 bytes is over the limit of 4294967295 bytes"
    assert [wire_problem(DataType.array(2**32 - 1)), wire_problem(wide), wire_problem(DataType.vec(wide, 2))] == [
        None,
        problem,
        problem,
    ]
    made = Program.wrapped([], (1, 1, 1), [let("c", cast(wide, u32(1)))])
    program = Program.wrapped([BufferDecl.read_write("x", 0, wide)], (1, 1, 1), [])
    for name in (
        program.to_wire,
        program.normalized_cache_digest,
        made.to_wire,
    ):
        with pytest.raises(InvalidProgram, match=problem):
            name()
