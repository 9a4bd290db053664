"""The types that the parameters and casts of a kernel are written with."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from vyre_driver.ir.dtypes import DataType, numpy_element

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Const",
    "Group",
    "In",
    "In1",
    "In2",
    "In3",
    "InOut",
    "InOut1",
    "InOut2",
    "InOut3",
    "Index",
    "Out",
    "Out1",
    "Out2",
    "Out3",
    "bf16",
    "bool_",
    "f16",
    "f32",
    "f64",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
]


class Kind(enum.Enum):
    """How a scalar type computes."""

    FLOAT = "f"
    SIGNED = "i"
    UNSIGNED = "u"
    BOOL = "b"


@dataclass(frozen=True, slots=True, eq=False)
class ScalarType:
    """A type of numbers: in a cast, in an annotation, or as the element of an array. There is one object of each.

    Called outside of a kernel it makes a scalar of numpy, so that functions of kernels run as plain Python too.
    ``element`` is its type in the memory of a program.

    Kernels compute with bool, i32, u32, f32, i64, u64 and f64. The others are types of memory: arrays hold them, an element is
    loaded as an i32 or an f32 and stored rounded to its type. In a kernel ``f16(x)`` is x rounded to an f16, as an f32.
    """

    name: str
    kind: Kind
    bits: int
    element: DataType
    _dtype: np.dtype[Any] | None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Numpy's type; of bf16 that of ml_dtypes, and unsigned words of 16 bits where that is not installed."""
        if self._dtype is not None:
            return self._dtype
        found = numpy_element(self.element)
        assert found is not None  # noqa: S101 -- of 16 bits
        return found.dtype

    def __call__(self, value: object = 0) -> Any:  # noqa: ANN401 -- a scalar of numpy
        """Return a value as this type, as numpy casts it."""
        return np.asarray(value).astype(self.dtype)[()]

    @property
    def is_whole(self) -> bool:
        """Whether it holds whole numbers."""
        return self.kind in {Kind.SIGNED, Kind.UNSIGNED}

    @property
    def is_wide(self) -> bool:
        """Whether it has 64 bits."""
        return self.bits == 64

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest whole number that it holds."""
        if self.kind is Kind.SIGNED:
            return -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        return 0, (1 << self.bits) - 1

    def __reduce__(self) -> tuple[Callable[[str], ScalarType], tuple[str]]:
        """Copy and pickle it as itself."""
        return scalar_type, (self.name,)

    def __repr__(self) -> str:
        """Return its name."""
        return self.name


def scalar_type(name: str) -> ScalarType:
    """Return the type of this name; raises KeyError if there is none."""
    return SCALARS[name]


def _scalar(name: str, kind: Kind, bits: int, element: DataType, dtype: object) -> ScalarType:
    return ScalarType(name, kind, bits, element, None if dtype is None else np.dtype(dtype))  # type: ignore[call-overload]


bool_ = _scalar("bool", Kind.BOOL, 1, DataType.Bool, np.bool_)
i8 = _scalar("i8", Kind.SIGNED, 8, DataType.I8, np.int8)
i16 = _scalar("i16", Kind.SIGNED, 16, DataType.I16, np.int16)
i32 = _scalar("i32", Kind.SIGNED, 32, DataType.I32, np.int32)
u8 = _scalar("u8", Kind.UNSIGNED, 8, DataType.U8, np.uint8)
u16 = _scalar("u16", Kind.UNSIGNED, 16, DataType.U16, np.uint16)
u32 = _scalar("u32", Kind.UNSIGNED, 32, DataType.U32, np.uint32)
f32 = _scalar("f32", Kind.FLOAT, 32, DataType.F32, np.float32)
i64 = _scalar("i64", Kind.SIGNED, 64, DataType.I64, np.int64)
u64 = _scalar("u64", Kind.UNSIGNED, 64, DataType.U64, np.uint64)
f64 = _scalar("f64", Kind.FLOAT, 64, DataType.F64, np.float64)
f16 = _scalar("f16", Kind.FLOAT, 16, DataType.F16, np.float16)
bf16 = _scalar("bf16", Kind.FLOAT, 16, DataType.BF16, None)  # found when it is asked for: most kernels have none

SCALARS = {one.name: one for one in (bool_, i8, i16, i32, u8, u16, u32, f32, i64, u64, f64, f16, bf16)}
BY_DTYPE = {one.dtype: one for one in SCALARS.values() if one is not bf16}
COMPUTED = frozenset({bool_, i32, u32, f32, i64, u64, f64})
"""What variables and scalar parameters hold; the others are types of memory, and are loaded as i32 or f32."""

WORDS = frozenset({i32, u32})
"""The whole numbers of 32 bits: what counts, indexes and has atomics."""


def type_of(dtype: np.dtype[Any]) -> ScalarType | None:
    """Return the type of numbers of numpy, None if there is none."""
    return BY_DTYPE.get(dtype) or (bf16 if dtype.name == "bfloat16" else None)


class Access(enum.Enum):
    """What a kernel does with an array: the annotation's name."""

    IN = "In"
    OUT = "Out"
    IN_OUT = "InOut"

    @property
    def reads(self) -> bool:
        """Whether elements may be loaded."""
        return self is not Access.OUT

    @property
    def writes(self) -> bool:
        """Whether elements may be stored."""
        return self is not Access.IN


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The annotation of an array: what is done with it, its elements, and how many axes it has (None: as it is used)."""

    access: Access
    element: ScalarType | TypeVar
    rank: int | None = None

    def __repr__(self) -> str:
        """Return it as it is written."""
        name = getattr(self.element, "__name__", None) or repr(self.element)
        return f"{self.access.value}[{name}]" if self.rank is None else f"{self.access.value}[{name}, {self.rank}]"


class ArrayForm:
    """What ``In``, ``Out`` and ``InOut`` are at run time: subscripted with the type of elements, and perhaps the rank."""

    def __init__(self, access: Access, rank: int | None = None) -> None:
        """Make the annotation of a kind of access; with ``rank`` the subscript is the type alone."""
        self._access = access
        self._rank = rank

    def __getitem__(self, given: Any) -> ArrayType:  # noqa: ANN401 -- an element type, or (type, rank)
        """Return the annotation of an array of these elements."""
        element, rank = given if isinstance(given, tuple) and len(given) == 2 and self._rank is None else (given, self._rank)
        return ArrayType(self._access, element, rank)

    def __repr__(self) -> str:
        """Return it as it is written."""
        return f"{self._access.value}{self._rank or ''}"


In, Out, InOut = (ArrayForm(access) for access in Access)
In1, Out1, InOut1 = (ArrayForm(access, 1) for access in Access)
In2, Out2, InOut2 = (ArrayForm(access, 2) for access in Access)
In3, Out3, InOut3 = (ArrayForm(access, 3) for access in Access)


class Index:
    """The annotation of an invocation's index along one axis; the last of them is x of the grid."""


@dataclass(frozen=True, slots=True)
class GroupType:
    """The annotation of a workgroup of this many invocations, slowest axis first; names stand for constants."""

    sizes: tuple[int | str, ...]


class Group:
    """The annotation of a kernel whose workgroups cooperate: ``Group[256]``, ``Group[16, 16]``, ``Group["BLOCK"]``.

    ``Annotated[Group, 16, 16]`` is the same, and is what type checkers take.
    """

    def __class_getitem__(cls, given: Any) -> GroupType:  # noqa: ANN401 -- sizes or names
        """Return the annotation of workgroups of this size."""
        return GroupType(given if isinstance(given, tuple) else (given,))


@dataclass(frozen=True, slots=True)
class ConstType:
    """The annotation of a constant of the program."""

    type: type

    def __repr__(self) -> str:
        """Return it as it is written."""
        return f"Const[{getattr(self.type, '__name__', None) or repr(self.type)}]"


class Const:
    """The annotation of a value that is part of the program: ``Const[int]``, ``Const[float]``, ``Const[bool]``."""

    def __class_getitem__(cls, given: type) -> ConstType:
        """Return the annotation of a constant of this type of Python."""
        return ConstType(given)
