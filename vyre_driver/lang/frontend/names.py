"""Names in kernels: variables, and what is taken from outside, which are constants of the program."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import difflib
import enum
import types
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from vyre_driver.errors import with_article
from vyre_driver.lang.frontend import intrinsics
from vyre_driver.lang.frontend.branches import settled
from vyre_driver.lang.frontend.builtins import own
from vyre_driver.lang.frontend.conversions import fields_as
from vyre_driver.lang.frontend.memory import group_attribute, shape_of, size_of
from vyre_driver.lang.frontend.values import (
    NO_DICT,
    Array,
    Constant,
    GroupValue,
    Host,
    Method,
    Missing,
    Number,
    Tuple,
    getter_of,
    has_own_lookup,
    is_field,
    item_of,
    kind_name,
    literal,
    own_lookup,
)
from vyre_driver.lang.types import COMPUTED, SCALARS, ScalarType, type_of

if TYPE_CHECKING:
    from vyre_driver.errors import KernelSourceError
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

_NO_ALIASES = 0.6
_IMPORTS = {  # of names that messages and documents use, and that a module may lack
    **{
        name: f"from vyre_driver.lang import {name}"
        for name in (*intrinsics.__all__, *own.__all__, *(set(SCALARS) - {"bool"}), "bool_")
    },
    "math": "import math",
    "np": "import numpy as np",
    "numpy": "import numpy",
}
_COMPARED = {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}
_OF_NUMBERS = sorted(  # the methods by which Python computes with numbers, and converts them
    _COMPARED
    | {name for name in {*dir(int), *dir(float)} - {*dir(object), "__getnewargs__", "__getformat__"} if name[:2] == "__"}
)
_BUILTIN = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)


def name(t: Translation, node: ast.Name) -> Value:
    """Return what a name stands for: a variable's value, or that of something outside."""
    frame = t.frame
    if node.id in frame.names:
        value = frame.names[node.id]
        if isinstance(value, Missing):
            raise t.misspelt(node, f"{node.id!r} may have no value here: {value.why}", f"give {node.id!r} a value before")
        value = frame.names[node.id] = settled(t, value, node)
        return t.draft.facts.refined(value) if isinstance(value, Number) and value.type.is_whole else value
    if node.id in frame.assigned:
        fix = "give the variable another name" if is_shadowing(t, node) else "assign to it before"
        raise t.misspelt(node, f"{node.id!r} is assigned in {frame.function.__name__!r}, and has no value yet", fix)
    key = frame.function, node.id
    known = t.outside.get(key)
    if known is None:
        try:
            found = t.captured.look_up(frame.function, node.id)
        except KeyError:
            raise _unknown(t, node) from None
        known = t.outside[key] = host_value(t, found, node.id, node)
    return known


def is_shadowing(t: Translation, node: ast.expr) -> bool:
    """Whether an expression is a variable whose name stands for something else outside of the function."""
    frame = t.frame
    if not isinstance(node, ast.Name) or node.id not in frame.assigned:
        return False
    return node.id in frame.function.__globals__ or hasattr(builtins, node.id)


def uncallable(t: Translation, callee: Value, node: ast.expr) -> KernelSourceError:
    """Return the error of a call of what is no function."""
    if is_shadowing(t, node):
        what = f"{ast.unparse(node)!r} is a variable here, {kind_name(callee)}, and cannot be called"
        return t.mistyped(node, what, "give the variable another name")
    return t.mistyped(node, f"{kind_name(callee)} cannot be called", "call a function")


def _unknown(t: Translation, node: ast.Name) -> KernelSourceError:
    frame = t.frame
    known = [*frame.names, *frame.assigned, *(one for one in frame.function.__globals__ if not one.startswith("_"))]
    near = difflib.get_close_matches(node.id, [*known, *dir(builtins)], 1, _NO_ALIASES)
    fix = f"did you mean {near[0]!r}?" if near else "pass it as a parameter, or define it before the kernel"
    if node.id in _IMPORTS:
        fix = f"import it in the module of the function: {_IMPORTS[node.id]}"
    return t.misspelt(node, f"there is no name {node.id!r}", fix)


def host_value(t: Translation, given: object, what: str, node: ast.AST) -> Value:
    """Return something of Python's as a value: numbers, tuples and records of them, functions, types, modules."""
    if isinstance(given, TypeVar):
        return _type_of(t, given, node)
    if isinstance(given, np.generic):
        return _numpy_scalar(t, given, what, node)
    if isinstance(given, enum.Enum) and not isinstance(given, int):
        return Host(given)
    if isinstance(given, (bool, int, float)):
        return _python_number(t, given, what, node)
    if isinstance(given, tuple):
        items = tuple(host_value(t, item, f"{what}[{at}]", node) for at, item in enumerate(tuple.__iter__(given)))
        return _checked(t, Tuple(items, getattr(type(given), "_fields", ()), type(given)), what, node)
    if isinstance(given, np.ndarray):
        raise t.mistyped(node, f"{what!r} is an array of the host, captured from outside", "pass it as a parameter: In[...]")
    if isinstance(given, (list, dict, set, bytearray)):
        kind = type(given).__name__
        raise t.mistyped(
            node,
            f"{what!r} is {with_article(kind)}, which may change after the kernel is compiled",
            "use a tuple, or pass an array",
        )
    if dataclasses.is_dataclass(given) and not isinstance(given, (type, ScalarType)):
        return _record(t, given, what, node)
    return Host(given)


def _type_of(t: Translation, variable: TypeVar, node: ast.AST) -> Host:
    """Return the type that a type variable stands for in the program at hand."""
    for name, scalar in t.specialization.types:
        if name == variable.__name__:
            return Host(scalar)
    raise t.misspelt(
        node,
        f"the type variable {variable.__name__!r} is in no parameter of the kernel",
        f"annotate one: x: In[{variable.__name__}]",
    )


def _python_number(t: Translation, given: float, what: str, node: ast.AST) -> Constant:
    """Return a number of Python's, of a class that computes as its base does, such as an IntEnum; raises KernelTypeError."""
    kind, base = type(given), next(base for base in (bool, int, float) if isinstance(given, base))
    if kind is base:
        return Constant(given)
    own = next((name for name in _OF_NUMBERS if name in vars(base) and _is_own(getattr(kind, name), getattr(base, name))), None)
    if own is not None:
        name = what.rpartition(".")[2]
        fix = f"{name} = {what}.value" if isinstance(given, enum.Enum) else f"{name} = {base.__name__}({what})"
        problem = f"{what!r} is {with_article(kind.__name__)}, which has {own} of its own, which kernels do not run"
        raise t.mistyped(node, problem, f"take the plain number out of it before the kernel: {fix}")
    return Constant(base.__pos__(given))  # type: ignore[arg-type] # an instance of it


def _is_own(method: object, inherited: object) -> bool:
    """Whether a method of a class of numbers is another one than its base has; those of flags do what kernels do."""
    return method is not inherited and getattr(method, "__module__", None) != enum.__name__


def _numpy_scalar(t: Translation, given: np.generic, what: str, node: ast.AST) -> Value:
    scalar = type_of(given.dtype)
    if scalar is None or scalar not in COMPUTED:
        raise t.mistyped(
            node,
            f"{what!r} is {with_article(given.dtype.name)}, which kernels do not compute with",
            "use a Python number, or float32, int32, uint32",
        )
    return literal(scalar, given.item())


def _record(t: Translation, given: object, what: str, node: ast.AST) -> Tuple:
    kind = type(given)
    if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined] # a dataclass has them
        raise t.mistyped(
            node,
            f"{what!r} is {with_article(kind.__name__)}, which may change after the kernel is compiled",
            "declare it frozen=True",
        )
    names = tuple(one.name for one in dataclasses.fields(given))  # type: ignore[arg-type] # a dataclass
    items = tuple(host_value(t, getattr(given, one), f"{what}.{one}", node) for one in names)
    return _checked(t, Tuple(items, names, kind), what, node)


def _checked(t: Translation, record: Tuple, what: str, node: ast.AST) -> Tuple:
    """Return a record from outside, whose fields have to hold what they are annotated with; raises KernelTypeError."""
    typed = fields_as(t, record, node) if record.fields else record
    for name, given, needed in zip(record.fields, record.items, typed.items, strict=False):
        if given is not needed and isinstance(needed, Number):  # a scalar of numpy
            problem = f"{what}.{name} is annotated {needed.type}, and is {kind_name(given)}"
            raise t.mistyped(node, problem, "give the record a number of that type, or leave the annotation out")
    return record


def attribute(t: Translation, node: ast.Attribute) -> Value:
    """Return an attribute of something outside, of an array, of a workgroup, or a field of a record."""
    owner = t.evaluate(node.value)
    if isinstance(owner, Host):
        return _host_attribute(t, owner.value, node)
    if isinstance(owner, Array):
        return _array_attribute(t, owner, node)
    if isinstance(owner, GroupValue):
        return group_attribute(t, owner, node.attr, node)
    if isinstance(owner, Tuple):
        return _record_attribute(t, owner, node)
    raise t.misspelt(node, f"{kind_name(owner)} has no attribute {node.attr!r}", "look at what it has")


def _record_attribute(t: Translation, owner: Tuple, node: ast.Attribute) -> Value:
    """Return a field of a record, or what its class has under a name, as Python looks it up."""
    kind = owner.made_by
    if kind is dict:
        what = f"{node.attr!r} of {kind_name(owner)}, which kernels only count and pass on"
        raise t.misspelt(node, what, NO_DICT)
    is_plain = not isinstance(kind, type) or not has_own_lookup(kind)
    if is_field(owner, node.attr) and (is_plain or dataclasses.is_dataclass(kind)):  # of which each field was asked for
        return owner.items[owner.fields.index(node.attr)]
    if isinstance(kind, type) and not is_plain:
        raise own_lookup(t, kind, node)
    if isinstance(kind, type) and node.attr in dir(kind):
        return _member(t, owner, kind, node)
    if hasattr(kind, "__getattr__"):
        what = f"{node.attr!r} of {with_article(str(getattr(kind, '__name__', kind)))} comes from its __getattr__"
        raise t.misspelt(node, f"{what}, which kernels do not run", "make it a property")
    raise t.misspelt(node, f"{kind_name(owner)} has no attribute {node.attr!r}", "look at what it has")


def _member(t: Translation, owner: Tuple, kind: type, node: ast.Attribute) -> Value:
    """Return what the class of a record says of an attribute that is no field."""
    found = t.captured.class_attribute(kind, node.attr)
    if isinstance(found, staticmethod):
        return Host(found.__func__)
    getter = getter_of(found)
    if getter is not None:
        return t.inline(getter, [owner], {}, node)
    at = item_of(owner, found)
    if at is not None:
        return owner.items[at]
    first: Value = Host(kind) if isinstance(found, classmethod) else owner
    method = found.__func__ if isinstance(found, classmethod) else found
    if isinstance(method, types.FunctionType):
        function = method
        called = lambda t, given, call, named: t.inline(function, [first, *given], named, call)  # noqa: E731
        return Method(owner, node.attr, called, takes_keywords=True)
    if hasattr(type(found), "__get__") and not isinstance(found, _BUILTIN):
        what = f"{kind.__name__}.{node.attr} is {with_article(type(found).__name__)}, which kernels do not run"
        raise t.mistyped(node, what, "make it a method or a property")
    return host_value(t, found, f"{kind.__name__}.{node.attr}", node)


def _host_attribute(t: Translation, owner: object, node: ast.Attribute) -> Value:
    what = ast.unparse(node)
    try:
        if isinstance(owner, types.ModuleType):
            return host_value(t, t.captured.attribute(vars(owner), node.attr), what, node)
        if isinstance(owner, type):
            t.captured.class_attribute(owner, node.attr)
            return host_value(t, getattr(owner, node.attr), what, node)
        if isinstance(owner, enum.Enum) and node.attr == "value":
            return host_value(t, owner.value, what, node)
    except (KeyError, AttributeError):
        near = difflib.get_close_matches(node.attr, dir(owner), 1, _NO_ALIASES)
        fix = f"did you mean {near[0]!r}?" if near else "look at what it has"
        raise t.misspelt(node, f"{getattr(owner, '__name__', owner)!r} has no attribute {node.attr!r}", fix) from None
    raise t.mistyped(
        node, f"{what} is of an object that may change after the kernel is compiled", "pass its value as a parameter"
    )


def _array_attribute(t: Translation, array: Array, node: ast.Attribute) -> Value:
    if node.attr == "shape":
        return shape_of(t, array, node)
    if node.attr == "size":
        return size_of(t, array, node)
    if node.attr == "ndim":
        return Constant(t.rank(array, node))
    if node.attr == "dtype":
        return Host(array.element)
    raise t.misspelt(
        node, f"the array {array.name!r} has no {node.attr!r} in a kernel", "use shape, size, ndim, dtype or len(...)"
    )
