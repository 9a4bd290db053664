"""The attributes of a buffer, which are read-only: its shape does not change, and a mistyped name is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from vyre_driver.kompute.device import KomputeDevice

_INSTEAD = {"shape": "use reshape(), which gives a view", "dtype": "use view(), which gives a view"}


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
        _set_device(self, device)
        _set_shape(self, shape)
        _set_dtype(self, dtype)
        _set_name(self, name)
        _set_nbytes(self, math.prod(shape) * dtype.itemsize)
        _set_offset(self, offset)

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


def setter(cls: type, name: str) -> Callable[[object, object], None]:
    """Return what sets an attribute of a class that refuses it: the slot's own, in half the time of ``object.__setattr__``."""
    found: Callable[[object, object], None] = getattr(cls, name).__set__
    return found


_set_device, _set_shape, _set_dtype = setter(ArrayFacts, "device"), setter(ArrayFacts, "shape"), setter(ArrayFacts, "dtype")
_set_name, _set_nbytes, _set_offset = setter(ArrayFacts, "name"), setter(ArrayFacts, "nbytes"), setter(ArrayFacts, "offset")
