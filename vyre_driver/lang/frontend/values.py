"""What expressions of kernels stand for, and when a named tuple or a frozen dataclass is the tuple of its fields.

Python runs what the class of a record says otherwise, so that is looked at before anything is done with its fields.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import inspect
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vyre_driver.errors import with_article
from vyre_driver.ir.arithmetic import LITERALS, LitBool, LitU32, Var
from vyre_driver.ir.arithmetic import f32 as f32_literal
from vyre_driver.ir.arithmetic import literal as typed_literal
from vyre_driver.ir.dtypes import DataType
from vyre_driver.lang.types import COMPUTED, Access, Kind, ScalarType, bool_, f32, i32

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterable

    from vyre_driver.errors import KernelTypeError
    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.draft import Body, Branch
    from vyre_driver.lang.frontend.translation import Translation

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
    def name(self) -> str:
        """The name of the program's variable that it is."""
        assert isinstance(self.expr, Var)  # noqa: S101 -- asked of those that :func:`variable` makes
        return self.expr.name

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

    def of(self, items: Iterable[Value]) -> Tuple:
        """Return a tuple of its kind with these items; itself where they are its own."""
        made = tuple(items)
        is_same = len(made) == len(self.items) and all(a is b for a, b in zip(made, self.items, strict=True))
        return self if is_same else Tuple(made, self.fields, self.made_by)


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


def computed_type(scalar: ScalarType) -> ScalarType:
    """Return the type that a kernel computes with what memory holds as this one."""
    return scalar if scalar in COMPUTED else i32 if scalar.is_whole else f32


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


_GETTER: type = type(vars(collections.namedtuple("_Example", "item"))["item"])  # noqa: PYI024 -- the attribute of its field
_PLAIN_LOOKUPS: tuple[object, ...] = (object.__getattribute__, tuple.__getattribute__)

NO_DICT = "name the keywords as parameters, or only pass them on with **"
"""What to do instead of looking into the ``**kwargs`` of a function."""


class Constructor(NamedTuple):
    """The generated method that a call of a class runs, and the names of the fields that it sets, in the order of the class."""

    method: types.FunctionType
    fields: tuple[str, ...]


def check_as_tuple(t: Translation, value: object, method: str, what: str, node: ast.AST) -> None:
    """Check that an operation on a tuple is that of tuples: a class may have another, or none; raises KernelTypeError."""
    if not isinstance(value, Tuple):
        return
    kind = value.made_by
    if kind is dict and method not in {"__bool__", "__len__"}:
        raise t.mistyped(node, f"{what} of {kind_name(value)}, which kernels only count and pass on", NO_DICT)
    if kind is not dict and isinstance(kind, type) and getattr(kind, method, None) is not getattr(tuple, method, None):
        raise t.mistyped(
            node, f"{what} of {with_article(kind.__name__)}, which is not that of a tuple", "use its fields and methods"
        )


def constructor_of(t: Translation, kind: Any, node: ast.AST) -> Constructor:  # noqa: ANN401 -- a class
    """Return what a call of a class runs, if that gives the fields what it is given, and does nothing else.

    Python runs what the class, its bases and its metaclass define, whatever the arguments of ``dataclass`` say. So the
    method is compared with the one that Python generates for such fields.

    Raises
    ------
    KernelTypeError
        If the class makes its instances another way, gives other values for its fields, or is not frozen.
    """
    is_tuple = not dataclasses.is_dataclass(kind)
    own = _own_part_of_tuple(kind) if is_tuple else _own_part_of_dataclass(kind)
    if not is_tuple and not kind.__dataclass_params__.frozen:
        raise t.mistyped(
            node, f"{kind.__name__} may change, and values of kernels do not", "declare it @dataclass(frozen=True)"
        )
    if own is None and not is_tuple:
        _check_fields(t, kind, node)
    if own is None and type(kind).__call__ is not type.__call__:
        own = f"{type(kind).__name__}.__call__"
    if own is not None:
        raise t.mistyped(
            node,
            f"{with_article(kind.__name__)} is made with {own} of its own, which kernels do not run",
            "make it outside of the kernel, or leave that out",
        )
    if has_own_lookup(kind):
        raise own_lookup(t, kind, node)
    fields = kind._fields if is_tuple else tuple(one.name for one in dataclasses.fields(kind))
    for name in () if is_tuple else fields:
        found = inspect.getattr_static(kind, name, None)
        if inspect.isdatadescriptor(found) and not inspect.ismemberdescriptor(found):
            what = f"{kind.__name__}.{name} is {with_article(type(found).__name__)}, which Python takes instead of the field"
            raise t.mistyped(node, what, f"give the field or the {type(found).__name__} another name")
    return Constructor(kind.__new__ if is_tuple else kind.__init__, fields)


def has_own_lookup(kind: type) -> bool:
    """Whether a class decides itself what its attributes are."""
    return kind.__getattribute__ not in _PLAIN_LOOKUPS


def own_lookup(t: Translation, kind: type, node: ast.AST) -> KernelTypeError:
    """Return the error of a class that decides itself what its attributes are."""
    what = f"{kind.__name__} has a __getattribute__ of its own, which kernels do not run"
    return t.mistyped(node, what, "leave it out, or pass the value as a parameter")


def getter_of(attribute: object) -> types.FunctionType | None:
    """Return the function that gives an attribute of a record its value, None if that is no property of Python's."""
    found = attribute.fget if isinstance(attribute, property) else None
    found = attribute.func if isinstance(attribute, functools.cached_property) else found
    return found if isinstance(found, types.FunctionType) else None


def is_field(value: Tuple, name: str) -> bool:
    """Whether a name is that of an item of a record: a subclass of a named tuple may have something else under it."""
    kind = value.made_by
    if name not in value.fields or not (isinstance(kind, type) and issubclass(kind, tuple)):
        return name in value.fields
    return item_of(value, inspect.getattr_static(kind, name, None)) == value.fields.index(name)


def item_of(value: Tuple, attribute: object) -> int | None:
    """Return which item an attribute of a named tuple's class stands for, None if it is no field."""
    if type(attribute) is not _GETTER:
        return None
    at: int = attribute.__get__(tuple(range(len(value.items))))  # type: ignore[attr-defined] # a descriptor
    return at


def _own_part_of_tuple(kind: Any) -> str | None:  # noqa: ANN401 -- a class
    """Return the method by which a named tuple is not made as Python generates it, None if there is none."""
    if issubclass(kind, tuple) and kind.__init__ is not object.__init__:
        return "__init__"
    make: Any = collections.namedtuple  # noqa: PYI024 -- its fields are known here only
    try:
        twin = make("twin", kind._fields)
    except (TypeError, ValueError):
        return "__new__"
    return None if issubclass(kind, tuple) and _is_same(kind.__new__, twin.__new__) else "__new__"


def _own_part_of_dataclass(kind: Any) -> str | None:  # noqa: ANN401 -- a class
    """Return that by which a dataclass is not made as Python generates it, None if there is nothing."""
    if hasattr(kind, "__post_init__"):
        return "__post_init__"
    if not kind.__dataclass_params__.init:
        return "__init__"
    fields = dataclasses.fields(kind)
    if kind.__new__ is not object.__new__:
        return "__new__"
    names = [one.name for one in fields]
    parameters = kind.__init__.__code__.co_varnames if isinstance(kind.__init__, types.FunctionType) else ()
    for name in kind.__dataclass_fields__:
        if name not in names and name in parameters:
            return f"InitVar({name})"
    if any(not one.init or one.default_factory is not dataclasses.MISSING for one in fields):
        return None  # they are refused by their names
    twin = dataclasses.make_dataclass(
        "twin", [(one.name, object, dataclasses.field(kw_only=bool(one.kw_only))) for one in fields], frozen=True
    )
    return None if _is_same(kind.__init__, vars(twin)["__init__"]) else "__init__"


def _check_fields(t: Translation, kind: Any, node: ast.AST) -> None:  # noqa: ANN401 -- a class
    """Check that a call of a dataclass gives each of its fields a value; raises KernelTypeError."""
    for part in dataclasses.fields(kind):
        option = "default_factory" if part.default_factory is not dataclasses.MISSING else None if part.init else "init=False"
        if option is not None:
            what = f"{kind.__name__}.{part.name} is a field with {option}, which kernels do not make"
            raise t.mistyped(node, what, f"have the call give {part.name}, or make the {kind.__name__} outside of the kernel")


def _is_same(method: object, generated: Any) -> bool:  # noqa: ANN401 -- a function
    """Whether a method does what a generated one does: by its code, and by what that finds in its module and closure."""
    if not isinstance(method, types.FunctionType) or not isinstance(generated, types.FunctionType):
        return False
    one, other = method.__code__, generated.__code__
    facts = ("co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_argcount", "co_kwonlyargcount", "co_flags")
    if any(getattr(one, fact) != getattr(other, fact) for fact in facts):
        return False
    found = [
        (
            *(function.__globals__.get(name) for name in function.__code__.co_names),
            *(cell.cell_contents for cell in function.__closure__ or ()),
        )
        for function in (method, generated)
    ]
    return all(a is b for a, b in zip(*found, strict=True))
