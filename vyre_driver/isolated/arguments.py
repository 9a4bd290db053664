"""Arguments of a call made ready for the child: arrays are written to shared memory, once, unless they lie there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.binding.arguments import as_array, raw_bytes
from vyre_driver.errors import InvalidInput
from vyre_driver.isolated.arena import copy_array, nbytes_of
from vyre_driver.isolated.device import part_of
from vyre_driver.isolated.places import VALUE, Encoded, place_in_arena
from vyre_driver.kompute.buffer import Buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.isolated.process import Child

_SENT_AS_THEY_ARE = (bool, int, float, complex, str, list, tuple, np.generic, type(None), Mapping, np.ma.MaskedArray)


class Sent:
    """The arguments of one call as they are sent, and what has to stay as it is until the answer has come."""

    __slots__ = ("_child", "arrays", "copied_back", "held", "named", "objects")

    def __init__(self, child: Child, arrays: Sequence[object], named: Mapping[str, object]) -> None:
        """Write arrays to shared memory.

        Raises
        ------
        InvalidInput
            If a buffer is of another driver, or an array is none.
        DispatchFailed
            If a buffer is closed, or no shared memory is left.
        """
        self._child = child
        self.held: list[object] = []
        self.objects: list[object] = [*arrays, *named.values()]
        self.copied_back: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self.arrays = [self._argument(one) for one in arrays]
        self.named = {name: self._argument(one) for name, one in named.items()}

    def target(self, given: object) -> Encoded | None:
        """Return what is written as it is sent; an array elsewhere is written by ``finish``."""
        if given is None:
            return None
        self.objects.append(given)
        if isinstance(given, Buffer):
            return self._buffer(given)
        if not isinstance(given, np.ndarray) or given.dtype.hasobject:
            return (VALUE, given)
        if not given.flags.c_contiguous or not given.flags.writeable:
            problem = "cannot be written to" if given.flags.c_contiguous else "is not contiguous"
            raise InvalidInput(f"out= {problem}", fix="give a contiguous array that can be written to, and copy from that")
        place = self._child.arena.place_of(given)
        if place is not None:
            self.held.append(given)
            return place_in_arena(place, given)
        found, sent = self.room(given.shape, given.dtype)
        self.copied_back.append((given, found))
        return sent

    def room(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[NDArray[Any], Encoded]:
        """Return an array of shared memory, and how it is sent."""
        lease = self._child.arena.lease(nbytes_of(shape, dtype))
        found = lease.array(shape, dtype)
        self.held.append(found)
        return found, place_in_arena(lease.offset, found)

    def finish(self) -> None:
        """Write to the targets outside the shared memory what the child has left for them."""
        for target, found in self.copied_back:
            copy_array(target, found)

    def _argument(self, given: object) -> Encoded:
        if type(given) is not np.ndarray:
            if isinstance(given, Buffer):
                return self._buffer(given)
            if isinstance(given, _SENT_AS_THEY_ARE):
                return (VALUE, given)
            raw = raw_bytes(given)
            if raw is not None:
                return (VALUE, raw.tobytes())  # the kernel gives bytes the type of their buffer
            given = as_array(given)
        if given.dtype.hasobject:
            return (VALUE, given)
        place = self._child.arena.place_of(given)
        if place is not None and given.flags.c_contiguous:
            self.held.append(given)
            return place_in_arena(place, given)
        copy, sent = self.room(given.shape, given.dtype)
        copy_array(copy, given)
        return sent

    def _buffer(self, given: Buffer) -> Encoded:
        """Return a resident buffer as it is sent; raises InvalidInput for one of another driver."""
        device: Any = given.device
        given.check_open()
        if getattr(device, "child", None) is not self._child:
            raise InvalidInput(
                f"{given.described} is of another driver than the kernel", fix="make it by the driver that compiled the kernel"
            )
        self.held.append(given)
        return part_of(given)
