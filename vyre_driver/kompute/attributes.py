"""The attributes of a buffer, which are read-only: its shape does not change, and a mistyped name is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import numpy as np

    from vyre_driver.kompute.device import KomputeDevice

_INSTEAD = {"shape": "use reshape(), which gives a view", "dtype": "use view(), which gives a view"}
put = object.__setattr__
"""Sets an attribute of an object whose class refuses it; for that class alone."""


class ArrayFacts:
    """Shape, type, size and name of an array on a device; attributes are neither assigned nor deleted."""

    __slots__ = ("device", "dtype", "form", "name", "nbytes", "offset", "shape")
    device: KomputeDevice
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    name: str
    nbytes: int
    offset: int
    """Bytes from the beginning of the memory; 0 unless it is a view."""
    form: object
    """What tells it from all other buffers and views of this process."""

    def _set_facts(self, device: KomputeDevice, shape: tuple[int, ...], dtype: np.dtype[Any], name: str, offset: int) -> None:
        """Set all but ``form``."""
        put(self, "device", device)
        put(self, "shape", shape)
        put(self, "dtype", dtype)
        put(self, "name", name)
        put(self, "nbytes", math.prod(shape) * dtype.itemsize)
        put(self, "offset", offset)

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
