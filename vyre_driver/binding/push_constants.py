"""Pack push constants: the caller's named values become the words of the block, each at its declared offset.

A vector is a sequence or array of its components, an array one of its elements, a structure a mapping of its members. A matrix
has the shape (rows, columns), so that the shader's ``m * v`` is numpy's ``m @ v``, however the shader lays it out.

Source: SPIR-V 1.6, 2.16.2 (Offset, ArrayStride, MatrixStride, RowMajor); Vulkan 1.3, "Push Constant Interface".
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.binding import _call_form
from vyre_driver.errors import InvalidPushConstant
from vyre_driver.spirv.layout import Array, Matrix, Numbers, Scalar, Struct, Vector, numbers_of

if TYPE_CHECKING:
    from vyre_driver.spirv.layout import Member, MemoryType

_WORD_BITS = 32
_MAX_PACKED_BYTES = 256  # what _call_form.PushPacker has room for


@functools.lru_cache(256)
def _offsets(found: MemoryType) -> tuple[int, ...]:
    """Return where each number lies, in numpy's order; for blocks that a device has room for."""
    match found:
        case Vector(scalar, components):
            return tuple(scalar.byte_len * at for at in range(components))
        case Matrix(scalar, columns, rows, stride, row_major):
            across, down = (scalar.byte_len, stride) if row_major else (stride, scalar.byte_len)
            return tuple(down * row + across * column for row in range(rows) for column in range(columns))
        case Array(element, int(count), stride):
            inner = _offsets(element)
            return tuple(stride * at + offset for at in range(count) for offset in inner)
    return (0,)


def packer_of(members: Sequence[Member], byte_len: int) -> _call_form.PushPacker | None:
    """Return the fast packer of a block of single 32-bit numbers, 256 bytes at most; None for any other block."""
    scalars = [member.type for member in members if isinstance(member.type, Scalar)]
    if not members or len(scalars) < len(members) or byte_len > _MAX_PACKED_BYTES:
        return None
    if any(scalar.bits != _WORD_BITS or scalar.kind == "b" for scalar in scalars):
        return None
    places = [(member.name, member.offset, scalar.kind) for member, scalar in zip(members, scalars, strict=True)]
    return _call_form.PushPacker(tuple(places), byte_len // 4)


def pack_push_constants(
    members: Sequence[Member], byte_len: int, given: Mapping[str, object], subject: str = "shader"
) -> tuple[int, ...]:
    """Return the push-constant block of ``byte_len`` bytes as 32-bit words; every member must be given.

    ``subject`` is what declares them, in messages: ``shader`` or ``program``, which has none that a caller gives.

    Raises
    ------
    InvalidPushConstant
        If they are not given by name, a name is unknown or missing, or a value does not fit its type or its shape.
    """
    if not isinstance(given, Mapping):
        raise InvalidPushConstant(
            f"push constants came as {type(given).__name__}, and are given by name",
            fix="pass a dictionary from names to values",
        )
    if subject == "program" and given:
        name = str(next(iter(given)))
        raise InvalidPushConstant(
            f"a program has no push constants, and {name!r} was given",
            fix="leave push out; give values as specs, or in a buffer",
            constant=name,
        )
    block = bytearray(byte_len)
    _write_members(block, 0, "", members, given)
    return struct.unpack(f"<{byte_len // 4}I", block)


def _write_members(block: bytearray, start: int, prefix: str, members: Sequence[Member], given: Mapping[str, object]) -> None:
    names = {member.name for member in members}
    for name in sorted(set(given) - names, key=str):
        unknown = _path(prefix, name) if prefix else name
        raise InvalidPushConstant(
            f"the shader has no push constant {unknown!r}", fix="give only what it declares", constant=unknown
        )
    for member in members:
        path = _path(prefix, member.name)
        if member.name not in given:
            raise InvalidPushConstant(
                f"push constant {path!r} ({member.type}) was not given", fix=_example(path, member.type), constant=path
            )
        _write(block, start + member.offset, path, member.type, given[member.name])


def _path(prefix: str, name: object) -> str:
    return f"{prefix}.{name}" if prefix else str(name)


def _example(path: str, found: MemoryType) -> str:
    if isinstance(found, Scalar) and "." not in path:
        return f"give it, for example {path}=1, or --push {path}=1"
    return f"give it, {_form(found)}"


def _form(found: MemoryType) -> str:
    """Say what is given for a type."""
    numbers = numbers_of(found)
    if numbers is not None:
        return _described(numbers)
    if isinstance(found, Struct):
        return f"a mapping with {', '.join(repr(one.name) for one in found.members)}"
    return f"a sequence of {found.count} elements" if isinstance(found, Array) else str(found)


def _described(numbers: Numbers) -> str:
    if len(numbers.shape) > 1:
        return f"{numbers.scalar} of shape {numbers.shape}"
    return str(numbers.scalar) if math.prod(numbers.shape) == 1 else f"{numbers.shape[0]} x {numbers.scalar}"


def _write(block: bytearray, start: int, path: str, found: MemoryType, value: object) -> None:
    numbers = numbers_of(found)
    if numbers is not None:
        _write_numbers(block, [start + one for one in _offsets(found)], path, numbers, value)
    elif isinstance(found, Struct):
        if not isinstance(value, Mapping):
            raise _misfit(path, f"is a structure and got something of type {type(value).__name__}", found)
        _write_members(block, start, path, found.members, value)
    elif isinstance(found, Array):
        items = _items(value)
        if items is None or len(items) != found.count:
            got = f"something of type {type(value).__name__}" if items is None else f"{len(items)} element(s)"
            raise _misfit(path, f"is {found} and got {got}", found)
        for at, one in enumerate(items):
            _write(block, start + at * found.stride, f"{path}[{at}]", found.element, one)


def _misfit(path: str, problem: str, found: MemoryType) -> InvalidPushConstant:
    return InvalidPushConstant(f"push constant {path!r} {problem}", fix=f"give {_form(found)}", constant=path)


def _write_numbers(block: bytearray, offsets: Sequence[int], path: str, numbers: Numbers, value: object) -> None:
    values = _flat(value, numbers.shape)
    what = _described(numbers)
    if values is None:
        raise InvalidPushConstant(
            f"push constant {path!r} is {what} and got {_counted(value, numbers.shape)}",
            fix=f"give {math.prod(numbers.shape)} value(s)" if len(numbers.shape) < 2 else f"give {what}",
            constant=path,
        )
    size = numbers.scalar.byte_len
    try:
        for offset, one in zip(offsets, values, strict=True):
            block[offset : offset + size] = numbers.scalar.encode(one).to_bytes(size, "little")
    except (TypeError, OverflowError) as error:
        raise InvalidPushConstant(
            f"push constant {path!r} is {what}, and {error}", fix=f"give {what}", constant=path, value=value
        ) from error


def _items(value: object) -> list[object] | None:
    if isinstance(value, np.ndarray):
        return list(value) if value.ndim else None
    return list(value) if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else None


def _flat(value: object, shape: tuple[int, ...]) -> list[object] | None:
    """Return the numbers of a value in order, None if it has another shape; one axis takes any array of so many numbers."""
    if isinstance(value, np.ndarray):
        fits = value.shape == shape if len(shape) > 1 else value.size == math.prod(shape)
        return value.ravel().tolist() if fits else None
    items = _items(value)
    if not shape or items is None:
        items = [value] if items is None else items
        return items if len(items) == math.prod(shape) else None
    if len(items) != shape[0]:
        return None
    if len(shape) == 1:
        return items
    rows = [_flat(one, shape[1:]) for one in items]
    known = [row for row in rows if row is not None]
    return [one for row in known for one in row] if len(known) == len(rows) else None


def _counted(value: object, shape: tuple[int, ...]) -> str:
    if len(shape) > 1:
        return f"shape {value.shape}" if isinstance(value, np.ndarray) else f"{value!r}"
    if isinstance(value, np.ndarray):
        return f"{value.size} value(s)"
    items = _items(value)
    return f"{1 if items is None else len(items)} value(s)"
