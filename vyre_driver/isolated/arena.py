"""Memory that a driver's process and its child both map: the arrays of calls lie in it.

It is one file without a name, far longer than what is used of it: only pages that were written take memory. A place goes back
when the last array on it is collected, and is given to the next array of its class of sizes: pages that both processes have
mapped already are not mapped again.

Each step leaves the lists right where an interrupt ends it: a place is taken from them only when the lease exists that gives it
back, and to give one back twice changes nothing.

Source: memfd_create(2), fcntl(2) "File Sealing", madvise(2) MADV_REMOVE.
"""

from __future__ import annotations

import ctypes
import fcntl
import math
import mmap
import os
import weakref
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.errors import DispatchFailed
from vyre_driver.process.call_lock import call_lock
from vyre_driver.vulkan.layer._layer import copy_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Place = tuple[int, tuple[int, ...], Any]

PAGE_BYTES = mmap.PAGESIZE
_LEAST_BYTES = 1 << 30
_KEPT_BYTES = 1 << 29  # of long places that nobody uses; what is beyond gives its pages back
_LONG_BYTES = 1 << 20
NUMBERS = "biufc"
"""The kinds of types whose name says all (numpy's array interface)."""


class Lease:
    """A place of an arena, the base of the arrays on it: the place goes back when the last of them is collected."""

    __slots__ = ("__array_interface__", "__weakref__", "arena", "nbytes", "offset")

    def __init__(self, arena: Arena, offset: int, nbytes: int) -> None:
        """Be so many bytes from ``offset`` on."""
        self.arena, self.offset, self.nbytes = arena, offset, nbytes

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any], begin: int = 0) -> NDArray[Any]:
        """Return the array whose elements lie from byte ``begin`` of it on."""
        data = (self.arena.address + self.offset + begin, False)
        if dtype.kind in NUMBERS:
            self.__array_interface__ = {"shape": shape, "typestr": dtype.str, "data": data, "version": 3}
            return np.asarray(self)
        nbytes = (nbytes_of(shape, dtype),)
        self.__array_interface__ = {"shape": nbytes, "typestr": "|u1", "data": data, "version": 3}
        return np.asarray(self).view(dtype).reshape(shape)


class _Return(weakref.ref[Lease]):
    """What comes back when a lease has gone. Its callback is a function of C, which no interrupt ends halfway."""

    bytes = 0  # until it is known what comes back
    offset = 0


class Arena:
    """The driver's side: it gives places away."""

    def __init__(self) -> None:
        """Make the file and map it; raises DispatchFailed where the system gives no such memory."""
        self.size, self._map = _mapped(self._open())
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._lock = call_lock("the shared memory of an isolated driver")
        self._returned: deque[_Return] = deque()
        self._given: dict[int, _Return] = {}
        self._free: defaultdict[int, dict[int, None]] = defaultdict(dict)  # by class of sizes; the latest last
        self._long: dict[int, int] = {}  # free places that still have long runs of pages, the oldest first
        self._top = 0

    def _open(self) -> int:
        try:
            self.descriptor = os.memfd_create("vyre-driver", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError as error:
            raise _no_memory(str(error.strerror)) from error
        return self.descriptor

    def __del__(self) -> None:
        """Close the file; what is mapped stays until the last array on it has gone."""
        descriptor = self.__dict__.pop("descriptor", None)
        if descriptor is not None:
            os.close(descriptor)

    def lease(self, nbytes: int) -> Lease:
        """Return a place of so many bytes, whose contents are not defined; raises DispatchFailed where none is left."""
        size = PAGE_BYTES if nbytes <= PAGE_BYTES else class_of(nbytes)
        with self._lock:
            if self._returned:
                self._collect()
            places = self._free[size]
            if not places:
                self._extend(size, places)
            offset = next(reversed(places))
            lease = Lease(self, offset, nbytes)
            back = _Return(lease, self._returned.append)
            back.offset = offset
            back.bytes = size
            self._given[offset] = back  # from here on it comes back by itself
            if size >= _LONG_BYTES:
                self._long.pop(offset, None)
            del places[offset]
        return lease

    def place_of(self, array: NDArray[Any]) -> int | None:
        """Return where in the arena an array begins; None where it lies elsewhere."""
        base: Any = array.base
        while isinstance(base, np.ndarray):  # a view's is the array that was made on the lease
            base = base.base
        if type(base) is not Lease or base.arena is not self:
            return None
        return int(array.__array_interface__["data"][0]) - self.address

    def array(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return what lies at an offset as an array that holds no place."""
        return np.ndarray(shape, dtype, self._map, offset)

    @property
    def given_bytes(self) -> int:
        """The bytes of the places that are in use."""
        with self._lock:
            self._collect()
            return sum(one.bytes for one in self._given.values())

    def _extend(self, size: int, places: dict[int, None]) -> None:
        if self._top + size > self.size:
            raise _no_memory(f"{size} bytes are not left of its {self.size}")
        offset = self._top
        self._top = offset + size
        places[offset] = None

    def _collect(self) -> None:
        """Put back the places whose leases have gone; under the lock."""
        while self._returned:
            back = self._returned[0]
            if back.bytes:  # else an interrupt came before the place was taken
                self._free[back.bytes][back.offset] = None
            if back.bytes >= _LONG_BYTES:
                self._long[back.offset] = back.bytes
            if self._given.get(back.offset) is back:
                del self._given[back.offset]
            self._returned.popleft()
        while len(self._long) > 1 and sum(self._long.values()) > _KEPT_BYTES:
            offset = next(iter(self._long))
            self._map.madvise(mmap.MADV_REMOVE, offset, self._long[offset])
            del self._long[offset]


class MappedArena:
    """The child's side: it sees what the other gives."""

    def __init__(self, descriptor: int) -> None:
        """Map the file."""
        self._map = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
        self._seen: dict[Place, NDArray[Any]] = {}

    def array(self, place: Place) -> NDArray[Any]:
        """Return the array at a place: its offset, shape and type."""
        found = self._seen.get(place)
        if found is None:
            offset, shape, dtype = place
            found = np.ndarray(shape, np.dtype(dtype), self._map, offset)
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen[place] = found
        return found


_MOST_SEEN = 4096


def class_of(nbytes: int) -> int:
    """Return the bytes of the place that so many get: whole pages, and at most a quarter more than is asked for."""
    pages = max(1, -(-nbytes // PAGE_BYTES))
    step = 1 << max(0, pages.bit_length() - 3)
    return -(-pages // step) * step * PAGE_BYTES


def nbytes_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Return the bytes of an array."""
    return math.prod(shape) * dtype.itemsize


def copy_array(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Copy an array to another of its shape and type: a long one by several threads, as the driver in the child does."""
    if source.nbytes < _LONG_BYTES or not (source.flags.c_contiguous and target.flags.c_contiguous):
        np.copyto(target, source)
    else:
        copy_bytes(target.reshape(-1).view(np.uint8), source.reshape(-1).view(np.uint8))


def _mapped(descriptor: int) -> tuple[int, mmap.mmap]:
    """Return a file's size and its map: sixteen times the machine's memory, or as much as the system lets be mapped."""
    size = os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES * 16
    while True:
        try:
            os.ftruncate(descriptor, size)
            found = mmap.mmap(descriptor, size)
            break
        except (OSError, ValueError) as error:
            if size <= _LEAST_BYTES:
                raise _no_memory(str(error)) from error
            size //= 2 * PAGE_BYTES
            size *= PAGE_BYTES
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL  # a child gone mad cannot take the pages away
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    found.madvise(mmap.MADV_DONTDUMP)
    return size, found


def _no_memory(why: str) -> DispatchFailed:
    return DispatchFailed(
        f"an isolated driver has no memory to share with its process ({why})",
        fix="let go of results, or raise the limits of this process (ulimit -v, ulimit -f)",
    )


Encoded = tuple[Any, ...]
ARRAY, BUFFER, VALUE = "array", "buffer", "value"


def dtype_of(dtype: np.dtype[Any]) -> Any:  # noqa: ANN401 -- its name, or the type where that does not say all
    """Return a type as it is sent."""
    return dtype.str if dtype.kind in NUMBERS else dtype


def place_in_arena(offset: int, array: np.ndarray[Any, Any]) -> Encoded:
    """Return an array that lies in the shared memory as it is sent."""
    return (ARRAY, offset, array.shape, dtype_of(array.dtype))


def place_in_buffer(number: int, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Encoded:
    """Return a part of a resident buffer as it is sent; the number is 0 where it has no elements, and no memory."""
    return (BUFFER, number, offset, shape, dtype_of(dtype))
