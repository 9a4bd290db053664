"""The layout of a data type's elements in a numpy array.

numpy itself has the integers and f16, f32, f64. bf16, f8 and the 4-bit numbers i4 and fp4 come from ml_dtypes when that is
installed, and are raw words when not. bool is a u32 word, zero or not, for a buffer has it so; nf4 is raw always.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.ir.dtypes import ARRAY, HANDLE, QUANTIZED, VEC, DataType

if TYPE_CHECKING:
    from types import ModuleType


class ElementForm(enum.Enum):
    """What an array of the numpy type holds."""

    NUMBERS = "numbers"  # numpy's own
    ML_DTYPES = "ml_dtypes"  # numbers that ml_dtypes adds to numpy
    RAW = "raw"  # the bytes of the elements, as unsigned words


@dataclass(frozen=True, slots=True)
class NumpyElement:
    """The numpy type of an element.

    Where ``packed``, two elements share a byte of the buffer: a RAW array holds such bytes, and an ML_DTYPES array one element
    a byte, so that it has to be packed on the way in and unpacked on the way out.
    """

    dtype: np.dtype[Any]
    form: ElementForm
    packed: bool = False


MAX_AXES: int = getattr(np, "MAXDIMS", 64)
"""How many axes an array of numpy has at most: 32 before numpy 2, which no longer says it."""
_MAX_ITEM_BYTES = (1 << 31) - 1
_NUMBERS = {
    DataType.U8: "<u1",
    DataType.U16: "<u2",
    DataType.U32: "<u4",
    DataType.U64: "<u8",
    DataType.I8: "<i1",
    DataType.I16: "<i2",
    DataType.I32: "<i4",
    DataType.I64: "<i8",
    DataType.F16: "<f2",
    DataType.F32: "<f4",
    DataType.F64: "<f8",
    DataType.Bytes: "<u1",
}
_ML_DTYPES = {
    DataType.BF16: ("bfloat16", "<u2"),
    DataType.F8E4M3: ("float8_e4m3fn", "<u1"),
    DataType.F8E5M2: ("float8_e5m2", "<u1"),
    DataType.I4: ("int4", "<u1"),
    DataType.FP4: ("float4_e2m1fn", "<u1"),
    DataType.NF4: ("", "<u1"),
}
_PACKED = frozenset({DataType.I4, DataType.FP4, DataType.NF4})
_VECTORS = {DataType.Vec2U32: (DataType.U32, 2), DataType.Vec4U32: (DataType.U32, 4)}


def numpy_element(dtype: DataType) -> NumpyElement | None:
    """Return the numpy type of the elements of a data type, None for a type without fixed elements.

    A vector is a sub-array (``('<f4', (4,))``), a quantized type is its storage, an array or a handle is raw. None also for
    elements that numpy does not have: of more than 2**31 - 1 bytes or MAX_AXES axes, and vectors of elements without bytes.
    """
    if (dtype.size_bytes or 0) > _MAX_ITEM_BYTES:
        return None
    if dtype in _NUMBERS:
        return NumpyElement(np.dtype(_NUMBERS[dtype]), ElementForm.NUMBERS)
    if dtype in _ML_DTYPES:
        return _from_ml_dtypes(dtype)
    if dtype == DataType.Bool or dtype.wire_tag == HANDLE:
        return NumpyElement(np.dtype("<u4"), ElementForm.RAW)
    if dtype.wire_tag == ARRAY:
        return NumpyElement(np.dtype(("<u1", (dtype.parameters[0],))), ElementForm.RAW)
    if dtype.wire_tag == QUANTIZED and dtype.element is not None:
        return numpy_element(dtype.element)
    if dtype in _VECTORS:
        return _vector(*_VECTORS[dtype])
    return _vector(dtype.element, dtype.parameters[0]) if dtype.wire_tag == VEC and dtype.element is not None else None


def _from_ml_dtypes(dtype: DataType) -> NumpyElement:
    name, word = _ML_DTYPES[dtype]
    found = getattr(_ml_dtypes(), name, None) if name else None
    if found is None:
        return NumpyElement(np.dtype(word), ElementForm.RAW, dtype in _PACKED)
    return NumpyElement(np.dtype(found), ElementForm.ML_DTYPES, dtype in _PACKED)


def _vector(element: DataType, count: int) -> NumpyElement | None:
    """Return a sub-array; 4-bit numbers that fill whole bytes are those bytes, and others have no array.

    Nor have vectors of elements without bytes, or of more axes than numpy has.
    """
    inner = numpy_element(element)
    if inner is None or (inner.packed and count % 2) or not inner.dtype.itemsize or len(inner.dtype.shape) >= MAX_AXES:
        return None
    if inner.packed:
        return NumpyElement(np.dtype(("<u1", (count // 2,))), ElementForm.RAW)
    return NumpyElement(np.dtype((inner.dtype.base, (count, *inner.dtype.shape))), inner.form)


def _ml_dtypes() -> ModuleType | None:
    try:
        import ml_dtypes
    except ImportError:
        return None
    return ml_dtypes
