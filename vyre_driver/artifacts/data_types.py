"""Data types as upstream writes them in JSON: ``"U32"``, ``{"Vec":{"element":"F32","count":3}}``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.errors import InvalidContainer, InvalidProgram
from vyre_driver.ir import dtypes
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint, ScaleKind, ZeroPointKind

if TYPE_CHECKING:
    from vyre_driver.artifacts.documents import Document

_PLAIN: dict[str, DataType] = {
    name: getattr(DataType, name)
    for name in (
        *("U32", "I32", "U64", "Vec2U32", "Vec4U32", "Bool", "Bytes", "F16", "BF16", "F32", "F64", "Tensor"),
        *("U8", "U16", "I8", "I16", "I64", "F8E4M3", "F8E5M2", "I4", "FP4", "NF4"),
    )
}
_PLAIN_NAMES = {dtype: name for name, dtype in _PLAIN.items()}
_TAGS = {
    "Array": dtypes.ARRAY,
    "Handle": dtypes.HANDLE,
    "Vec": dtypes.VEC,
    "TensorShaped": dtypes.TENSOR_SHAPED,
    "SparseCsr": dtypes.SPARSE_CSR,
    "SparseCoo": dtypes.SPARSE_COO,
    "SparseBsr": dtypes.SPARSE_BSR,
    "DeviceMesh": dtypes.DEVICE_MESH,
    "Quantized": dtypes.QUANTIZED,
    "Opaque": dtypes.OPAQUE,
}
_NAMES = {tag: name for name, tag in _TAGS.items()}
_BARE = frozenset({"Handle", "Opaque"})  # a number without a name
_LISTS = {"TensorShaped": "shape", "DeviceMesh": "axes"}
_NUMBERS: dict[str, tuple[str, ...]] = {
    "Array": ("element_size",),
    "Vec": ("count",),
    "SparseBsr": ("block_rows", "block_cols"),
}
_WITHOUT_ELEMENT = frozenset({"Array", "DeviceMesh"})
_SCALES = {"PerTensor": ScaleKind.PER_TENSOR, "PerChannel": ScaleKind.PER_CHANNEL, "PerGroup": ScaleKind.PER_GROUP}
_ZERO_POINTS = {
    "Absent": ZeroPointKind.ABSENT,
    "PerTensor": ZeroPointKind.PER_TENSOR,
    "PerChannel": ZeroPointKind.PER_CHANNEL,
    "PerGroup": ZeroPointKind.PER_GROUP,
}
_PARAMETERS = {"PerChannel": "axis", "PerGroup": "group_size"}


def data_type(document: Document, value: object, where: str) -> DataType:
    """Return the data type that a JSON value names; raises InvalidContainer."""
    try:
        return _data_type(document, value, where)
    except InvalidContainer:
        raise
    except InvalidProgram as error:
        return document.refuse(f"{where}: {error.problem}")


def _data_type(document: Document, value: object, where: str) -> DataType:
    if isinstance(value, str):
        return document.choice(value, where, _PLAIN)
    if not isinstance(value, dict) or len(value) != 1:
        document.refuse(f"{where} is not a data type")
    ((name, inner),) = value.items()
    tag = document.choice(name, where, _TAGS)
    if name in _BARE:
        return DataType(tag, parameters=(document.number(inner, where),))
    if name == "Quantized":
        storage, scale, zero_point = document.members(inner, where, "storage", "scale", "zero_point")
        scaled = QuantizationScale(*_kind(document, scale, f"{where}.scale", _SCALES))
        zero = QuantizationZeroPoint(*_kind(document, zero_point, f"{where}.zero_point", _ZERO_POINTS))
        return DataType.quantized(_data_type(document, storage, f"{where}.storage"), scaled, zero)
    has_element = name not in _WITHOUT_ELEMENT
    names = (*(("element",) if has_element else ()), *_NUMBERS.get(name, ()), *((_LISTS[name],) if name in _LISTS else ()))
    members = document.members(inner, where, *names)
    element = _data_type(document, members.pop(0), f"{where}.element") if has_element else None
    if name in _LISTS:
        return DataType(tag, element, document.numbers(members[0], where))
    return DataType(tag, element, tuple([document.number(member, where, 2**64 - 1) for member in members]))


def _kind(document: Document, value: object, where: str, kinds: dict[str, Any]) -> tuple[Any, int]:
    """Return the kind of a scale or zero point, and its parameter."""
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name in _PARAMETERS:
            return kinds[name], document.number(document.members(inner, where, _PARAMETERS[name])[0], where)
    if isinstance(value, str) and value in _PARAMETERS:
        document.refuse(f"{where} has no parameter")
    return document.choice(value, where, kinds), 0


def as_json(dtype: DataType) -> Any:  # noqa: ANN401 -- a text, or an object
    """Return a data type as the value that upstream writes for it."""
    if dtype in _PLAIN_NAMES:
        return _PLAIN_NAMES[dtype]
    name = _NAMES[dtype.wire_tag]
    if name in _BARE:
        return {name: dtype.parameters[0]}
    if dtype.element is not None and dtype.scale is not None and dtype.zero_point is not None:
        scale = _kind_as_json(dtype.scale, _SCALES)
        zero_point = _kind_as_json(dtype.zero_point, _ZERO_POINTS)
        return {name: {"storage": as_json(dtype.element), "scale": scale, "zero_point": zero_point}}
    members = {} if dtype.element is None else {"element": as_json(dtype.element)}
    if name in _LISTS:
        return {name: {**members, _LISTS[name]: list(dtype.parameters)}}
    return {name: {**members, **dict(zip(_NUMBERS.get(name, ()), dtype.parameters, strict=True))}}


def _kind_as_json(part: QuantizationScale | QuantizationZeroPoint, kinds: dict[str, Any]) -> Any:  # noqa: ANN401 -- as above
    name = next(name for name, kind in kinds.items() if kind is part.kind)
    return {name: {_PARAMETERS[name]: part.parameter}} if name in _PARAMETERS else name
