"""The numbers of a call, held against the types of a kernel's parameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.errors import InvalidInput, with_article
from vyre_driver.lang.types import Kind, bool_

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver.lang.source.parameters import Parameter
    from vyre_driver.lang.types import ScalarType

_LARGEST = float(np.finfo(np.float32).max)
_LARGEST_F64 = float(np.finfo(np.float64).max)
_ROUNDS_UP = _LARGEST + 2.0**103  # from here on the nearest f32 is infinite


def checked(kernel: str, parameter: Parameter, scalar: ScalarType, value: object) -> bool | int | float:
    """Return a number that a call gives for a parameter, which is of this type, as Python's own.

    Raises
    ------
    InvalidInput
        If it is no number, of a kind that the type has not, or out of its range.
    """
    what = f"{parameter.name} of {kernel}"
    found = value.item() if isinstance(value, (np.generic, np.ndarray)) and not value.ndim else value
    if not isinstance(found, (bool, int, float)):
        raise InvalidInput(
            f"{what} is of type {type(value).__name__}, and takes {with_article(str(scalar))}",
            fix="give a number",
            parameter=parameter.name,
        )
    if scalar.kind is Kind.BOOL:
        return _as_bool(what, parameter, found)
    if isinstance(found, bool):
        raise InvalidInput(
            f"{what} is {found}, and takes {with_article(str(scalar))}",
            fix=f"give {int(found)}, or annotate it bool_",
            parameter=parameter.name,
        )
    return _as_float(what, parameter, scalar, found) if scalar.kind is Kind.FLOAT else _as_whole(what, parameter, scalar, found)


def as_words(scalars: Mapping[str, tuple[Parameter, ScalarType]], numbers: Mapping[str, object]) -> NDArray[np.uint32]:
    """Return numbers as they lie in the buffer of a program that takes them from one."""
    types = [(name, np.uint32 if scalar is bool_ else scalar.dtype) for name, (_, scalar) in scalars.items()]
    return np.frombuffer(b"".join([np.array(numbers[name], dtype).tobytes() for name, dtype in types]), np.uint32)


def _as_bool(what: str, parameter: Parameter, found: float) -> bool:
    if not isinstance(found, bool):
        raise InvalidInput(f"{what} is {found}, and takes a bool", fix="give True or False", parameter=parameter.name)
    return found


def _as_float(what: str, parameter: Parameter, scalar: ScalarType, found: float) -> float:
    shown, rounds_up = (repr(_LARGEST_F64), math.inf) if scalar.is_wide else (str(np.float32(_LARGEST)), _ROUNDS_UP)
    try:
        number = float(found)
    except OverflowError:
        number = math.inf
    if (isinstance(found, int) or math.isfinite(found)) and abs(number) >= rounds_up:
        raise InvalidInput(
            f"{what} is {found!r}, and the largest {scalar} is {shown}"
            if isinstance(found, float)
            else f"{what} is over {shown}, the largest {scalar}",
            fix="give a smaller number, or math.inf",
            parameter=parameter.name,
        )
    return number


def _as_whole(what: str, parameter: Parameter, scalar: ScalarType, found: float) -> int:
    if not isinstance(found, int):
        raise InvalidInput(
            f"{what} is the float {found!r}, and takes {with_article(str(scalar))}",
            fix="give int(...), or annotate it f32" if parameter.type is scalar else "give int(...)",
            parameter=parameter.name,
        )
    low, high = scalar.bounds
    if not low <= found <= high:
        raise InvalidInput(
            f"{what} is {found}, and {with_article(str(scalar))} holds {low} to {high}",
            fix="give a number in that range",
            parameter=parameter.name,
        )
    return found
