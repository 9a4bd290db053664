"""What the expressions of a kernel stand for while it is translated.

An i32 is held as the u32 of its bits: sums, products and what is made of bits are the same instructions for both, and only
comparisons, quotients and shifts to the right look at the sign. Numbers of 64 bits are held as what they are. ``low`` and
``high`` are what is proven of a whole number; where they say that it is not negative, it is compared and divided as a u32.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from vyre_driver.errors import with_article
from vyre_driver.ir.arithmetic import LITERALS, LitBool, LitU32, Var
from vyre_driver.ir.arithmetic import f32 as f32_literal
from vyre_driver.ir.arithmetic import literal as typed_literal
from vyre_driver.ir.dtypes import DataType
from vyre_driver.lang.types import Access, Kind, ScalarType, bool_, f32, i32

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.draft import Body, Branch

_WORD = 0xFFFF_FFFF
_LONG_BITS = 128


@dataclass(frozen=True, slots=True)
class Number:
    """A number that the device computes. ``low`` and ``high`` bound a whole one; of others they say nothing."""

    type: ScalarType
    expr: Expr
    low: int = 0
    high: int = 0

    @property
    def is_natural(self) -> bool:
        """Whether it is a whole number that is certainly not negative."""
        return self.type.is_whole and self.low >= 0


@dataclass(frozen=True, slots=True)
class Constant:
    """A number of Python's, whose type is decided by what it meets: ``int``, ``float`` or ``bool``."""

    value: bool | int | float


@dataclass(frozen=True, slots=True)
class Tuple:
    """A tuple of values; ``fields`` are the names of a named tuple's or a dataclass's, ``made_by`` its class.

    The ``**kwargs`` of a function are one that is made by ``dict``, with the keywords as its fields.
    ``is_settled`` says that nothing in it is merged.
    """

    items: tuple[Value, ...]
    fields: tuple[str, ...] = ()
    made_by: object = None
    is_settled: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """An array of the device: a parameter, or memory of a workgroup or an invocation, whose ``shape`` is constant."""

    name: str
    buffer: str
    element: ScalarType
    shape: tuple[Constant, ...] = ()
    access: Access = Access.IN_OUT
    is_parameter: bool = True
    is_local: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class GroupValue:
    """The workgroup that a kernel was given."""

    name: str
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Host:
    """Something of Python's that is no number: a function, a type, a module, a text."""

    value: object


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A method of a value, to be called; one that takes keywords gets them as a dict, behind the node of the call."""

    owner: Value
    name: str
    call: Callable[..., Value] = field(repr=False)
    takes_keywords: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Missing:
    """A variable that has no value, or not the same one on every way; ``why`` ends the sentence that says so."""

    why: str


@dataclass(slots=True, eq=False)
class Merged:
    """A variable that an ``if`` gave one value or another; a variable of the program only once it is read.

    ``yes`` and ``no`` are the values at the ends of its sides, None of a side that is left before its end.
    """

    name: str
    branch: Branch
    parent: Body
    yes: Value | None
    no: Value | None
    number: Number | None = None


Value: TypeAlias = "Number | Constant | Tuple | Array | GroupValue | Host | Method | Missing | Merged"


def is_like(one: Tuple, other: Tuple) -> bool:
    """Whether two tuples have as many items, and are of one class."""
    kinds = [None if value.made_by is tuple else value.made_by for value in (one, other)]
    return len(one.items) == len(other.items) and kinds[0] is kinds[1]


def memory_type(scalar: ScalarType) -> DataType:
    """Return the type that a variable of a computed type has in a program: an i32 is held as its bits."""
    return DataType.U32 if scalar is i32 else scalar.element


def variable(name: str, scalar: ScalarType, bounds: tuple[int, int] | None = None) -> Number:
    """Return the value of a program's variable; without ``bounds`` all that its type holds."""
    low, high = scalar.bounds if bounds is None else bounds
    return Number(scalar, Var(name, memory_type(scalar)), low, high)


def literal(scalar: ScalarType, value: float) -> Number:
    """Return a number of a computed type that it fits."""
    if scalar is bool_:
        return Number(bool_, LitBool(bool(value)))
    if scalar is f32:
        return Number(f32, f32_literal(float(value)))
    if scalar.kind is Kind.FLOAT:
        return Number(scalar, typed_literal(float(value), scalar.element))
    whole = int(value)
    expr = typed_literal(whole, scalar.element) if scalar.is_wide else LitU32(whole & _WORD)
    return Number(scalar, expr, whole, whole)


def zero(scalar: ScalarType) -> Expr:
    """Return the expression that a variable of a type is declared with before it has a value."""
    return literal(scalar, 0).expr


def shown(value: float) -> str:
    """Return a number as messages show it: a whole one of many digits by its bits, which Python does not print either."""
    if isinstance(value, int) and value.bit_length() > _LONG_BITS:
        return f"a whole number of {value.bit_length():,} bits"
    return repr(value)


def kind_name(value: Value) -> str:
    """Return what a value is, for a message."""
    match value:
        case Number(scalar):
            return str(scalar)
        case Constant(given):
            return f"the constant {shown(given)}"
        case Array(name):
            return f"the array {name!r}"
        case Tuple():
            return _tuple_name(value)
        case Host(None):
            return "None"
        case Host(ScalarType() as scalar):
            return f"the type {scalar}"
        case Host(thing) if thing is ...:
            return "an ellipsis"
        case Host(thing):
            called = repr(thing) if isinstance(thing, (str, bytes)) else getattr(thing, "__name__", None)
            return f"{type(thing).__name__} {called}" if called else with_article(type(thing).__name__)
        case Method(_, name):
            return f"the method {name!r}"
    return "the workgroup" if isinstance(value, GroupValue) else "nothing"


def _tuple_name(value: Tuple) -> str:
    if value.made_by is dict:
        return "the **kwargs of a function"
    if value.fields and isinstance(value.made_by, type):
        return with_article(value.made_by.__name__)
    return f"a tuple of {len(value.items)}"


def is_literal(value: Number) -> bool:
    """Whether it is a literal of the program."""
    return isinstance(value.expr, LITERALS)


def is_signed(value: Number) -> bool:
    """Whether it is an i32 that may be negative."""
    return value.type is i32 and value.low < 0
