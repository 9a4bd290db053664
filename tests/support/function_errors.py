"""How far functions of f32 are from the exact ones: where they are asked, and in how many steps of the last place they err.

Operands that are subnormals, and results, count as zeros of their sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.ir import BufferDecl, DataType, Program, functions, gid_x, if_, load, store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]

LEAST_NORMAL = np.float32(2.0**-126)
SPECIAL = np.array(
    [
        *(0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 3.4028235e38, -3.4028235e38),
        *(2.0**-126, -(2.0**-126), 1e-45, 16777216, -16777215, 8388607.5, 1e10, -1e10, 1e-10, -1e-10, 88.7, -88.7, 127, 128),
        *(-126, -127, 0.99999994, 1.0000001, -0.99999994, -1.0000001, 1e30, 1e-30),
    ],
    np.float32,
)


def _bits(rng: np.random.Generator, count: int) -> Floats:
    return rng.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)


def _positive(rng: np.random.Generator, count: int) -> Floats:
    return np.abs(_bits(rng, count))


def _moderate(rng: np.random.Generator, count: int) -> Floats:
    """Numbers of every size whose remainders are not subnormals, which are 0 here."""
    return np.ldexp(rng.uniform(-2, 2, count), rng.integers(-60, 60, count)).astype(np.float32)


def _between(low: float, high: float) -> Callable[[np.random.Generator, int], Floats]:
    return lambda rng, count: rng.uniform(low, high, count).astype(np.float32)


@dataclass(frozen=True)
class Function:
    """A function: what is exact, the most steps that it errs by, and where it is asked, a source for each operand."""

    exact: Callable[..., Doubles]
    most: float
    asked: tuple[tuple[Callable[[np.random.Generator, int], Floats], ...], ...]


def _of_one(exact: Callable[..., Doubles], most: float, *asked: Callable[[np.random.Generator, int], Floats]) -> Function:
    return Function(exact, most, tuple((one,) for one in (_bits, *asked)))


_UNIT = _between(-1, 1)
FUNCTIONS = {
    "power": Function(
        np.power,
        0.9,
        (
            (_bits, _bits),
            (_positive, _between(-3, 3)),
            (_between(0, 20), _between(-30, 30)),
            (_between(0.9, 1.1), _between(-900, 900)),
        ),
    ),
    "atan2": Function(np.arctan2, 1.8, ((_bits, _bits), (_UNIT, _UNIT))),
    "hypot": Function(np.hypot, 1.2, ((_bits, _bits), (_UNIT, _UNIT))),
    "fmod": Function(np.fmod, 0.0, ((_bits, _bits), (_between(-1000, 1000), _UNIT))),
    "remainder": Function(np.remainder, 0.5, ((_moderate, _moderate), (_between(-1000, 1000), _UNIT))),
    "floor_divide": Function(np.floor_divide, 2.0, ((_moderate, _moderate), (_between(-1000, 1000), _UNIT))),
    "copysign": Function(np.copysign, 0.0, ((_bits, _bits),)),
    "round_half_even": _of_one(np.rint, 0.0, _between(-100, 100)),
    "log10": _of_one(np.log10, 1.9, _between(0.5, 2)),
    "log1p": _of_one(np.log1p, 0.9, _between(-1, 2), _between(-0.01, 0.01)),
    "expm1": _of_one(np.expm1, 1.6, _between(-20, 89), _UNIT),
    "exp10": _of_one(lambda x: np.power(10.0, x), 1.3, _between(-38, 38.6), _UNIT),
    "cbrt": _of_one(np.cbrt, 1.0, _between(1, 8)),
    "erf": _of_one(np.vectorize(math.erf, otypes=[np.float64]), 1.4, _between(-4.2, 4.2)),
    "asinh": _of_one(np.arcsinh, 1.7, _between(-2, 2)),
    "acosh": _of_one(np.arccosh, 2.0, _between(1, 3)),
    "atanh": _of_one(np.arctanh, 2.0, _UNIT),
}
"""By name, with the figures of docs/ir.md: the largest error that was measured, rounded up."""


def columns(name: str, count: int) -> Iterator[list[Floats]]:
    """Yield the operands that a function is asked with: all special values, and numbers from each of its sources."""
    asked = FUNCTIONS[name].asked
    arity = len(asked[0])
    yield [one.ravel().copy() for one in np.meshgrid(*[SPECIAL] * arity)]
    for place, sources in enumerate(asked):
        rng = np.random.default_rng(place)
        yield [source(rng, count) for source in sources]


def program(name: str, count: int, arity: int) -> Program:
    """A program that computes a function of ``count`` elements."""
    given = [BufferDecl.read(f"given{place}", place, DataType.F32).with_count(count) for place in range(arity)]
    out = BufferDecl.output("out", arity, DataType.F32).with_count(count)
    value = getattr(functions, name)(*(load(one, gid_x()) for one in given))
    return Program.wrapped([*given, out], (64, 1, 1), [if_(gid_x() < count, [store(out, gid_x(), value)])])


def flushed(values: Floats) -> Floats:
    """Numbers with zeros of their sign for subnormals."""
    return np.where(np.abs(values) < LEAST_NORMAL, np.copysign(np.float32(0), values), values)


def error(name: str, given: list[Floats], found: Floats) -> tuple[float, list[float]]:
    """The largest error of results in steps of the last place, infinite where a special value is wrong, and where it is."""
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name].exact(*(flushed(one).astype(np.float64) for one in given))
        wanted, got = flushed(exact.astype(np.float32)), flushed(found)
        step = np.spacing(np.maximum(np.abs(wanted), LEAST_NORMAL)).astype(np.float64)
        # What is flushed is compared with a zero, everything else with the exact number.
        target = np.where(wanted == 0, 0.0, exact)
        errors = np.abs(got.astype(np.float64) - target) / step
    finite = np.isfinite(wanted) & np.isfinite(got)
    same = (np.isnan(wanted) & np.isnan(got)) | (wanted == got)
    errors = np.where(finite, errors, np.where(same, 0.0, np.inf))
    errors = np.where((wanted == 0) & (got == 0) & (np.signbit(wanted) != np.signbit(got)), np.inf, errors)
    place = int(np.argmax(errors))
    return float(errors[place]), [float(one[place]) for one in given]
