"""Expr, its literals, and the expressions that Python's operators build.

A Python number beside an expression becomes a literal of the expression's type, by the rule of
:mod:`vyre_driver.ir.literal_types`.

Source: spec items 1.6 and 1.8 (result types).
"""

from __future__ import annotations

import struct
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, ClassVar, NoReturn

import numpy as np

from vyre_driver.checks import I32_MAX, U32_MAX
from vyre_driver.ir._seal import seal_expression
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.fields import brief, encoded_text, instance, refuse, whole
from vyre_driver.ir.literal_types import (
    WIDE_LITERALS,
    Number,
    canonical_f32_bits,
    f32_bits,
    f32_value,
    literal_type,
    wide_literal,
)
from vyre_driver.ir.operators import (
    PREDICATES,
    UNPACKING,
    BinOp,
    OpaqueOp,
    UnOp,
)
from vyre_driver.ir.terms import Term, Traits, complete, stands_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.ir.terms import Parts

_TAGGED_U32, _TAGGED_I32, _U32 = struct.Struct("<BI"), struct.Struct("<Bi"), struct.Struct("<I")
_put = object.__setattr__
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

    def seal(self, dtype: DataType | None, traits: int = Traits.ALL) -> None:
        """Complete a new expression from its parts; ``traits`` are its own."""
        parts = self.parts()
        wrong = seal_expression(self, parts, dtype, traits, Expr, complete)
        if wrong >= 0:
            text = f"{type(self).__name__} got {brief(parts[wrong])} for an expression"
            refuse(text, "give an expression, such as u32(1)")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LitU32(Expr):
    """A u32."""

    wire_tag: ClassVar[int] = 0
    value: int

    def __post_init__(self) -> None:
        """Refuse a value out of range."""
        object.__setattr__(self, "value", whole(self.value, U32_MAX, "a u32 literal"))
        self.seal(DataType.U32)

    def parts(self) -> Parts:
        """Return tag and value."""
        return (_TAGGED_U32.pack(0, self.value),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LitI32(Expr):
    """An i32."""

    wire_tag: ClassVar[int] = 1
    value: int

    def __post_init__(self) -> None:
        """Refuse a value out of range."""
        object.__setattr__(self, "value", whole(self.value, I32_MAX, "an i32 literal", lowest=-I32_MAX - 1))
        self.seal(DataType.I32)

    def parts(self) -> Parts:
        """Return tag and two's complement."""
        return (_TAGGED_I32.pack(1, self.value),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LitBool(Expr):
    """A bool."""

    wire_tag: ClassVar[int] = 2
    value: bool

    def __post_init__(self) -> None:
        """Refuse anything but True and False."""
        instance(self.value, bool, "a bool literal")
        self.seal(DataType.Bool)

    def parts(self) -> Parts:
        """Return tag and 0 or 1."""
        return (b"\2\1" if self.value else b"\2\0",)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LitF32(Expr):
    """An f32 by its bits (u32), so that the sign of zero and the payload of a NaN are what they are; see :func:`f32`."""

    wire_tag: ClassVar[int] = 15
    bits: int

    def __post_init__(self) -> None:
        """Refuse bits out of range."""
        object.__setattr__(self, "bits", whole(self.bits, U32_MAX, "the bits of an f32 literal"))
        canonical = canonical_f32_bits(self.bits)
        traits: int = Traits.ALL
        if canonical != self.bits:
            traits &= ~(Traits.PLAIN | Traits.CANONICAL_FLOATS)
        if canonical == 0 and self.bits >> 31:
            traits &= ~Traits.SIGNED
        self.seal(DataType.F32, traits)

    @property
    def value(self) -> float:
        """The number."""
        return f32_value(self.bits)

    def parts(self) -> Parts:
        """Return tag and bits."""
        return (_TAGGED_U32.pack(15, self.bits),)

    def canonical_parts(self) -> Parts:
        """Return tag and the bits that stand on the wire."""
        return (_TAGGED_U32.pack(15, canonical_f32_bits(self.bits)),)


LITERALS = (LitU32, LitI32, LitBool, LitF32)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Expr):
    """The value that a let, an assignment or a loop gave to ``name``; ``hint`` is its :attr:`Expr.dtype`."""

    wire_tag: ClassVar[int] = 3
    name: str
    hint: InitVar[DataType | None] = None

    def __post_init__(self, hint: DataType | None) -> None:
        """Refuse a name without encoding."""
        self.seal(hint)

    def parts(self) -> Parts:
        """Return tag and name."""
        return (b"\3" + encoded_text(self.name, "the name of a variable"),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Binary(Expr):
    """``left op right``; both are evaluated, left first."""

    wire_tag: ClassVar[int] = 9
    op: BinOp | OpaqueOp
    left: Expr
    right: Expr

    def __post_init__(self) -> None:
        """Find the type, and what canonical order does to the operands."""
        op, left, right = self.op, self.left, self.right
        if op.__class__ is not BinOp:
            instance(op, (BinOp, OpaqueOp), "a binary operator")
        if not (isinstance(left, Expr) and isinstance(right, Expr)):
            refuse(f"an operand is {brief(right if isinstance(left, Expr) else left)}", "give an expression, such as u32(1)")
        dtype = DataType.Bool if op.boolean else right.dtype if left.dtype is None else left.dtype
        traits: int = Traits.ALL
        swapped = op.commutative and _is_swapped(op, left, right)
        if swapped:
            traits &= ~(Traits.CANONICAL | Traits.ORDER_SAFE) if order_matters(left, right) else ~Traits.CANONICAL
        self.seal(dtype, traits | Traits.SWAPPED if swapped else traits)

    def parts(self) -> Parts:
        """Return tag, operator and operands."""
        return self.op.binary_head, self.left, self.right

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

    wire_tag: ClassVar[int] = 10
    op: UnOp | OpaqueOp
    operand: Expr

    def __post_init__(self) -> None:
        """Find the type."""
        op = self.op
        if op.__class__ is not UnOp:
            instance(op, (UnOp, OpaqueOp), "a unary operator")
        instance(self.operand, Expr, "an operand")
        self.seal(DataType.Bool if op in PREDICATES else None if op in UNPACKING else self.operand.dtype)

    def parts(self) -> Parts:
        """Return tag, operator and operand."""
        return b"\x0a" + self.op.encoded, self.operand


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OpaqueExpr(Expr):
    """An expression that an extension defines; 64-bit literals are such (``vyre.literal.u64``, 8 bytes little-endian)."""

    wire_tag: ClassVar[int] = 0x80
    kind: str
    payload: bytes

    def __post_init__(self) -> None:
        """Refuse fields without encoding."""
        instance(self.payload, bytes, "the payload of an opaque expression")
        dtype = WIDE_LITERALS.get(self.kind)
        self.seal(dtype, _OPAQUE_TRAITS if dtype is None else Traits.ALL)

    def parts(self) -> Parts:
        """Return tag, kind and payload."""
        return (b"\x80" + encoded_text(self.kind, "an expression's kind") + _U32.pack(len(self.payload)) + self.payload,)


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
