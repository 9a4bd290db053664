"""Quantization: the scale and zero point that map stored numbers to real ones.

Source: spec item 1.1 (QuantizationScale, QuantizationZeroPoint and their wire tags).
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.fields import instance, refuse, whole

_PAIR = struct.Struct("<BI")


class ScaleKind(enum.Enum):
    """The elements that one scale covers; the values are the wire tags."""

    PER_TENSOR = 0
    PER_CHANNEL = 1
    PER_GROUP = 2


class ZeroPointKind(enum.Enum):
    """The elements that one zero point covers; the values are the wire tags."""

    ABSENT = 0
    PER_TENSOR = 1
    PER_CHANNEL = 2
    PER_GROUP = 3


@dataclass(frozen=True, slots=True)
class QuantizationScale:
    """A scale; ``parameter`` is the axis of PER_CHANNEL, the elements of PER_GROUP, else 0."""

    kind: ScaleKind
    parameter: int = 0

    def __post_init__(self) -> None:
        """Refuse another kind, a parameter outside u32, and one where the kind has none."""
        instance(self.kind, ScaleKind, "the kind of a scale")
        _check_parameter(self.parameter, self.kind is ScaleKind.PER_TENSOR, "a scale for the whole tensor")

    @classmethod
    def per_tensor(cls) -> QuantizationScale:
        """Return one scale for the whole tensor."""
        return cls(ScaleKind.PER_TENSOR)

    @classmethod
    def per_channel(cls, axis: int) -> QuantizationScale:
        """Return one scale for each index along ``axis``."""
        return cls(ScaleKind.PER_CHANNEL, axis)

    @classmethod
    def per_group(cls, group_size: int) -> QuantizationScale:
        """Return one scale for each ``group_size`` elements; 0 is refused where the type is encoded or laid out."""
        return cls(ScaleKind.PER_GROUP, group_size)

    @property
    def encoded(self) -> bytes:
        """Tag and u32 little-endian parameter."""
        return _PAIR.pack(self.kind.value, self.parameter)

    @property
    def problem(self) -> str | None:
        """Why it is not valid, or None."""
        return "a scale for groups of 0 elements" if (self.kind, self.parameter) == (ScaleKind.PER_GROUP, 0) else None

    def __str__(self) -> str:
        """Return for example ``per_group(64)``."""
        return _text(self.kind.name, self.parameter, plain=self.kind is ScaleKind.PER_TENSOR)


@dataclass(frozen=True, slots=True)
class QuantizationZeroPoint:
    """A zero point; ``parameter`` is the axis of PER_CHANNEL, the elements of PER_GROUP, else 0."""

    kind: ZeroPointKind
    parameter: int = 0

    def __post_init__(self) -> None:
        """Refuse another kind, a parameter outside u32, and one where the kind has none."""
        instance(self.kind, ZeroPointKind, "the kind of a zero point")
        _check_parameter(self.parameter, self._has_none, "a zero point without axis and group")

    @classmethod
    def absent(cls) -> QuantizationZeroPoint:
        """Return the zero point of a symmetric quantization."""
        return cls(ZeroPointKind.ABSENT)

    @classmethod
    def per_tensor(cls) -> QuantizationZeroPoint:
        """Return one zero point for the whole tensor."""
        return cls(ZeroPointKind.PER_TENSOR)

    @classmethod
    def per_channel(cls, axis: int) -> QuantizationZeroPoint:
        """Return one zero point for each index along ``axis``."""
        return cls(ZeroPointKind.PER_CHANNEL, axis)

    @classmethod
    def per_group(cls, group_size: int) -> QuantizationZeroPoint:
        """Return one zero point for each ``group_size`` elements; 0 is refused where the type is encoded or laid out."""
        return cls(ZeroPointKind.PER_GROUP, group_size)

    @property
    def _has_none(self) -> bool:
        return self.kind in {ZeroPointKind.ABSENT, ZeroPointKind.PER_TENSOR}

    @property
    def encoded(self) -> bytes:
        """Tag and u32 little-endian parameter."""
        return _PAIR.pack(self.kind.value, self.parameter)

    @property
    def problem(self) -> str | None:
        """Why it is not valid, or None."""
        empty = (self.kind, self.parameter) == (ZeroPointKind.PER_GROUP, 0)
        return "a zero point for groups of 0 elements" if empty else None

    def __str__(self) -> str:
        """Return for example ``absent`` or ``per_channel(1)``."""
        return _text(self.kind.name, self.parameter, plain=self._has_none)


def _text(name: str, parameter: int, *, plain: bool) -> str:
    return name.lower() if plain else f"{name.lower()}({parameter})"


def _check_parameter(parameter: int, has_none: bool, what: str) -> None:  # noqa: FBT001 -- one fact about the kind
    whole(parameter, U32_MAX, "the parameter of a quantization")
    if has_none and parameter:
        refuse(f"{what} has the parameter {parameter}", "leave the parameter out")
