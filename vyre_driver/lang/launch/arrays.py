"""The arrays of a call: read as arrays, and held against what a kernel says of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vyre_driver.binding.arguments import as_array, raw_bytes
from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang.frontend.translation import MAX_EXTENT
from vyre_driver.lang.types import SCALARS, ArrayType, ScalarType, bool_, f32, type_of, u32

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    from numpy.typing import NDArray

    from vyre_driver.lang.source.parameters import KernelSignature, Parameter

GivenArray: TypeAlias = "NDArray[Any] | Buffer | None"

_WORD = np.dtype(np.uint32)


def read_array(kernel: str, parameter: Parameter, given: object) -> GivenArray:
    """Return what is given for a parameter as an array in the same memory, None for None; a buffer is left as it is.

    What holds nothing but bytes is taken as the parameter's elements, and as uint8 where that has a type variable.

    Raises
    ------
    InvalidInput
        If it is no array, its bytes are no whole elements, or it is to be written and cannot be.
    """
    if given is None or isinstance(given, Buffer):
        return given
    if isinstance(given, Mapping):
        raise InvalidInput(
            f"{parameter.name} of {kernel} is a mapping", fix="pass an array of numbers", parameter=parameter.name
        )
    octets = None if isinstance(given, (np.ndarray, list, tuple)) else raw_bytes(given)
    found = as_array(given, f"{parameter.name} of {kernel}") if octets is None else _elements(kernel, parameter, octets)
    if _of_array(parameter).access.writes:
        _check_writable(kernel, parameter, given, found)
    return found


def _elements(kernel: str, parameter: Parameter, octets: NDArray[np.uint8]) -> NDArray[Any]:
    """Return bytes as the elements of a parameter; of bool each byte is one, as in an array of numpy."""
    element = _of_array(parameter).element
    if not isinstance(element, ScalarType):
        return octets
    size = element.dtype.itemsize
    if octets.size % size:
        raise InvalidInput(
            f"{parameter.name} of {kernel} has {octets.size} bytes, and an element of {element} takes {size}",
            fix="pass whole elements",
            parameter=parameter.name,
            bytes=octets.size,
            element_bytes=size,
        )
    if element is bool_ and not _of_array(parameter).access.writes:
        bools: NDArray[np.bool_] = octets != 0  # other bytes than 0 and 1 are no bools
        return bools
    return octets.view(element.dtype)


def _check_writable(kernel: str, parameter: Parameter, given: object, found: NDArray[Any]) -> None:
    """Check that an array can be written where it lies."""
    name = parameter.name
    if isinstance(given, (list, tuple, int, float, np.generic)) or (found.base is None and found is not given):
        raise InvalidInput(
            f"{name} of {kernel} is of type {type(given).__name__}, which cannot be written in place",
            fix="pass a numpy array",
            parameter=name,
        )
    if not found.flags.writeable:
        raise InvalidInput(
            f"{name} of {kernel} is read-only, and cannot be written in place",
            fix=f"pass {name}.copy()" if isinstance(given, np.ndarray) else f"pass bytearray({name}), or a numpy array",
            parameter=name,
        )
    if not found.flags.c_contiguous:
        raise InvalidInput(
            f"{name} of {kernel} is not C-contiguous, and is written in place",
            fix="pass a C-contiguous array",
            parameter=name,
        )


def check_apart(kernel: str, signature: KernelSignature, arrays: Mapping[str, GivenArray]) -> None:
    """Check that no two arrays that are written share memory, and that no buffer is written that is a part of one that is read.

    One buffer may be given for what is read and what is written, where each invocation reads only what it writes. Arrays of the
    host that are read alone are copied before anything is written.

    Raises
    ------
    InvalidInput
        If some do.
    """
    given = [(one.name, _of_array(one).access.writes, arrays[one.name]) for one in signature.arrays]
    for (one, is_written, first), (other, is_written_too, second) in itertools.combinations(given, 2):
        if not (is_written or is_written_too) or not _share(first, second):
            continue
        if is_written and is_written_too:
            raise InvalidInput(
                f"{one} and {other} of {kernel} share memory, and both are written",
                fix="give each an array of its own",
                parameter=other,
            )
        if isinstance(first, Buffer) and isinstance(second, Buffer) and first.span != second.span:
            raise InvalidInput(
                f"{one} and {other} of {kernel} share a part of their memory, and {one if is_written else other} is written",
                fix="give each a buffer of its own (copy.copy), or the same buffer for both where each invocation reads only "
                "what it writes",
                parameter=other,
            )


def _share(one: GivenArray, other: GivenArray) -> bool:
    if isinstance(one, Buffer):
        return isinstance(other, Buffer) and one.overlaps(other)
    return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.may_share_memory(one, other)


def types_of(
    kernel: str, signature: KernelSignature, chosen: Mapping[str, ScalarType], arrays: dict[str, GivenArray]
) -> dict[str, ScalarType]:
    """Return the type that each type variable of a kernel has in a call: the chosen one, else that of its arrays.

    Raises
    ------
    InvalidInput
        If two arrays of one variable differ, the variable does not allow the type, or nothing says it.
    """
    found: dict[str, tuple[ScalarType, str]] = {name: (scalar, "") for name, scalar in chosen.items()}
    for one in signature.arrays:
        variable, given = _of_array(one).element, arrays[one.name]
        if isinstance(variable, ScalarType) or given is None or variable.__name__ in chosen:
            continue
        scalar = type_of(given.dtype)
        if scalar is None or (variable.__constraints__ and scalar not in variable.__constraints__):
            raise InvalidInput(
                f"{one.name} of {kernel} is {given.dtype}, and {variable.__name__} is one of {_allowed(variable)}",
                fix=host_conversion(one.name, given, _first(variable)),
                parameter=one.name,
            )
        known, other = found.setdefault(variable.__name__, (scalar, one.name))
        if known is not scalar:
            raise InvalidInput(
                f"{other} of {kernel} is {known.dtype} and {one.name} is {scalar.dtype}, and both are {variable.__name__}",
                fix=f"convert: numpy.asarray({one.name}, {_numpys(known)})",
                parameter=one.name,
            )
    for variable in signature.type_variables:
        if variable.__name__ not in found:
            raise InvalidInput(
                f"nothing says what {variable.__name__} of {kernel} is",
                fix=f"say it: {kernel}.with_({variable.__name__}={_first(variable)})",
                variable=variable.__name__,
            )
    return {variable.__name__: found[variable.__name__][0] for variable in signature.type_variables}


def _first(variable: TypeVar) -> ScalarType:
    found: ScalarType = next(iter(variable.__constraints__), f32)
    return found


def _allowed(variable: TypeVar) -> str:
    return ", ".join(map(str, variable.__constraints__ or SCALARS.values()))


def check_types(
    kernel: str, parameters: Sequence[Parameter], arrays: dict[str, GivenArray], types: dict[str, ScalarType]
) -> None:
    """Check that each array has the type of elements that its parameter says; raises InvalidInput."""
    for one in parameters:
        given, element = arrays[one.name], types[one.name]
        if given is None or given.dtype == element.dtype or (element is bool_ and given.dtype == _WORD):
            if element is bool_ and isinstance(given, Buffer) and given.dtype != _WORD:
                raise InvalidInput(
                    f"{one.name} of {kernel} is a buffer of bool, and a buffer holds them as uint32",
                    fix=_conversion(one, given, u32),
                    parameter=one.name,
                )
            continue
        raise InvalidInput(
            f"{one.name} of {kernel} is {given.dtype}, and {one.type.access.value}[{element}] wants {element.dtype}",  # type: ignore[union-attr] # an array
            fix=_conversion(one, given, element),
            parameter=one.name,
        )


def _conversion(one: Parameter, given: NDArray[Any] | Buffer, element: ScalarType) -> str:
    """Return what to do with an array whose elements are of another type."""
    if isinstance(given, Buffer):
        return f"make a buffer of {element.dtype}"
    if _of_array(one).access.writes:
        return f"pass an array of {_numpys(element)}, which is written in place"
    return host_conversion(one.name, given, element)


def host_conversion(name: str, given: NDArray[Any] | Buffer, element: ScalarType) -> str:
    """Return how an array that is read becomes one of another type, so that it works where it is done."""
    target = _numpys(element)
    if isinstance(given, Buffer):
        return f"make a buffer of {element.dtype}"
    if given.dtype.kind == "c":
        pairs = {"numpy.float32": "numpy.complex64", "numpy.float64": "numpy.complex128"}.get(target)
        view = f"numpy.ascontiguousarray({name}, {pairs}).view({target}), where the parts alternate, or " if pairs else ""
        return f"pass {view}one part: numpy.asarray(numpy.real({name}), {target})"
    if given.dtype.names:
        fields = [field for field in given.dtype.names if given.dtype[field].kind in "biuf"]
        return f"pass one field: numpy.asarray({name}[{fields[0]!r}], {target})" if fields else "pass an array of numbers"
    if given.dtype.kind not in "biuf":
        try:
            with np.errstate(all="ignore"):
                is_array = np.asarray(given, element.dtype).dtype.kind in "biufV" and given.ndim > 0
        except (TypeError, ValueError, OverflowError):
            is_array = False
        if not is_array:
            return f"pass an array of numbers, of {target}"
    return f"convert: numpy.asarray({name}, {target})"


def _numpys(element: ScalarType) -> str:
    """Return the type of elements as it is written for numpy; numpy.bool is not there in every version."""
    kind = element.dtype.type
    return "bool" if element is bool_ else f"{kind.__module__}.{kind.__name__}"


def check_shapes(kernel: str, ranks: dict[str, int], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that each array has as many axes as it is used with, none of them too long; raises InvalidInput."""
    for name, rank in ranks.items():
        shape = shapes.get(name)
        if shape is None:
            continue
        if len(shape) != rank:
            raise InvalidInput(
                f"{name} of {kernel} has {_axes(len(shape))} and is used with {rank}",
                fix=f"pass an array with {_axes(rank)}" + (f", for example {name}.reshape(-1)" if rank == 1 else ""),
                parameter=name,
                axes=len(shape),
                wanted=rank,
            )
        for axis, length in enumerate(shape):
            check_extent(f"axis {axis} of {name} of {kernel}", length)


def check_extent(what: str, length: int) -> None:
    """Check that an axis is no longer than an i32 can count with room to spare; raises InvalidInput."""
    if length > MAX_EXTENT:
        raise InvalidInput(
            f"{what} has {length:,} elements, and an axis has {MAX_EXTENT:,} at most",
            fix="pass parts of it, one after the other",
            length=length,
            limit=MAX_EXTENT,
        )


def _axes(count: int) -> str:
    return f"{count} axis" if count == 1 else f"{count} axes"


def _of_array(parameter: Parameter) -> ArrayType:
    assert isinstance(parameter.type, ArrayType)  # noqa: S101 -- the caller looks at arrays alone
    return parameter.type
