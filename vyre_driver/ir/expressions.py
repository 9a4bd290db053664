"""The expressions of a program, which compute values.

Source: spec item 1.6, one class a variant, fields in wire order. The literals, Var and the operators are in
:mod:`vyre_driver.ir.arithmetic`.
"""

from __future__ import annotations

import struct
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, ClassVar

from vyre_driver.checks import U8_MAX
from vyre_driver.ir.arithmetic import (
    Binary,
    Expr,
    LitBool,
    LitF32,
    LitI32,
    LitU32,
    OpaqueExpr,
    Unary,
    Var,
)
from vyre_driver.ir.dtypes import DataType, wire_problem
from vyre_driver.ir.fields import brief, encoded_text, instance, refuse, whole
from vyre_driver.ir.operators import AtomicOp, MemoryOrdering, OpaqueOp
from vyre_driver.ir.terms import Traits

if TYPE_CHECKING:
    from vyre_driver.ir.terms import Parts

__all__ = [
    "Atomic",
    "Binary",
    "BufLen",
    "Call",
    "Cast",
    "Expr",
    "Fma",
    "InvocationId",
    "LitBool",
    "LitF32",
    "LitI32",
    "LitU32",
    "Load",
    "LocalId",
    "OpaqueExpr",
    "Select",
    "SubgroupAdd",
    "SubgroupBallot",
    "SubgroupLocalId",
    "SubgroupShuffle",
    "SubgroupSize",
    "Unary",
    "Var",
    "WorkgroupId",
]

_U32 = struct.Struct("<I")
_READS = Traits.ALL & ~Traits.NO_READS
_WRITES = Traits.ALL & ~Traits.NO_WRITES


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Load(Expr):
    """Element ``index`` (u32) of a buffer, zero when out of range; ``hint`` is its :attr:`Expr.dtype`."""

    wire_tag: ClassVar[int] = 4
    buffer: str
    index: Expr
    hint: InitVar[DataType | None] = None

    def __post_init__(self, hint: DataType | None) -> None:
        """Complete the expression."""
        self.seal(hint, _READS)

    def parts(self) -> Parts:
        """Return tag, buffer and index."""
        return b"\4" + encoded_text(self.buffer, "the name of a buffer"), self.index


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufLen(Expr):
    """Elements of a buffer (u32)."""

    wire_tag: ClassVar[int] = 5
    buffer: str

    def __post_init__(self) -> None:
        """Complete the expression."""
        self.seal(DataType.U32)

    def parts(self) -> Parts:
        """Return tag and buffer."""
        return (b"\5" + encoded_text(self.buffer, "the name of a buffer"),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Id(Expr):
    """An index (u32) along ``axis`` (u8; the validator wants 0 to 2)."""

    axis: int

    def __post_init__(self) -> None:
        """Refuse an axis without encoding."""
        object.__setattr__(self, "axis", whole(self.axis, U8_MAX, "an axis"))
        self.seal(DataType.U32)

    def parts(self) -> Parts:
        """Return tag and axis."""
        return (bytes((self.wire_tag, self.axis)),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InvocationId(_Id):
    """The invocation's index in the whole grid."""

    wire_tag: ClassVar[int] = 6


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WorkgroupId(_Id):
    """The workgroup's index in the grid."""

    wire_tag: ClassVar[int] = 7


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LocalId(_Id):
    """The invocation's index in its workgroup."""

    wire_tag: ClassVar[int] = 8


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expr):
    """The result of the operation ``op_id`` on ``args``."""

    wire_tag: ClassVar[int] = 11
    op_id: str
    args: tuple[Expr, ...]

    def __post_init__(self) -> None:
        """Take the arguments as a tuple."""
        if not isinstance(self.args, list | tuple):
            refuse(f"the arguments of a call are {brief(self.args)}", "give a sequence of expressions")
        object.__setattr__(self, "args", tuple(self.args))
        self.seal(None, _WRITES)

    def parts(self) -> Parts:
        """Return tag, op id, number of arguments and arguments."""
        return b"\x0b" + encoded_text(self.op_id, "an op id") + _U32.pack(len(self.args)), *self.args


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Select(Expr):
    """``true_value`` where ``cond`` holds, else ``false_value``; both are evaluated."""

    wire_tag: ClassVar[int] = 12
    cond: Expr
    true_value: Expr
    false_value: Expr

    def __post_init__(self) -> None:
        """Find the type."""
        instance(self.true_value, Expr, "the true value of a select")
        instance(self.false_value, Expr, "the false value of a select")
        known = self.true_value.dtype
        self.seal(self.false_value.dtype if known is None else known)

    def parts(self) -> Parts:
        """Return tag, condition and both values."""
        return b"\x0c", self.cond, self.true_value, self.false_value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cast(Expr):
    """``value`` as the type ``target``."""

    wire_tag: ClassVar[int] = 13
    target: DataType
    value: Expr

    def __post_init__(self) -> None:
        """Complete the expression; an illegal quantized target has no place on the wire."""
        instance(self.target, DataType, "the target of a cast")
        self.seal(self.target, Traits.ALL if wire_problem(self.target) is None else Traits.ALL & ~Traits.PLAIN)

    def parts(self) -> Parts:
        """Return tag, target and value."""
        return b"\x0d" + self.target.encoded, self.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Atomic(Expr):
    """The value that element ``index`` had before ``op``; ``expected`` is for the compare-exchanges."""

    wire_tag: ClassVar[int] = 14
    op: AtomicOp | OpaqueOp
    ordering: MemoryOrdering
    buffer: str
    index: Expr
    expected: Expr | None
    value: Expr

    def __post_init__(self) -> None:
        """Refuse another operator or ordering."""
        instance(self.op, (AtomicOp, OpaqueOp), "an atomic operator")
        instance(self.ordering, MemoryOrdering, "the ordering of an atomic")
        self.seal(DataType.U32, _WRITES)

    def parts(self) -> Parts:
        """Return tag, operator, ordering, buffer, index, whether a value is expected, that value, and the value."""
        head = b"\x0e" + self.op.encoded + self.ordering.encoded + encoded_text(self.buffer, "the name of a buffer")
        if self.expected is None:
            return head, self.index, b"\0", self.value
        return head, self.index, b"\1", self.expected, self.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fma(Expr):
    """``a * b + c`` in f32, rounded once."""

    wire_tag: ClassVar[int] = 16
    a: Expr
    b: Expr
    c: Expr

    def __post_init__(self) -> None:
        """Complete the expression."""
        self.seal(DataType.F32)

    def parts(self) -> Parts:
        """Return tag and operands."""
        return b"\x10", self.a, self.b, self.c


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupAdd(Expr):
    """The sum of ``value`` over the subgroup."""

    wire_tag: ClassVar[int] = 17
    value: Expr

    def __post_init__(self) -> None:
        """Find the type."""
        instance(self.value, Expr, "the value of a subgroup sum")
        self.seal(self.value.dtype)

    def parts(self) -> Parts:
        """Return tag and value."""
        return b"\x11", self.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupShuffle(Expr):
    """The ``value`` of lane ``lane`` (u32)."""

    wire_tag: ClassVar[int] = 18
    value: Expr
    lane: Expr

    def __post_init__(self) -> None:
        """Find the type."""
        instance(self.value, Expr, "the value of a shuffle")
        self.seal(self.value.dtype)

    def parts(self) -> Parts:
        """Return tag, value and lane."""
        return b"\x12", self.value, self.lane


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupBallot(Expr):
    """One bit (u32) for each lane whose ``cond`` holds."""

    wire_tag: ClassVar[int] = 19
    cond: Expr

    def __post_init__(self) -> None:
        """Complete the expression."""
        self.seal(DataType.U32)

    def parts(self) -> Parts:
        """Return tag and condition."""
        return b"\x13", self.cond


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupLocalId(Expr):
    """The invocation's lane (u32)."""

    wire_tag: ClassVar[int] = 20

    def __post_init__(self) -> None:
        """Complete the expression."""
        self.seal(DataType.U32)

    def parts(self) -> Parts:
        """Return the tag."""
        return (b"\x14",)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupSize(Expr):
    """The lanes of a subgroup (u32)."""

    wire_tag: ClassVar[int] = 21

    def __post_init__(self) -> None:
        """Complete the expression."""
        self.seal(DataType.U32)

    def parts(self) -> Parts:
        """Return the tag."""
        return (b"\x15",)
