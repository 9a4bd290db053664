"""Typed specialization values, and the ordered map of them that selects a variant of a kernel.

The 64-bit hashes are upstream's, bit for bit, because other vyre tools share them. They collide: names are not delimited, and
every quantized type is one value. So they select nothing alone; the manifest (docs/keys.md) does, with every name, type and
value at its length.

Source: spec item 2.1.
"""

from __future__ import annotations

import enum
import struct
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vyre_driver import _fast
from vyre_driver.checks import U32_MAX
from vyre_driver.errors import InvalidSpecialization
from vyre_driver.spirv.layout import Scalar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vyre_driver.ir.dtypes import DataType

_QUANTIZED_TAG = 0x1F
_UNKNOWN_TAG = 0xFFFF_FFFF


class SpecKind(enum.IntEnum):
    """The type of a specialization value; the number is upstream's discriminator."""

    U32 = 0
    I32 = 1
    F32 = 2
    BOOL = 3
    DTYPE = 4


_SCALARS = {
    SpecKind.U32: Scalar("u", 32),
    SpecKind.I32: Scalar("i", 32),
    SpecKind.F32: Scalar("f", 32),
    SpecKind.BOOL: Scalar("b", 32),
}


@dataclass(frozen=True, slots=True, repr=False)
class SpecValue:
    """One typed value: ``bits`` are the 32 bits a shader would see, of a data type its tag.

    Two values are equal when their types and bits are; of data types, when the whole types are. So +0.0 and -0.0 differ, and a
    NaN equals itself: upstream compares floats as numbers, so that its values cannot be the keys of a hash table.
    """

    kind: SpecKind
    bits: int
    data_type: DataType | None = None

    def __post_init__(self) -> None:
        """Refuse what the constructors never make.

        Raises
        ------
        InvalidSpecialization
            If bits are not a u32, a bool has other bits than 0 and 1, or a data type is missing, surplus or has
            another tag.
        """
        tag = None if self.data_type is None else _tag(self.data_type)
        most = 1 if self.kind is SpecKind.BOOL else U32_MAX
        is_right = isinstance(self.kind, SpecKind) and type(self.bits) is int and 0 <= self.bits <= most
        if not is_right or (tag != self.bits if self.kind is SpecKind.DTYPE else tag is not None):
            raise InvalidSpecialization(
                f"{self.bits!r} with data type {self.data_type!r} are not of kind {self.kind!r}",
                fix="use SpecValue.u32 and its like",
            )

    @classmethod
    def u32(cls, value: int) -> SpecValue:
        """Return an integer from 0 to 2**32 - 1; anything else raises InvalidSpecialization, as in the other constructors."""
        return _scalar(cls, SpecKind.U32, value)

    @classmethod
    def i32(cls, value: int) -> SpecValue:
        """Return an integer from -2**31 to 2**31 - 1."""
        return _scalar(cls, SpecKind.I32, value)

    @classmethod
    def f32(cls, value: float | np.float32) -> SpecValue:
        """Return a real number, rounded to the nearest f32; one that would round to infinity is refused.

        A ``numpy.float32`` keeps its bits, whatever NaN it is.
        """
        if isinstance(value, np.float32):
            return cls.f32_bits(int(value.view(np.uint32)))
        return _scalar(cls, SpecKind.F32, value)

    @classmethod
    def f32_bits(cls, bits: int) -> SpecValue:
        """Return the f32 with these bits (u32), which keeps the payload of a NaN."""
        return cls(SpecKind.F32, _scalar(cls, SpecKind.U32, bits).bits)

    @classmethod
    def bool(cls, value: object) -> SpecValue:
        """Return True or False; a number is refused."""
        return _scalar(cls, SpecKind.BOOL, value)

    @classmethod
    def dtype(cls, value: DataType) -> SpecValue:
        """Return a data type, which chooses the element type a kernel is made for."""
        return cls(SpecKind.DTYPE, _tag(value), value)

    @property
    def type_name(self) -> str:
        """``u32``, ``i32``, ``f32``, ``bool`` or ``dtype``."""
        return self.kind.name.lower()

    @property
    def value(self) -> float | DataType:
        """The value as Python has it: int, float, bool or ``DataType``."""
        match self.kind:
            case SpecKind.I32:
                return self.bits - (self.bits >> 31 << 32)
            case SpecKind.F32:
                return _widened(self.bits)
            case SpecKind.BOOL:
                return self.bits == 1
        return self.bits if self.data_type is None else self.data_type

    def __repr__(self) -> str:
        """Return the call that makes it."""
        is_nan = self.kind is SpecKind.F32 and self.value != self.value
        argument = f"_bits({self.bits:#010x})" if is_nan else f"({self.value!r})"
        return f"SpecValue.{self.type_name}{argument}"

    def cache_hash(self) -> int:
        """Return upstream's u64: the type in the lowest byte, the bits above."""
        return self.kind | self.bits << 8

    def as_pipeline_f64(self) -> float:
        """Return the value as the float that carries it exactly: 0.0 or 1.0 for a bool, the tag for a data type.

        A NaN keeps its sign and payload and becomes quiet, as the conversion in hardware does it.
        """
        return float(self.bits if self.kind is SpecKind.DTYPE else self.value)  # type: ignore[arg-type]


def _scalar(cls: type[SpecValue], kind: SpecKind, value: object) -> SpecValue:
    try:
        return cls(kind, _SCALARS[kind].encode(value))
    except (TypeError, OverflowError) as error:
        name = kind.name.lower()
        raise InvalidSpecialization(
            f"a {name} specialization value was given {value!r}: {error}", fix=f"give a {name}", value=value
        ) from error


def _widened(bits: int) -> float:
    """Return the f32 with these bits; Python's own conversion may lose a NaN's payload."""
    if bits & 0x7F80_0000 == 0x7F80_0000 and bits & 0x007F_FFFF:
        wide = (bits & 0x8000_0000) << 32 | 0x7FF8 << 48 | (bits & 0x007F_FFFF) << 29
        return float(struct.unpack("<d", struct.pack("<Q", wide))[0])
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _tag(data_type: object) -> int:
    """Return upstream's number of a data type: its wire tag, and for every quantized type the same sentinel."""
    # Programs are imported only where they are used (test_importing_the_package_imports_no_part_of_the_ir).
    tag = getattr(data_type, "wire_tag", None)
    if not isinstance(tag, int) or not isinstance(getattr(data_type, "encoded", None), bytes):
        raise InvalidSpecialization(
            f"a dtype specialization value was given {data_type!r}, which is not a DataType",
            fix="give a DataType, for example DataType.F32",
            value=data_type,
        )
    return _UNKNOWN_TAG if tag == _QUANTIZED_TAG else tag


# A name in UTF-8, its value's hash, both again as Python has them: what the compiled hash reads stands first.
_Row: TypeAlias = tuple[bytes, int, str, SpecValue]


class SpecMap:
    """Names and typed values, in the byte order of the names in UTF-8.

    Any text is a name, with NULs or empty, as long as it has a UTF-8 form. Reading from several threads is safe; inserting at
    the same time needs a lock.
    """

    __slots__ = ("_rows",)

    def __init__(self, entries: SpecMap | Mapping[str, SpecValue] | Iterable[tuple[str, SpecValue]] = ()) -> None:
        """Hold a mapping's or another map's entries, or pairs, of which later ones replace earlier ones.

        Raises
        ------
        InvalidSpecialization
            If a name or a value is not valid, as for ``insert``.
        """
        self._rows: list[_Row] = []
        for name, value in entries.items() if isinstance(entries, Mapping) else entries:
            self.insert(name, value)

    @classmethod
    def new(cls) -> SpecMap:
        """Return an empty map."""
        return cls()

    def insert(self, name: str, value: SpecValue) -> None:
        """Add a value, or replace the one of that name.

        Raises
        ------
        InvalidSpecialization
            If the name is not a str or has no UTF-8 form, or the value is not a ``SpecValue``.
        """
        if not isinstance(value, SpecValue):
            raise InvalidSpecialization(
                f"specialization constant {name!r} was given {value!r}, which has no type",
                fix="give a SpecValue, for example SpecValue.u32(16)",
                constant=name,
                value=value,
            )
        encoded = _encoded(name)
        at = self._position(encoded)
        is_there = at < len(self._rows) and self._rows[at][0] == encoded
        self._rows[at : at + is_there] = [(encoded, value.cache_hash(), name, value)]

    def get(self, name: str) -> SpecValue | None:
        """Return the value of that name, or None; raises as ``insert`` for what is not a name."""
        encoded = _encoded(name)
        at = self._position(encoded)
        return self._rows[at][3] if at < len(self._rows) and self._rows[at][0] == encoded else None

    def _position(self, encoded: bytes) -> int:
        # A tuple that is another's beginning sorts before it, so the names alone are compared.
        return bisect_left(self._rows, (encoded,))

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing."""
        return not self._rows

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[str, SpecValue]]:
        """Yield (name, value) in the byte order of the names."""
        return iter([(name, value) for _, _, name, value in self._rows])

    def __contains__(self, name: object) -> bool:
        """Whether there is a value of that name."""
        return isinstance(name, str) and self.get(name) is not None

    def __eq__(self, other: object) -> bool:
        """Whether both hold equal values under the same names."""
        return self._rows == other._rows if isinstance(other, SpecMap) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it can change

    def __copy__(self) -> SpecMap:
        """Return a map of its own with the same entries."""
        return SpecMap(self)

    def __repr__(self) -> str:
        """Return the call that makes it."""
        return f"SpecMap({dict(iter(self))!r})"

    def to_numeric_constants(self) -> dict[str, float]:
        """Return each name with its value as a float (``SpecValue.as_pipeline_f64``)."""
        return {name: value.as_pipeline_f64() for _, _, name, value in self._rows}

    def cache_hash(self) -> int:
        """Return upstream's u64, FNV-1a over names and values; the empty map's is 0xCBF29CE484222325."""
        return _fast.spec_map_hash(self._rows)


def _encoded(name: object) -> bytes:
    if not isinstance(name, str):
        raise InvalidSpecialization(
            f"a specialization constant is named {name!r}, which is not a str", fix="give a str", constant=name
        )
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise InvalidSpecialization(
            f"a specialization constant is named {name!a}, which has a lone surrogate and so no UTF-8 form",
            fix="give well-formed Unicode",
            constant=name,
        ) from error
