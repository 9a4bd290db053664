"""Data types: sizes, layouts, spelling, encoding, numpy."""

from __future__ import annotations

import copy
import sys

import ml_dtypes
import numpy as np
import pytest

from vyre_driver import DataType
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir import numpy_types
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import cast, let, u32
from vyre_driver.ir.dtypes import MAX_TYPE_NESTING, extension_id, wire_problem
from vyre_driver.ir.numpy_types import ElementForm, NumpyElement, numpy_element
from vyre_driver.ir.program import Program
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint, ScaleKind, ZeroPointKind

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
    monkeypatch.setattr(numpy_types, "MAX_AXES", 2)
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
