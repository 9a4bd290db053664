"""What a call of a function binds: the parameters of the code that runs, whatever a decorator says of it."""

from __future__ import annotations

import inspect
import types


def call_signature(function: types.FunctionType) -> inspect.Signature:
    """Return the parameters that a call of a function binds, with their defaults.

    ``inspect.signature`` follows ``__wrapped__`` and ``__signature__`` to a function that is not the one that is called:
    ``functools.wraps`` sets the first on each wrapper.
    """
    bare = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    bare.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(bare)


def parameter_names(function: types.FunctionType) -> tuple[str, ...]:
    """Return the names of all parameters of a function, those of ``*args`` and ``**kwargs`` last."""
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[: count + bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)]


def variadic_names(function: types.FunctionType) -> tuple[str, ...]:
    """Return the names of ``*args`` and ``**kwargs``, of those that a function has."""
    code = function.__code__
    return parameter_names(function)[code.co_argcount + code.co_kwonlyargcount :]


def accepts(function: types.FunctionType, count: int) -> bool:
    """Whether a function can be called with so many arguments by position."""
    try:
        call_signature(function).bind(*[None] * count)
    except TypeError:
        return False
    return True
