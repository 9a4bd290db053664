"""Annotations of variables, of fields of records and of functions that kernels call, where they are types of the language.

A value is converted as by a store: where the type holds it, and else it is refused. Other annotations, those of Python's own
types too, say nothing.
"""

from __future__ import annotations

import ast
import inspect
import sys
import types
import typing
from typing import TYPE_CHECKING, Any

from vyre_driver.lang.frontend.conversions import cast, constant_as, keeps
from vyre_driver.lang.frontend.values import Constant, Number, Tuple, kind_name
from vyre_driver.lang.source.called import variadic_names
from vyre_driver.lang.types import COMPUTED, ScalarType, bool_, f32, i32

if TYPE_CHECKING:
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

_FIX = "convert: {0}(...), or leave the annotation out"


def own_annotations(t: Translation, function: types.FunctionType) -> dict[str, Any]:
    """Return the annotations of a function's own parameters and result that are types of the language, or tuples of them.

    A wrapper has those of what it wraps from ``functools.wraps``, which say nothing of its own parameters.
    """
    found = function.__annotations__
    wrapped = vars(function).get("__wrapped__")
    if not found or found == getattr(wrapped, "__annotations__", None):
        return {}
    stated = {name: _stated(t, function, one) for name, one in found.items()}
    return {name: one for name, one in stated.items() if one is not None}


def _stated(t: Translation, function: types.FunctionType, annotation: object) -> ScalarType | types.GenericAlias | None:
    """Return the type of the language that an annotation states, or a tuple with such types; None if it states neither.

    Types of memory, as u8 and f16, stand for what variables hold of them. ``Optional`` and ``T | None`` state T of what is not
    None, ``Annotated`` and ``Final`` what they begin with.
    """
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        annotation = _looked_up(t, function, annotation)
    if isinstance(annotation, ScalarType):
        return annotation
    kind, items = typing.get_origin(annotation), typing.get_args(annotation)
    if kind in {typing.Annotated, typing.Final}:
        return _stated(t, function, items[0])
    if kind in {typing.Union, types.UnionType}:
        stated = [_stated(t, function, one) for one in items if one is not type(None)]
        return stated[0] if len(stated) == 1 else None
    if kind is tuple:
        parts = tuple(one if one is ... else _stated(t, function, one) for one in items)
        return None if set(parts) <= {None, ...} else types.GenericAlias(tuple, parts)
    return None


def _looked_up(t: Translation, function: types.FunctionType, text: str) -> object:
    """Return what an annotation that is text stands for, None if that is not known."""
    try:
        return _meant(t, function, ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _meant(t: Translation, function: types.FunctionType, node: ast.expr) -> Any:  # noqa: ANN401 -- whatever names stand for
    """Return what an expression of an annotation stands for, None of those that are not known."""
    try:
        match node:
            case ast.Name(name):
                return t.captured.look_up(function, name)
            case ast.Constant(value):
                return _looked_up(t, function, value) if isinstance(value, str) else value
            case ast.Attribute(ast.Name(owner), name):
                module = t.captured.look_up(function, owner)
                return t.captured.attribute(vars(module), name) if isinstance(module, types.ModuleType) else None
            case ast.Tuple(items):
                return tuple(_meant(t, function, one) for one in items)
            case ast.Subscript(owner, item):
                return _meant(t, function, owner)[_meant(t, function, item)]
            case ast.BinOp(left, ast.BitOr(), right):
                return typing.Union[_meant(t, function, left), _meant(t, function, right)]  # noqa: UP007 -- made of values
    except (KeyError, TypeError):
        pass
    return None


def given_as(t: Translation, function: types.FunctionType, given: dict[str, Value], node: ast.expr) -> dict[str, Value]:
    """Return the arguments of a call with the types of the function's annotations; raises KernelTypeError."""
    annotations = own_annotations(t, function)
    found: dict[str, Value] = {}
    for name, value in given.items():
        said = annotations.get(name)
        what = f"{function.__name__!r} takes {name}: {said}, and is given"
        if isinstance(value, Tuple) and name in variadic_names(function):  # each of which is what is said
            items = tuple(annotated_as(t, item, said, what, node) for item in value.items)
            is_same = all(a is b for a, b in zip(items, value.items, strict=True))
            found[name] = value if is_same else Tuple(items, value.fields, value.made_by)
        else:
            found[name] = annotated_as(t, value, said, what, node)
    return found


def returned_as(t: Translation, function: types.FunctionType, value: Value, node: ast.AST) -> Value:
    """Return the result of a call with the type of the function's annotation; raises KernelTypeError."""
    said = own_annotations(t, function).get("return")
    return annotated_as(t, value, said, f"{function.__name__!r} is annotated to return {said}, and returns", node)


def fields_as(t: Translation, record: Tuple, node: ast.AST) -> Tuple:
    """Return a record whose fields have the types of their annotations; raises KernelTypeError."""
    kind: type = record.made_by  # type: ignore[assignment] # a class
    annotations = [(base, inspect.get_annotations(base)) for base in kind.__mro__]
    items: list[Value] = []
    for name, value in zip(record.fields, record.items, strict=True):
        owner, annotation = next(((base, own[name]) for base, own in annotations if name in own), (kind, None))
        said = _stated(t, _in_module_of(owner), annotation)
        items.append(annotated_as(t, value, said, f"{kind.__name__}.{name} is annotated {said}, and is given", node))
    is_same = all(a is b for a, b in zip(items, record.items, strict=True))
    return record if is_same else Tuple(tuple(items), record.fields, kind)


def _in_module_of(kind: type) -> types.FunctionType:
    """Return a function whose names are those of the module of a class."""
    module = sys.modules.get(kind.__module__)
    return types.FunctionType((lambda: None).__code__, {} if module is None else vars(module))


def annotated_as(t: Translation, value: Value, said: object, what: str, node: ast.AST) -> Value:
    """Return a value as the type that its annotation states, if it states one; ``what`` begins the sentence of a refusal.

    Constants are checked, and stay what they are: they take the type of what they stand beside.
    """
    if isinstance(said, types.GenericAlias):
        return _items_converted(t, value, said, what, node)
    if not isinstance(said, ScalarType) or not isinstance(value, (Number, Constant, Tuple)):
        return value
    held = said if said in COMPUTED else i32 if said.is_whole else f32
    if isinstance(value, Tuple):
        raise t.mistyped(node, f"{what} {kind_name(value)}", "change the annotation, or leave it out")
    if isinstance(value, Constant):
        if said.is_whole and isinstance(value.value, float):
            raise t.mistyped(node, f"{what} {value.value!r}", _FIX.format(said))
        (cast if held.is_whole else constant_as)(t, value, held, node)  # which refuse what does not fit
        return value
    if value.type is held:
        return value
    if value.type is bool_ or keeps(value, held):
        return cast(t, value, held, node)
    raise t.mistyped(node, f"{what} {value.type}", _FIX.format(said))


def _items_converted(t: Translation, value: Value, said: types.GenericAlias, what: str, node: ast.AST) -> Value:
    """Return a tuple with items of the types that are said of them."""
    if not isinstance(value, (Number, Constant, Tuple)):
        return value
    items, kinds = value.items if isinstance(value, Tuple) else (), said.__args__
    if kinds[1:] == (...,) and isinstance(value, Tuple):
        kinds = kinds[:1] * len(items)
    if not isinstance(value, Tuple) or len(items) != len(kinds):
        raise t.mistyped(node, f"{what} {kind_name(value)}", "change the annotation, or leave it out")
    made = tuple(annotated_as(t, item, one, what, node) for item, one in zip(items, kinds, strict=True))
    is_same = all(a is b for a, b in zip(made, items, strict=True))
    return value if is_same else Tuple(made, value.fields, value.made_by)
