"""Shapes, types and elements of resident arrays, as callers give them."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vyre_driver.binding.outputs import host_targets
from vyre_driver.binding.tensors import bits_as_array
from vyre_driver.checks import integer, is_whole, items_of
from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from vyre_driver.kompute.deadline import Deadline
    from vyre_driver.kompute.memory import TensorBuffer

_PIECE_BYTES = 1 << 16
# By numpy's kind the most bytes of a number: of those that shaders have, and of pairs and bytes that are views of such.
_LONGEST = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16}
_PLAIN: dict[object, np.dtype[Any]] = {np.dtype(one).type: np.dtype(one) for one in "bBhHiIqQefd"}
# The kinds of numbers that an element takes, by its own.
_TAKEN = {"b": "biu", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc"}
# DLPack's codes of numbers, by numpy's kind, and by the names of types that ml_dtypes adds.
_DLPACK_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_DLPACK_NAMED = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}

_INSTEAD = {
    "S": "give numpy.uint8, and the number of bytes as the last axis of the buffer's shape",
    "M": "give numpy.int64",
    "m": "give numpy.int64",
}


def checked_shape(shape: object) -> tuple[int, ...]:
    """Return the shape of a buffer as a tuple; raises InvalidInput if it is not integers of at least 0."""
    if type(shape) is int and shape >= 0:
        return (shape,)
    axes: list[Any] | None = [shape] if is_whole(shape) else items_of(shape)
    if axes is None or not all(is_whole(axis) and operator.index(axis) >= 0 for axis in axes):
        raise InvalidInput(
            f"the shape of a buffer is {shape!r}, which is not integers of at least 0",
            fix="give the number of elements, or a tuple of such numbers",
        )
    return tuple(operator.index(axis) for axis in axes)


def reshaped(size: int, shape: object, what: str) -> tuple[int, ...]:
    """Return the shape that so many elements are to have; one length may be -1: what is left for it.

    Raises InvalidInput if they cannot have it; ``what`` names the buffer.
    """
    axes = [integer(axis) for axis in items_of(shape) or []]
    known = math.prod(axis for axis in axes if axis is not None and axis >= 0)
    if axes.count(-1) == 1 and known and size % known == 0:
        axes[axes.index(-1)] = size // known
    if items_of(shape) is None or any(axis is None or axis < 0 for axis in axes) or math.prod(map(int, axes)) != size:  # type: ignore[arg-type]
        raise InvalidInput(
            f"{what} has {size} elements, and cannot be reshaped to {shape!r}",
            fix=f"give lengths whose product is {size}; one of them may be -1",
        )
    return tuple(map(int, axes))  # type: ignore[arg-type]


def checked_dtype(dtype: DTypeLike | None) -> np.dtype[Any]:
    """Return the type of a buffer's elements.

    Raises
    ------
    InvalidInput
        If numpy does not know it, or it is none of numbers that shaders can have, nor a structure of such: text, dates, C's
        long double, another byte order, Python's objects, an array of its own, or of no bytes.
    """
    plain = _PLAIN.get(dtype) if type(dtype) is type else None
    if plain is not None:
        return plain
    try:
        found = None if dtype is None else np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise InvalidInput(
            f"the type of a buffer is {dtype!r}, which numpy does not know ({error})", fix="give a type such as numpy.float32"
        ) from error
    if found is None or not found.itemsize or found.subdtype is not None or not _is_of_numbers(found):
        fix = "give a type such as numpy.float32"
        if found is not None:
            fix = _INSTEAD.get(found.kind, fix) if found.isnative or found.names else f"give {found.newbyteorder('=')}"
            if found.subdtype is not None:
                fix = f"give {found.base}, and its shape {found.shape} as the last axes of the buffer's"
        raise InvalidInput(f"the type of a buffer is {dtype!r}, which is not a type of numbers that shaders can have", fix=fix)
    return found


def _is_of_numbers(dtype: np.dtype[Any]) -> bool:
    """Whether a type is of numbers that shaders can have, or a structure of such."""
    base = dtype.base
    if base.names is not None:
        return all(_is_of_numbers(base[name]) for name in base.names)
    is_raw = base.kind == "V"  # bytes as they are, or numbers that numpy does not know, as bfloat16
    return base.isnative and (is_raw or base.itemsize <= _LONGEST.get(base.kind, 0))


def element_bytes(value: object, dtype: np.dtype[Any], what: str) -> bytes:
    """Return the bytes of one element of a type.

    Raises InvalidInput if the value is none of that type, or is out of its range; ``what`` names the buffer.
    """
    try:
        is_record = dtype.names is not None and isinstance(value, tuple)
        bits = bits_as_array(value)
        given = np.asarray(value, dtype if is_record else None) if bits is None else bits
        found = _as_element(given, dtype) if given.ndim == 0 and not given.dtype.hasobject else None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{what} cannot be filled with {value!r} ({error})", fix="give one number of its type") from error
    if found is None:
        raise InvalidInput(
            f"{what} cannot be filled with {value!r}, which is no value of {dtype}", fix="give one number of its type"
        )
    return found


def _as_element(given: NDArray[Any], dtype: np.dtype[Any]) -> bytes | None:
    """Return the bytes of one value as an element of a type; None if it is none of its values. 0 is zeros of any type."""
    if given.dtype.kind in "biu" and not given:
        return bytes(dtype.itemsize)
    is_of_others = dtype.kind == "V" and not issubclass(dtype.type, np.void)  # a number that numpy does not know, as bfloat16
    if given.dtype != dtype and not is_of_others and given.dtype.kind not in _TAKEN.get(dtype.kind, ""):
        return None
    with np.errstate(over="ignore"):
        found = given.astype(dtype)
    is_exact = dtype.kind in "biu"
    if (is_exact and int(given) != int(found)) or (dtype.kind in "fc" and np.isfinite(given) and not np.isfinite(found)):
        return None
    return found.tobytes()


def fill_by_copies(memory: TensorBuffer, offset: int, byte_len: int, pattern: bytes, deadline: Deadline) -> None:
    """Fill with a pattern of any length as ``TensorBuffer.fill_range``: a piece of it from the host, which is doubled there."""
    done = min(byte_len, max(1, _PIECE_BYTES // len(pattern)) * len(pattern))
    memory.write_range(offset, np.frombuffer(pattern * (done // len(pattern)), np.uint8), deadline)
    while done < byte_len:
        length = min(done, byte_len - done)
        memory.copy_range(memory, offset, offset + done, length, deadline)
        done += length


class Described(Protocol):
    """What messages call by a description of its own, which takes long to make."""

    @property
    def described(self) -> str:
        """The description."""


def result_array(out: object, shape: tuple[int, ...], dtype: np.dtype[Any], whose: Described) -> NDArray[Any]:
    """Return the array that results are written to: ``out`` or the memory of a tensor, a new one where ``out`` is None.

    Raises InvalidInput as ``check_target``.
    """
    if out is None:
        return np.empty(shape, dtype)
    (target,) = host_targets((out,))
    check_target(target, shape, dtype, whose)
    return target  # type: ignore[return-value] # an array: it was checked


def check_target(out: object, shape: tuple[int, ...], dtype: np.dtype[Any], whose: Described) -> None:
    """Check that results of this shape and type can be written to an array, and raise InvalidInput otherwise."""
    if not isinstance(out, np.ndarray):
        raise InvalidInput(
            f"out= is of type {type(out).__name__} for {whose.described}",
            fix="give a numpy array, or a buffer where a kernel is called",
        )
    if out.shape != shape or out.dtype != dtype:
        raise InvalidInput(
            f"out= has shape {out.shape} and type {out.dtype}, and {whose.described} gives shape {shape} and type {dtype}",
            fix="give an array of that shape and type" if dtype.names else f"give numpy.empty({shape}, {str(dtype)!r})",
            expected=(shape, str(dtype)),
            received=(out.shape, str(out.dtype)),
        )
    if not out.flags.c_contiguous or not out.flags.writeable:
        problem = "cannot be written to" if out.flags.c_contiguous else "is not contiguous"
        raise InvalidInput(
            f"out= for {whose.described} {problem}", fix="give a contiguous array that can be written to, and copy from that"
        )


def dlpack_type(dtype: np.dtype[Any]) -> tuple[int, int] | None:
    """Return DLPack's code of the elements of a type, and their bits; None for what it has no type for, structures."""
    code = _DLPACK_NAMED.get(dtype.name) or _DLPACK_KINDS.get(dtype.kind)
    return None if code is None else (code, dtype.itemsize * 8)
