"""The table of valid casts.

Source: spec item 1.9.
"""

from __future__ import annotations

from vyre_driver.ir.dtypes import DataType

_INTEGERS = (
    DataType.U8,
    DataType.U16,
    DataType.U32,
    DataType.U64,
    DataType.I8,
    DataType.I16,
    DataType.I32,
    DataType.I64,
)
_WHOLE = (*_INTEGERS, DataType.Bool)
_SHORT = (DataType.U32, DataType.I32, DataType.Bool)

# Targets by source, both by wire tag: none of these types has parameters. Every type also goes to itself.
_TARGETS: dict[int, frozenset[int]] = {
    source.wire_tag: frozenset(target.wire_tag for target in targets)
    for source, targets in [
        *((one, _WHOLE) for one in _INTEGERS if one not in {DataType.U32, DataType.I32, DataType.U64}),
        *((one, (*_WHOLE, DataType.Vec2U32, DataType.Vec4U32, DataType.F32)) for one in _SHORT),
        (DataType.U64, (*_WHOLE, DataType.Vec2U32)),
        (DataType.Vec2U32, (DataType.U32, DataType.I32, DataType.U64, DataType.Bool)),
        (DataType.Vec4U32, (DataType.U32, DataType.I32, DataType.U64, DataType.Bool, DataType.Vec2U32)),
        (DataType.F32, _SHORT),
    ]
}
_BITS = {one.wire_tag: one.bit_width or 0 for one in _INTEGERS}


def is_castable(source: DataType, target: DataType) -> bool:
    """Return whether the table has the pair."""
    return target.wire_tag in _TARGETS.get(source.wire_tag, ()) or source == target


def narrows(source: DataType, target: DataType) -> bool:
    """Return whether a cast between integers drops bits."""
    return _BITS.get(source.wire_tag, 0) > _BITS.get(target.wire_tag, 64)
