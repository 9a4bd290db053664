"""The operators that this package adds to the IR, on values of many invocations.

Source: docs/ir.md, "Operators of this package".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.backends.reference.floats import NAN

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.backends.reference.values import Values


def _bits_as(dtype: str) -> Callable[[Values], Values]:
    return lambda values: np.ascontiguousarray(values).view(dtype)


def _from_f16(bits: Values) -> Values:
    values = bits.astype(np.uint16).view(np.float16).astype(np.float32)
    return np.where(np.isnan(values), NAN, values)


def _to_f16(values: Values) -> Values:
    return np.where(np.isnan(values), np.uint16(0x7E00), values.astype(np.float16).view(np.uint16))


def _from_bf16(bits: Values) -> Values:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _to_bf16(values: Values) -> Values:
    """Return the upper halves; half of the lower one is added, less one where the upper is even, which carries over a half."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    sixteen, one = np.uint32(16), np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> sixteen & one)) >> sixteen
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded.astype(np.uint16))


def _as_words(function: Callable[[Values], Values]) -> Callable[[Values], Values]:
    return lambda values: function(values).astype(np.uint32)


FUNCTIONS: dict[str, Callable[..., Values]] = {
    "bitcast<u32>": _bits_as("<u4"),
    "bitcast<i32>": _bits_as("<i4"),
    "bitcast<f32>": _bits_as("<f4"),
    "f16_to_f32": _from_f16,
    "bf16_to_f32": _from_bf16,
    "f32_to_f16": _to_f16,
    "f32_to_bf16": _to_bf16,
    "unpack_f16": _from_f16,
    "unpack_bf16": _from_bf16,
    "pack_f16": _as_words(_to_f16),
    "pack_bf16": _as_words(_to_bf16),
}
"""What computes each, by its name."""
