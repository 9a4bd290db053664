"""Quantization: the scale and zero point that map stored numbers to real ones.

Source: spec item 1.1 (QuantizationScale, QuantizationZeroPoint and their wire tags).
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.fields import instance, refuse, whole

if TYPE_CHECKING:
    from typing_extensions import Self

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
class _Quantization:
    """What scales and zero points have in common: the elements that one covers, and the axis or the size of a group."""

    _kinds: ClassVar[type[ScaleKind | ZeroPointKind]]
    _title: ClassVar[str]
    _plain: ClassVar[str]
    """What messages call one that has no parameter."""
    kind: ScaleKind | ZeroPointKind
    parameter: int = 0

    def __post_init__(self) -> None:
        """Refuse another kind, a parameter outside u32, and one where the kind has none."""
        instance(self.kind, self._kinds, f"the kind of {self._title}")
        whole(self.parameter, U32_MAX, "the parameter of a quantization")
        if self._has_none and self.parameter:
            refuse(f"{self._plain} has the parameter {self.parameter}", "leave the parameter out")

    @classmethod
    def per_tensor(cls) -> Self:
        """Return one for the whole tensor."""
        return cls(cls._kinds["PER_TENSOR"])

    @classmethod
    def per_channel(cls, axis: int) -> Self:
        """Return one for each index along ``axis``."""
        return cls(cls._kinds["PER_CHANNEL"], axis)

    @classmethod
    def per_group(cls, group_size: int) -> Self:
        """Return one for each ``group_size`` elements; 0 is refused where the type is encoded or laid out."""
        return cls(cls._kinds["PER_GROUP"], group_size)

    @property
    def _has_none(self) -> bool:
        return self.kind.name in {"ABSENT", "PER_TENSOR"}

    @property
    def encoded(self) -> bytes:
        """Tag and u32 little-endian parameter."""
        return _PAIR.pack(self.kind.value, self.parameter)

    @property
    def problem(self) -> str | None:
        """Why it is not valid, or None."""
        return f"{self._title} for groups of 0 elements" if (self.kind.name, self.parameter) == ("PER_GROUP", 0) else None

    def __str__(self) -> str:
        """Return for example ``per_tensor`` or ``per_group(64)``."""
        name = self.kind.name.lower()
        return name if self._has_none else f"{name}({self.parameter})"


@dataclass(frozen=True, slots=True)
class QuantizationScale(_Quantization):
    """A scale; ``parameter`` is the axis of PER_CHANNEL, the elements of PER_GROUP, else 0."""

    _kinds, _title, _plain = ScaleKind, "a scale", "a scale for the whole tensor"
    kind: ScaleKind


@dataclass(frozen=True, slots=True)
class QuantizationZeroPoint(_Quantization):
    """A zero point; ``parameter`` is the axis of PER_CHANNEL, the elements of PER_GROUP, else 0."""

    _kinds, _title, _plain = ZeroPointKind, "a zero point", "a zero point without axis and group"
    kind: ZeroPointKind

    @classmethod
    def absent(cls) -> QuantizationZeroPoint:
        """Return the zero point of a symmetric quantization."""
        return cls(ZeroPointKind.ABSENT)
