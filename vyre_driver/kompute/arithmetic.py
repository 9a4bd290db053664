"""What a buffer is not: an array that computes; and the number that one of a single element is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from vyre_driver.errors import NotAnArray

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

_Number = TypeVar("_Number", int, float)

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_BOTH_SIDES = [f"__{prefix}{name}__" for name in _SIGNS for prefix in ("", "r", "i")]
_ONE_SIDE = {"__neg__": "-", "__pos__": "+", "__invert__": "~", "__abs__": "abs()"}
_COMPARISONS = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


# Of what numpy calls them; a name that is missing here is shown as numpy.NAME.
_OF_UFUNCS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/", "floor_divide": "//", "remainder": "%",
    "power": "**", "matmul": "@", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "left_shift": "<<",
    "right_shift": ">>", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==",
    "not_equal": "!=",
}  # fmt: skip


def _refused(owner: object, what: str, fix: str) -> NotAnArray:
    return NotAnArray(
        f"{what} was asked of {owner!r}, and a buffer is no array that computes",
        fix=f"{fix}, or compute with buffer.read() on the host",
        operation=what,
    )


def _fix_of(sign: str, *, unary: bool = False) -> str:
    """Return the call that does on the device what an operator was meant to do."""
    if sign == "@":
        return "call vyre_driver.kernels.matmul(driver)(a, b)"
    if unary:
        return f"call vyre_driver.lang.fuse(lambda x: {'abs(x)' if sign == 'abs()' else f'{sign}x'})(buffer)"
    return f"call vyre_driver.lang.fuse(lambda x, y: x {sign} y)(a, b)"


def _refuse(sign: str, *, unary: bool = False) -> Any:  # noqa: ANN401 -- a method
    def operator(self: object, *_: object) -> NoReturn:
        """Raise NotAnArray."""
        raise _refused(self, sign, _fix_of(sign, unary=unary))

    return operator


class NoArithmetic:
    """Refuses operators by an error that says what to use; a buffer of one element is a number where one is asked for."""

    __slots__ = ()
    __hash__ = object.__hash__

    if TYPE_CHECKING:

        @property
        def size(self) -> int:
            """The number of elements."""

        @property
        def described(self) -> str:
            """What messages call it."""

        def read(self) -> NDArray[Any]:
            """Return a copy."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: object, **_: object) -> NoReturn:
        """Raise NotAnArray for a function of numpy."""
        sign = _OF_UFUNCS.get(ufunc.__name__)
        if method != "__call__":
            fix = "call what vyre_driver.lang.reduction or scan makes of a function"
            raise _refused(self, f"numpy.{ufunc.__name__}.{method}", fix)
        if sign is not None:
            raise _refused(self, sign, _fix_of(sign))
        names = ", ".join("xyz"[: len(given)])
        fix = f"call vyre_driver.lang.fuse(lambda {names}: numpy.{ufunc.__name__}({names}))({names})"
        raise _refused(self, f"numpy.{ufunc.__name__}", fix)

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same object.

        Raises NotAnArray for an array, which numpy compares element by element, and of one element for a number.
        """
        is_array = hasattr(other, "__array__") and type(other) is not type(self)
        if is_array or (isinstance(other, (int, float, complex)) and self.size == 1):
            _refuse("==")(self)
        return self is other

    def __bool__(self) -> bool:
        """Return whether the only element is true; raises TypeError for others, of which nobody knows whether size is meant."""
        if self.size == 1:
            return bool(self.item())
        raise TypeError(f"{self.described} has no truth value. Fix: ask for its size, or read() it.")

    def item(self) -> Any:  # noqa: ANN401 -- as numpy's
        """Return the only element as a number of Python, after all work submitted before.

        Raises
        ------
        NotAnArray
            If it has none, or several.
        """
        return self._only("item()")

    def __float__(self) -> float:
        """Return the only element as a float; raises NotAnArray if it has none, or several."""
        return self._number(float)

    def __int__(self) -> int:
        """Return the only element as an int; raises NotAnArray if it has none, or several."""
        return self._number(int)

    def _number(self, kind: Callable[[Any], _Number]) -> _Number:
        value = self._only(f"{kind.__name__}()")
        try:
            return kind(value)
        except TypeError as error:  # of a structure
            raise NotAnArray(
                f"{kind.__name__}() was asked of {self!r}, whose element is {value!r}", fix="take a field of item()"
            ) from error

    def _only(self, what: str) -> Any:  # noqa: ANN401 -- an element
        if self.size != 1:
            raise NotAnArray(
                f"{what} was asked of {self!r}, which has {self.size} elements",
                fix="take one, as buffer[0], or read() it",
                operation=what,
                elements=self.size,
            )
        return self.read().item()


for _name in _BOTH_SIDES:
    _plain = _name.strip("_")
    _sign = _SIGNS.get(_plain) or _SIGNS[_plain[1:]]
    setattr(NoArithmetic, _name, _refuse(_sign))
for _name, _sign in {**_ONE_SIDE, **_COMPARISONS}.items():
    setattr(NoArithmetic, _name, _refuse(_sign, unary=_name in _ONE_SIDE))
