"""Atomic operations on u32 words, invocation by invocation.

Source: spec items 1.2 and 1.7 (LruUpdate behaves as max; CompareExchangeWeak and FetchNand are not supported).
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.ir.operators import AtomicOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Words = NDArray[np.uint32]
    Places = NDArray[np.int64]

_U32 = 0xFFFF_FFFF

# Atomics that commute when the result is unused, with a kind of its own; the number is that of order.AccessLog.
COMMUTING: dict[AtomicOp, tuple[int, np.ufunc]] = {
    AtomicOp.ADD: (1, np.add),
    AtomicOp.OR: (2, np.bitwise_or),
    AtomicOp.AND: (3, np.bitwise_and),
    AtomicOp.XOR: (4, np.bitwise_xor),
    AtomicOp.MIN: (5, np.minimum),
    AtomicOp.MAX: (6, np.maximum),
    AtomicOp.LRU_UPDATE: (6, np.maximum),
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
SUPPORTED = frozenset({*_ONE_BY_ONE, AtomicOp.COMPARE_EXCHANGE})


def update(data: Words, op: AtomicOp, places: Places, values: Words, expected: Words | None) -> Words:
    """Apply ``op`` in the order of the arrays, and return what stood at each place before."""
    if len(places) == len(np.unique(places)):
        old = data[places]
        data[places] = _combined(op, old, values, expected)
        return old
    found: dict[int, int] = {}
    before = []
    wanted = [None] * len(places) if expected is None else expected.tolist()
    combine = _ONE_BY_ONE.get(op)
    for place, value, want in zip(places.tolist(), values.tolist(), wanted, strict=True):
        old_word = found[place] if place in found else int(data[place])
        before.append(old_word)
        found[place] = combine(old_word, value) if combine is not None else value if old_word == want else old_word
    data[list(found)] = np.array(list(found.values()), np.uint32)
    return np.array(before, np.uint32)


def _combined(op: AtomicOp, old: Words, values: Words, expected: Words | None) -> Words:
    if op is AtomicOp.EXCHANGE:
        return values
    if op is AtomicOp.COMPARE_EXCHANGE:
        return np.where(old == expected, values, old)
    return np.asarray(COMMUTING[op][1](old, values))
