"""Expr, its literals, and the expressions that Python's operators build.

A Python number beside an expression becomes a literal of the expression's type, by the rule of
:mod:`vyre_driver.ir.dtypes`.

Source: spec items 1.6 and 1.8 (result types).
"""

from __future__ import annotations

import struct
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, ClassVar, NoReturn

import numpy as np

from vyre_driver.ir._seal import seal_expression, take_fields
from vyre_driver.ir.dtypes import (
    WIDE_LITERALS,
    DataType,
    Number,
    canonical_f32_bits,
    f32_bits,
    f32_value,
    literal_type,
    wide_literal,
)
from vyre_driver.ir.fields import brief, instance, refuse
from vyre_driver.ir.layout import EXPRESSION, FLAG, VARIABLE, Step, number, operator, payload, text
from vyre_driver.ir.operators import (
    PREDICATES,
    UNPACKING,
    BinOp,
    OpaqueOp,
    UnOp,
)
from vyre_driver.ir.terms import Parts, Term, Traits, complete, stands_after

if TYPE_CHECKING:
    from collections.abc import Callable


_TAGGED_U32 = struct.Struct("<BI")
_OPAQUE_TRAITS = Traits.ALL & ~Traits.NO_WRITES


def _infix(op: BinOp) -> tuple[Callable[[Expr, Expr | Number], Expr], Callable[[Expr, Expr | Number], Expr]]:
    def forward(self: Expr, other: Expr | Number) -> Expr:
        return binary(op, self, other) if isinstance(other, Expr | Number) else NotImplemented

    def backward(self: Expr, other: Expr | Number) -> Expr:
        return binary(op, other, self) if isinstance(other, Number) else NotImplemented

    return forward, backward


class Expr(Term):
    """An expression.

    ``dtype`` is its type where that does not depend on the program around it, else None; it is not part of equality. ``depth``
    is the longest way down, 1 for a leaf. Python's ``==`` compares structure, of expressions only; the program's is :meth:`eq`.
    """

    __slots__ = ("depth", "dtype")
    __array_ufunc__ = None  # numpy's operators leave an expression to its own

    _result: ClassVar[DataType | None] = None
    _traits: ClassVar[int] = Traits.ALL
    dtype: DataType | None
    depth: int

    __add__, __radd__ = _infix(BinOp.ADD)
    __sub__, __rsub__ = _infix(BinOp.SUB)
    __mul__, __rmul__ = _infix(BinOp.MUL)
    __truediv__, __rtruediv__ = _infix(BinOp.DIV)
    __mod__, __rmod__ = _infix(BinOp.MOD)
    __and__, __rand__ = _infix(BinOp.BIT_AND)
    __or__, __ror__ = _infix(BinOp.BIT_OR)
    __xor__, __rxor__ = _infix(BinOp.BIT_XOR)
    __lshift__, __rlshift__ = _infix(BinOp.SHL)
    __rshift__, __rrshift__ = _infix(BinOp.SHR)
    __lt__ = _infix(BinOp.LT)[0]
    __le__ = _infix(BinOp.LE)[0]
    __gt__ = _infix(BinOp.GT)[0]
    __ge__ = _infix(BinOp.GE)[0]

    def __eq__(self, other: object) -> bool:
        """Return whether the other is the same expression, as ``Term`` does; a number is refused, which none can be."""
        if self is other:
            return True
        if isinstance(other, Term):
            return self.__class__ is other.__class__ and self.key == other.key
        if isinstance(other, int | float | np.generic):
            raise TypeError(
                f"an expression is not a number, and == compares objects. Fix: write .eq({other!r}) or .ne({other!r})."
            )
        return False

    __hash__ = Term.__hash__

    def eq(self, other: Expr | Number) -> Expr:
        """Return the program's comparison for equality."""
        return binary(BinOp.EQ, self, other)

    def ne(self, other: Expr | Number) -> Expr:
        """Return the program's comparison for inequality."""
        return binary(BinOp.NE, self, other)

    def and_(self, other: Expr | Number) -> Expr:
        """Return the logical and; both sides are evaluated."""
        return binary(BinOp.AND, self, other)

    def or_(self, other: Expr | Number) -> Expr:
        """Return the logical or; both sides are evaluated."""
        return binary(BinOp.OR, self, other)

    def not_(self) -> Expr:
        """Return the logical negation."""
        return Unary(UnOp.LOGICAL_NOT, self)

    def __neg__(self) -> Expr:
        """Return the negation."""
        return Unary(UnOp.NEGATE, self)

    def __invert__(self) -> Expr:
        """Return the bits inverted."""
        return Unary(UnOp.BIT_NOT, self)

    def __bool__(self) -> NoReturn:
        """Refuse: which it is, only the device knows."""
        raise TypeError(
            "an expression is neither true nor false here. Fix: use if_ or select, and .and_() between comparisons."
        )

    def __post_init__(self) -> None:
        """Check the fields and complete the expression, where type and traits are those of its class."""
        take_fields(self)
        wrong = seal_expression(self, self._result, self._traits, Expr, complete)
        if wrong is not None:
            self._refuse(*wrong)

    def _seal(self, dtype: DataType | None, traits: int = Traits.ALL) -> None:
        """Complete a new expression from its parts; ``traits`` are its own."""
        wrong = seal_expression(self, dtype, traits, Expr, complete)
        if wrong is not None:
            self._refuse(*wrong)

    def _refuse(self, part: object) -> NoReturn:
        refuse(f"{type(self).__name__} got {brief(part)} for an expression", "give an expression, such as u32(1)")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LitU32(Expr):
    """A u32."""

    wire_tag = 0
    _layout = (number(Step.U32, "a u32 literal"),)
    _result = DataType.U32
    value: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LitI32(Expr):
    """An i32."""

    wire_tag = 1
    _layout = (number(Step.I32, "an i32 literal"),)
    _result = DataType.I32
    value: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LitBool(Expr):
    """A bool."""

    wire_tag = 2
    _layout = (FLAG,)
    _result = DataType.Bool
    value: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LitF32(Expr):
    """An f32 by its bits (u32), so that the sign of zero and the payload of a NaN are what they are; see :func:`f32`."""

    wire_tag = 15
    _layout = (number(Step.U32, "the bits of an f32 literal"),)
    bits: int

    def __post_init__(self) -> None:
        """Refuse bits out of range."""
        take_fields(self)
        canonical = canonical_f32_bits(self.bits)
        traits: int = Traits.ALL
        if canonical != self.bits:
            traits &= ~(Traits.PLAIN | Traits.CANONICAL_FLOATS)
        if canonical == 0 and self.bits >> 31:
            traits &= ~Traits.SIGNED
        self._seal(DataType.F32, traits)

    @property
    def value(self) -> float:
        """The number."""
        return f32_value(self.bits)

    def canonical_parts(self) -> Parts:
        """Return tag and the bits that stand on the wire."""
        return (_TAGGED_U32.pack(15, canonical_f32_bits(self.bits)),)


LITERALS = (LitU32, LitI32, LitBool, LitF32)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Expr):
    """The value that a let, an assignment or a loop gave to ``name``; ``hint`` is its :attr:`Expr.dtype`."""

    wire_tag = 3
    _layout = (VARIABLE,)
    name: str
    hint: InitVar[DataType | None] = None

    def __post_init__(self, hint: DataType | None) -> None:
        """Refuse a name without encoding."""
        self._seal(hint)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Binary(Expr):
    """``left op right``; both are evaluated, left first."""

    wire_tag = 9
    _layout = (operator(BinOp, "a binary operator"), EXPRESSION, EXPRESSION)
    op: BinOp | OpaqueOp
    left: Expr
    right: Expr

    def __post_init__(self) -> None:
        """Find the type, and what canonical order does to the operands."""
        op, left, right = self.op, self.left, self.right
        if op.__class__ is not BinOp:
            take_fields(self)
        if not (isinstance(left, Expr) and isinstance(right, Expr)):
            refuse(f"an operand is {brief(right if isinstance(left, Expr) else left)}", "give an expression, such as u32(1)")
        dtype = DataType.Bool if op.boolean else right.dtype if left.dtype is None else left.dtype
        traits: int = Traits.ALL
        swapped = op.commutative and _is_swapped(op, left, right)
        if swapped:
            traits &= ~(Traits.CANONICAL | Traits.ORDER_SAFE) if order_matters(left, right) else ~Traits.CANONICAL
        self._seal(dtype, traits | Traits.SWAPPED if swapped else traits)

    def canonical_parts(self) -> Parts:
        """Return tag, operator and operands in canonical order."""
        head, left, right = self.parts()
        return (head, right, left) if self.traits & Traits.SWAPPED else (head, left, right)


def order_matters(left: Expr, right: Expr) -> bool:
    """Return whether one operand may change what the other one reads."""
    pure = Traits.NO_READS | Traits.NO_WRITES
    writes = not left.traits & right.traits & Traits.NO_WRITES
    return writes and left.traits & pure != pure and right.traits & pure != pure


def _is_swapped(op: BinOp | OpaqueOp, left: Expr, right: Expr) -> bool:
    """Return whether canonical order swaps the operands of a commutative operator."""
    left_is_literal = isinstance(left, LITERALS)
    if left_is_literal != isinstance(right, LITERALS):
        return left_is_literal
    if not left_is_literal and not op.fully_sorted:
        return False
    if left.wire is not None and right.wire is not None:
        return left.wire > right.wire
    return stands_after(left, right)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unary(Expr):
    """``op operand``."""

    wire_tag = 10
    _layout = (operator(UnOp, "a unary operator"), EXPRESSION)
    op: UnOp | OpaqueOp
    operand: Expr

    def __post_init__(self) -> None:
        """Find the type."""
        op = self.op
        if op.__class__ is not UnOp:
            take_fields(self)
        instance(self.operand, Expr, "an operand")
        self._seal(DataType.Bool if op in PREDICATES else DataType.U32 if op in UNPACKING else self.operand.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OpaqueExpr(Expr):
    """An expression that an extension defines; 64-bit literals are such (``vyre.literal.u64``, 8 bytes little-endian)."""

    wire_tag = 0x80
    _layout = (text("an expression's kind"), payload("the payload of an opaque expression"))
    kind: str
    payload: bytes

    def __post_init__(self) -> None:
        """Refuse fields without encoding."""
        take_fields(self)
        dtype = WIDE_LITERALS.get(self.kind)
        self._seal(dtype, _OPAQUE_TRAITS if dtype is None else Traits.ALL)


def binary(op: BinOp | OpaqueOp, left: Expr | Number, right: Expr | Number) -> Binary:
    """Return ``left op right``, of which one may be a number.

    Raises
    ------
    InvalidProgram
        If the number cannot be a literal of the other side's type, or that type is not known.
    """
    if not isinstance(left, Expr):
        left = literal(left, right.dtype if isinstance(right, Expr) else None)
    if not isinstance(right, Expr):
        right = literal(right, left.dtype)
    return Binary(op, left, right)


def literal(value: Expr | Number, dtype: DataType | None) -> Expr:
    """Return a number as a literal of type ``dtype``, or of the one type it can have where that is None.

    An expression is returned as it is.

    Raises
    ------
    InvalidProgram
        If there is no such literal, or the type is ambiguous.
    """
    if isinstance(value, Expr):
        return value
    return _literal(*literal_type(value, dtype))


def _literal(number: float, dtype: DataType) -> Expr:
    if dtype == DataType.F32:
        return f32(number)
    if dtype in {DataType.U32, DataType.I32}:
        return (LitU32 if dtype == DataType.U32 else LitI32)(number)  # type: ignore[arg-type]
    return OpaqueExpr(*wide_literal(number, dtype))


def f32(value: float) -> LitF32:
    """Return the f32 nearest to ``value``.

    Raises
    ------
    InvalidProgram
        If a finite number is out of range, or an int is not exact.
    """
    return LitF32(f32_bits(value))
