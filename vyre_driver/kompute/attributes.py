"""The attributes of a buffer, which are read-only: its shape does not change, and a mistyped name is refused."""

from __future__ import annotations

import math
from typing import NoReturn

from vyre_driver.kompute._facts import Facts

_INSTEAD = {"shape": "use reshape(), which gives a view", "dtype": "use view(), which gives a view"}


class ArrayFacts(Facts):
    """Shape, type, size and name of an array on a device; attributes are neither assigned nor deleted."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    def __setattr__(self, name: str, _: object) -> NoReturn:
        """Raise AttributeError."""
        kind = type(self).__name__
        if not hasattr(type(self), name):
            raise AttributeError(f"a {kind} has no attribute {name!r}, and takes none. Fix: keep the value elsewhere.")
        raise AttributeError(f"{name} of a {kind} is read-only. Fix: {_INSTEAD.get(name, f'make another {kind}')}.")

    def __delattr__(self, name: str) -> NoReturn:
        """Raise AttributeError."""
        self.__setattr__(name, None)
