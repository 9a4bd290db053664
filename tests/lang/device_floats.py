"""What a device has to give of a kernel with floats: what hangs neither on infinities and NaNs nor on the sign of a zero.

IEEE 754 has all three. Drivers have not: llvmpipe takes ``0 * x`` and ``0 / x`` for 0 and ``x + 0`` for x, whatever x is and
whatever it is asked for (docs/lowering.md), and a kernel whose floats are the device's own takes what comes. So the reference
runs a kernel again in other arithmetics, in which another number stands for each infinity and NaN, and every zero has the same
sign; an element that is the same in all of them does not hang on these.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
from both_ways import run_on_device, run_reference

from vyre_driver.backends.reference import arithmetic, extensions

if TYPE_CHECKING:
    import types
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.conformance.case import RunProgram

_ARITHMETICS = ((0.0, 0.0), (9.8, -0.0), (-1e30, 0.0), (0.7, -0.0), (3e-5, 0.0), (-123.4, 0.0), (5.55e9, 0.0))
"""What stands for infinities and NaNs, and for zeros; some have a last bit in both widths, also after a sum."""


def device_differences(
    function: types.FunctionType, arguments: Mapping[str, Any], grid: Sequence[int], run: RunProgram | None = None
) -> list[str] | None:
    """Return a line for each array in which a device is wrong; None where the order of invocations decides what is right.

    ``run`` is a backend that is open, in place of one for this kernel alone.
    """
    expected, order_mattered = run_reference(function, arguments, grid)
    if order_mattered:
        return None
    received = run_on_device(function, arguments, grid, run=run)
    if all(_same(one, received[name]).all() for name, one in expected.items()):
        return []
    settled = {name: np.ones(one.shape, bool) for name, one in expected.items()}
    for instead in _ARITHMETICS:
        with ExitStack() as stack:
            _patch(stack, *instead)
            other, _ = run_reference(function, arguments, grid)
        for name, one in expected.items():
            settled[name] &= _same(one, other[name])
    found = []
    for name, one in expected.items():
        wrong = settled[name] & ~_same(one, received[name])
        if wrong.any():
            at = tuple(int(k) for k in np.argwhere(wrong)[0])
            found.append(f"{name}{list(at)} is {received[name][at]!r}, and should be {one[at]!r} ({int(wrong.sum())} differ)")
    return found


def _patch(stack: ExitStack, instead: float, zero: float) -> None:
    """Let the reference give other numbers for infinities, NaNs and zeros."""
    canonical, held = arithmetic.canonical, extensions._held  # noqa: SLF001 -- where all its results go through

    def tame(values: NDArray[Any]) -> NDArray[Any]:
        kind = values.dtype.type
        return np.where(values == 0, kind(zero), np.where(np.isfinite(values), values, kind(instead)))

    for module in (arithmetic, extensions):
        stack.enter_context(mock.patch.object(module, "canonical", lambda values: tame(canonical(values))))
    stack.enter_context(mock.patch.object(extensions, "_held", lambda values: held(tame(values))))


def _same(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    same = one == other  # also zeros of both signs
    if one.dtype.kind in "fV":  # bf16 is a V
        same = same | (np.isnan(one) & np.isnan(other))
    return np.asarray(same)
