"""What atomics make of the elements of a buffer: u32, i32 and f32, all by their bits.

An f32 is added as the IR adds. Of two f32 the lesser is the one that stands before the other on the number line, -0.0 before
0.0; any number is better than a NaN, so that the order in which they come does not decide.

Source: spec items 1.2 and 1.7, memory (LruUpdate behaves as max; CompareExchangeWeak and FetchNand are not supported);
docs/ir.md, "Atomics" (i32 and f32).
"""

from __future__ import annotations

import math
import operator
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.backends.reference import arithmetic
from vyre_driver.ir.operators import AtomicOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Words = NDArray[np.uint32]

SUPPORTED_ATOMICS = frozenset({*AtomicOp} - {AtomicOp.COMPARE_EXCHANGE_WEAK, AtomicOp.FETCH_NAND})

_U32 = 0xFFFF_FFFF
_SIGN, _MAGNITUDE, _INFINITY, _NAN = 0x8000_0000, 0x7FFF_FFFF, 0x7F80_0000, 0x7FC0_0000
_FLOAT, _WORD = struct.Struct("<f"), struct.Struct("<I")
# The number of those that commute when the result is unused, for order.AccessLog.
_COMMUTING = {
    AtomicOp.ADD: 1,
    AtomicOp.OR: 2,
    AtomicOp.AND: 3,
    AtomicOp.XOR: 4,
    AtomicOp.MIN: 5,
    AtomicOp.MAX: 6,
    AtomicOp.LRU_UPDATE: 6,
}
_UFUNCS: dict[AtomicOp, np.ufunc] = {
    AtomicOp.ADD: np.add,
    AtomicOp.OR: np.bitwise_or,
    AtomicOp.AND: np.bitwise_and,
    AtomicOp.XOR: np.bitwise_xor,
    AtomicOp.MIN: np.minimum,
    AtomicOp.MAX: np.maximum,
    AtomicOp.LRU_UPDATE: np.maximum,
}
_ONE_BY_ONE: dict[AtomicOp, Callable[[int, int], int]] = {
    AtomicOp.ADD: lambda old, value: (old + value) & _U32,
    AtomicOp.OR: operator.or_,
    AtomicOp.AND: operator.and_,
    AtomicOp.XOR: operator.xor,
    AtomicOp.MIN: min,
    AtomicOp.MAX: max,
    AtomicOp.LRU_UPDATE: max,
    AtomicOp.EXCHANGE: lambda _old, value: value,
}
_OF_SIGNED: dict[AtomicOp, Callable[[int, int], int]] = {
    AtomicOp.MIN: lambda old, value: min(old, value, key=lambda word: word ^ _SIGN),
    AtomicOp.MAX: lambda old, value: max(old, value, key=lambda word: word ^ _SIGN),
}


def commuting_kind(op: AtomicOp, data: NDArray[Any]) -> int:
    """Return the number of the atomics among which the order does not matter, 0 where it does: sums of f32 are rounded."""
    return 0 if op is AtomicOp.ADD and data.dtype == np.float32 else _COMMUTING.get(op, 0)


def updated_unused(data: NDArray[Any], op: AtomicOp, places: Places, values: Words) -> bool:
    """Apply an atomic that commutes at once, where numpy has it; return whether it has."""
    ufunc = _UFUNCS.get(op)
    if ufunc is None or data.dtype == np.float32:
        return False
    ufunc.at(data, places, values.view(data.dtype))
    return True


def updated(data: NDArray[Any], op: AtomicOp, places: Places, values: Words, expected: Words | None) -> Words:
    """Apply an atomic in the order of the arrays, and return the bits that stood at each place before."""
    words = data.view(np.uint32)
    if len(places) == len(np.unique(places)):
        old = words[places]
        words[places] = _combined(op, data.dtype, old, values, expected)
        return old
    found: dict[int, int] = {}
    before = []
    wanted = [None] * len(places) if expected is None else expected.tolist()
    combine = _combining(op, data.dtype)
    for place, value, want in zip(places.tolist(), values.tolist(), wanted, strict=True):
        old_word = found[place] if place in found else int(words[place])
        before.append(old_word)
        found[place] = combine(old_word, value) if combine is not None else value if old_word == want else old_word
    words[list(found)] = np.array(list(found.values()), np.uint32)
    return np.array(before, np.uint32)


def _combining(op: AtomicOp, dtype: np.dtype[Any]) -> Callable[[int, int], int] | None:
    if dtype == np.float32 and op in _ONE_BY_ONE_OF_FLOATS:
        return _ONE_BY_ONE_OF_FLOATS[op]
    return (_OF_SIGNED if dtype == np.int32 else _ONE_BY_ONE).get(op, _ONE_BY_ONE.get(op))


def _combined(op: AtomicOp, dtype: np.dtype[Any], old: Words, values: Words, expected: Words | None) -> Words:
    if op is AtomicOp.EXCHANGE:
        return values
    if op is AtomicOp.COMPARE_EXCHANGE:
        return np.where(old == expected, values, old)
    if dtype == np.float32:
        return _OF_FLOATS[op](old, values)
    return np.asarray(_UFUNCS[op](old.view(dtype), values.view(dtype))).view(np.uint32)


def _sum(old: Words, values: Words) -> Words:
    left, right = (arithmetic.flushed(one.view(np.float32)) for one in (old, values))
    return arithmetic.canonical(left + right).view(np.uint32)


def _rank(words: Words) -> Words:
    """Return words in the order of the f32 that these are."""
    return np.where(words >> np.uint32(31), ~words, words | np.uint32(_SIGN))


def _chosen(is_better: Callable[[Words, Words], Any]) -> Callable[[Words, Words], Words]:
    def choose(old: Words, values: Words) -> Words:
        is_no_number, was_none = (np.isnan(one.view(np.float32)) for one in (values, old))
        return np.where(~is_no_number & (was_none | is_better(_rank(values), _rank(old))), values, old)

    return choose


def _sum_of_one(old: int, value: int) -> int:
    """Return what :func:`_sum` does of two, without arrays: the sum of two f32 in f64 is rounded to f32 as if at once."""
    left, right = (_number(word if word & _INFINITY else word & _SIGN) for word in (old, value))
    total = left + right
    if math.isnan(total):
        return _NAN
    try:
        word = int(_WORD.unpack(_FLOAT.pack(total))[0])
    except OverflowError:
        return _INFINITY | (_SIGN if total < 0 else 0)
    return word if word & _INFINITY else word & _SIGN


def _number(word: int) -> float:
    return float(_FLOAT.unpack(_WORD.pack(word))[0])


def _chosen_of_one(sign: int) -> Callable[[int, int], int]:
    """Return what :func:`_chosen` gives does of two: the lesser for 1, the greater for -1."""

    def choose(old: int, value: int) -> int:
        if value & _MAGNITUDE > _INFINITY:
            return old
        ranks = [word ^ _U32 if word & _SIGN else word | _SIGN for word in (old, value)]
        return value if old & _MAGNITUDE > _INFINITY or sign * ranks[1] < sign * ranks[0] else old

    return choose


_ONE_BY_ONE_OF_FLOATS: dict[AtomicOp, Callable[[int, int], int]] = {
    AtomicOp.ADD: _sum_of_one,
    AtomicOp.MIN: _chosen_of_one(1),
    AtomicOp.MAX: _chosen_of_one(-1),
}
_OF_FLOATS: dict[AtomicOp, Callable[[Words, Words], Words]] = {
    AtomicOp.ADD: _sum,
    AtomicOp.MIN: _chosen(np.less),
    AtomicOp.MAX: _chosen(np.greater),
}
