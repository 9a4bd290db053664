"""Calls in kernels: of functions that are known, and of Python functions, which are inlined."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import types
import weakref
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.errors import KernelSyntaxError
from vyre_driver.lang.frontend.branches import Rooms, returned
from vyre_driver.lang.frontend.builtins.table import TABLE
from vyre_driver.lang.frontend.builtins.written import as_written
from vyre_driver.lang.frontend.conversions import fields_as, given_as, returned_as
from vyre_driver.lang.frontend.draft import Exit, Frame, evaluated
from vyre_driver.lang.frontend.functions import ATOMICS, FORMS, atomic, checked
from vyre_driver.lang.frontend.names import host_value, uncallable
from vyre_driver.lang.frontend.translation import spot_of
from vyre_driver.lang.frontend.values import Host, Method, Number, Tuple, check_as_tuple, constructor_of, kind_name
from vyre_driver.lang.function import Function
from vyre_driver.lang.source.scan import assigned_names, call_signature
from vyre_driver.lang.source.text import FunctionSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.errors import KernelSourceError
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

_DEEPEST = 64  # calls within calls
_SHOWN = {print: "prints", breakpoint: "stops"}
_sources: dict[
    int, tuple[weakref.ref[types.CodeType], FunctionSource]
] = {}  # by identity: equal codes may differ in annotations


def source_of(function: types.FunctionType) -> FunctionSource:
    """Return the source of a function; it is found once."""
    code = function.__code__
    known = _sources.get(id(code))
    if known is not None and known[0]() is code:
        return known[1]
    found = FunctionSource.of(function)
    key = id(code)
    _sources[key] = weakref.ref(code, lambda gone: _forget(key, gone)), found
    return found


def _forget(key: int, gone: weakref.ref[types.CodeType]) -> None:
    known = _sources.get(key)
    if known is not None and known[0] is gone:
        del _sources[key]


def call(t: Translation, node: ast.Call) -> Value:
    """Return what a call gives."""
    callee = t.evaluate(node.func)
    if t.is_plain and isinstance(callee, Host) and _shown(callee.value):
        return Host(None)
    values = evaluated(t, [functools.partial(_argument, t, one) for one in [*node.args, *node.keywords]])
    given = zip(values[: len(node.args)], node.args, strict=True)
    positional = [value for one, argument in given for value in spread(t, one, argument)]
    named = _keywords(t, node, values[len(node.args) :])
    if isinstance(callee, Method):
        if callee.takes_keywords:
            return callee.call(t, positional, node, named)
        return callee.call(t, _without_keywords(t, node, positional, named), node)
    function = callee.value if isinstance(callee, Host) else None
    if isinstance(function, Function):
        function = function.function
    if isinstance(function, types.MethodType) and isinstance(function.__self__, type):  # of a class
        positional, function = [Host(function.__self__), *positional], function.__func__
    if isinstance(function, types.FunctionType) and function in ATOMICS:
        return atomic(t, function, _without_keywords(t, node, positional, named), node)
    counts = counts_of(function)
    if counts is not None:
        return _known(t, function, counts, _without_keywords(t, node, positional, named), node)
    function = as_written(function)
    if isinstance(function, types.FunctionType):
        return inline(t, function, positional, named, node)
    if isinstance(function, type) and (hasattr(function, "_fields") or dataclasses.is_dataclass(function)):
        return _record(t, function, positional, named, node)
    raise _refuse(t, callee, function, node)


def _shown(function: object) -> str | None:
    """Return what a function does that only plain Python runs."""
    return next((does for one, does in _SHOWN.items() if one is function), None)


def _argument(t: Translation, argument: ast.AST) -> Value:
    if isinstance(argument, ast.keyword) and argument.arg is None and isinstance(argument.value, (ast.Dict, ast.DictComp)):
        raise _no_dict(t, argument.value)
    assert isinstance(argument, (ast.expr, ast.keyword))  # noqa: S101 -- what the arguments of a call are
    return t.evaluate(argument.value if isinstance(argument, (ast.Starred, ast.keyword)) else argument)


def _keywords(t: Translation, node: ast.Call, values: Sequence[Value]) -> dict[str, Value]:
    """Return the keywords of a call by name: those that are written, and those of a function's own ``**kwargs``."""
    named: dict[str, Value] = {}
    for keyword, value in zip(node.keywords, values, strict=True):
        if keyword.arg is not None:
            found = {keyword.arg: value}
        elif isinstance(value, Tuple) and value.made_by is dict:
            found = dict(zip(value.fields, value.items, strict=True))
        else:
            raise _no_dict(t, keyword.value)
        twice = next((name for name in found if name in named), None)
        if twice is not None:
            what = f"{ast.unparse(node.func)} is given the keyword {twice!r} twice"
            raise t.mistyped(node, what, f"leave {twice}= out of the call, or make it a parameter of its own")
        named.update(found)
    return named


def _no_dict(t: Translation, node: ast.expr) -> KernelSourceError:
    what = "'**' spreads the **kwargs of a function alone, for dicts are not part of the kernel language"
    return t.unknown(node, what, "write the keywords out")


def spread(t: Translation, value: Value, argument: ast.expr) -> Sequence[Value]:
    """Return the values that an argument, or an item of a tuple, gives: more than one if it is starred."""
    if not isinstance(argument, ast.Starred):
        return (value,)
    if not isinstance(value, Tuple):
        raise t.mistyped(argument, f"only tuples are spread, and this is {kind_name(value)}", "write them out")
    check_as_tuple(t, value, "__iter__", "spreading", argument)
    return value.items


def _refuse(t: Translation, callee: Value, function: object, node: ast.Call) -> KernelSourceError:
    does = _shown(function)
    if does:
        what = f"{ast.unparse(node.func)} has no place on the device"
        return t.unknown(node, what, f"run with VYRE_INTERPRET=python, where it {does}")
    if function is range or getattr(function, "__name__", "") == "static_range":
        return t.unknown(node, f"{ast.unparse(node.func)} stands in a for statement only", "write for k in range(...)")
    if not isinstance(callee, Host):
        return uncallable(t, callee, node.func)
    if any(function is one for one in (np.zeros, np.empty, np.ones, np.full)):
        fix = "an invocation's own memory is local(f32, 8), a workgroup's is g.shared(f32, 8)"
        return t.mistyped(node, f"{ast.unparse(node.func)} makes an array of the host", fix)
    return t.mistyped(
        node,
        f"{ast.unparse(node.func)} cannot be called in a kernel",
        "write a Python function that does it; docs/lang-reference.md lists what kernels have of math and numpy",
    )


def _without_keywords(t: Translation, node: ast.Call, positional: list[Value], named: dict[str, Value]) -> list[Value]:
    """Return the arguments of a call that takes no keywords; raises KernelTypeError where there are some."""
    if named:
        raise t.mistyped(node, f"{ast.unparse(node.func)} takes no keywords", "give the arguments by position")
    return positional


def counts_of(function: object) -> tuple[int, int] | None:
    """Return how many arguments a function that is known takes at least and at most, None if it is not known."""
    try:
        if function in FORMS:
            return FORMS[function][:2]
        return (TABLE[function].least, TABLE[function].most) if function in TABLE else None
    except TypeError:  # nothing without a hash is known
        return None


def _known(t: Translation, function: object, counts: tuple[int, int], given: list[Value], node: ast.Call) -> Value:
    least, most = counts
    if not least <= len(given) <= most:
        most_said = "" if least == most else f" to {most}" if most < 64 else " or more"
        takes = "no arguments" if most == 0 else f"{least}{most_said} argument{'s' * ((least, most) != (1, 1))}"
        raise t.mistyped(node, f"{ast.unparse(node.func)} takes {takes}, and got {len(given)}", "give as many")
    if function in FORMS:
        return FORMS[function][2](t, given, node)
    builtin = TABLE[function]
    if builtin.lower is not None:
        return builtin.lower(t, given, node)
    written = builtin.written
    assert isinstance(written, types.FunctionType)  # noqa: S101 -- it is translated in one of two ways
    return inline(t, written, list(checked(t, builtin.types, given, node)), {}, node)


def _record(t: Translation, kind: type, given: list[Value], named: dict[str, Value], node: ast.Call) -> Value:
    """Return a named tuple or a frozen dataclass as the tuple of its fields."""
    method, fields = constructor_of(t, kind, node)
    signature = call_signature(method)
    _, *parameters = signature.parameters.values()  # the first is the instance, or the class
    bound = _bound(t, kind.__name__, signature.replace(parameters=parameters), given, named, node)
    given_record = Tuple(tuple(bound[name] for name in fields), fields, kind)
    record = fields_as(t, given_record, node)
    if record is not given_record:
        t.joined(spot_of(node), "made", record)
    return record


def _bound(  # noqa: PLR0913 -- a call, and what is called
    t: Translation,
    called: str,
    signature: inspect.Signature,
    given: list[Value],
    named: dict[str, Value],
    node: ast.expr,
) -> dict[str, Value]:
    """Return the arguments of a call by the parameters' names."""
    kinds = {name: one.kind for name, one in signature.parameters.items()}
    try:
        found = signature.bind(*given, **named)
    except TypeError as error:
        raise t.mistyped(node, f"{called}: {error}", "give the arguments that it takes") from error
    found.apply_defaults()
    values: dict[str, Value] = {}
    for name, value in found.arguments.items():
        if kinds[name] is inspect.Parameter.VAR_POSITIONAL:
            values[name] = Tuple(value)
        elif kinds[name] is inspect.Parameter.VAR_KEYWORD:
            values[name] = Tuple(tuple(value.values()), tuple(value), dict)
        else:
            values[name] = value if _is_value(value) else host_value(t, value, name, node)
    return values


def _is_value(value: object) -> bool:
    return type(value).__module__ == Number.__module__


def inline(t: Translation, function: types.FunctionType, given: list[Value], named: dict[str, Value], node: ast.expr) -> Value:
    """Return what a Python function gives for these arguments: its statements are translated in the place of the call."""
    hosts = _hosts([*given, *named.values()])
    if any(frame.function is function and _are_same(frame.hosts, hosts) for frame in t.frames):
        raise t.unknown(node, f"{function.__name__!r} calls itself", "write a loop: functions are inlined")
    if len(t.frames) >= _DEEPEST:
        raise t.unknown(node, f"functions call each other {_DEEPEST} deep", "write some of them out")
    try:
        source = source_of(function)
    except KernelSyntaxError as error:
        raise t.unknown(node, error.problem, error.fix) from error
    t.captured.function(function)
    bound = _bound(t, function.__name__, call_signature(function), given, named, node)
    typed = given_as(t, function, bound, node)
    names = {name: _held(t, name, value) for name, value in typed.items()}
    rooms = Rooms(t.draft)
    frame = Frame(function, source, node, names, assigned_names(source), Exit("inside", rooms.take), hosts=hosts)
    frame.types.update({name: (one.type, source.first_line) for name, one in names.items() if isinstance(one, Number)})
    body, place = t.draft.body, t.draft.place
    t.frames.append(frame)
    for name in (one for one in typed if typed[one] is not bound[one]):
        t.joined((), f"given {name}", names[name])
    try:
        with t.draft.facts.scope():  # what holds where it has not returned early does not hold behind it
            flow = t.run(source.body)
        if any(not _is_nothing(value) for _, value, _ in frame.results) and not flow.leaves:
            raise t.mistyped(
                source.body[-1], f"{function.__name__!r} ends without a return on some ways", "return a value on every way"
            )
        found = returned(t, frame, body, rooms)
        if frame.results:
            found = returned_as(t, function, found, frame.results[-1][2])
        t.joined((), "returned", found)
        return found
    finally:
        t.leave_frame()
        t.draft.place = place


def _hosts(values: Sequence[Value]) -> tuple[object, ...]:
    """Return what is no number among the arguments of a call: functions, types and their like, those in tuples too."""
    found: list[object] = []
    for value in values:
        if isinstance(value, Host):
            found.append(value.value)
        elif isinstance(value, Tuple):
            found += _hosts(value.items)
    return tuple(found)


def _are_same(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    """Whether two calls are given the same functions. A function that is given others calls something else than itself."""
    return len(some) == len(others) and all(_unbound(a) == _unbound(b) for a, b in zip(some, others, strict=True))


def _unbound(value: object) -> tuple[int, ...]:
    """Return what tells things apart: a method of a class is a new object each time that it is looked up."""
    return (id(value.__func__), id(value.__self__)) if isinstance(value, types.MethodType) else (id(value),)


def _is_nothing(value: Value) -> bool:
    return isinstance(value, Host) and value.value is None


def _held(t: Translation, name: str, value: Value) -> Value:
    """Return an argument so that using it again costs nothing."""
    if isinstance(value, Tuple):
        return value.of(_held(t, name, item) for item in value.items)
    return t.draft.hold(value, name) if isinstance(value, Number) else value
