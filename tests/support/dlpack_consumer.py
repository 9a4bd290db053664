"""A consumer of DLPack capsules in plain Python: what a capsule says, its memory, and letting go of it.

The structures are written here once more, as DLPack's documentation has them.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TENSOR: tuple[tuple[str, Any], ...] = (
    ("data", c_void_p),
    ("device_type", c_int32),
    ("device_id", c_int32),
    ("ndim", c_int32),
    ("code", c_uint8),
    ("bits", c_uint8),
    ("lanes", c_uint16),
    ("shape", POINTER(c_int64)),
    ("strides", POINTER(c_int64)),
    ("byte_offset", c_uint64),
)


class _Tensor(ctypes.Structure):
    _fields_ = _TENSOR


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", ctypes.CFUNCTYPE(None, c_void_p)))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, c_void_p)),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    )


_python = ctypes.pythonapi
_python.PyCapsule_GetName.restype, _python.PyCapsule_GetName.argtypes = c_char_p, (py_object,)
_python.PyCapsule_GetPointer.restype, _python.PyCapsule_GetPointer.argtypes = c_void_p, (py_object, c_char_p)
_python.PyCapsule_SetName.argtypes = (py_object, c_char_p)
_USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}


class Taken:
    """What was taken out of a capsule, until ``let_go``."""

    def __init__(self, capsule: object) -> None:
        name = _python.PyCapsule_GetName(capsule)
        self._address = _python.PyCapsule_GetPointer(capsule, name)
        self._managed = (_Versioned if name == b"dltensor_versioned" else _Managed).from_address(self._address)
        _python.PyCapsule_SetName(capsule, _USED[name])

    @property
    def said(self) -> dict[str, object]:
        """All that the structure says but addresses."""
        one, managed = self._managed.tensor, self._managed
        found = {"device": (one.device_type, one.device_id), "type": (one.code, one.bits, one.lanes)}
        found |= {"shape": tuple(one.shape[: one.ndim]), "strides": tuple(one.strides[: one.ndim])}
        if isinstance(managed, _Versioned):
            found |= {"version": (managed.major, managed.minor), "flags": managed.flags}
        return found

    @property
    def address(self) -> int:
        """Where the first element is."""
        return (self._managed.tensor.data or 0) + int(self._managed.tensor.byte_offset)

    @property
    def memory(self) -> NDArray[Any]:
        """The memory itself; not to be used after ``let_go``."""
        one = self._managed.tensor
        dtype = np.dtype(f"{'iuf??cb'[one.code]}{one.bits // 8}")
        shape = tuple(one.shape[: one.ndim])
        raw = (ctypes.c_uint8 * (int(np.prod(shape)) * dtype.itemsize)).from_address(self.address)
        return np.frombuffer(raw, dtype).reshape(shape)

    def let_go(self) -> None:
        """Call the deleter, as consumers do: without the GIL."""
        self._managed.deleter(self._address)
