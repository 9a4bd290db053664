"""Resident buffers and pinned arrays of one driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.binding.arguments import as_array
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.kompute.pinned import pinned_array

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import DTypeLike, NDArray

    from vyre_driver.runtime.context import Context


class Allocator:
    """What has a context, and gives memory of its device; ``Driver`` is it."""

    context: Context

    def buffer(self, array: object, name: str = "", *, share: str | None = None) -> Buffer:
        """Return a resident buffer that holds a copy of the array; bytes become one of uint8. ``name`` is for its repr.

        With ``share="cuda"`` CUDA sees the same memory (docs/cuda.md); UnsupportedFeature is raised where it cannot.

        Raises
        ------
        InvalidInput
            If it cannot be read as an array.
        LimitExceeded
            If it is larger than a buffer of the device may be.
        DeviceOutOfMemory
            If it does not fit into the device's memory.
        """
        given = as_array(array)
        made = self.empty(given.shape, given.dtype, name, share=share)
        made.write(given)
        return made

    def empty(
        self, shape: int | Iterable[int], dtype: DTypeLike | None = None, name: str = "", *, share: str | None = None
    ) -> Buffer:
        """Return a resident buffer whose contents are not defined; raises as ``buffer``."""
        self.context.device.check_usable()
        return self.context.room.make(lambda: Buffer(self.context.device, shape, dtype, name, share))

    def zeros(
        self, shape: int | Iterable[int], dtype: DTypeLike | None = None, name: str = "", *, share: str | None = None
    ) -> Buffer:
        """Return a resident buffer of zeros; raises as ``buffer``."""
        made = self.empty(shape, dtype, name, share=share)
        made.fill(0)
        return made

    def pinned(self, shape: int | Iterable[int], dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Return an array of zeros in pinned memory (docs/transfers.md); raises as ``buffer``, or UnsupportedFeature."""
        return pinned_array(self.context.device, shape, dtype)
