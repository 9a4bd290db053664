"""The decorator of functions that kernels call: optional, since any Python function is inlined."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from vyre_driver.lang.pickling import reduced_function

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


class Function(Generic[P, R]):
    """A function that is made for kernels; called elsewhere it is what it is in Python."""

    def __init__(self, function: types.FunctionType) -> None:
        """Wrap it."""
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *given: P.args, **named: P.kwargs) -> R:
        """Call it as a function of Python."""
        found: Any = self.function(*given, **named)
        return found  # type: ignore[no-any-return] # what it returns

    def __copy__(self) -> Function[P, R]:
        """Return itself: a function does not change."""
        return self

    def __deepcopy__(self, _: object) -> Function[P, R]:
        """Return itself: a function does not change."""
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle it by its name in its module, else by its text."""
        return reduced_function(self)

    def __repr__(self) -> str:
        """Return its name."""
        return f"<function {self.function.__qualname__} of kernels>"


def function(given: Callable[P, R]) -> Function[P, R]:
    """Mark a function as one for kernels, in whose code it is inlined."""
    return Function(given)  # type: ignore[arg-type] # a function
