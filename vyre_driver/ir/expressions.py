"""The expressions of a program, which compute values.

Source: spec item 1.6, one class a variant, fields in wire order. The literals, Var and the operators are in
:mod:`vyre_driver.ir.arithmetic`.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass

from vyre_driver.ir._seal import take_fields
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
from vyre_driver.ir.fields import instance
from vyre_driver.ir.layout import ARGUMENTS, BUFFER, DTYPE, EXPRESSION, OPTIONAL, Step, member, number, operator, text
from vyre_driver.ir.operators import AtomicOp, MemoryOrdering, OpaqueOp, SubgroupOp
from vyre_driver.ir.terms import Parts, Traits

__all__ = [
    "Atomic",
    "Binary",
    "BufLen",
    "BufferRef",
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
    "SubgroupReduce",
    "SubgroupShuffle",
    "SubgroupSize",
    "Unary",
    "Var",
    "WorkgroupId",
]

_ORDERING = member(MemoryOrdering, "the ordering of an atomic")
_READS = Traits.ALL & ~Traits.NO_READS
_WRITES = Traits.ALL & ~Traits.NO_WRITES


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Load(Expr):
    """Element ``index`` (u32) of a buffer, zero when out of range; ``hint`` is its :attr:`Expr.dtype`."""

    wire_tag = 4
    _layout = (BUFFER, EXPRESSION)
    buffer: str
    index: Expr
    hint: InitVar[DataType | None] = None

    def __post_init__(self, hint: DataType | None) -> None:
        """Complete the expression."""
        self._seal(hint, _READS)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufLen(Expr):
    """Elements of a buffer (u32)."""

    wire_tag = 5
    _layout = (BUFFER,)
    _result = DataType.U32
    buffer: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufferRef(Expr):
    """A buffer as an argument of a call, whose operation has a parameter ``buffer<T>``."""

    wire_tag = 22
    _layout = (BUFFER,)
    buffer: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Id(Expr):
    """An index (u32) along ``axis`` (u8; the validator wants 0 to 2)."""

    _layout = (number(Step.U8, "an axis"),)
    _result = DataType.U32
    axis: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InvocationId(_Id):
    """The invocation's index in the whole grid."""

    wire_tag = 6


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WorkgroupId(_Id):
    """The workgroup's index in the grid."""

    wire_tag = 7


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LocalId(_Id):
    """The invocation's index in its workgroup."""

    wire_tag = 8


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expr):
    """The result of the operation ``op_id`` on ``args``."""

    wire_tag = 11
    _layout = (text("an op id"), ARGUMENTS)
    _traits = _WRITES
    op_id: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Select(Expr):
    """``true_value`` where ``cond`` holds, else ``false_value``; both are evaluated."""

    wire_tag = 12
    _layout = (EXPRESSION, EXPRESSION, EXPRESSION)
    cond: Expr
    true_value: Expr
    false_value: Expr

    def __post_init__(self) -> None:
        """Find the type."""
        instance(self.true_value, Expr, "the true value of a select")
        instance(self.false_value, Expr, "the false value of a select")
        known = self.true_value.dtype
        self._seal(self.false_value.dtype if known is None else known)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cast(Expr):
    """``value`` as the type ``target``."""

    wire_tag = 13
    _layout = (DTYPE, EXPRESSION)
    target: DataType
    value: Expr

    def __post_init__(self) -> None:
        """Complete the expression; an illegal quantized target has no place on the wire."""
        take_fields(self)
        self._seal(self.target, Traits.ALL if wire_problem(self.target) is None else Traits.ALL & ~Traits.PLAIN)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Atomic(Expr):
    """The value that element ``index`` had before ``op``; ``expected`` is for the compare-exchanges."""

    wire_tag = 14
    _layout = (operator(AtomicOp, "an atomic operator"), _ORDERING, BUFFER, EXPRESSION, OPTIONAL, EXPRESSION)
    _result = DataType.U32
    _traits = _WRITES
    op: AtomicOp | OpaqueOp
    ordering: MemoryOrdering
    buffer: str
    index: Expr
    expected: Expr | None
    value: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fma(Expr):
    """``a * b + c`` in f32, rounded once."""

    wire_tag = 16
    _layout = (EXPRESSION, EXPRESSION, EXPRESSION)
    _result = DataType.F32
    a: Expr
    b: Expr
    c: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupReduce(Expr):
    """``value`` of every lane of the subgroup, combined by ``op``."""

    wire_tag = 17
    _layout = (member(SubgroupOp, "the operator of a subgroup reduction"), EXPRESSION)
    op: SubgroupOp
    value: Expr

    def __post_init__(self) -> None:
        """Find the type; the key is not the encoding, which names the operator of a sum too."""
        take_fields(self)
        instance(self.value, Expr, "the value of a subgroup reduction")
        self._seal(self.value.dtype, Traits.ALL & ~Traits.PLAIN)

    def canonical_parts(self) -> Parts:
        """Return the encoding of the canonical form, as wire format 6 has it."""
        return bytes((self.wire_tag, self.op.wire_tag)), self.value


def SubgroupAdd(value: Expr) -> SubgroupReduce:  # noqa: N802 -- a class until reductions had other operators
    """Return the sum of ``value`` over the subgroup."""
    return SubgroupReduce(SubgroupOp.ADD, value)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupShuffle(Expr):
    """The ``value`` of lane ``lane`` (u32)."""

    wire_tag = 18
    _layout = (EXPRESSION, EXPRESSION)
    value: Expr
    lane: Expr

    def __post_init__(self) -> None:
        """Find the type."""
        instance(self.value, Expr, "the value of a shuffle")
        self._seal(self.value.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupBallot(Expr):
    """One bit (u32) for each lane whose ``cond`` holds."""

    wire_tag = 19
    _layout = (EXPRESSION,)
    _result = DataType.U32
    cond: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupLocalId(Expr):
    """The invocation's lane (u32)."""

    wire_tag = 20
    _result = DataType.U32


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupSize(Expr):
    """The lanes of a subgroup (u32)."""

    wire_tag = 21
    _result = DataType.U32


SUBGROUP_EXPRESSIONS = (SubgroupReduce, SubgroupShuffle, SubgroupBallot, SubgroupLocalId, SubgroupSize)
