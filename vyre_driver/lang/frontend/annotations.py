"""Annotations of the functions that kernels call: a type of the language says what a parameter, or the result, is there.

A value is converted as a variable's or an element's: where the type holds it, and else it is refused. Other annotations, those
of Python's own types too, say nothing.
"""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING, Any

from vyre_driver.lang.frontend.conversions import cast, constant_as, keeps
from vyre_driver.lang.frontend.values import Constant, Number, Tuple
from vyre_driver.lang.source.called import variadic_names
from vyre_driver.lang.types import COMPUTED, WORDS, ScalarType, bool_

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
    known = {name: _looked_up(t, function, one) if isinstance(one, str) else one for name, one in found.items()}
    return {name: one for name, one in known.items() if _is_said(one)}


def _is_said(annotation: object) -> bool:
    if isinstance(annotation, types.GenericAlias):
        return annotation.__origin__ is tuple
    return isinstance(annotation, ScalarType) and annotation in COMPUTED


def _looked_up(t: Translation, function: types.FunctionType, text: str) -> object:
    """Return what an annotation that is text stands for, None if that is not one name, or none is known."""
    try:
        node = ast.parse(text, mode="eval").body
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = t.captured.look_up(function, node.value.id)
            return t.captured.attribute(vars(module), node.attr) if isinstance(module, types.ModuleType) else None
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "tuple" and isinstance(node.slice, ast.Tuple):
            items = tuple(_looked_up(t, function, ast.unparse(one)) for one in node.slice.elts)
            return types.GenericAlias(tuple, items)
        return t.captured.look_up(function, node.id) if isinstance(node, ast.Name) else None
    except (KeyError, SyntaxError, ValueError):
        return None


def given_as(t: Translation, function: types.FunctionType, given: dict[str, Value], node: ast.expr) -> dict[str, Value]:
    """Return the arguments of a call with the types of the function's annotations; raises KernelTypeError."""
    annotations = own_annotations(t, function)
    found: dict[str, Value] = {}
    for name, value in given.items():
        said = annotations.get(name)
        what = f"{function.__name__!r} takes {name}: {said}, and is given"
        if isinstance(value, Tuple) and name in variadic_names(function):  # each of which is what is said
            items = tuple(_converted(t, item, said, what, node) for item in value.items)
            is_same = all(a is b for a, b in zip(items, value.items, strict=True))
            found[name] = value if is_same else Tuple(items, value.fields, value.made_by)
        else:
            found[name] = _converted(t, value, said, what, node)
    return found


def returned_as(t: Translation, function: types.FunctionType, value: Value, node: ast.AST) -> Value:
    """Return the result of a call with the type of the function's annotation; raises KernelTypeError."""
    said = own_annotations(t, function).get("return")
    return _converted(t, value, said, f"{function.__name__!r} is annotated to return {said}, and returns", node)


def _converted(t: Translation, value: Value, said: object, what: str, node: ast.AST) -> Value:
    """Return a value as the type that is said of it, if one is; ``what`` begins the sentence of a refusal."""
    if isinstance(said, types.GenericAlias) and isinstance(value, Tuple) and len(value.items) == len(said.__args__):
        items = zip(value.items, said.__args__, strict=True)
        made = tuple(_converted(t, item, one if _is_said(one) else None, what, node) for item, one in items)
        return (
            value if all(a is b for a, b in zip(made, value.items, strict=True)) else Tuple(made, value.fields, value.made_by)
        )
    if not isinstance(said, ScalarType) or not isinstance(value, (Number, Constant)):
        return value
    if isinstance(value, Constant):
        if said.is_whole and isinstance(value.value, float):
            raise t.mistyped(node, f"{what} {value.value!r}", _FIX.format(said))
        constant_as(t, value, said, node)  # which refuses what does not fit
        return value  # and takes the type of what it stands beside, as everywhere
    is_word = value.is_natural and said in WORDS and value.type in WORDS
    if value.type is said:
        return value
    if value.type is bool_ or is_word or keeps(value, said):
        return cast(t, value, said, node)
    raise t.mistyped(node, f"{what} {value.type}", _FIX.format(said))
