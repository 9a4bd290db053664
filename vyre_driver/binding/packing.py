"""Pack values that are given by name: each goes to the place in memory that the reflected layout gives it.

A structure is a mapping of its members, or a structured value of numpy; a vector is a sequence or array of its components, an
array one of its elements. A matrix has the shape (rows, columns), so that the shader's ``m * v`` (in HLSL and Slang
``mul(m, v)``) is numpy's ``m @ v``, however the shader lays it out.

Source: SPIR-V 1.6, 2.16.2 (Offset, ArrayStride, MatrixStride, RowMajor); Vulkan 1.3, "Push Constant Interface".
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.binding.structure import misfit_of, shape_of, view_of, write_structures
from vyre_driver.spirv.layout import Array, Numbers, Scalar, Struct, numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from vyre_driver.binding.structure import Misfit
    from vyre_driver.errors import VyreError
    from vyre_driver.spirv.layout import Member, MemoryType

_WIDEST_BYTES = 8
_MAX_SHOWN = 32


@dataclass(frozen=True, slots=True)
class Naming:
    """What values are called in messages: each is a ``noun``, and ``owner`` has them; ``refused`` makes the error.

    ``refused`` is given the message, the fix, the path of the value, and whatever else the error carries; ``asked`` says how a
    value is given that is missing.
    """

    noun: str
    owner: str
    of_owner: str
    refused: Callable[..., VyreError]
    asked: Callable[[str, MemoryType], str]
    takes_truth: bool = False
    """Whether a u32 may be True or False: GLSL's bool is one in memory."""

    def misfit(self, path: str, problem: str, fix: str, **data: object) -> VyreError:
        """Return the error of a value that does not fit."""
        return self.refused(f"{self.noun} {path!r}{self.of_owner} {problem}", fix, path, **data)


class ValueWriter:
    """Writes values that are given by name into memory that is zeros, and says what does not fit by its path."""

    def __init__(self, memory: memoryview, naming: Naming) -> None:
        """Take the memory of a block, and what its values are called."""
        self._memory = memory
        self._naming = naming

    def write_members(
        self, start: int, prefix: str, members: Sequence[Member], given: Mapping[str, object], *, whole: bool = True
    ) -> None:
        """Write the members of a structure that begins at ``start``; each must be given if it is ``whole``, and nothing else.

        Raises
        ------
        VyreError
            As ``naming`` makes it, if a name is unknown or missing, or a value does not fit its type or its shape.
        """
        names = [member.name for member in members]
        for name in sorted(set(given) - set(names), key=str):
            unknown = _path(prefix, name) if prefix else name
            raise self._naming.refused(
                f"{self._naming.owner} has no {self._naming.noun} {unknown!r}",
                f"give only what it declares: {_listed(names)}" if names else "leave it out: it declares none",
                unknown,
            )
        for member in members:
            path = _path(prefix, member.name)
            if member.name not in given:
                if not whole:
                    continue
                raise self._naming.misfit(path, f"({member.type}) was not given", self._naming.asked(path, member.type))
            self.write(start + member.offset, path, member.type, given[member.name])

    def write(self, start: int, path: str, found: MemoryType, value: object) -> None:
        """Write one value; raises as ``write_members``."""
        numbers = numbers_of(found)
        if numbers is not None:
            self._write_numbers(start, path, found, value)
        elif _is_structured(value):
            self._write_structured(start, path, found, np.asarray(value))
        elif isinstance(found, Struct):
            if not isinstance(value, Mapping):
                raise self._naming.misfit(
                    path, f"is a structure and got something of type {type(value).__name__}", f"give {form_of(found)}"
                )
            self.write_members(start, path, found.members, value)
        elif isinstance(found, Array):
            items = items_in(value)
            if items is None or len(items) != found.count:
                got = f"something of type {type(value).__name__}" if items is None else f"{len(items)} element(s)"
                raise self._naming.misfit(path, f"is {found} and got {got}", f"give {form_of(found)}")
            for at, one in enumerate(items):
                self.write(start + at * found.stride, f"{path}[{at}]", found.element, one)

    def _write_structured(self, start: int, path: str, found: MemoryType, values: NDArray[Any]) -> None:
        wanted = shape_of(found)
        if values.shape != wanted:
            raise self._naming.misfit(
                path, f"is {found} and got an array of structures of shape {values.shape}", f"give one of shape {wanted}"
            )
        wrong = misfit_of(found, np.dtype((values.dtype, values.shape)))
        if wrong is not None:
            raise field_misfit(path, wrong, self._naming)
        write_structures(self._memory, start, found, values)

    def _write_numbers(self, start: int, path: str, found: MemoryType, value: object) -> None:
        numbers = numbers_of(found)
        if numbers is None:
            return
        what = _described(numbers)
        if hasattr(value, "__array__") and not isinstance(value, (np.generic, np.ndarray)):
            try:
                value = np.asarray(value)
            except (TypeError, ValueError, RuntimeError) as error:
                raise self._naming.misfit(path, f"is {what}, and {error}", f"give {what}") from error
        values = _flat(value, numbers.shape)
        scalar = numbers.scalar
        if values is None:
            count = math.prod(numbers.shape)
            raise self._naming.misfit(
                path,
                f"is {what} and got {_counted(value, numbers.shape)}",
                f"give {count} value(s)" if len(numbers.shape) < 2 else f"give {what}",
            )
        if self._naming.takes_truth and (scalar.kind, scalar.bits) == ("u", 32):
            values = _truth_as_numbers(values)
        try:
            if not numbers.shape and isinstance(values, list):
                bits = scalar.encode(values[0]).to_bytes(scalar.byte_len, "little")
                self._memory[start : start + scalar.byte_len] = bits
                return
            array = _converted(values, scalar) if isinstance(values, np.ndarray) else None
            if array is None:
                encoded = [scalar.encode(one) for one in (values.tolist() if isinstance(values, np.ndarray) else values)]
                array = np.array(encoded, f"<u{scalar.byte_len}").view(np.dtype(scalar.stored.dtype))
        except (TypeError, OverflowError) as error:
            raise self._naming.misfit(path, f"is {what}, and {error}", f"give {what}", value=value) from error
        stored = Numbers(scalar.stored, numbers.shape)
        view_of(self._memory, start, found, stored)[...] = array.reshape(numbers.shape)


def _truth_as_numbers(values: list[Any] | NDArray[Any]) -> list[Any] | NDArray[Any]:
    """Return values with 1 and 0 for True and False."""
    if isinstance(values, np.ndarray):
        return values.astype(np.uint32) if values.dtype == np.bool_ else values
    return [int(value) if isinstance(value, (bool, np.bool_)) else value for value in values]


def form_of(found: MemoryType) -> str:
    """Return the words for what is given for a type."""
    numbers = numbers_of(found)
    if numbers is not None:
        return _described(numbers)
    if isinstance(found, Struct):
        return f"a mapping with {_listed([one.name for one in found.members])}"
    return f"a sequence of {found.count} elements" if isinstance(found, Array) else str(found)


def items_in(value: object) -> list[Any] | None:
    """Return the items of a sequence or an array; None for a single value, text and bytes too."""
    if isinstance(value, np.ndarray):
        return list(value) if value.ndim else None
    return list(value) if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else None


def is_masked(array: object) -> bool:
    """Whether an array of numpy.ma has elements that count as missing."""
    return (
        type(array) is not np.ndarray
        and isinstance(array, np.ma.MaskedArray)
        and bool(np.ascontiguousarray(array.mask).view(np.bool_).any())
    )


def _listed(names: Sequence[str]) -> str:
    left = len(names) - _MAX_SHOWN
    return ", ".join(map(repr, names[:_MAX_SHOWN])) + (f" and {left} more" if left > 0 else "")


def _path(prefix: str, name: object) -> str:
    return f"{prefix}.{name}" if prefix else str(name)


def _described(numbers: Numbers) -> str:
    if len(numbers.shape) > 1:
        return f"{numbers.scalar} of shape {numbers.shape}"
    return str(numbers.scalar) if math.prod(numbers.shape) == 1 else f"{numbers.shape[0]} x {numbers.scalar}"


def _is_structured(value: object) -> bool:
    return isinstance(value, (np.ndarray, np.void)) and value.dtype.names is not None


def field_misfit(path: str, wrong: Misfit, naming: Naming) -> VyreError:
    """Return the error of a structured array whose fields are not the members."""
    where = _path(path, wrong.path) if wrong.path else path
    return naming.misfit(
        where, f"is {wrong.expected}, and the array has {wrong.received}", "give the fields that the shader declares"
    )


def _converted(values: NDArray[Any], scalar: Scalar) -> NDArray[Any] | None:
    """Return an array's numbers in the type of a member, as ``Scalar.encode`` takes each; None to have it look at each."""
    if scalar.kind == "b":
        return None
    wanted, kind = np.dtype(scalar.dtype), values.dtype.kind
    if scalar.is_encoded:
        return values.view(wanted) if scalar.has_bits_in(values.dtype) and not is_masked(values) else None
    if values.dtype == wanted and not is_masked(values):
        return values
    if kind not in "iuf" or values.dtype.itemsize > _WIDEST_BYTES or is_masked(values) or not values.size:
        return None if values.size else np.zeros(values.shape, wanted)
    if scalar.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            wide = values.astype(np.float64)
            narrow = wide.astype(wanted)
        return None if (np.isinf(narrow) & ~np.isinf(wide)).any() else narrow
    bounds = np.iinfo(wanted)
    fits = kind != "f" and int(values.min()) >= bounds.min and int(values.max()) <= bounds.max
    return values.astype(wanted) if fits else None


def _flat(value: object, shape: tuple[int, ...]) -> list[Any] | NDArray[Any] | None:
    """Return the numbers of a value in order, None if it has another shape; one axis takes any array of so many numbers."""
    if isinstance(value, np.ndarray):
        fits = value.shape == shape if len(shape) > 1 else value.size == math.prod(shape)
        return value.ravel() if fits else None
    items = items_in(value)
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
        return f"shape {value.shape}" if isinstance(value, np.ndarray) else reprlib.repr(value)
    if isinstance(value, np.ndarray):
        return f"{value.size} value(s)"
    items = items_in(value)
    return f"{1 if items is None else len(items)} value(s)"
