"""What a buffer is not: an array that computes."""

from __future__ import annotations

from typing import Any, NoReturn

from vyre_driver.errors import NotAnArray

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_BOTH_SIDES = [f"__{prefix}{name}__" for name in _SIGNS for prefix in ("", "r", "i")]
_ONE_SIDE = {"__neg__": "-", "__pos__": "+", "__invert__": "~", "__abs__": "abs()"}
_COMPARISONS = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


def _refuse(sign: str) -> Any:  # noqa: ANN401 -- a method
    def operator(self: object, *_: object) -> NoReturn:
        """Raise NotAnArray."""
        raise NotAnArray(
            f"{sign} was asked of {self!r}, and a buffer is no array that computes",
            fix="compile a kernel that does it and call it with the buffer, or compute with buffer.read() on the host",
            operation=sign,
        )

    return operator


class NoArithmetic:
    """Refuses operators by an error that says what to use; numpy leaves its own to these."""

    __slots__ = ()
    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same object; raise NotAnArray for an array, which numpy compares element by element."""
        if hasattr(other, "__array__") and type(other) is not type(self):
            _refuse("==")(self)
        return self is other


for _name in _BOTH_SIDES:
    _plain = _name.strip("_")
    _sign = _SIGNS.get(_plain) or _SIGNS[_plain[1:]]
    setattr(NoArithmetic, _name, _refuse(_sign))
for _name, _sign in {**_ONE_SIDE, **_COMPARISONS}.items():
    setattr(NoArithmetic, _name, _refuse(_sign))
